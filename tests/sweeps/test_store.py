"""The contract of the store, the same exam on SQLite and on a real Postgres."""

import itertools
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text

from dpcore.checks import InvalidValue
from sweeps.store.errors import Conflict, StoreError, SweepExists, UnknownSweep, UnknownTrial
from sweeps.store.records import LedgerEntry, SweepState, TrialState
from sweeps.store.schema import VERSION
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, guarantee, new_database, plan, postgres_server, proposal, record, refusal, settle

COUNTER = itertools.count()


@pytest.fixture(scope="module")
def server():
    with postgres_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sweeps.db"
    server = request.getfixturevalue("server")
    return new_database(server)


@pytest.fixture
def store(url):
    opened = open_store(url)
    opened.create_sweep(record())
    yield opened
    opened.close()


@pytest.fixture
def lease(store):
    return store.acquire(SWEEP)


def key(number: int) -> str:
    return f"{SWEEP}-{number}"


def test_a_sweep_comes_back_as_it_was(store, url):
    assert store.sweep(SWEEP) == record()
    # The order of knobs is the order in which a sampler asks for them.
    assert list(open_store(url).sweep(SWEEP).spec.systems["noisy-sgd"]) == ["z", "a"]
    with pytest.raises(SweepExists, match="sweeps resume quick-start"):
        store.create_sweep(record())
    with pytest.raises(UnknownSweep, match="Did you mean 'quick-start'"):
        store.sweep("quickstart")


def test_a_trial_from_launch_to_result(store, lease):
    assert store.launch(lease, proposal(0), plan(), to_step=100).attempt == 1
    (running,) = store.trials(SWEEP)
    assert (running.key, running.state, running.attempts, running.guarantee) == (key(0), TrialState.RUNNING, 1, None)
    assert running.seed == 2**63
    assert list(running.config.items()) == list(proposal(0).config.items())
    assert running.plan == plan()
    assert store.ledger(SWEEP) == [LedgerEntry(key=key(0), attempt=1, from_step=0, to_step=100)]
    assert store.outbox(SWEEP) == []

    settle(store, lease, key(0), metrics={"accuracy": np.float32(0.5), "epsilon": float("inf"), "n": np.int64(3)})
    (done,) = store.trials(SWEEP)
    assert done.state is TrialState.COMPLETE
    assert done.metrics == {"accuracy": 0.5, "epsilon": float("inf"), "n": 3}
    assert done.reports == {100: done.metrics}
    assert done.guarantee == guarantee()
    assert done.finished_at >= done.proposed_at > 0
    assert store.ledger_of(key(0))[-1].executed_to == 100
    assert [(row.key, row.kind) for row in store.outbox(SWEEP)] == [(key(0), "settled")]
    assert store.counts(SWEEP) == {"planned": 0, "running": 0, "complete": 1, "failed": 0, "infeasible": 0}


def test_infeasible_proposals_are_kept_in_one_batch_and_never_charged(store, lease):
    batch = [(proposal(number), refusal()) for number in range(3)]
    store.record_infeasible(lease, batch)
    store.record_infeasible(lease, batch)
    assert store.counts(SWEEP)["infeasible"] == 3
    trial = store.trials(SWEEP, states=[TrialState.INFEASIBLE])[1]
    assert (trial.violations, trial.plan, trial.attempts) == ({"noise": 0.75}, None, 0)
    assert store.ledger(SWEEP) == []
    with pytest.raises(Conflict):
        store.record_infeasible(lease, [(replace(proposal(0), config={"system": "other"}), refusal())])
    with pytest.raises(Conflict):
        store.relaunch(lease, key(0), 0, 10)


def test_settling_again_changes_nothing_and_with_other_content_is_an_error(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=100)
    settle(store, lease, key(0))
    before = (store.trials(SWEEP), store.ledger(SWEEP), store.outbox(SWEEP))
    settle(store, lease, key(0), metrics={"epsilon": 1.0, "accuracy": 0.5}, seconds=9.0)
    assert (store.trials(SWEEP), store.ledger(SWEEP), store.outbox(SWEEP)) == before
    for change in ({"metrics": {"accuracy": 0.6}}, {"finished": False}, {"step": 99}):
        with pytest.raises(Conflict, match="already settled"):
            settle(store, lease, key(0), **change)
    with pytest.raises(Conflict):
        store.lose(lease, key(0), 1, 50, "late")
    assert (store.trials(SWEEP), store.ledger(SWEEP), store.outbox(SWEEP)) == before


def test_a_lost_attempt_is_charged_to_its_horizon_and_the_trial_goes_on(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=100)
    store.lose(lease, key(0), 1, 60, "worker died")
    store.lose(lease, key(0), 1, 60, "worker died")
    assert store.trials(SWEEP)[0].state is TrialState.PLANNED
    assert store.relaunch(lease, key(0), from_step=40, to_step=100).attempt == 2
    store.lose(lease, key(0), 2, None, "no horizon")
    assert store.relaunch(lease, key(0), from_step=40, to_step=100).attempt == 3
    settle(store, lease, key(0), attempt=3)
    assert [(e.attempt, e.from_step, e.to_step, e.executed_to) for e in store.ledger(SWEEP)] == [
        (1, 0, 100, 60),
        (2, 40, 100, 100),
        (3, 40, 100, 100),
    ]
    assert [one.outcome for one in store.attempts(SWEEP)] == ["lost", "lost", "settled"]
    assert [row.kind for row in store.outbox(SWEEP)] == ["lost", "lost", "settled"]


def test_rungs_are_entries_of_their_own_and_keep_their_reports(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=10)
    settle(store, lease, key(0), step=10, finished=False, metrics={"accuracy": 0.1})
    assert store.trials(SWEEP)[0].state is TrialState.PLANNED
    assert store.relaunch(lease, key(0), 10, 30).attempt == 2
    settle(store, lease, key(0), attempt=2, step=30, metrics={"accuracy": 0.3})
    assert store.relaunch(lease, key(0), 30, 100).attempt == 3
    running = store.trials(SWEEP)[0]
    assert (running.state, running.step) == (TrialState.RUNNING, 30)
    assert running.reports == {10: {"accuracy": 0.1}, 30: {"accuracy": 0.3}}
    assert [entry.steps_spent for entry in store.ledger(SWEEP)] == [10, 20, 70]


def test_a_trial_never_has_two_running_attempts(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=100)
    with pytest.raises(Conflict):
        store.launch(lease, proposal(0), plan(), to_step=100)
    with pytest.raises(Conflict, match="running"):
        store.relaunch(lease, key(0), 0, 100)
    # The database itself refuses, whatever the code above it believes.
    row = "(SELECT id FROM sweeps), 0, 2, 'running', 'x', 1, '', '', 0, '{}', 0, 0, NULL"
    with pytest.raises(StoreError):
        store._database.write(lambda connection: connection.execute(text(f"INSERT INTO attempts VALUES ({row})")))


def test_no_write_may_leave_a_step_uncharged(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=50)
    for executed_to in (-1, 51):
        with pytest.raises(InvalidValue, match="within the reservation"):
            store.lose(lease, key(0), 1, executed_to, "")
    with pytest.raises(InvalidValue, match="executed_to=10"):
        settle(store, lease, key(0), step=20, executed_to=10)
    store.lose(lease, key(0), 1, 20, "")
    with pytest.raises(InvalidValue, match="at most 20"):
        store.relaunch(lease, key(0), 30, 50)
    with pytest.raises(InvalidValue):
        store.relaunch(lease, key(0), 20, 20)
    with pytest.raises(InvalidValue):
        store.launch(lease, proposal(1), plan(steps=100), to_step=101)
    assert store.counts(SWEEP)["planned"] == 1


def test_unknown_trials_are_named(store, lease):
    with pytest.raises(UnknownTrial, match=f"{SWEEP}-7"):
        settle(store, lease, key(7))
    for wrong in ("other-1", f"{SWEEP}-x", SWEEP):
        with pytest.raises(UnknownTrial):
            store.relaunch(lease, wrong, 0, 1)
    with pytest.raises(UnknownTrial):
        store.trials_of(SWEEP, [key(3)])


def test_failing_ends_a_trial(store, lease):
    store.launch(lease, proposal(0), plan(), to_step=100)
    store.fail(lease, key(0), 1, 70, "accuracy=nan: expected finite metrics")
    store.fail(lease, key(0), 1, 70, "accuracy=nan: expected finite metrics")
    (trial,) = store.trials_of(SWEEP, [key(0)])
    assert (trial.state, trial.reason) == (TrialState.FAILED, "accuracy=nan: expected finite metrics")
    with pytest.raises(Conflict):
        store.relaunch(lease, key(0), 0, 100)


def test_the_outbox_is_emptied_by_another_process_in_order(store, lease, url):
    for number in range(5):
        store.launch(lease, proposal(number), plan(), to_step=100)
        settle(store, lease, key(number))
    store.set_state(lease, "finished")
    store.set_state(lease, SweepState.FINISHED)
    drain = open_store(url, create=False)
    first = drain.outbox(SWEEP, limit=2)
    assert [row.key for row in first] == [key(0), key(1)]
    drain.delivered(None, [row.id for row in first])
    drain.delivered(None, [row.id for row in first])
    rest = drain.outbox(SWEEP)
    assert [row.key for row in rest] == [key(2), key(3), key(4), None]
    assert rest[-1].kind == "state"
    store.delivered(lease, [row.id for row in rest])
    assert drain.backlog(SWEEP) == 0
    assert drain.sweep(SWEEP).state is SweepState.FINISHED
    drain.close()


def test_calibrations_outlive_the_process_and_stay_out_of_transactions(store, url):
    cache = store.calibrations()
    with pytest.raises(KeyError):
        cache["a"]
    cache["a"] = 1.25
    cache["unreachable"] = float("inf")
    cache["a"] = 1.5
    cache.flush()
    other = open_store(url).calibrations()
    assert dict(other) == {"a": 1.5, "unreachable": float("inf")}
    assert "a" in other
    del other["a"]
    assert len(other) == 1
    with pytest.raises(InvalidValue):
        cache["b"] = float("nan")


def test_calibrations_are_written_by_themselves_soon(store, url):
    store.calibrations()["soon"] = 2.0
    other = open_store(url).calibrations()
    deadline = time.monotonic() + 10
    while "soon" not in other:
        assert time.monotonic() < deadline, "not written within 10 s"
        time.sleep(0.05)


def test_threads_of_one_controller_share_a_store(store, lease):
    def drive(numbers):
        for number in numbers:
            store.launch(lease, proposal(number), plan(), to_step=100)
            store.calibrations()[f"q{number}"] = 1.0
            settle(store, lease, key(number))

    threads = [threading.Thread(target=drive, args=(range(first, 40, 4),)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.counts(SWEEP)["complete"] == 40
    assert [row.number for row in store.trials(SWEEP)] == list(range(40))


def test_readers_do_not_wait_for_a_writer(store, lease, url):
    reader = open_store(url, create=False, patience_seconds=2.0)
    store.launch(lease, proposal(0), plan(), to_step=100)

    def writing(connection):
        connection.execute(text("UPDATE sweeps SET digest = 'unfinished'"))
        return reader.counts(SWEEP), reader.trials(SWEEP), reader.sweep(SWEEP).digest

    counts, trials, digest = store._database.write(writing)
    assert (counts["running"], len(trials), digest) == (1, 1, "abc")
    reader.close()


def test_a_store_of_another_release_is_refused_and_a_missing_one_is_not_created(store, url, tmp_path):
    store._database.write(lambda connection: connection.execute(text("UPDATE schema_version SET version = 99")))
    with pytest.raises(StoreError, match=f"schema version 99, expected {VERSION}"):
        open_store(url)
    with pytest.raises(StoreError, match="not there"):
        open_store(f"sqlite:///{tmp_path}/none.db", create=False)


def test_stores_opened_together_create_the_tables_once(url):
    errors = []

    def start():
        try:
            open_store(url).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert open_store(url, create=False).sweeps() == []


@pytest.mark.parametrize("wrong", ["mysql://host/x", "nonsense", "sqlite://", "sqlite:///:memory:"])
def test_other_urls_are_refused(wrong):
    with pytest.raises(StoreError, match="expected sqlite:///FILE or postgresql"):
        open_store(wrong)

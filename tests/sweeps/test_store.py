"""The exam of the store, on SQLite and on a real Postgres: each test is one of the duties in `sweeps.store.store`."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text

from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.store import errors
from sweeps.store import lease as leases
from sweeps.store.database import Database
from sweeps.store.population import Population, Row, RowKind
from sweeps.store.records import Extension, KnownPoint, LedgerEntry, Note, StopRequest, SweepState, Tag, TrialState
from sweeps.store.schema import VERSION
from sweeps.store.store import open_store
from tests.sweeps.stores import (
    SWEEP,
    at_once,
    came,
    guarantee,
    killed_after,
    new_database,
    of_population,
    plan,
    proposal,
    record,
    refusal,
)

BRIEF_SECONDS = 0.3
"""A lease that is meant to run out."""
RACERS = 4
PLANNED, RUNNING, COMPLETE = TrialState.PLANNED, TrialState.RUNNING, TrialState.COMPLETE
FAILED, INFEASIBLE = TrialState.FAILED, TrialState.INFEASIBLE


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/sweeps.db"
    return new_database(request.getfixturevalue("server"))


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


def everything(store):
    """All that a reader may see of the sweep."""
    readings = (store.trials, store.ledger, store.attempts, store.outbox, store.requests, store.curves)
    return [store.sweeps(), *(read(SWEEP) for read in readings)]


# -- sweeps ------------------------------------------------------------------------------------------------


def test_what_was_written_comes_back_equal_and_in_order(store, lease, url):
    numbers = {"accuracy": 0.1 + 0.2, "loss": float("inf"), "tiny": 5e-324, "n": 3}
    store.launch(lease, proposal(0), plan(), 10)
    store.settle(lease, key(0), 1, came(10, metrics=numbers, finished=False))
    store.relaunch(lease, key(0), 10, 30)
    store.settle(lease, key(0), 2, came(30, metrics={"accuracy": 0.3}))
    store.launch(lease, replace(proposal(1), request=7), plan(), 100)
    store.settle(lease, key(1), 1, came(metrics={"accuracy": np.float32(0.5), "n": np.int64(3)}))
    store.launch(lease, proposal(2), plan(), 100)
    store.fail(lease, key(2), 1, None, "Zu wenig Speicher: 残り 0 B")
    # As Python reads the name of a file that is no UTF-8.
    store.record_infeasible(lease, replace(proposal(3), config={"weights": "caf\udce9"}), refusal())
    store.rename(SWEEP, "better")
    store.set_place(lease, "/elsewhere", "s3://bucket/folder")
    store.set_fingerprints(lease, {"code": "c1", "data": "d1"})
    store.set_state(lease, "finished")
    before, keyed = everything(store), store.data_fingerprint("digest")
    again = open_store(url, create=False)
    assert everything(again) == before
    assert again.data_fingerprint("digest") == keyed != "digest"
    changed = {"root": "/elsewhere", "records": "s3://bucket/folder", "label": "better", "state": SweepState.FINISHED}
    assert again.sweep(SWEEP) == replace(record(), fingerprints={"code": "c1", "data": "d1"}, **changed)
    # The order of knobs is the order in which a sampler asks for them.
    assert list(again.sweep(SWEEP).spec.systems["noisy-sgd"]) == ["z", "a"]
    first, second, _, infeasible = again.trials(SWEEP)
    assert list(first.config.items()) == list(proposal(0).config.items())
    assert (first.seed, first.plan, first.guarantee) == (2**63, plan(), guarantee())
    assert first.reports == {10: numbers, 30: {"accuracy": 0.3}}
    assert (second.metrics, first.request, second.request) == ({"accuracy": 0.5, "n": 3}, None, 7)
    assert infeasible.config == {"weights": "caf\udce9"}
    assert (infeasible.violations, infeasible.plan, infeasible.attempts) == ({"noise": 0.75}, None, 0)
    again.close()


def test_names_are_taken_once_and_for_ever(store, lease, url):
    store.create_sweep(record("second"))
    store.launch(lease, proposal(0), plan(), 100)
    for label in ("better", "best", SWEEP, "best"):
        store.rename(SWEEP, label)
    assert store.sweep("best").called == "best"
    assert {store.sweep(name).name for name in (SWEEP, "better", "best")} == {SWEEP}
    assert [one.key for one in store.trials(SWEEP)] == [key(0)]
    for name in (SWEEP, "better", "best"):
        with pytest.raises(errors.SweepExists):
            store.create_sweep(record(name))
        with pytest.raises(errors.SweepExists):
            store.rename("second", name)
    for unknown in (store.sweep, store.acquire, store.trials, store.requests, store.driver):
        with pytest.raises(errors.UnknownSweep, match="Did you mean"):
            unknown("quickstart")

    def creates() -> bool:
        try:
            open_store(url, create=False).create_sweep(record("wanted"))
        except errors.SweepExists:
            return False
        return True

    assert at_once(creates, RACERS) == 1
    assert [sweep.name for sweep in store.sweeps()] == [SWEEP, "second", "wanted"]


def test_extensions_are_appended(store, lease):
    more = Extension(trials=80, epsilon=(0.1 + 0.2, 4.0), proposed=45, launched=40, at=1.5)
    longer = Extension(hours=0.1 + 0.2, launched=60, at=2.5)
    store.create_sweep(record("other"))
    for one in (more, more, longer, replace(more, at=3.5)):
        store.extend(lease, one)
    kept, other = store.sweeps()
    assert kept.extensions == (more, longer, replace(more, at=3.5))
    assert replace(kept, extensions=()) == record()
    assert (other.extensions, store.sweep(SWEEP)) == ((), kept)


def test_requests_need_no_lease_and_change_nothing_else(store, lease, url):
    point = KnownPoint(config=dict(proposal(4).config))
    wanted = (StopRequest(token=1), Note(text="Zu groß? 残り"), Tag(key="paper", value="v2"), point)
    other, before = open_store(url), store.ledger(SWEEP)
    numbers = [other.ask(SWEEP, one, f"user{place}@host") for place, one in enumerate(wanted)]
    assert store.ledger(SWEEP) == before
    found = store.requests(SWEEP)
    assert (tuple(one.wanted for one in found), [one.id for one in found]) == (wanted, numbers)
    assert [one.asker for one in found] == [f"user{place}@host" for place in range(4)]
    assert all(abs(one.at - time.time()) < 60 for one in found)
    store.create_sweep(record("next"))
    assert store.requests("next") == []
    asked = at_once(lambda: open_store(url, create=False).ask(SWEEP, Note(text="x"), "") not in numbers, RACERS)
    assert asked == RACERS
    assert len({one.id for one in store.requests(SWEEP)}) == 4 + RACERS


# -- the two transactions ------------------------------------------------------------------------------------


def test_infeasible_proposals_are_kept_and_never_charged(store, lease):
    for number in (0, 1, 2, 0, 1, 2):
        store.record_infeasible(lease, proposal(number), refusal())
    assert store.counts(SWEEP) == {"planned": 0, "running": 0, "complete": 0, "failed": 0, "infeasible": 3}
    assert store.ledger(SWEEP) == []
    with pytest.raises(errors.Conflict):
        store.record_infeasible(lease, replace(proposal(0), config={"system": "other"}), refusal())


def test_what_is_recorded_stays_and_what_was_charged_never_falls(store, lease):
    store.launch(lease, proposal(0), plan(), 100)
    store.lose(lease, key(0), 1, 60, "gone")
    before = everything(store)
    store.lose(lease, key(0), 1, 60, "gone")
    refused = [lambda to=to: store.lose(lease, key(0), 1, to, "gone") for to in (0, 59, 61, None)]
    refused += [lambda: store.fail(lease, key(0), 1, 60, "gone"), lambda: store.settle(lease, key(0), 1, came())]
    for act in refused:
        with pytest.raises(errors.Conflict, match="already lost"):
            act()
    with pytest.raises(InvalidValue, match="at most 60"):
        store.relaunch(lease, key(0), 61, 100)
    assert everything(store) == before
    assert store.relaunch(lease, key(0), 60, 100).attempt == 2
    store.settle(lease, key(0), 2, came())
    settled = everything(store)
    store.settle(lease, key(0), 2, came(seconds=9.0, metrics={"epsilon": 1.0, "accuracy": 0.5}))
    assert everything(store) == settled
    for change in ({"metrics": {"accuracy": 0.6}}, {"finished": False}, {"step": 99}):
        with pytest.raises(errors.Conflict, match="already settled"):
            store.settle(lease, key(0), 2, came(**change))
    assert everything(store) == settled


def test_what_is_unknown_or_contradicts_is_charged_whole(store, lease):
    for number in range(4):
        store.launch(lease, proposal(number), plan(), 80)
    assert [one.steps_spent for one in store.ledger(SWEEP)] == [80] * 4
    for outside in (-1, 81):
        for end in (store.lose, store.fail):
            with pytest.raises(InvalidValue, match="within the reservation"):
                end(lease, key(0), 1, outside, "")
    with pytest.raises(InvalidValue):
        store.settle(lease, key(0), 1, came(81))
    assert store.ledger(SWEEP)[0] == LedgerEntry(key=key(0), attempt=1, from_step=0, to_step=80)
    store.lose(lease, key(0), 1, None, "no horizon")
    store.fail(lease, key(1), 1, None, "no horizon")
    store.lose(lease, key(2), 1, 20, "gone")
    for number in (2, 2, 3):
        store.charge_whole(lease, key(number), 1)
    store.lose(lease, key(2), 1, 20, "gone")
    assert [one.executed_to for one in store.ledger(SWEEP)] == [80, 80, 80, None]


def test_trials_have_one_running_attempt(store, lease):
    store.launch(lease, proposal(0), plan(), 100)
    store.record_infeasible(lease, proposal(1), refusal())
    store.launch(lease, proposal(2), plan(), 100)
    store.fail(lease, key(2), 1, 100, "loss=nan")
    store.abandon(lease, key(2), "loss=nan")
    before = everything(store)
    refused = {
        errors.Conflict: [
            lambda: store.launch(lease, proposal(0), plan(), 100),
            lambda: store.relaunch(lease, key(0), 0, 100),
            lambda: store.abandon(lease, key(0), "gone"),
            lambda: store.relaunch(lease, key(1), 0, 10),
            lambda: store.relaunch(lease, key(2), 0, 100),
        ],
        InvalidValue: [lambda: store.launch(lease, proposal(3), plan(), 101)],
        errors.UnknownTrial: [
            lambda: store.settle(lease, key(7), 1, came()),
            lambda: store.lose(lease, key(0), 2, None, ""),
            lambda: store.relaunch(lease, "other-1", 0, 1),
            lambda: store.relaunch(lease, f"{SWEEP}-x", 0, 1),
            lambda: store.trials_of(SWEEP, [key(7)]),
        ],
    }
    for error, acts in refused.items():
        for act in acts:
            with pytest.raises(error):
                act()
    # The database itself refuses, whatever the code above it believes.
    same = "sweep_id, number, outcome, launch, token, content, reason, step, metrics, seconds, started_at, from_step"
    twice = f"INSERT INTO attempts ({same}, attempt, to_step) SELECT {same}, 2, 9 FROM attempts WHERE number = 0"
    with pytest.raises(errors.StoreError, match=r"one_running_attempt|UNIQUE"):
        store._database.write(lambda connection: connection.execute(text(twice)))
    assert everything(store) == before
    store.lose(lease, key(0), 1, 100, "gone")
    with pytest.raises(InvalidValue):
        store.relaunch(lease, key(0), 100, 100)
    store.abandon(lease, key(0), "its checkpoint is gone")
    (ended,) = store.trials_of(SWEEP, [key(0)])
    assert (ended.state, ended.reason) == (FAILED, "its checkpoint is gone")


def test_curves_are_kept_once_and_with_the_claim_of_the_plan(store, url):
    told = {10: {"accuracy": 0.1 + 0.2, "loss": 3.0}, 20: {"accuracy": 0.4, "loss": 2.0}}
    first = store.acquire(SWEEP)
    store.launch(first, proposal(0), plan(), 60)
    store.launch(first, proposal(1), plan(), 100)
    first.release()

    def tells() -> None:
        mine = open_store(url, create=False)
        mine.add_to_curve(mine.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS), key(0), 1, told)

    killed_after(tells)
    time.sleep(BRIEF_SECONDS)
    lease = store.acquire(SWEEP)
    points = [(one.key, one.step, one.attempt, one.metrics) for one in store.curves(SWEEP)]
    assert points == [(key(0), step, 1, metrics) for step, metrics in told.items()]
    (trial,) = store.trials_of(SWEEP, [key(0)])
    assert (trial.guarantee, trial.metrics, trial.reports) == (plan().guarantee, {}, {})
    before = everything(store)
    for again in (told, {}):
        store.add_to_curve(lease, key(0), 1, again)
    for step in (0, 60, 61):
        with pytest.raises(InvalidValue, match="inside of the reservation"):
            store.add_to_curve(lease, key(0), 1, {step: {}})
    with pytest.raises(errors.Conflict):
        store.add_to_curve(lease, key(0), 1, {20: {"accuracy": 0.5, "loss": 2.0}})
    with pytest.raises(errors.UnknownTrial):
        store.add_to_curve(lease, key(0), 2, told)
    assert everything(store) == before
    store.lose(lease, key(0), 1, 40, "gone")
    store.add_to_curve(lease, key(0), 1, {30: {"accuracy": 0.5}}, announced=False)
    store.relaunch(lease, key(0), 30, 60)
    store.settle(lease, key(0), 2, came(60, curve={40: {"accuracy": 0.6}}, finished=False))
    store.relaunch(lease, key(0), 60, 100)
    store.settle(lease, key(0), 3, came(curve={80: {"accuracy": 0.7}}))
    store.settle(lease, key(1), 1, came())
    assert [row.kind for row in store.outbox(SWEEP) if row.key == key(0)] == ["told", "lost", "settled", "settled"]
    places = [(one.step, one.attempt) for one in store.curves(SWEEP, [key(0)])]
    assert places == [(10, 1), (20, 1), (30, 1), (40, 2), (60, 2), (80, 3), (100, 3)]
    last = store.curves(SWEEP)[-1]
    assert (last.key, last.step, last.metrics) == (key(1), 100, came().metrics)


# -- reading -------------------------------------------------------------------------------------------------


def test_readers_see_no_half_settlement(store, lease, url):
    reader, trials = open_store(url, create=False), 8
    for number in range(trials):
        store.launch(lease, proposal(number), plan(), 100)

    def told():
        return {row.key for row in reader.outbox(SWEEP) if row.kind == "settled"}

    def charged():
        return {entry.key for entry in reader.ledger(SWEEP) if entry.executed_to is not None}

    def settles():
        for number in range(trials):
            store.settle(lease, key(number), 1, came())

    writer = threading.Thread(target=settles)
    writer.start()
    while writer.is_alive():
        seen_told, seen_charged = told(), charged()
        found = reader.trials(SWEEP)
        done = {one.key for one in found if one.state is COMPLETE}
        assert seen_told | seen_charged <= done
        assert done == {one.key for one in found if one.metrics and one.step and one.guarantee}
        assert done <= charged() & told()
    writer.join()
    assert len(told()) == trials
    reader.close()


def test_changes_wait_until_they_are_delivered(store, lease, url):
    drain = open_store(url, create=False)
    for number in range(4):
        store.launch(lease, proposal(number), plan(), 100)
        store.settle(lease, key(number), 1, came())
    for state in ("finished", SweepState.FINISHED):
        store.set_state(lease, state)
    first = drain.outbox(SWEEP, limit=2)
    assert [row.key for row in first] == [key(0), key(1)]
    for _ in range(2):
        drain.delivered(None, [row.id for row in first])
    rest = drain.outbox(SWEEP)
    assert [row.key for row in rest] == [key(2), key(3), None]
    assert drain.backlog(SWEEP) == 3
    store.delivered(lease, [row.id for row in rest])
    assert drain.backlog(SWEEP) == 0
    store.set_state(lease, "stopped")
    (last,) = drain.outbox(SWEEP)
    assert (last.kind, last.key) == ("state", None)
    assert last.id not in {row.id for row in (*first, *rest)}
    drain.close()


def test_calibrations_are_seen_at_once_and_kept_soon(store, url):
    cache = store.calibrations()
    with pytest.raises(KeyError):
        cache["a"]
    cache["a"] = 1.25
    cache["unreachable"] = float("inf")
    cache["a"] = 1.5
    with pytest.raises(InvalidValue):
        cache["b"] = float("nan")
    cache.flush()
    other = open_store(url)
    assert dict(other.calibrations()) == {"a": 1.5, "unreachable": float("inf")}
    cache["at the end"] = 2.0
    store.close()
    other.close()
    later = open_store(url)
    assert later.calibrations()["at the end"] == 2.0
    later.close()


def test_a_store_of_another_release_is_refused_and_a_missing_one_is_not_created(store, url, tmp_path):
    store._database.write(lambda connection: connection.execute(text("UPDATE schema_version SET version = 99")))
    with pytest.raises(errors.StoreError, match=f"schema version 99, expected {VERSION}"):
        open_store(url)
    for _ in range(2):
        with pytest.raises(errors.StoreError, match="not there"):
            open_store(f"sqlite:///{tmp_path}/none.db", create=False)


# -- populations ---------------------------------------------------------------------------------------------

PEOPLE = Population.of("people", "linear", 3.0, 1e-4)
COVERED = Population.of("covered", "gdp", 3.0, 1e-4)
ONE = DPCharge(0.1 + 0.2, 1e-5)


def rows(store, population: str = PEOPLE.name):
    """What of a ledger is not the time."""
    return [(one.kind, one.what, one.sweep, one.charge, one.settled) for one in store.charges(population)]


@pytest.fixture
def counted(store):
    """(the store with two ledgers, the lease of its sweep "counted" over people)."""
    for one in (PEOPLE, COVERED):
        store.make_population(one)
    store.create_sweep(of_population("counted"))
    return store, store.acquire("counted")


def test_ledgers_are_made_once(counted):
    store, _ = counted
    store.make_population(PEOPLE)
    for other in (
        replace(PEOPLE, epsilon=4.0),
        replace(PEOPLE, delta=1e-3),
        replace(PEOPLE, unit="person"),
        Population.of("people", "linear", 3.0, 1e-4, "replace-one"),
        Population.of("people", "gdp", 3.0, 1e-4),
        Population.of("covered", "gdp", 3.0, 1e-4, tau=1e-9),
    ):
        with pytest.raises(errors.PopulationExists):
            store.make_population(other)
    with pytest.raises(errors.UnknownPopulation):
        store.charges("nobody")
    with pytest.raises(errors.UnknownPopulation):
        store.charge("nobody", Row(kind=RowKind.AUDIT, what="twin", sweep=SWEEP, charge=ONE))
    assert store.populations() == [COVERED, PEOPLE]


def test_launches_are_charged_in_their_transaction(counted, lease, url):
    store, first = counted
    for where, charge in ((first, None), (lease, ONE), (first, GDPCharge(0.1, 1e-9))):
        with pytest.raises(InvalidValue):
            store.launch(where, proposal(0), plan(), 9, charge)
    store.launch(lease, proposal(0), plan(), 100)
    first.release()
    more = DPCharge(0.5, 2e-5)

    def launches() -> None:
        mine = open_store(url, create=False)
        own = mine.acquire("counted", ttl_seconds=BRIEF_SECONDS)
        mine.launch(own, proposal(0), plan(), 60, ONE)
        mine.lose(own, "counted-0", 1, 0, "gone")
        mine.relaunch(own, "counted-0", 0, 100, more)

    killed_after(launches)
    paid = [(RowKind.ATTEMPT, f"counted-0/{place}", "counted", cost, None) for place, cost in ((1, ONE), (2, more))]
    assert rows(store) == paid
    time.sleep(1.5 * BRIEF_SECONDS)
    again, dear = store.acquire("counted"), DPCharge(2.5, 0.0)
    with pytest.raises(errors.PopulationSpent):
        store.launch(again, proposal(1), plan(), 9, dear)
    store.fail(again, "counted-0", 2, 10, "nan")
    with pytest.raises(errors.UnknownTrial):
        store.trials_of("counted", ["counted-1"])
    store.launch(again, proposal(1), plan(), 9, DPCharge(2.0, 0.0))
    store.lose(again, "counted-1", 1, 9, "gone")
    with pytest.raises(errors.PopulationSpent):
        store.relaunch(again, "counted-1", 9, 99, dear)
    assert [one.attempts for one in store.trials("counted")] == [2, 1]
    before = rows(store)
    store.abandon(again, "counted-1", "deleted")
    store.erase(again)
    assert rows(store) == before


def test_populations_are_never_overspent(counted, url):
    """Controllers of several sweeps that launch at once stop together where the budget ends, and every launch is in."""
    store, _ = counted

    def launches() -> bool:
        mine, name = open_store(url, create=False), f"of-{os.getpid()}"
        mine.create_sweep(of_population(name))
        lease = mine.acquire(name)
        for number in range(13):
            try:
                mine.launch(lease, proposal(number), plan(), 10, DPCharge(0.25, 1e-6))
            except errors.PopulationSpent:
                return True
        return False

    assert at_once(launches, RACERS) == RACERS
    charged = store.charges(PEOPLE.name)
    assert math.fsum(one.charge.epsilon for one in charged) <= PEOPLE.epsilon
    assert len(charged) == sum(len(store.ledger(one.name)) for one in store.sweeps()) == 12


def test_blocks_pay_for_a_whole_sweep(counted):
    store, lease = counted
    whole, people = DPCharge(2.0, 5e-5), PEOPLE.name
    with pytest.raises(errors.Conflict, match="reserved nothing"):
        store.settle_block(lease, people, 0.5)
    with pytest.raises(errors.PopulationSpent):
        store.reserve_block(lease, people, DPCharge(3.5, 0.0))
    for _ in range(2):
        store.reserve_block(lease, people, whole)
    with pytest.raises(errors.Conflict):
        store.reserve_block(lease, people, ONE)
    with pytest.raises(InvalidValue, match="the block of its sweep pays"):
        store.launch(lease, proposal(0), plan(), 9, ONE)
    store.launch(lease, proposal(0), plan(), 100)
    block = (RowKind.SWEEP, "counted", "counted", whole)
    assert rows(store) == [(*block, None)]
    twin = Row(kind=RowKind.AUDIT, what="twin", sweep=SWEEP, charge=DPCharge(1.5, 0.0), at=time.time())
    with pytest.raises(errors.PopulationSpent):
        store.charge(people, twin)
    with pytest.raises(InvalidValue):
        store.settle_block(lease, people, 2.5)
    for _ in range(2):
        store.settle_block(lease, people, 1.25)
    with pytest.raises(errors.Conflict, match="settled at"):
        store.settle_block(lease, people, 1.0)
    for _ in range(2):
        store.charge(people, twin)
    with pytest.raises(errors.Conflict):
        store.charge(people, replace(twin, charge=ONE))
    store.reserve_block(lease, people, whole)
    assert rows(store) == [(*block, 1.25), (RowKind.AUDIT, "twin", SWEEP, twin.charge, None)]
    store.create_sweep(of_population("squares", COVERED.name))
    second = store.acquire("squares")
    store.reserve_block(second, COVERED.name, GDPCharge(COVERED.filter.mu_total * 0.999, 1e-6))
    with pytest.raises(InvalidValue, match="linear"):
        store.settle_block(second, COVERED.name, 0.1)


# -- the lease -----------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from sweeps.store.store import open_store
lease = open_store(sys.argv[1]).acquire(sys.argv[2], ttl_seconds=1000)
print("held", flush=True)
time.sleep(60)
"""


def hold(url):
    process = subprocess.Popen([sys.executable, "-c", HOLD, url, SWEEP], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_living_holder_is_named_one_that_is_stopped_stays_and_a_dead_one_is_replaced_at_once(store, url):
    other = hold(url)
    os.kill(other.pid, signal.SIGSTOP)
    with pytest.raises(errors.LeaseHeld, match=rf"process {other.pid} on host .* since 20..-"):
        store.acquire(SWEEP)
    other.kill()
    other.wait()
    store.launch(store.acquire(SWEEP), proposal(0), plan(), 100)


def test_of_several_controllers_exactly_one_wins(store, url):
    def acquires() -> bool:
        try:
            open_store(url, create=False).acquire(SWEEP)
        except errors.LeaseHeld:
            return False
        return True

    assert at_once(acquires, RACERS) == 1


def test_a_holder_that_was_replaced_can_never_write_again(store, url, monkeypatch):
    old = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
    store.launch(old, proposal(0), plan(), 100)
    second = open_store(url)
    with pytest.raises(errors.LeaseHeld):
        second.acquire(SWEEP)
    time.sleep(1.3 * BRIEF_SECONDS)
    # Expired and not taken: still the only one, so it may go on.
    store.launch(old, proposal(1), plan(), 100)
    store.lose(old, key(1), 1, 50, "gone")
    assert second.driver(SWEEP) is None
    new = second.acquire(SWEEP)
    assert (new.token, store.driver(SWEEP).token) == (old.token + 1, new.token)
    before = everything(second)
    writes = {
        "launch": lambda: store.launch(old, proposal(2), plan(), 100),
        "relaunch": lambda: store.relaunch(old, key(1), 50, 100),
        "settle": lambda: store.settle(old, key(0), 1, came()),
        "add_to_curve": lambda: store.add_to_curve(old, key(0), 1, {9: {"accuracy": 0.1}}),
        "lose": lambda: store.lose(old, key(0), 1, None, ""),
        "fail": lambda: store.fail(old, key(0), 1, None, ""),
        "charge_whole": lambda: store.charge_whole(old, key(1), 1),
        "abandon": lambda: store.abandon(old, key(1), ""),
        "record_infeasible": lambda: store.record_infeasible(old, proposal(3), refusal()),
        "set_state": lambda: store.set_state(old, "finished"),
        "set_place": lambda: store.set_place(old, "/other", ""),
        "extend": lambda: store.extend(old, Extension(trials=80, launched=2, at=1.0)),
        "set_fingerprints": lambda: store.set_fingerprints(old, {}),
        "erase": lambda: store.erase(old),
        "reserve_block": lambda: store.reserve_block(old, "people", ONE),
        "settle_block": lambda: store.settle_block(old, "people", 1.0),
        "delivered": lambda: store.delivered(old, [1]),
        "renew": old.renew,
    }
    for write in writes.values():
        with pytest.raises(errors.LeaseLost, match="held by process"):
            write()
    old.release()
    assert everything(second) == before
    second.launch(new, proposal(2), plan(), 100)
    # The check of the token is what refuses: without it the old holder would write.
    monkeypatch.setattr(leases.Lease, "check", lambda self, connection: None)
    store.launch(old, proposal(3), plan(), 100)
    second.close()


def test_a_lease_is_renewed_and_released(store):
    lease = store.acquire(SWEEP, ttl_seconds=0.6)
    for _ in range(6):
        time.sleep(0.25)
        lease.renew()
    with pytest.raises(errors.LeaseHeld):
        store.acquire(SWEEP)
    lease.release()
    assert store.driver(SWEEP) is None
    with pytest.raises(errors.LeaseLost, match="held by nobody"):
        store.launch(lease, proposal(0), plan(), 100)
    store.acquire(SWEEP)


def test_a_clock_that_was_ahead_blocks_no_longer_than_the_lease_was_meant_to_last(store, monkeypatch):
    now = Database.now
    monkeypatch.setattr(Database, "now", lambda self, connection: now(self, connection) + 3600)
    lease = store.acquire(SWEEP, ttl_seconds=0.5)
    monkeypatch.undo()
    # Its holder lives on this machine; only the expiry says when it may be replaced.
    with pytest.raises(errors.LeaseHeld):
        store.acquire(SWEEP)
    time.sleep(0.7)
    assert store.acquire(SWEEP).token == lease.token + 1


def test_who_holds_it_is_told_by_boot_process_and_start():
    own = leases.this_process(since=0.0, acquisition="x")
    assert not own.is_dead()
    # The same process id, started at another time: the holder is gone.
    assert replace(own, pid_started=own.pid_started + "1").is_dead()
    # A process id of another machine, or of another container on this one, says nothing here.
    assert not replace(own, machine=own.machine + "1", pid=2**22 + 1).is_dead()
    boot, space = own.machine.split(" ", 1)
    earlier = replace(own, machine=f"{boot}-before {space}")
    assert earlier.is_dead(on_this_host=True)
    assert not earlier.is_dead()
    assert not replace(own, machine=f"{boot} another", pid=2**22 + 1).is_dead(on_this_host=True)

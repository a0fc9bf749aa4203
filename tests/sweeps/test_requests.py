"""What people ask of a sweep reaches whoever runs it, and nobody else; notes and tags are shown."""

from __future__ import annotations

import signal
import threading
import time

import pytest

import sweeps
from sweeps.execution import requests
from sweeps.execution.requests import RequestPoller
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import choices_of, summary_of
from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec
from sweeps.store.errors import UnknownRequest
from sweeps.store.records import KnownPoint, StopRequest, SweepState, TrialState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps.fake_workers import NAME, SPEC, FakeSweep, Worker
from tests.sweeps.stores import SWEEP, record
from trainables.system import Launch

PROMISED_SECONDS = 5.0


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C is an exception, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    store.create_sweep(record())
    yield store
    store.close()


def heard(store, lease, seconds):
    """Whether the holder of the lease is interrupted within so many seconds."""
    try:
        with RequestPoller(store, lease):
            time.sleep(seconds)
    except KeyboardInterrupt:
        return True
    return False


def test_a_stop_interrupts_whoever_runs_the_sweep_and_names_who_asked(store, tmp_path, capsys):
    lease = store.acquire(SWEEP)
    other = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    asked = threading.Timer(0.5, lambda: requests.stop(other, SWEEP, wait=False))
    asked.start()
    began = time.monotonic()
    assert heard(store, lease, 3 * PROMISED_SECONDS)
    assert time.monotonic() - began < 0.5 + PROMISED_SECONDS
    assert "asked at" in capsys.readouterr().err
    other.close()


@pytest.mark.parametrize("other", ["earlier", "sweep"])
def test_a_stop_of_another_run_or_sweep_is_not_meant(store, monkeypatch, other):
    monkeypatch.setattr(requests, "LISTEN_SECONDS", 0.1)
    earlier = store.acquire(SWEEP)
    earlier.release()
    lease = store.acquire(SWEEP)
    if other == "earlier":
        store.ask(SWEEP, StopRequest(token=earlier.token), "me@here")
    else:
        store.create_sweep(record("second"))
        store.ask("second", StopRequest(token=lease.token), "me@here")
    assert not heard(store, lease, 0.5)


def test_what_another_release_asked_is_named_and_refused(store, monkeypatch, capsys):
    monkeypatch.setattr(requests, "LISTEN_SECONDS", 0.1)
    with store.acquire(SWEEP) as lease, RequestPoller(store, lease) as poller:
        with monkeypatch.context() as newer:
            newer.setattr("sweeps.store.store.KINDS", {"pause": StopRequest})
            store.ask(SWEEP, StopRequest(token=0), "me@there")
        poller._thread.join(10)
    assert "asked for 'pause', which this release does not know" in capsys.readouterr().err
    with pytest.raises(UnknownRequest):
        store.requests(SWEEP)


def test_notes_and_tags_are_shown_while_another_holds_the_lease(store, tmp_path):
    lease = store.acquire(SWEEP)
    opened = sweeps.open(SWEEP, root=tmp_path)
    opened.note("  wider clip\nnext time ")
    opened.tag(["paper=v2", "lab=a b"])
    opened.tag({"lab": ""})
    store.set_state(lease, "running")
    assert opened.tags == {"paper": "v2"}
    assert opened.notes[0].startswith("wider clip next time (")
    shown = opened.overview()
    assert (shown.to_dict()["tags"], list(shown.notes)) == ({"paper": "v2"}, opened.notes)
    assert {"tags     paper=v2", f"note     {opened.notes[0]}"} <= set(shown.lines())
    (row,) = sweeps.list_sweeps(root=tmp_path).to_dict("records")
    assert (row["tags"], row["notes"]) == ({"paper": "v2"}, opened.notes)


# Points that people know: tried first or enqueued, held against the space, beside all points of the search.

KNOBS = {"clip": {"choice": [0.25, 0.5, 1.0]}, "steps": {"int_uniform": [1, 4]}, "shrinkage": 1.0}
GRID = {
    "systems": {"noisy-mean": KNOBS},
    "privacy": {"epsilon": [1.0, 2.0], "delta": 1e-5},
    "search": {"sampler": "grid", "trials": 24, "seed": 3},
}
POINT = {"clip": 0.5, "steps": 3, "target_epsilon": 2}
FIXED = {"prior": 0.5, "shrinkage": 1.0, "step_seconds": 0.0}
WHOLE = {"system": "noisy-mean", "target_epsilon": 2.0, "clip": 0.5, **FIXED, "steps": 3}


def spec_of(search=None, **changes):
    change = {**GRID, **changes}
    return load_spec({**SPEC, **change, "search": {**change["search"], **(search or {})}})


def numbered(proposer, count):
    """{number: configuration} of the next proposals."""
    found = (proposer.propose() for _ in range(count))
    return {one.number: one.config for one in found if one is not None}


# -- search.first ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["random", "grid", "tpe"])
def test_first_points_come_first_and_take_no_turn_of_the_sampler(sampler):
    before = list(numbered(Proposer(spec_of({"sampler": sampler})), 8).values())
    found = numbered(Proposer(spec_of({"sampler": sampler, "first": [POINT, {**POINT, "steps": 1}]})), 10)
    assert [found[0], found[1]] == [WHOLE, {**WHOLE, "steps": 1}]
    if sampler != "tpe":
        assert list(found.values())[2:] == before


# -- enqueued ones -----------------------------------------------------------------------------------------


def enqueue(sweep, **changes):
    config = {**WHOLE, **changes}
    number = sweep.store.ask(NAME, KnownPoint(config=config), "me@here")
    sweep.controller.points.extend(one for one in sweep.store.requests(NAME) if one.id == number)
    return number


def launched(sweep, count):
    """Up to so many launches, each run to its end."""
    out = []
    while len(out) < count and isinstance(group := sweep.controller.decide(), Launch):
        worker = Worker(group, sweep.trials, sweep.executed)
        worker.finish()
        sweep.controller.finished(group, [worker.result])
        out.append(sweep.controller.records[group.members[0].key])
    return out


def points(records):
    return sorted(tuple(one.config.items()) for one in records)


@pytest.mark.parametrize("restart", [False, True])
def test_no_grid_point_is_left_out_for_an_enqueued_one(folder, restart):
    expected = numbered(Proposer(spec_of()), 24)
    sweep = FakeSweep(folder, change=GRID)
    done = launched(sweep, 5)
    request = enqueue(sweep)
    done += launched(sweep, 3)
    again = enqueue(sweep, steps=1)
    if restart:
        sweep.lease.release()
        sweep.start()
        sweep.controller.points.extend(sweep.store.requests(NAME))
    done += launched(sweep, 100)
    assert isinstance(sweep.controller.decide(), SweepState)
    asked = [one for one in done if one.request is not None]
    assert [(one.number, one.request, one.config["steps"]) for one in asked] == [(5, request, 3), (8, again, 1)]
    assert points(one for one in done if one.request is None) == sorted(tuple(one.items()) for one in expected.values())
    assert len(done) == 26
    assert [one.request for one in sweep.store.trials(NAME)].count(None) == 24


def test_a_finished_sweep_takes_a_point_and_an_infeasible_one_ends_nothing(folder):
    change = {**GRID, "limits": {"work": 350}, "search": {"sampler": "random", "trials": 2, "seed": 3}}
    sweep = FakeSweep(folder, change=change)
    launched(sweep, 100)
    assert not sweep.controller.has_work()
    enqueue(sweep, steps=4)
    enqueue(sweep, steps=1)
    enqueue(sweep, clip=0.3)
    assert sweep.controller.has_work()
    (one,) = launched(sweep, 100)
    assert one.config["steps"] == 1
    assert not sweep.controller.has_work()
    refused = [one for one in sweep.store.trials(NAME) if one.state is TrialState.INFEASIBLE and one.request]
    assert [one.config["steps"] for one in refused] == [4]


def test_an_enqueued_point_takes_the_totals_guarantee(folder):
    sweep = FakeSweep(folder, change=GRID)
    launched(sweep, 3)
    record = sweep.store.sweep(NAME)
    trials = sweep.store.trials(NAME)
    assert choices_of(record, trials) == ()
    assert summary_of(PublishedStore(sweep.store), record, trials).procedure.is_claim
    enqueue(sweep)
    launched(sweep, 1)
    trials = sweep.store.trials(NAME)
    (choice,) = choices_of(record, trials)
    assert choice.what == f"{NAME}-3 was enqueued by somebody who could see results"
    total = summary_of(PublishedStore(sweep.store), record, trials).procedure
    assert (total.is_claim, total.trials) == (False, 4)


# -- asking ------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(tmp_path):
    store = Workspace.at(tmp_path).open_store(create=True)
    spec = spec_of()
    store.create_sweep(record(NAME, spec=spec, root=str(tmp_path)))
    yield store, sweeps.open(NAME, root=tmp_path)
    store.close()


def test_a_point_is_asked_for_in_words_or_values(asked):
    store, sweep = asked
    answer = sweep.enqueue(["clip=0.5", "steps=3", "target_epsilon=2"])
    assert sweep.enqueue(POINT).request != answer.request
    assert [one.wanted for one in store.requests(NAME)] == [KnownPoint(config=WHOLE)] * 2
    assert "no guarantee any more" in str(answer)
    assert f"tried first by `sweeps resume {NAME}`" in str(answer)
    assert answer.to_dict()["claim"]["epsilon"] <= 2

"""The controller without Ray: every kill between two writes, losses, rungs, and that no step escapes the ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.execution.controller import Controller
from sweeps.execution.limits import INTERRUPTED, worker_losses
from sweeps.spec.parse import load_spec
from sweeps.store.records import Outcome, SweepState, TrialState
from sweeps.store.store import open_store
from tests.sweeps import specs
from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep, Killed, first_rung, launched, simulate
from tests.sweeps.stores import controller_of, record
from trainables.data import SOURCES
from trainables.system import Launch
from trainables.worker.attempt import NODE_LEAVES, UNWRITABLE, Attempt, Cancelled, NodeLeaves, RecordsUnwritable
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch


@pytest.fixture
def sweep(folder):
    return FakeSweep(folder)


@pytest.mark.parametrize("asha", [None, ASHA])
@pytest.mark.parametrize("after_write", [False, True])
def test_a_kill_around_any_write_loses_and_doubles_nothing(folder, asha, after_write):
    """Kill the controller before, or right after, its 1st, 2nd, 3rd ... write, until a sweep has no such write."""
    for write in range(1, 100):
        sweep = FakeSweep(folder / str(write), asha)
        sweep.kill_at, sweep.kill_after_write = write, after_write
        try:
            sweep.finish()
        except Killed:
            sweep.lease.release()
            sweep.start()
            sweep.check()
            sweep.finish()
        else:
            break
        sweep.check_end(trials=5)
    assert write >= 10, "a sweep of five trials makes at least ten writes"


@settings(max_examples=30)
@given(
    choices=st.lists(st.integers(0, 64 * 8 - 1), min_size=5, max_size=60),
    early_stopping=st.sampled_from([None, ASHA]),
)
def test_no_history_under_charges(choices, early_stopping):
    simulate(choices, early_stopping)


def longest(sweep, steps=4):
    """A worker whose trial has at least `steps` steps."""
    while True:
        worker = launched(sweep)
        if worker.member.to_step >= steps:
            return worker


def test_a_relaunch_goes_on_from_the_checkpoint_and_pays_only_from_there(sweep):
    worker = longest(sweep)
    worker.execute(1, 2, stop_inside=False)
    worker.execute(1, 1, stop_inside=True)
    sweep.lose(worker)
    again = launched(sweep).member
    assert (again.key, again.attempt, again.from_step, again.resume_attempt) == (worker.member.key, 2, 2, 1)
    lost, reserved = [entry for entry in sweep.store.ledger(NAME) if entry.key == again.key]
    # The third step was drawn and its checkpoint was not reached: paid twice.
    assert (lost.from_step, lost.executed_to) == (0, 3)
    assert (reserved.from_step, reserved.to_step, reserved.executed_to) == (2, worker.member.to_step, None)


def test_an_attempt_that_never_started_is_charged_nothing_and_can_never_start(sweep):
    worker = launched(sweep)
    sweep.lose(worker)
    entry = sweep.store.ledger(NAME, worker.member.key)[-1]
    assert (entry.from_step, entry.executed_to, entry.steps_spent) == (0, 0, 0)
    # The worker comes late, with everything it was given.
    with pytest.raises(Cancelled):
        worker.reserve_until(worker.member.to_step)
    worker.execute(3, 2, stop_inside=False)
    assert not sweep.executed
    sweep.finish()
    sweep.check_end(trials=5)


def race_a_late_worker(sweep, monkeypatch):
    """The worker notes its first horizon, and draws, between the 1st, 2nd, 3rd ... operation of giving it up."""
    raced = []
    operations = ("write", "read", "exists", "names")
    plain = {name: getattr(Folder, name) for name in operations}
    for moment in range(1, 20):
        worker = launched(sweep)
        left = [moment]

        def counted(name, left=left, worker=worker):
            def operation(*arguments, **options):
                left[0] -= 1
                if left[0] == 0:
                    worker.execute(1, 1, stop_inside=True)
                return plain[name](*arguments, **options)

            return operation

        with monkeypatch.context() as patch:
            for name in operations:
                patch.setattr(Folder, name, counted(name))
            sweep.lose(worker)
        worker.execute(1, 1, stop_inside=True)
        sweep.check()
        raced.append(bool(sweep.executed[worker.member.key, worker.member.attempt]))
        if left[0] > 0:
            return raced
    raise AssertionError("giving up took more operations than expected")


@pytest.fixture
def patient(folder):
    """A sweep that never gives a trial up."""
    return FakeSweep(folder / "patient", change={"execution": {"retries": 100}})


def test_a_worker_that_starts_while_it_is_given_up_is_charged_or_stopped(patient, monkeypatch):
    raced = race_a_late_worker(patient, monkeypatch)
    # It got through before the fence, and not after it: the race was run on both sides.
    assert raced[0]
    assert not raced[-1]


def test_losses_are_counted_across_controllers(sweep):
    """Two losses are allowed: the third fails the trial, whichever controller sees it."""
    key = launched(sweep).member.key
    for losses in range(1, 4):
        worker = sweep.workers[0]
        worker.execute(1, 1, stop_inside=True)
        sweep.lose(worker)
        assert (sweep.controller.records[key].state is TrialState.FAILED) == (losses == 3)
        sweep.lease.release()
        sweep.start()
        if losses < 3:
            assert launched(sweep).member.key == key
    assert "lost 3 times" in sweep.controller.records[key].reason


def test_what_ends_with_its_controller_is_no_loss_of_the_worker(sweep):
    """Killed, stopped by Ctrl-C, or stopped by a full disk, again and again: the trial goes on all the same."""
    key = launched(sweep).member.key
    for number in range(9):
        worker = sweep.workers[0]
        worker.execute(1, 1, stop_inside=True)
        if number % 3 == 1:
            sweep.controller.settle_running(INTERRUPTED)
        elif number % 3 == 2:
            refused = {"key": key, "attempt": worker.member.attempt, "unwritable": f"{UNWRITABLE}: disk full"}
            with pytest.raises(RecordsUnwritable):
                sweep.controller.finished(worker.group, [refused])
        sweep.lease.release()
        sweep.start()
        assert launched(sweep).member.key == key
    reasons = [one.reason for one in sweep.store.attempts(NAME) if one.outcome is Outcome.LOST]
    assert len(reasons) == 9
    sweep.lose(sweep.workers[0])
    assert sweep.controller.records[key].state is TrialState.PLANNED
    assert worker_losses(sweep.store.attempts(NAME)) == {key: 1}
    sweep.finish()
    sweep.check_end(trials=5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_number_fails_the_trial_with_a_reason(sweep, value):
    worker = launched(sweep)
    worker.finish_with(value)
    sweep.deliver(worker)
    record = sweep.controller.records[worker.member.key]
    assert record.state is TrialState.FAILED
    assert f"expected_error={value}" in record.reason
    assert sweep.store.ledger(NAME, worker.member.key)[-1].executed_to == worker.member.to_step
    sweep.finish()
    assert sweep.store.counts(NAME)["complete"] == 4


def test_an_impossible_space_is_exhausted_and_says_so(folder):
    change = {"limits": {"noise_multiplier": 1e-6}}
    sweep = FakeSweep(folder, change=change)
    assert sweep.controller.decide() is SweepState.EXHAUSTED
    assert sweep.store.counts(NAME)["infeasible"] == 100
    sweep.lease.release()
    sweep.start()
    assert sweep.controller.is_exhausted()
    assert not sweep.controller.has_work()


# Early stopping: rungs are reservations, and claims are of whole plans.


def promoted(rungs):
    """The better of two trials is launched into the next rung."""
    first_rung(rungs)
    worker = launched(rungs)
    assert (worker.member.key, worker.member.attempt) == (f"{NAME}-0", 2)
    assert (worker.member.from_step, worker.member.to_step, worker.member.resume_attempt) == (2, 4, 1)
    return worker


def test_a_promoted_trial_that_is_lost_goes_on_from_its_rung(rungs):
    worker = promoted(rungs)
    worker.execute(1, 1, stop_inside=True)
    rungs.lose(worker)
    again = launched(rungs).member
    assert (again.key, again.attempt, again.from_step, again.to_step) == (f"{NAME}-0", 3, 2, 4)


def test_a_stopped_trial_claims_its_whole_plan(rungs):
    rungs.finish()
    rungs.check_end(trials=5)
    records = rungs.store.trials(NAME)
    stopped = [record for record in records if record.step == 2]
    whole = [record for record in records if record.step == 8]
    assert stopped
    assert whole
    # Two of eight steps, by results: where it stopped was no fact before its first step.
    for one in records:
        assert one.guarantee == one.plan.guarantee
        assert one.guarantee.epsilon == pytest.approx(one.config["target_epsilon"], rel=1e-6)
        assert {metrics["epsilon"] for metrics in one.reports.values()} == {one.guarantee.epsilon}
    # What was executed is what the ledger counts.
    assert sum(e.steps_spent for e in rungs.store.ledger(NAME)) == sum(one.step for one in records)


# Trials that share a training are launched together, and each is still charged, settled and resumed by itself.


SPEC: dict[str, Any] = specs.digits(
    "shared",
    systems={
        "prediction-sensitivity": {"regularisation": {"choice": [0.1, 1.0]}, "queries": {"choice": [5, 10]}},
        "loss-perturbation": {"regularisation": 1.0},
    },
    privacy={"epsilon": [1.0, 4.0], "delta": 1e-4, "adjacency": "replace-one"},
    search={"sampler": "grid", "trials": 10},
)


@pytest.fixture
def controller(folder: Path) -> Controller:
    return start(folder, load_spec(SPEC))


def start(root: Path, spec: Any, name: str = "shared") -> Controller:
    store = open_store(f"sqlite:///{root}/sweeps.db")
    if not store.sweeps():
        store.create_sweep(record(name, spec=spec, root=str(root)))
    lease = store.acquire(name, ttl_seconds=60)
    controller = controller_of(store, lease, spec, Folder(str(root / "trials")))
    controller.recover()
    return controller


def launches(controller: Controller) -> list[Launch]:
    groups = []
    while isinstance(decision := controller.decide(), Launch):
        groups.append(decision)
    return groups


def test_one_launch_for_each_training(controller: Controller) -> None:
    groups = launches(controller)
    sizes = Counter((group.members[0].plan.system, len(group.members)) for group in groups)
    assert sizes == {("prediction-sensitivity", 4): 2, ("loss-perturbation", 1): 2}
    for group in groups:
        assert len({member.plan.group for member in group.members}) == 1
    keys = [member.key for group in groups for member in group.members]
    assert sorted(keys) == sorted(controller.records)
    assert len(set(keys)) == 10


def test_a_lost_launch_goes_on_together_and_keeps_what_was_finished(controller: Controller) -> None:
    data = SOURCES["digits"].load({})
    first = next(group for group in launches(controller) if len(group.members) == 4)
    done = Launch(members=first.members[:1], execution=first.execution)
    run_launch(done, data, controller.trials, b"secret" * 6)
    controller.lost(first, "its node went away")
    again = controller.decide()
    assert isinstance(again, Launch)
    assert [member.key for member in again.members] == [member.key for member in first.members[1:]]
    assert {member.attempt for member in again.members} == {2}
    assert controller.records[first.members[0].key].state is TrialState.COMPLETE


@pytest.mark.parametrize("intervals", [0, 1])
def test_a_launch_on_a_node_that_is_to_go_moves_without_cost(controller: Controller, intervals: int) -> None:
    """The notice comes after so many intervals: what is done is charged exactly, and no retry is used up."""
    data = SOURCES["digits"].load({})
    group = next(group for group in launches(controller) if len(group.members) == 4)
    notices = iter([False] * intervals)
    with pytest.raises(NodeLeaves):
        run_launch(group, data, controller.trials, b"secret" * 6, lambda: next(notices, True))
    controller.lost(group, "its worker process ended")
    again = controller.decide()
    assert isinstance(again, Launch)
    moved = {member.key for member in again.members}
    attempts = [one for one in controller.store.attempts("shared") if one.attempt == 1 and one.key in moved]
    assert {one.reason for one in attempts} == {NODE_LEAVES}
    assert not worker_losses(attempts)
    assert controller._losses is not None
    assert not controller._losses.total()
    for entry in controller.store.ledger("shared"):
        if entry.attempt > 1 or entry.key not in moved:
            continue
        left = max(Attempt.of(controller.trials, entry.key, 1).steps(), default=None)
        assert entry.executed_to == (entry.from_step if left is None else left)
    finished = [one for one in group.members if controller.records[one.key].state is TrialState.COMPLETE]
    assert len(finished) + len(again.members) == 4
    assert bool(finished) == bool(intervals)


def test_a_controller_that_ends_between_two_reservations_leaves_no_gap(folder: Path) -> None:
    """Companions are launched before their turn: the numbers between are proposed after a restart."""
    spec = load_spec(SPEC)
    controller = start(folder, spec)
    controller.decide()
    known = sorted(record.number for record in controller.records.values())
    assert known != list(range(len(known))), "companions come from further ahead"
    controller.lease.release()
    again = start(folder, spec)
    launches(again)
    assert sorted(record.number for record in again.records.values()) == list(range(10))
    (folder / "other").mkdir()
    unbroken = start(folder / "other", spec)
    launches(unbroken)
    assert {key: record.config for key, record in again.records.items()} == {
        key: record.config for key, record in unbroken.records.items()
    }

"""Trials that share a training are launched together, and each is still charged, settled and resumed by itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sweeps.execution.controller import Controller
from sweeps.execution.limits import worker_losses
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.sweeps import specs
from tests.sweeps.stores import controller_of, record
from trainables.data import SOURCES
from trainables.system import Launch
from trainables.worker.attempt import NODE_LEAVES, Attempt, NodeLeaves
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch

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
def controller(tmp_path: Path) -> Controller:
    return start(tmp_path, load_spec(SPEC))


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
    assert sorted(keys) == sorted(controller.table.records)
    assert len(set(keys)) == 10


def test_a_lost_launch_goes_on_together_and_keeps_what_was_finished(controller: Controller) -> None:
    data = SOURCES["digits"].load({})
    first = next(group for group in launches(controller) if len(group.members) == 4)
    done = Launch(members=first.members[:1], execution=first.execution)
    run_launch(done, data, controller.trials, b"secret" * 6)
    controller.outcomes.lost(first, "its node went away")
    again = controller.decide()
    assert isinstance(again, Launch)
    assert [member.key for member in again.members] == [member.key for member in first.members[1:]]
    assert {member.attempt for member in again.members} == {2}
    assert controller.table.records[first.members[0].key].state is TrialState.COMPLETE


@pytest.mark.parametrize("intervals", [0, 1])
def test_a_launch_on_a_node_that_is_to_go_moves_without_cost(controller: Controller, intervals: int) -> None:
    """The notice comes after so many intervals: what is done is charged exactly, and no retry is used up."""
    data = SOURCES["digits"].load({})
    group = next(group for group in launches(controller) if len(group.members) == 4)
    notices = iter([False] * intervals)
    with pytest.raises(NodeLeaves):
        run_launch(group, data, controller.trials, b"secret" * 6, lambda: next(notices, True))
    controller.outcomes.lost(group, "its worker process ended")
    again = controller.decide()
    assert isinstance(again, Launch)
    moved = {member.key for member in again.members}
    attempts = [one for one in controller.store.attempts("shared") if one.attempt == 1 and one.key in moved]
    assert {one.reason for one in attempts} == {NODE_LEAVES}
    assert not worker_losses(attempts)
    assert controller.outcomes._losses is not None
    assert not controller.outcomes._losses.total()
    for entry in controller.store.ledger("shared"):
        if entry.attempt > 1 or entry.key not in moved:
            continue
        left = max(Attempt.of(controller.trials, entry.key, 1).checkpoints.steps(), default=None)
        assert entry.executed_to == (entry.from_step if left is None else left)
    finished = [one for one in group.members if controller.table.records[one.key].state is TrialState.COMPLETE]
    assert len(finished) + len(again.members) == 4
    assert bool(finished) == bool(intervals)


def test_a_controller_that_ends_between_two_reservations_leaves_no_gap(tmp_path: Path) -> None:
    """Companions are launched before their turn: the numbers between are proposed after a restart."""
    spec = load_spec(SPEC)
    controller = start(tmp_path, spec)
    controller.decide()
    known = sorted(record.number for record in controller.table.records.values())
    assert known != list(range(len(known))), "companions come from further ahead"
    controller.lease.release()
    again = start(tmp_path, spec)
    launches(again)
    assert sorted(record.number for record in again.table.records.values()) == list(range(10))
    (tmp_path / "other").mkdir()
    unbroken = start(tmp_path / "other", spec)
    launches(unbroken)
    assert {key: record.config for key, record in again.table.records.items()} == {
        key: record.config for key, record in unbroken.table.records.items()
    }

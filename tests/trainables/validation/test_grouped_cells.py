"""Accuracy of the worst group: from public records, and from one noised histogram that counts groups apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from sweeps.planning.plan import plan_proposal
from sweeps.spec import load_spec
from sweeps.spec.parse import public_facts
from tests.dpcore.audited_releases import noise
from tests.sweeps.private_people import people
from tests.sweeps.test_asked_metrics import of
from tests.trainables.test_measures import member
from tests.trainables.validation.test_cells import WIDE, N, facts, judged
from trainables.data import SOURCES
from trainables.measures.quality import of_groups
from trainables.system import PrivacyPlan, Task, TrialGroup
from trainables.validation.histogram_bins import GroupedCells, cells_for, reported
from trainables.weights import Groups
from trainables.worker.files import Folder
from trainables.worker.trial import run_group

__all__ = ["people"]

GROUPS = Groups(column="group", categories=("a", "b", "c"))


def grouped(classes: int) -> tuple[Any, Any]:
    own = judged(classes)
    codes = np.random.default_rng(3).choice(3, size=N, p=[0.6, 0.39, 0.01])
    return cells_for(facts(Task.CLASSIFICATION, classes=classes, groups=GROUPS), "loss"), replace(own, groups=codes)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_it_is_the_least_accuracy_and_all_else_is_as_it_was(classes: int) -> None:
    cells, own = grouped(classes)
    assert isinstance(cells, GroupedCells)
    counts = np.bincount(cells.of(own), minlength=cells.size).astype(float)
    assert counts.sum() == N
    found = {name: one.value for name, one in cells.estimates(counts, 0.0, WIDE).items()}
    by_group = [own.right[own.groups == one].mean() for one in range(3)]
    assert found["worst_group_accuracy"] == pytest.approx(min(by_group))
    assert found["smallest_group"] == min(np.bincount(own.groups))
    plain = cells.each.estimates(np.bincount(cells.each.of(own), minlength=cells.each.size).astype(float), 0.0, WIDE)
    assert {name: found[name] for name in plain} == {name: one.value for name, one in plain.items()}


def test_a_record_is_in_one_cell_of_its_own_group() -> None:
    """So the sensitivity is that of a histogram: a neighbour moves one count by one."""
    cells, own = grouped(2)
    assert (cells.of(own) // cells.each.size == own.groups).all()
    assert (cells.of(own) % cells.each.size == cells.each.of(own)).all()


def test_noise_is_said_and_a_group_below_it_is_left_out() -> None:
    cells, own = grouped(2)
    histogram = NoisyHistogram(cells=cells.size, noise_multiplier=10.0)
    found = [cells.estimates(histogram.release(cells.of(own), noise(f"{seed}")), 10.0, WIDE) for seed in range(200)]
    worst = np.array([one["worst_group_accuracy"].value for one in found])
    # About 40 records under a noise of 57: mostly left out, and then the two large groups decide.
    smallest = [one["smallest_group"] for one in found]
    assert smallest[0].standard_error == pytest.approx(10.0 * np.sqrt(cells.each.size))
    assert np.std([one.value for one in smallest]) == pytest.approx(smallest[0].standard_error, rel=0.2)
    left_out = np.array([one.value < 2 * one.standard_error for one in smallest])
    assert 0.8 < left_out.mean() < 1
    large = min(own.right[own.groups == one].mean() for one in range(2))
    assert abs(np.median(worst[left_out]) - large) < 0.02
    said = np.median([one["worst_group_accuracy"].standard_error for one in np.array(found, dtype=object)[left_out]])
    assert np.std(worst[left_out]) == pytest.approx(said, rel=0.35)
    # A number that is none would have made a trial fail, and kept a sealed search from releasing anything.
    assert "worst_group_accuracy" not in cells.estimates(np.zeros(cells.size), 10.0, WIDE)


def test_public_records_are_counted_as_they_are() -> None:
    data = SOURCES["digits"].load({"limit": 50})
    few = replace(data.validation, **{"targets": data.validation.targets[:4]}, groups=np.array([0, 0, 1, 1]))
    shares = np.eye(10)[few.targets]
    shares[0] = np.roll(shares[0], 1)
    held = replace(data, facts=replace(data.facts, groups=GROUPS), validation=few)
    assert of_groups(held, shares) == {"worst_group_accuracy": 0.5, "smallest_group": 0.0}


def declared(people: Any, public: bool, **changes: Any) -> dict[str, Any]:
    raw = of(people, public=public, report=["worst_group_accuracy", "smallest_group"], **changes)
    return raw | {"data": raw["data"] | {"groups": {"column": "side", "categories": ["l", "r"]}}}


@pytest.mark.parametrize("public", [True, False])
def test_a_trial_reports_it_and_private_records_pay_for_it_once(people, public: bool) -> None:
    frame = pd.read_parquet(people)
    frame["side"] = np.where(frame["b"] > 0.5, "l", "r")
    frame.to_parquet(people)
    spec = load_spec(declared(people, public))
    facts_ = public_facts(spec)
    config = {**spec.systems["noisy-sgd"], "learning_rate": 0.5, "system": "noisy-sgd", "target_epsilon": 2.0}
    plan = plan_proposal(spec, config, facts_, {})
    assert isinstance(plan, PrivacyPlan)
    data = SOURCES["table"].load(spec.data.options())
    if public:
        assert plan.validation is None
    else:
        assert plan.validation is not None
        private = facts_.private_validation
        assert private is not None
        plain = cells_for(replace(facts_, groups=None), "loss")
        assert plan.validation.histogram.cells == 2 * plain.size
        # The same budget whatever the cells: one release of one histogram.
        assert plan.validation.histogram.sensitivity == 1.0
        assert reported(facts_, "loss") >= {"worst_group_accuracy_noise_sd", "smallest_group_noise_sd"}
    group = TrialGroup(members=(member(plan),), measures=spec.asked)
    [result] = run_group(group, data, Folder(str(people.parent / f"trials-{public}")), bytes(32))
    metrics = result["metrics"]
    assert {"worst_group_accuracy", "smallest_group"} <= metrics.keys()
    assert ("worst_group_accuracy_noise_sd" in metrics) is not public

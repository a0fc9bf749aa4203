"""Plans with private reports: the claim is the recount, within the budget, in parallel or added; who is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcore.accounting import headline, headline_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from tests.trainables.recording import facts_of
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.reports import PUBLIC_VALIDATION, PrivateValidation
from trainables.system import DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal
from trainables.units import Unit
from trainables.validation.planning import plan_with_reports

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
HASHED = PrivateValidation(parts="by a hash of id", assumption="The id is a record's own.")
APART = PrivateValidation()
SGD: dict[str, Any] = {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 50, "epochs": 2}
SGLD: dict[str, Any] = {"model": "linear", "step_size": 1e-4, "halve_every": 1, "batch_size": 50, "epochs": 2}
CONFIGS = {"noisy-sgd": SGD, "noisy-adam": SGD, "clipped-sgld": SGLD, "dp-sgld": SGLD}


def facts(private: PrivateValidation | None, n_validation: int = 200) -> DatasetSpec:
    return facts_of(n=800, n_validation=n_validation, private_validation=private)


def planned(
    private: PrivateValidation | None,
    system: str = "noisy-sgd",
    stops=lambda steps: (steps,),
    n_validation: int = 200,
    **target: Any,
) -> PrivacyPlan | Refusal:
    aim = PrivacyTarget(**{"epsilon": 1.0, "delta": 1e-5, "adjacency": ADD_REMOVE} | target)
    config = CONFIGS[system] | ({"noise_multiplier": 3.0} if aim.solve == "none" else {})
    return plan_with_reports(SYSTEMS[system], config, facts(private, n_validation), aim, {}, stops)


def recounted(plan: PrivacyPlan, parallel: bool) -> float:
    return headline_of_parts(
        plan.event(),
        plan.validation.event(),
        parallel=parallel,
        delta=plan.guarantee.delta,
        adjacency=plan.guarantee.adjacency,
    ).epsilon


def rungs(steps: int) -> tuple[int, ...]:
    return steps // 4, steps // 2, steps


@pytest.mark.parametrize("system", CONFIGS)
@pytest.mark.parametrize(("private", "parallel"), [(HASHED, True), (APART, False)])
@pytest.mark.parametrize("stops", [lambda steps: (steps,), rungs], ids=["once", "rungs"])
def test_the_claim_is_the_recount_within_the_budget(system, private, parallel, stops):
    plan = planned(private, system, stops)
    assert isinstance(plan, PrivacyPlan)
    assert plan.validation.at == stops(plan.steps)
    assert plan.validation.parallel is parallel
    assert plan.guarantee.epsilon == recounted(plan, parallel) <= 1.0
    assert PUBLIC_VALIDATION not in plan.guarantee.assumptions
    assert (HASHED.assumption in plan.guarantee.assumptions) is parallel
    alone = [headline(event, 1e-5, ADD_REMOVE).epsilon for event in (plan.event(), plan.validation.event())]
    if parallel:
        without = planned(None, system)
        # Training keeps all of its budget, and the reports raise no claim.
        assert plan.event() == without.event()
        assert plan.guarantee.epsilon == without.guarantee.epsilon == alone[0] >= alone[1] > 0.99 * alone[0]
    elif system != "dp-sgld":
        assert plan.guarantee.epsilon > 0.99
        assert max(alone) < plan.guarantee.epsilon < sum(alone)


@pytest.mark.parametrize("private", [HASHED, APART])
def test_under_replace_one_the_parts_add(private):
    plan = planned(private, adjacency=REPLACE_ONE)
    assert not plan.validation.parallel
    assert plan.validation.histogram.sensitivity == pytest.approx(2**0.5)
    assert 0.99 < plan.guarantee.epsilon == recounted(plan, parallel=False) <= 1.0
    parts = [headline(event, 1e-5, REPLACE_ONE).epsilon for event in (plan.event(), plan.validation.event())]
    assert max(parts) < 0.99
    assert HASHED.assumption not in plan.guarantee.assumptions


def test_the_sensitivity_is_that_of_a_unit():
    """At most k records of a unit are judged: k times the noise for the same claim."""
    unit = Unit(column="person", max_records=5)

    def of(private: PrivateValidation, adjacency: Adjacency) -> PrivacyPlan:
        aim = PrivacyTarget(epsilon=1.0, delta=1e-5, adjacency=adjacency, unit="person")
        grouped = replace(facts(private), unit=unit)
        found = plan_with_reports(SYSTEMS["noisy-sgd"], SGD, grouped, aim, {}, lambda steps: (steps,))
        assert isinstance(found, PrivacyPlan)
        return found

    for adjacency, times in ((ADD_REMOVE, 5.0), (REPLACE_ONE, 5 * 2**0.5)):
        plan = of(HASHED, adjacency)
        histogram = plan.validation.histogram
        assert histogram.sensitivity == pytest.approx(times)
        assert histogram.deviation == pytest.approx(times * histogram.noise_multiplier)
        assert plan.guarantee.unit == "person"


@pytest.mark.parametrize("private", [HASHED, APART])
def test_steps_are_solved_beside_reports(private):
    aim = PrivacyTarget(epsilon=1.0, delta=1e-5, solve="steps")
    config = {name: value for name, value in SGD.items() if name != "epochs"} | {"noise_multiplier": 2.0}
    plan = plan_with_reports(SYSTEMS["noisy-sgd"], config, facts(private), aim, {}, lambda steps: (steps,))
    assert plan.guarantee.epsilon == recounted(plan, plan.validation.parallel) <= 1.0
    assert plan.guarantee.epsilon > 0.97
    assert plan.validation.at == (plan.steps,)


def test_reports_of_rungs_share_the_budget():
    once, three = planned(HASHED), planned(HASHED, stops=rungs)
    ratio = three.validation.histogram.noise_multiplier / once.validation.histogram.noise_multiplier
    assert ratio == pytest.approx(3**0.5)
    assert three.guarantee.epsilon == once.guarantee.epsilon


def test_given_noise_is_kept_and_its_claim_is_not_raised():
    plan, without = planned(HASHED, solve="none"), planned(None, solve="none")
    assert plan.guarantee.epsilon == without.guarantee.epsilon < 0.9
    added = planned(APART, solve="none")
    assert added.config["noise_multiplier"] == 3.0
    assert without.guarantee.epsilon < added.guarantee.epsilon <= 1.0
    refused = planned(APART, solve="none", epsilon=without.guarantee.epsilon * 1.001)
    assert isinstance(refused, Refusal)
    assert "training and reports together" in refused.reason


def test_sources_over_others_keep_private_records_private_or_refuse(tmp_path: Path):
    scans = {"columns": {"scan": {"low": 0, "high": 9, "shape": [8, 8]}}, "path": str(tmp_path)}
    options = {
        "n": 200,
        "label": "rich",
        "classes": 2,
        "of": "table",
        "validation": {"share": 0.25, "id": "id", "records": "private"},
    }
    found = SOURCES["frozen"].facts(options | scans | {"filters": 4, "patch": 3})
    assert found.private_validation is not None
    with pytest.raises(InvalidValue, match=r"public with data\.source: projected"):
        SOURCES["projected"].facts(options | scans | {"dimension": 1})
    # Its own option `validation` is a number: whose records those are could not be said.
    with pytest.raises(InvalidValue, match=r"data\.of='table'"):
        SOURCES["pooled"].facts(options | scans | {"train": 100, "validation": 50})

"""A private selection is priced as published, and every configuration of its prior meets that price."""

import os
from contextlib import closing, nullcontext
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from dpcore.accounting import POISSON
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from dpcore.selection.best import ByReference
from sweeps.api import created
from sweeps.planning import preview as planning
from sweeps.planning.preview import preview
from sweeps.planning.rehearsal import Rehearsal, Tried, corners
from sweeps.privacy.charge import trial_profile
from sweeps.privacy.ledger import ONE_TRIAL
from sweeps.ray.resources import check_workers
from sweeps.search.space import Space
from sweeps.selection import run
from sweeps.selection.preview import check_deadline, check_model_size
from sweeps.selection.price import PRIOR, SealedPlanner, SealedPrior, rests_on
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.population import Population
from sweeps.store.records import TARGET_EPSILON
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.sweeps.specs import people, spec_of  # noqa: F401  the fixture
from trainables.rehearsal.findings import Rehearsed, Step
from trainables.system import PrivacyPlan, Refusal

SPEC = specs.mean(
    "sealed",
    systems={"noisy-mean": {"clip": 1.0, "steps": 1}},
    privacy={"epsilon": 3, "delta": 1e-5, "scope": "sweep", "release": "best"},
    search={"trials": 81},
    selection={"deadline_minutes": 45},
)
DIGITS = {
    **SPEC,
    "data": {"source": "digits"},
    "systems": {
        "noisy-sgd": {
            "model": "linear",
            "clip_norm": 1.0,
            "batch_size": {"int_log_uniform": [64, 512]},
            "epochs": {"int_log_uniform": [2, 20]},
            "learning_rate": {"log_uniform": [0.1, 4.0]},
        }
    },
    "objectives": [{"metric": "accuracy"}],
}


def planner_of(document):
    spec = load_spec(document)
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec)))
    return planner


def test_every_configuration_meets_both_points_and_claims_the_budget():
    planner = planner_of(DIGITS)
    rng, space, rule = np.random.default_rng(1), Space.of(planner.prior.spec), planner.pricing.rule
    plans = [planner.plan(space.draw(rng)) for _ in range(5)]
    assert len({plan.config["noise_multiplier"] for plan in plans}) == 5
    assert len({plan.guarantee for plan in plans}) == 1
    for plan in plans:
        trial, claim = trial_profile(plan), plan.guarantee
        assert trial.delta(rule.e1) <= rule.d1
        assert trial.delta(rule.e_hat) <= rule.d_hat
        assert ByReference(law=planner.pricing.law, delta=1e-5).price(trial) <= 3 * (1 + 5e-3)
        assert (claim.epsilon, claim.delta, claim.status) == (3, 1e-5, Status.PROVED_UNDER_ASSUMPTIONS)
        assert claim.assumptions[-4:] == rests_on(planner.prior.spec.selection)
        assert claim.assumptions[-1] == PRIOR
        assert ONE_TRIAL not in claim.assumptions
        assert PrivacyPlan.from_dict(plan.to_dict()) == plan


def test_a_claim_names_what_the_systems_that_did_not_win_rest_on():
    """It covers trials of all of them: a winner of one step, or of no batches, named less than its price rests on."""
    both = deepcopy(DIGITS)
    both["systems"]["model-sensitivity"] = {"regularisation": 0.1}
    planner = planner_of(both)
    found = [planner.plan(config) for config in planner.prior.space.middles()]
    assert {one.system for one in found} == both["systems"].keys()
    first, second = (set(one.guarantee.assumptions) for one in found)
    assert first == second
    assert POISSON in first
    mean = planner_of({**SPEC, "systems": {"noisy-mean": {"clip": 0.5, "steps": {"int_log_uniform": [1, 64]}}}})
    one, many = (mean.plan({"system": "noisy-mean", "clip": 0.5, "steps": n, TARGET_EPSILON: 3.0}) for n in (1, 9))
    assert set(one.guarantee.assumptions) == set(many.guarantee.assumptions)


def test_a_space_that_no_noise_covers_has_no_plan():
    spec = load_spec({**SPEC, "limits": {"noise_multiplier": 0.5}})
    assert isinstance(SealedPlanner.of(SealedPrior(spec, public_facts(spec))), Refusal)


# Whether the deadline of a sealed search leaves time for its cap: by a rehearsal, before anything is drawn.


KNOBS: dict[str, Any] = {"model": "linear", "clip_norm": 1.0, "batch_size": 64, "epochs": 20, "learning_rate": 1.0}
TIMED: dict[str, Any] = {
    **DIGITS,
    "systems": {"noisy-sgd": KNOBS},
    "search": {"trials": 10},
    "selection": {"deadline_minutes": 60, "mean": 3, "megabytes": 0.1},
    "resources": {"concurrency": 2},
}
MINUTES = 2.4
"""20 epochs of 1437 records in batches of 64 are 450 steps: 28,800 gradients of 1 ms, in five rounds of two."""


def rehearsed(spec: Any, seconds: float) -> Rehearsal:
    """A step over 64 takes so long, of the first corner."""
    corner = next(iter(corners(spec)))
    step = Step(
        records=64, planned=64, seconds=seconds, memory_mb=None, device="cpu", loss=2.3, parameters=650, routes={},
        looped=(), unreached=(),
    )  # fmt: skip
    found = Rehearsed(
        system=corner.system, config={}, records=64, steps=2, seconds=1.0, trial_seconds=seconds,
        reported=("accuracy",), step=step,
    )  # fmt: skip
    return Rehearsal(ran=(Tried(corner.system, corner.configs[0], found),), infeasible=0, left=0, seconds=1.0)


@pytest.mark.parametrize(
    ("minutes", "refused", "noted"),
    [(MINUTES / 3.01, True, True), (MINUTES / 2.99, False, True), (MINUTES * 2.99, False, True),
     (MINUTES * 3.01, False, False)],
)  # fmt: skip
def test_a_deadline_is_refused_or_noted_by_the_factor(minutes: float, refused: bool, noted: bool):
    spec = load_spec(TIMED | {"selection": {**TIMED["selection"], "deadline_minutes": minutes}})
    with pytest.raises(InvalidValue) if refused else nullcontext():
        found = check_deadline(spec, rehearsed(spec, 0.064))
        assert (found.note is not None) is noted
    # What is measured here decides nothing of a cluster's machines.
    found = check_deadline(spec, rehearsed(spec, 0.064), "head:6379")
    assert (found.note is not None) is noted


def test_steps_that_are_solved_are_those_of_a_trial_under_the_price():
    """A trial with the whole budget to itself would run three times as many."""
    document = deepcopy(TIMED)
    document["privacy"]["solve"] = "steps"
    del document["systems"]["noisy-sgd"]["epochs"]
    document["systems"]["noisy-sgd"]["noise_multiplier"] = 2.0
    sealed, alone = load_spec(document), deepcopy(document)
    del alone["selection"]
    alone["privacy"] |= {"scope": "trial", "release": "all"}
    found = check_deadline(sealed, rehearsed(sealed, 0.064))
    assert found.trial_seconds < 0.7 * preview(load_spec(alone), samples=1).work.high * 1e-3


def test_a_deadline_that_is_too_short_is_refused_before_anything_is_drawn_stored_or_charged(
    tmp_path,
    people,  # noqa: F811
    monkeypatch,
):
    monkeypatch.setattr(run, "draw", lambda *_: pytest.fail("it was drawn"))
    with closing(Workspace.at(tmp_path / "root").open_store(create=True)) as store:
        store.make_population(Population.of("people", "linear", 5.0, 1e-4))
        document = deepcopy(TIMED)
        document["data"] = {**spec_of(people)["data"], "population": "people"}
        document["systems"]["noisy-sgd"]["epochs"] = 20_000
        document["selection"]["deadline_minutes"] = 0.02
        with pytest.raises(InvalidValue, match=r"selection.deadline_minutes=0.02: expected time for all trials"):
            created(load_spec(document), Workspace.at(tmp_path / "root"))
        assert not store.sweeps()
        assert not store.charges("people")
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"sweeps.db"}


def test_workers_that_would_wait_for_others_are_refused():
    """Each runs from the beginning to the end: with eight on two CPUs six never began, and nothing was released."""
    here = os.cpu_count() or 1
    spec = load_spec(TIMED | {"resources": {"concurrency": here + 1}, "search": {"trials": here + 2}})
    with pytest.raises(InvalidValue, match=rf"resources\.concurrency={here + 1}: expected at most {here} on this"):
        planning.before_launch(spec)
    check_workers(spec, "head:6379")
    # No more workers than trials.
    check_workers(load_spec(TIMED | {"resources": {"concurrency": here + 1}, "search": {"trials": here}}))
    with pytest.raises(InvalidValue, match=r"resources\.concurrency=None: expected a number on a cluster"):
        check_workers(load_spec(TIMED | {"resources": {}}), "head:6379")


def test_a_model_without_room_is_refused_before_anything_runs():
    spec = load_spec(TIMED | {"selection": TIMED["selection"] | {"megabytes": 0.005}})
    with pytest.raises(InvalidValue, match=r"selection.megabytes=0.005: expected at least 0.00744, for a model of 650"):
        check_model_size(spec, rehearsed(spec, 0.064))
    averaged = spec.model_copy(update={"systems": {"noisy-sgd": {**spec.systems["noisy-sgd"], "ema": 0.9}}})
    with pytest.raises(InvalidValue, match=r"expected at least 0.00992, for a model of 650"):
        check_model_size(averaged, rehearsed(spec, 0.064))

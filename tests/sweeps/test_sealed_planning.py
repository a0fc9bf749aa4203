"""A private selection is priced as published, and every configuration of its prior meets that price."""

import math
from copy import deepcopy

import numpy as np
import pytest

from dpcore.accounting import POISSON
from dpcore.guarantee import Status
from dpcore.selection.best import price_best
from dpcore.selection.counts import Capped, geometric
from sweeps.planning.preview import preview
from sweeps.privacy.charge import trial_profile
from sweeps.privacy.claims import ONE_TRIAL
from sweeps.search.space import Space
from sweeps.selection.price import PRIOR, SealedPlanner, SealedPrior, rests_on
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import Selection
from sweeps.spec.sweep_budget import law_of
from sweeps.store.records import TARGET_EPSILON
from tests.sweeps import specs
from tests.sweeps.sealed_searches import small_table
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
    assert isinstance(planner, SealedPlanner)
    return planner


def test_a_gaussian_trial_needs_the_noise_of_the_tight_form():
    # private_search: Gaussian, (3, 1e-5), geometric of mean 27: 2.3867; the plan is that, or a little more.
    plan = planner_of(SPEC).plan(next(planner_of(SPEC).prior.space.middles()))
    assert 2.3867 - 5e-5 <= plan.config["noise_multiplier"] <= 2.3867 * 1.001


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
        assert min(price_best(planner.pricing.law, trial, 1e-5).values()) <= 3 * (1 + 5e-3)
        assert (claim.epsilon, claim.delta, claim.status) == (3, 1e-5, Status.PROVED_UNDER_ASSUMPTIONS)
        assert planner.prior.spec.selection is not None
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


def test_private_validation_is_part_of_a_trial(tmp_path):
    private = deepcopy(DIGITS)
    private["data"] = small_table(tmp_path / "people.parquet")
    private["systems"]["noisy-sgd"]["batch_size"] = 64
    planner = planner_of(private)
    plan = planner.plan(next(planner.prior.space.middles()))
    assert plan.validation is not None
    assert planner.pricing.rule.exceeds(trial_profile(plan)) <= 0


def test_check_says_what_the_search_costs_and_may_find():
    found = preview(load_spec(DIGITS), samples=3)
    selection = found.to_dict()["selection"]
    assert found.title()[0].startswith("sealed · at most 81 trials · random")
    assert found.title()[1].endswith("for the whole search")
    assert "the tight one is claimed" in dict(found.lines())["Price"]
    assert set(selection["routes"]) == {"renyi", "profile", "tight"}
    assert selection["routes"]["tight"] <= 3 < selection["routes"]["profile"]
    assert math.isclose(selection["decile"], Capped(geometric(27), 81).reach(0.1))
    assert found.total is None
    assert preview(load_spec({**DIGITS, "selection": {"deadline_minutes": 1e-4}}), samples=3).selection.notes()


def test_a_space_that_no_noise_covers_has_no_plan():
    spec = load_spec({**SPEC, "limits": {"noise_multiplier": 0.5}})
    assert isinstance(SealedPlanner.of(SealedPrior(spec, public_facts(spec))), Refusal)


@pytest.mark.parametrize("count", ["geometric", "logarithmic", "binomial", "poisson"])
def test_laws_have_the_mean_that_was_asked_for(count):
    law = law_of(Selection(count=count, mean=10, deadline_minutes=1), 60)
    assert math.isclose(law.priced.mean, 10)
    assert law.largest <= 60

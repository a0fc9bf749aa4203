"""A sealed search whose proposals follow results is priced for every policy within its bounds, and says so."""

import math

import numpy as np
import pytest

from dpcore.selection import Capped, geometric, price_clipped
from sweeps.planning.preview import preview
from sweeps.privacy import totals
from sweeps.privacy.charge import trial_profile
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.search import samplers
from sweeps.search.automatic import SECONDS_PER_GRADIENT
from sweeps.search.space import Space
from sweeps.selection.law import ADAPTED, PRIOR, rests_on
from sweeps.spec import load_spec, spec_schema
from tests.sweeps.test_sealed_planning import DIGITS, SPEC, planner_of

SEARCH = {"trials": 81, "sampler": "adaptive"}
ADAPTIVE = {**SPEC, "search": SEARCH}


def at(low, high, **more):
    return {**ADAPTIVE, "selection": {"deadline_minutes": 45, "adapt": {"low": low, "high": high}, **more}}


@pytest.mark.parametrize(("low", "high", "published"), [(0.9, 1.1, 2.51), (0.75, 1.25, 3.24)])
def test_noise_is_at_most_the_published_one(low, high, published):
    """private_search.md section 1d: Gaussian, m = 10, logarithmic, (3, 1e-5), by the published profile form."""
    planner = planner_of(at(low, high, count="logarithmic", mean=10))
    plan = planner.plan(next(planner.prior.space.middles()))
    noise = plan.config["noise_multiplier"]
    assert noise <= published
    # By the tight form, without calibration's steps: what price_clipped asks for, and a little more.
    assert price_clipped(planner.pricing.law, trial_profile(plan), 1e-5, low, high).epsilon <= 3 * (1 + 1e-9)
    assert price_clipped(planner.pricing.law, trial_profile(plan), 1e-5, low, high).epsilon >= 3 * (1 - 3e-3)


def test_every_configuration_meets_the_points_of_the_bounds():
    planner = planner_of({**DIGITS, "search": SEARCH, "selection": {"deadline_minutes": 1, "adapt": {"low": 0.8}}})
    rule = planner.pricing.rule
    assert (rule.low, rule.high) == (0.8, 1.25)
    assert rule.penalty == pytest.approx(3 * math.log(1.25 / 0.8) + 2 * rule.e1, rel=1e-9)
    rng, space = np.random.default_rng(1), Space.of(planner.prior.spec)
    plain = planner_of({**DIGITS, "search": {"trials": 81}}).pricing.rule
    for _ in range(4):
        plan = planner.plan(space.draw(rng))
        trial = trial_profile(plan)
        assert rule.covers(trial)
        assert price_clipped(planner.pricing.law, trial, 1e-5, 0.8, 1.25).epsilon <= 3 * (1 + 5e-3)
        assert plain.exceeds(trial) < -0.1, "independent draws leave more to a trial"


def test_the_claim_names_the_bounds_and_what_they_rest_on():
    planner = planner_of(at(0.9, 1.1))
    claim = planner.plan(next(planner.prior.space.middles())).guarantee
    assert (claim.epsilon, claim.delta) == (3, 1e-5)
    assert "each proposed between 0.9 and 1.1 times as often as by the prior" in claim.theorem
    assert "Wang, Gao, Zhang, Su & Shen (2023), DP-HyPO" in claim.theorem
    assert claim.assumptions[-2:] == (ADAPTED, PRIOR)
    assert claim.assumptions[-5:] == rests_on(planner.prior.spec.selection)
    assert ADAPTED not in rests_on(load_spec(SPEC).selection)


def test_bounds_are_off_unless_asked_for_and_stated_where_they_are():
    assert load_spec(SPEC).selection.adapt is None
    assert "adapt" not in load_spec(SPEC).canonical()["selection"]
    asked = load_spec(ADAPTIVE)
    assert asked.canonical()["selection"]["adapt"] == {"low": 0.75, "high": 1.25}
    assert load_spec(asked.canonical()) == asked
    assert planner_of(ADAPTIVE).pricing.law == Capped(geometric(27.0), 81)


def test_results_that_choose_within_the_price_leave_the_total_a_guarantee():
    """And so nothing of the search may change while it runs, as of any sealed one."""
    assert samplers.learns("adaptive")
    assert totals.choices_by_results(RecordedSpec(load_spec(ADAPTIVE).canonical())) == ()
    # A sampler of that name elsewhere is a stranger.
    assert totals.choices_by_results(RecordedSpec({"search": {"sampler": "adaptive"}}))


def test_a_spec_may_name_it_and_no_open_sampler_takes_its_name(monkeypatch):
    assert "'adaptive'" in str(spec_schema())
    monkeypatch.setattr("trainables.plugins.offered", lambda group: {"adaptive": None})
    assert "adaptive" not in samplers.known()
    assert samplers.module_of("adaptive") is None


def test_check_says_what_following_results_costs_beside_independent_draws():
    found = preview(load_spec({**DIGITS, "search": SEARCH}), samples=3)
    text, selection = found.render(), found.to_dict()["selection"]
    assert "at most 81 trials by adaptive" in text
    assert set(selection["routes"]) == {"adaptive", "independent draws"}
    # Of the very same trials, whose noise is that of adaptive proposals.
    assert selection["routes"]["independent draws"] < 2.5 < selection["routes"]["adaptive"] <= 3
    led, plain = selection["led"], preview(load_spec(DIGITS), samples=3).to_dict()["selection"]
    assert led["independent_alone"] == pytest.approx(plain["alone"], rel=1e-6)
    assert selection["alone"] < plain["alone"]
    assert led["penalty"] > 3 * math.log(1.25 / 0.75) > led["independent_penalty"]
    assert led["deciles"] == pytest.approx([Capped(geometric(27), 81).reach(share) for share in (0.075, 0.125)])
    assert (led["low"], led["high"], led["planned"]) == (0.75, 1.25, 8 * 81)
    assert "between 0.75 and 1.25 times as often as by the prior" in text
    assert "(sampler: random)" in text
    assert plain["led"] is None
    assert "led " not in preview(load_spec(DIGITS), samples=3).render()


def test_a_deadline_has_to_cover_the_longest_trials_to_which_results_may_lead():
    found = preview(load_spec({**DIGITS, "search": SEARCH}), samples=5)
    rounds = -(-81 // found.selection.workers)
    assert found.selection.worst_minutes == pytest.approx(rounds * found.work.high * SECONDS_PER_GRADIENT / 60)
    assert found.work.high > 1.2 * found.work.median

"""`release: first`: the first trial of a sealed search to meet a public target leaves, or word of none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpcore.guarantee import Notion, Status
from sweeps.budget.trial_profiles import trial_profile
from sweeps.checking.preview import preview
from sweeps.face.overview import shown
from sweeps.records import TrialState
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import quote_of_claim
from sweeps.sealed.assumptions import TARGET
from sweeps.search.space import Space
from sweeps.spec import load_spec
from tests.sweeps.test_sealed_planning import DIGITS, planner_of
from tests.sweeps.test_sealed_search import SPEC, Search
from trainables.sealed.drawn import Slot
from trainables.sealed.ranking import FirstSuccess
from trainables.sealed.slot import run_slot

PRIVACY = {**SPEC["privacy"], "release": "first"}
LOWEST = -1e6


def to_reach(bound: float, **more: Any) -> dict[str, Any]:
    target = {"metric": "estimate", "at_least": bound}
    return {"privacy": PRIVACY, "selection": {**SPEC["selection"], "target": target, **more}}


def test_the_first_slot_that_meets_the_target_leaves_not_the_best(tmp_path):
    search = Search(tmp_path, **to_reach(LOWEST))
    work = search.begin()
    search.serve(work)
    best = work.best()
    assert best is not None
    assert best.slot == 0
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    assert winner.state is TrialState.COMPLETE
    assert winner.guarantee.assumptions[-1] == TARGET
    assert "with estimate at least -1e+06, or word of none" in winner.guarantee.theorem
    assert (winner.guarantee.epsilon, winner.guarantee.delta, winner.guarantee.notion) == (3, 1e-5, Notion.DP)
    assert winner.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS
    assert quote_of_claim(winner.guarantee).words == "as the whole search's"
    assert "'accountant': 'private-selection'" in repr(shown(search.name, search.workspace).to_dict())


def test_slots_before_the_first_success_missed_the_target(tmp_path):
    search = Search(tmp_path, **to_reach(0.4))
    work = search.begin()
    search.serve(work)
    drawn, found = work.drawn(), work.best()
    ran = [run_slot(drawn, one, work.winner, work.group, search.data, work.ranking) for one in range(drawn.count)]
    met = [one.slot for one in ran if one is not None]
    assert (None if found is None else found.slot) == (met[0] if met else None)
    assert all(one.metrics["estimate"] >= 0.4 for one in ran if one is not None)


def test_word_of_none_has_spent_the_price(tmp_path):
    search = Search(tmp_path, **to_reach(1e6))
    work = search.begin()
    search.serve(work)
    assert all(one.best is None for one in map(work.standing, range(work.workers)))
    assert not search.release(work)
    assert Publisher(search.store).trials(search.name) == []
    assert "its whole budget is spent" in str(shown(search.name, search.workspace))
    assert not search.places.key()


def slot_at(budget: float) -> Slot:
    return Slot(config={"target_epsilon": budget}, seed=0, plan=None)


def test_a_success_has_the_target_or_more_and_every_value_finite():
    least = FirstSuccess(metric="a", target=0.5, at_least=True)
    most = FirstSuccess(metric="a", target=0.5, at_least=False)
    one, met = slot_at(1.0), (1.0,)
    assert [least.rank(one, {"a": value}) for value in (0.49, 0.5, 0.7, math.nan)] == [None, met, met, None]
    assert [most.rank(one, {"a": value}) for value in (0.49, 0.5, 0.7, -math.inf)] == [met, met, None, None]
    assert least.rank(one, {"a": 0.7, "b": math.inf}) is None
    assert least.rank(one, {"b": 0.7}) is None
    # However much better a dearer one is.
    assert least.rank(one, {"a": 0.5}) < least.rank(slot_at(2.0), {"a": 0.99})


FIRST_DIGITS = {
    **DIGITS,
    "privacy": PRIVACY,
    "selection": {"deadline_minutes": 45, "target": {"metric": "accuracy", "at_least": 0.9}},
}


def test_every_configuration_meets_both_points_with_less_noise_than_for_the_best():
    planner, best = planner_of(FIRST_DIGITS), planner_of(DIGITS)
    rng, space, rule = np.random.default_rng(1), Space.of(planner.spec), planner.pricing.rule
    assert rule.d_hat == pytest.approx(1e-5 / 28)
    assert rule.shifts[0] + rule.e_hat(0) == pytest.approx(3)
    configs = [space.draw(rng) for _ in range(4)]
    plans = [planner.plan(config) for config in configs]
    assert len({plan.guarantee for plan in plans}) == 1
    for config, plan in zip(configs, plans, strict=True):
        trial = trial_profile(plan)
        assert trial.delta(rule.shifts[0]) <= rule.deltas[0][0]
        assert trial.delta(rule.e_hat(0)) <= rule.d_hat
        assert plan.config["noise_multiplier"] < best.plan(config).config["noise_multiplier"]


def test_check_says_what_either_end_costs():
    found = preview(load_spec(FIRST_DIGITS), samples=2)
    text, selection = found.render(), found.to_dict()["selection"]
    assert "for the first trial with accuracy at least 0.9, or word of none" in text
    assert set(selection["routes"]) == {"success", "none"}
    assert 2.9 < selection["routes"]["success"] <= 3 + 1e-6
    assert selection["routes"]["none"] <= 3 + 1e-6


def test_a_spec_with_a_target_is_written_and_read_again_and_older_digests_stay():
    spec = load_spec(FIRST_DIGITS)
    assert load_spec(spec.canonical()) == spec
    assert "target" not in load_spec(DIGITS).canonical()["selection"]
    other = {**FIRST_DIGITS["selection"], "target": {"metric": "accuracy", "at_least": 0.8}}
    assert load_spec({**FIRST_DIGITS, "selection": other}).digest != spec.digest

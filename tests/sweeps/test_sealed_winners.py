"""`release: first`: the first trial of a sealed search to meet a public target leaves, or word of none."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from dpcore.guarantee import Notion, Status
from dpcore.selection.filters import DPCharge
from dpcore.selection.front import FrontPoints
from sweeps.privacy.charge import trial_profile
from sweeps.privacy.ledger import covers_search
from sweeps.privacy.population import reserve_whole
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import summary_of
from sweeps.privacy.wording import Verdict, quote_of_claim, quote_of_total
from sweeps.search.space import Space
from sweeps.selection.price import TARGET, SealedPlanner, SealedPrior
from sweeps.selection.run import drawn_for
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.population import Population
from sweeps.store.records import Refutation, TrialState, this_person
from sweeps.store.workspace import Workspace
from tests.sweeps.sealed_searches import SECONDS, SPEC, Search
from tests.sweeps.test_sealed_planning import DIGITS, planner_of
from trainables.metrics import Scalarisation
from trainables.sealed import BestScores, FirstSuccess, Slot
from trainables.system import Refusal

PRIVACY = {**SPEC["privacy"], "release": "first"}
LOWEST = -1e6


def to_reach(bound: float, **more: Any) -> dict[str, Any]:
    target = {"metric": "estimate", "at_least": bound}
    return {"privacy": PRIVACY, "selection": {**SPEC["selection"], "target": target, **more}}


def test_the_first_slot_that_meets_the_target_leaves_not_the_best(tmp_path):
    search = Search(tmp_path, **to_reach(LOWEST))
    work = search.ran()
    [best] = work.best()
    assert best.slot == 0
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    assert winner.state is TrialState.COMPLETE
    assert winner.guarantee.assumptions[-1] == TARGET
    assert (winner.guarantee.epsilon, winner.guarantee.delta, winner.guarantee.notion) == (3, 1e-5, Notion.DP)
    assert winner.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS


def slot_at(budget: float) -> Slot:
    return Slot(config={"target_epsilon": budget}, seed=0, plan=None)


def test_a_success_has_the_target_or_more_and_every_value_finite():
    least = FirstSuccess(metric="a", target=0.5, at_least=True)
    most = FirstSuccess(metric="a", target=0.5, at_least=False)
    one, met = slot_at(1.0), (1.0,)
    assert [least.ranks(one, {"a": value}) for value in (0.49, 0.5, 0.7, math.nan)] == [None, met, met, None]
    assert [most.ranks(one, {"a": value}) for value in (0.49, 0.5, 0.7, -math.inf)] == [met, met, None, None]
    assert least.ranks(one, {"a": 0.7, "b": math.inf}) is None
    assert least.ranks(one, {"b": 0.7}) is None
    # However much better a dearer one is.
    assert least.ranks(one, {"a": 0.5}) < least.ranks(slot_at(2.0), {"a": 0.99})


LADDER = {**PRIVACY, "epsilon": [0.5, 1, 3]}


def on_a_ladder(bound: float, **more: Any) -> dict[str, Any]:
    return {**to_reach(bound, **more), "privacy": LADDER, "search": {"trials": 30}}


def test_of_a_ladder_the_first_success_of_the_cheapest_budget_leaves(tmp_path):
    """By hand: slots in the order of the draw, those of the cheapest budget before all others."""
    wide = {"deadline_minutes": 2 / 60, "mean": 9}
    search = Search(tmp_path, **on_a_ladder(0.45, **wide))
    work = search.ran()
    drawn = work.drawn()
    ran = search.every(work)
    met = {one.slot: drawn.slots[one.slot].config["target_epsilon"] for one in ran if one is not None}
    assert all(ran[slot].metrics["estimate"] >= 0.45 for slot in met)
    first = next((slot for budget in (0.5, 1.0, 3.0) for slot in sorted(met) if met[slot] == budget), None)
    best = work.best()
    assert (best[0].slot if best else None) == first
    assert search.release(work) is (first is not None)
    for winner in search.store.trials(search.name):
        assert dict(winner.config) == dict(drawn.slots[first].config)
        [afterwards] = winner.plan.beside
        # Promised beforehand is the dearest budget; that of the one that it ended at is known when it has.
        assert (winner.guarantee.epsilon, winner.guarantee.notion) == (3, Notion.DP)
        assert (afterwards.epsilon, afterwards.notion) == (met[first], Notion.EX_POST)
        assert afterwards.delta == winner.guarantee.delta == 1e-5
        assert "of the cheapest of 3 budgets that has one" in afterwards.theorem


def test_a_budget_is_drawn_once_and_stays_though_it_can_launch_little():
    """Else a budget that refuses most of the space is rarer than it is priced: six standard deviations of 600 draws."""
    few = {"limits": {"noise_multiplier": 40.0}, "search": {"trials": 600}, "selection": {"mean": 20}}
    changes = on_a_ladder(0.4)
    selection = {**changes["selection"], **few["selection"]}
    spec = load_spec({**SPEC, **changes, "selection": selection, "search": few["search"], "limits": few["limits"]})
    facts = public_facts(spec)
    planner = SealedPlanner.of(SealedPrior(spec, facts))
    rng, space = np.random.default_rng(3), Space.of(spec)
    refused = [isinstance(planner.plan({**space.draw(rng), "target_epsilon": 0.5}), Refusal) for _ in range(60)]
    assert 0.2 < np.mean(refused) < 1
    budgets = [slot.config["target_epsilon"] for slot in drawn_for(SealedPrior(spec, facts)).slots]
    for budget in (0.5, 1.0, 3.0):
        assert abs(budgets.count(budget) - 200) < 6 * math.sqrt(600 * (1 / 3) * (2 / 3))


def test_of_a_ladder_every_configuration_meets_the_points_of_its_budget():
    planner = planner_of({**FIRST_DIGITS, "privacy": LADDER})
    rng, space, rule = np.random.default_rng(1), Space.of(planner.prior.spec), planner.pricing.rule
    assert rule.epsilons == (0.5, 1.0, 3.0)
    for _ in range(3):
        config = space.draw(rng)
        noises = []
        for rung, budget in enumerate(rule.epsilons):
            plan = planner.plan({**config, "target_epsilon": budget})
            trial = trial_profile(plan)
            assert trial.delta(rule.e_hat(rung)) <= rule.d_hat
            for above in range(rung, 3):
                assert trial.delta(rule.shifts[above]) <= rule.deltas[above][rung]
            noises.append(plan.config["noise_multiplier"])
        assert noises == sorted(noises, reverse=True)


@pytest.mark.parametrize("rule", ["linear", "gdp"])
def test_a_population_gets_back_what_a_cheaper_budget_left(tmp_path, rule):
    with closing(Workspace.at(tmp_path).open_store(create=True)) as store:
        store.make_population(Population.of("people", rule, 30.0, 1e-4))
    search = Search(tmp_path, **on_a_ladder(LOWEST), data={**SPEC["data"], "population": "people"})
    lease = search.store.acquire(search.name)
    reserve_whole(search.store, lease, search.spec)
    lease.release()
    [reserved] = search.store.charges("people")
    work = search.ran()
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    [settled] = search.store.charges("people")
    if rule == "linear":
        assert reserved.counted == DPCharge(3.0, 1e-5)
        assert settled.counted == DPCharge(winner.config["target_epsilon"], 1e-5)
    else:
        assert settled.counted == reserved.counted
    # Again, as after a kill before the sweep's end was on record.
    assert search.release(work)
    assert search.store.charges("people") == [settled]


FIRST_DIGITS = {
    **DIGITS,
    "privacy": PRIVACY,
    "selection": {"deadline_minutes": 45, "target": {"metric": "accuracy", "at_least": 0.9}},
}


# A front of a sealed search: the best by each of several public orders leave, at one price for all of them.


ESTIMATE, ERROR = {"metric": "estimate", "goal": "maximize"}, {"metric": "expected_error", "goal": "minimize"}
FRONT: dict[str, Any] = {
    "privacy": {**SPEC["privacy"], "release": "front"},
    "objectives": [ESTIMATE, ERROR],
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 6, "megabytes": 0.01},
}


def over(tmp_path, **changes: Any) -> tuple[Search, list[Any], tuple[Any, ...]]:
    """A search that has been released, what every slot of it comes to, and who won by each order."""
    search = Search(tmp_path, **FRONT | changes)
    work = search.ran()
    best = work.best()
    every = search.every(work)
    assert search.release(work)
    return search, every, best


def test_the_best_by_each_order_leave_and_nothing_else(tmp_path):
    search, every, best = over(tmp_path)
    by = [
        min(every, key=lambda one: (-one.metrics["estimate"], one.slot)),
        min(every, key=lambda one: (one.metrics["expected_error"], one.slot)),
    ]
    assert [one.slot for one in best] == [one.slot for one in by]
    winners = search.store.trials(search.name)
    distinct = sorted({one.slot: one for one in by}.values(), key=lambda one: one.slot)
    assert [one.number for one in winners] == list(range(len(distinct)))
    assert [one.metrics["estimate"] for one in winners] == [one.metrics["estimate"] for one in distinct]
    seen = [one for one in PublishedStore(search.store).trials(search.name) if one.metrics]
    assert [one.key for one in seen] == [one.key for one in winners]
    assert not search.places.key()
    # All claim one price, and so does the total.
    for one in winners:
        assert (one.guarantee.epsilon, one.guarantee.delta, one.guarantee.notion) == (3, 1e-5, Notion.DP)
        assert one.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS
        assert covers_search(one.guarantee)
    store = search.store
    total = summary_of(PublishedStore(store), store.sweep(search.name), winners).procedure
    assert (total.guarantee.epsilon, total.trials) == (3, len(winners))


def test_one_trial_that_wins_by_both_orders_leaves_once(tmp_path):
    """By two orders that agree: a sum that the first outweighs."""
    objectives = [ESTIMATE, ERROR]
    orders = [{"estimate": 1.0}, {"estimate": 1e9, "expected_error": 1e-9}]
    search, _, best = over(tmp_path, objectives=objectives, selection={**FRONT["selection"], "orders": orders})
    assert len(best) == 2
    assert [one.number for one in search.store.trials(search.name)] == [0]


def test_every_configuration_is_covered_by_one_gaussian():
    spec = load_spec({**SPEC, **FRONT, "search": {"trials": 30}})
    facts = public_facts(spec)
    planner = SealedPlanner.of(SealedPrior(spec, facts))
    rule = planner.pricing.rule
    assert isinstance(rule, FrontPoints)
    assert (rule.orders, rule.epsilon) == (2, 3)
    assert rule.of_orders(1) < rule.of_orders(2) == pytest.approx(3, rel=1e-6)
    for clip, steps in ((0.2, 1), (0.6, 8), (1.0, 64)):
        plan = planner.plan({"system": "noisy-mean", "clip": clip, "steps": steps, "target_epsilon": 3.0})
        assert -0.01 < rule.exceeds(trial_profile(plan)) <= 0
        assert plan.guarantee.epsilon == 3


def test_a_trial_without_a_finite_value_wins_by_no_order():
    ranking = BestScores((Scalarisation.by("a", "maximize"), Scalarisation((("a", 1.0), ("b", -2.0)))))
    assert ranking.count == 2
    assert ranking.ranks(None, {"a": 1.0, "b": 0.25}) == (-1.0, -0.5)
    for metrics in (
        {"a": math.nan, "b": 1.0},
        {"a": 1.0},
        {"a": 1.0, "b": math.inf},
        {"a": 1.0, "b": 0, "c": math.nan},
    ):
        assert ranking.ranks(None, metrics) is None


def test_with_one_system_the_claims_of_all_winners_fall(tmp_path):
    """Each covers the whole search. That of another system's winner was still called fit to be quoted."""
    search, _, _ = over(tmp_path)
    search.store.ask(search.name, Refutation(trial="sealed-9", system="another", audit=1), this_person())
    seen = PublishedStore(search.store).trials(search.name)
    for one in seen:
        assert quote_of_claim(one.guarantee).verdict is Verdict.REFUTED
        assert one.plan.guarantee == one.guarantee
        assert "covers the search too" in one.guarantee.assumptions[0]
    total = summary_of(PublishedStore(search.store), search.store.sweep(search.name), seen).procedure
    assert quote_of_total(total).verdict is Verdict.REFUTED

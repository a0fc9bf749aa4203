"""A front of a sealed search: the best by each of several public orders leave, at one price for all of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from dpcore.guarantee import Notion, Status
from dpcore.selection.front import FrontPoints
from sweeps.privacy.charge import trial_profile
from sweeps.privacy.claims import covers_search
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import Verdict, quote_of_claim, quote_of_total
from sweeps.privacy.totals import summary_in_passing
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import Refutation, sweep_of, this_person
from sweeps.sweep import Sweep
from tests.sweeps.sealed_searches import SECONDS, SPEC, Search
from trainables.scalarisation import Scalarisation
from trainables.sealed.draw import BestScores
from trainables.sealed.worker import run_slot

ESTIMATE, ERROR = {"metric": "estimate", "goal": "maximize"}, {"metric": "expected_error", "goal": "minimize"}
FRONT: dict[str, Any] = {
    "privacy": {**SPEC["privacy"], "release": "front"},
    "objectives": [ESTIMATE, ERROR],
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 6, "megabytes": 0.01},
}


def over(tmp_path, **changes: Any) -> tuple[Search, list[Any], tuple[Any, ...]]:
    """A search that has been released, what every slot of it comes to, and who won by each order."""
    search = Search(tmp_path, **FRONT | changes)
    work = search.begin()
    search.serve(work)
    drawn, best = work.drawn(), work.best()
    every = [run_slot(drawn, n, work.winner, work.group, search.data, work.ranking) for n in range(drawn.count)]
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


def test_all_winners_claim_one_price_and_so_does_the_total(tmp_path):
    search, _, _ = over(tmp_path)
    winners = search.store.trials(search.name)
    for one in winners:
        assert (one.guarantee.epsilon, one.guarantee.delta, one.guarantee.notion) == (3, 1e-5, Notion.DP)
        assert one.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS
        assert "by each of 2 orders (estimate; least expected_error): " in one.guarantee.theorem
        assert covers_search(one.guarantee)
    store = search.store
    total = summary_in_passing(store.sweep(search.name), winners, store.ledger(search.name)).procedure
    assert (total.guarantee.epsilon, total.trials) == (3, len(winners))
    assert "'accountant': 'private-selection'" in repr(Sweep(search.name, search.workspace).overview().to_dict())


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
    assert list(planner.pricing.routes()) == ["1 order", "2 orders"]
    one, two = planner.pricing.routes().values()
    assert one < two == pytest.approx(3, rel=1e-6)
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
    total = summary_in_passing(search.store.sweep(search.name), seen, search.store.ledger(search.name)).procedure
    assert quote_of_total(total).verdict is Verdict.REFUTED


def test_fronts_of_two_searches_have_no_total_of_one(tmp_path):
    from sweeps.privacy.totals import summary

    search, _, _ = over(tmp_path)
    store = search.store
    winners, entries = store.trials(search.name), store.ledger(search.name)
    others = [replace(one, key=f"another-{one.number}") for one in winners]
    assert {sweep_of(one.key) for one in others} == {"another"}
    found = summary([*winners, *others], entries, ())
    assert found.procedure is None
    assert "adds to others by sums alone" in found.uncounted

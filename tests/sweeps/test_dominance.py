"""Rungs of several objectives: fronts one after the other, ties by hypervolume."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.privacy.ledger import spending
from sweeps.privacy.release import was_published
from sweeps.search.asha import BEYOND, Promote, best_first, next_rung
from sweeps.store.records import Proposal, TrialRecord
from tests.sweeps.fake_workers import FakeSweep, Killed, memory_folder
from tests.sweeps.test_rungs import ASHA
from tests.sweeps.toys import finished, spec_with
from tests.sweeps.view_sweeps import guarantee

TWO = spec_with(
    early_stopping=ASHA,
    objectives=[{"metric": "accuracy"}, {"metric": "epsilon"}],
    privacy={"epsilon": [1, 2, 4, 8], "delta": 1e-5},
)
COSTS = st.lists(st.lists(st.sampled_from([-1.5, 0.0, 0.25, 1.0, 7.0]), min_size=2, max_size=2), max_size=12)
TRIALS = st.lists(
    st.tuples(st.sampled_from([3, 9, 27]), st.sampled_from([0.1, 0.2, 0.5, 0.8, 0.9]), st.sampled_from([1, 2, 4, 8])),
    max_size=24,
)


def trial(number: int, step: int, accuracy: float, epsilon: float) -> TrialRecord:
    """A trial of 27 steps that rests at `step`, with one accuracy all along, at a budget."""
    proposal = Proposal(number=number, config={"system": "hill", "target_epsilon": epsilon, "rate": 1.0}, seed=0)
    reports = {end: {"accuracy": accuracy} for end in (3, 9, 27) if end <= step}
    claim = guarantee(epsilon, delta=1e-5)
    return finished(TWO, proposal, step=step, metrics={"accuracy": accuracy}, reports=reports, guarantee=claim)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def fronts_of(costs: list[list[float]]) -> list[int]:
    """The front of each point, by the definition."""
    fronts, left, front = [0] * len(costs), set(range(len(costs))), 0
    while left:
        free = {i for i in left if not any(dominates(costs[j], costs[i]) for j in left)}
        for i in free:
            fronts[i] = front
        left, front = left - free, front + 1
    return fronts


@given(costs=COSTS)
def test_the_order_goes_front_by_front_and_by_what_the_volume_would_lose(costs: list[list[float]]) -> None:
    order, fronts = best_first(costs), fronts_of(costs)
    assert sorted(order) == list(range(len(costs)))
    assert [fronts[i] for i in order] == sorted(fronts)
    if not costs:
        return
    values = np.array(costs)
    spread = np.ptp(values, axis=0)
    scaled = (values - values.min(axis=0)) / np.where(spread > 0, spread, 1)

    def volume(members: list[int]) -> float:
        return float(moocore.hypervolume(scaled[members], ref=[BEYOND] * 2)) if members else 0.0

    for front in set(fronts):
        members = [i for i in order if fronts[i] == front]
        apart = {tuple(costs[i]): i for i in sorted(members, reverse=True)}
        firsts = [i for i in members if i in apart.values()]
        assert members[: len(firsts)] == firsts
        lost = [volume(firsts) - volume([j for j in firsts if j != i]) for i in firsts]
        assert lost == pytest.approx(sorted(lost, reverse=True), abs=1e-9)


@given(costs=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30))
def test_one_cost_is_sorted_as_numbers_are(costs: list[float]) -> None:
    assert best_first([[cost] for cost in costs]) == sorted(range(len(costs)), key=lambda i: (costs[i], i))


@pytest.mark.parametrize("costs", [[[1e308, 0.0], [-1e308, 1.0]], [[5e-324, 0.0], [0.0, 5e-324]], [[2.0, 3.0]] * 3])
def test_costs_of_any_size_have_an_order(costs: list[list[float]]) -> None:
    assert best_first(costs) == list(range(len(costs)))


def check_promotion(trials: list[tuple[int, float, float]], order: random.Random) -> None:
    """Whoever is promoted is dominated by nobody who rests at the same rung; the order of records says nothing."""
    records = [trial(number, *one) for number, one in enumerate(trials)]
    promoted = next_rung(TWO, records)
    assert promoted == next_rung(TWO, order.sample(records, len(records)))
    for end in (9, 3):
        in_rung = [one for one in records if one.step >= end]
        costs = [[-one.metrics["accuracy"], one.config["target_epsilon"]] for one in in_rung]
        fronts = fronts_of(costs)
        share = len(in_rung) // 3
        # Those whom no choice of ties can keep out of the top share, or let into it.
        surely = [i for i, front in enumerate(fronts) if sum(other <= front for other in fronts) <= share]
        maybe = [i for i, front in enumerate(fronts) if sum(other < front for other in fronts) < share]
        waiting = [in_rung[i].key for i in surely if in_rung[i].step == end]
        if promoted is not None and promoted.from_step == end:
            place = next(i for i, one in enumerate(in_rung) if one.key == promoted.key)
            resting = [i for i, one in enumerate(in_rung) if one.step == end]
            assert place in maybe
            assert not any(dominates(costs[i], costs[place]) for i in resting)
            return
        assert not waiting, "a trial of the top share was left behind"


@given(trials=TRIALS, order=st.randoms(use_true_random=False))
def test_no_dominated_trial_goes_before_one_that_dominates_it(
    trials: list[tuple[int, float, float]], order: random.Random
) -> None:
    check_promotion(trials, order)


BUDGETS = [(3, 0.5, 1.0), (3, 0.9, 8.0), (3, 0.8, 8.0), (3, 0.7, 8.0), (3, 0.6, 8.0), (3, 0.55, 8.0)]
"""One trial at epsilon 1, less accurate than all of those at 8. Two of the six go on."""


def promoted_of(trials: list[tuple[int, float, float]]) -> set[int]:
    """Who leaves the first rung, once nobody else arrives."""
    records = {f"exam-{number}": trial(number, *one) for number, one in enumerate(trials)}
    gone: set[int] = set()
    while (promotion := next_rung(TWO, records.values())) is not None and promotion.from_step == 3:
        one = records[promotion.key]
        gone.add(one.number)
        records[promotion.key] = trial(one.number, 9, one.metrics["accuracy"], float(one.config["target_epsilon"]))
    return gone


def test_a_small_budget_is_not_stopped_for_the_accuracy_of_a_larger_one() -> None:
    assert promoted_of(BUDGETS) == {0, 1}


def test_the_claim_counts_as_the_budget_that_it_was_solved_for() -> None:
    """Calibration leaves claims a hair apart, which is no better budget."""
    records = [trial(number, *one) for number, one in enumerate([(3, 0.9, 8.0), (3, 0.8, 7.9999), (3, 0.7, 8.0)])]
    assert next_rung(TWO, records) == Promote("exam-0", 3, 9)


def test_a_ranking_by_accuracy_alone_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known fault: a small budget is stopped for the accuracy of a larger one."""
    monkeypatch.setattr(
        "sweeps.search.asha.best_first", lambda costs: sorted(range(len(costs)), key=lambda i: costs[i][0])
    )
    with pytest.raises(AssertionError):
        test_a_small_budget_is_not_stopped_for_the_accuracy_of_a_larger_one()


def test_the_reversed_order_breaks_the_property(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known fault: the last front first."""
    monkeypatch.setattr("sweeps.search.asha.best_first", lambda costs: best_first(costs)[::-1])
    with pytest.raises(AssertionError):
        check_promotion(BUDGETS, random.Random(0))


def test_a_killed_sweep_decides_from_what_is_recorded_and_stops_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before each of its writes; every decision is what the store's records alone would say."""
    change: dict[str, Any] = {
        "objectives": [{"metric": "expected_error"}, {"metric": "epsilon"}],
        "privacy": {"epsilon": [1.0, 4.0], "delta": 1e-5},
    }
    kills = promotions = 0
    for write in itertools.count(1):
        with memory_folder() as folder:
            sweep = FakeSweep(folder, {"method": "asha", "reduction": 2, "rungs": 3}, change=change)

            def from_the_store(*asked: Any, sweep: FakeSweep = sweep) -> Promote | None:
                nonlocal promotions
                spec, _, running = asked
                decided = next_rung(*asked)
                assert decided == next_rung(spec, [was_published(one) for one in sweep.store.trials("fake")], running)
                promotions += decided is not None
                return decided

            monkeypatch.setattr("sweeps.execution.controller.next_rung", from_the_store)
            sweep.kill_at = write
            try:
                sweep.finish()
            except Killed:
                kills += 1
                sweep.lease.release()
                sweep.start()
                sweep.finish()
            sweep.check_end(trials=5)
            # Stopped ones are charged for the rungs that ran, no more (`check_end` has the lower bound).
            spent = spending(sweep.store.ledger("fake"))
            stopped = [one for one in sweep.store.trials("fake") if one.step < one.planned_steps]
            assert 0 < len(stopped) < 5
            if kills < write:
                assert all(spent[one.key].executed == one.step for one in stopped)
                break
            sweep.store.close()
    assert kills > 10
    assert promotions > kills

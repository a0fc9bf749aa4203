"""Successive halving: who goes on, how far, and that the same records always give the same answer.

Of several objectives fronts go one after the other, and the hypervolume settles ties.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.privacy.ledger import spending
from sweeps.privacy.release import was_published
from sweeps.search.asha import BEYOND, Promote, best_first, next_rung, rung_ends
from sweeps.spec.sections import EarlyStopping, SweepSpec
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.fake_workers import FakeSweep
from tests.sweeps.toys import finished, spec_with
from tests.sweeps.view_sweeps import guarantee, plan

ASHA: dict[str, Any] = {"method": "asha", "reduction": 3, "rungs": 3}
SPEC = spec_with(early_stopping=ASHA)


def at(
    number: int, step: int, accuracy: float, state: TrialState = TrialState.COMPLETE, before: float | None = None
) -> TrialRecord:
    """A trial of 27 steps that rests at `step`, after the same accuracy (or `before`) at the rungs below."""
    proposal = Proposal(number=number, config={"system": "hill", "target_epsilon": 1.0, "rate": 1.0}, seed=0)
    earlier = accuracy if before is None else before
    reports = {end: {"accuracy": accuracy if end == step else earlier} for end in (3, 9, 27) if end <= step}
    return finished(SPEC, proposal, step=step, metrics={"accuracy": accuracy}, state=state, reports=reports)


def test_rungs_end_at_powers_of_the_reduction() -> None:
    three = EarlyStopping(method="asha", reduction=3, rungs=3)
    assert rung_ends(three, 27) == (3, 9, 27)
    assert rung_ends(three, 100) == (12, 34, 100)
    assert rung_ends(three, 2) == (1, 2)
    assert rung_ends(three, 1) == (1,)
    assert rung_ends(EarlyStopping(method="asha", reduction=2, rungs=5), 1600) == (100, 200, 400, 800, 1600)


@given(steps=st.integers(1, 10**6), reduction=st.integers(2, 5), rungs=st.integers(2, 8))
def test_rungs_grow_and_end_with_the_trial(steps: int, reduction: int, rungs: int) -> None:
    ends = rung_ends(EarlyStopping(method="asha", reduction=reduction, rungs=rungs), steps)
    assert list(ends) == sorted(set(ends))
    assert ends[0] >= 1
    assert ends[-1] == steps
    assert len(ends) <= rungs


THREE = [at(0, 3, 0.5), at(1, 3, 0.7), at(2, 3, 0.6)]
LOWER = [at(i, 3, 0.1 * i) for i in range(1, 3)]
SILENT = replace(at(0, 9, 0.05), reports={9: {"accuracy": 0.05}})
INFINITE = replace(SILENT, reports={3: {"accuracy": math.inf}, 9: {"accuracy": 0.05}})
UPPER = [at(i, 9, 0.8 + i / 100) for i in range(3)]
GONE_ON = [at(0, 9, 0.5), at(1, 9, 0.5), *(at(i, 3, 0.1) for i in range(2, 5))]
LATER = [at(0, 9, 0.9, before=0.5), at(1, 3, 0.6), *(at(i, 3, 0.1) for i in range(2, 5))]
"""Trial 0 went on from the first rung with 0.5 and has 0.9 now. One of the five there goes on: 0.6 beats its 0.5."""
FALLEN = [at(0, 9, 0.05, before=0.9), *LOWER]
SHORT = [replace(at(9, 1, 0.99), plan=plan({"system": "hill"}, 1.0, steps=1)), *(at(i, 3, 0.1 * i) for i in range(3))]
"""A trial of one step rests in the last rung: it has nowhere to go, and takes up a place in the rungs below."""


@pytest.mark.parametrize(
    ("records", "promoted"),
    [
        (THREE[:2], None),
        (THREE, Promote("exam-1", 3, 9)),
        # On its way it keeps its place, also between two attempts.
        ([THREE[0], replace(THREE[1], state=TrialState.RUNNING), THREE[2]], None),
        ([THREE[0], replace(THREE[1], state=TrialState.PLANNED), THREE[2]], None),
        ([THREE[0], replace(THREE[1], state=TrialState.FAILED), THREE[2]], None),
        # Higher rungs come first.
        ([*UPPER, *(at(i, 3, 0.1) for i in range(3, 12))], Promote("exam-2", 9, 27)),
        # A better late comer is promoted although others went on.
        ([*GONE_ON, at(5, 3, 0.05)], None),
        ([*GONE_ON, at(5, 3, 0.9)], Promote("exam-5", 3, 9)),
        # A trial is ranked in a rung by what it reported there; one that got worse keeps its place too.
        (LATER, Promote("exam-1", 3, 9)),
        ([LATER[0], at(1, 9, 0.2, before=0.6), *LATER[2:], at(5, 3, 0.55)], Promote("exam-5", 3, 9)),
        (FALLEN, None),
        # One that reported nothing finite at a rung has no place in it.
        ([at(0, 9, 0.05), *LOWER], Promote("exam-2", 3, 9)),
        ([SILENT, *LOWER], None),
        ([INFINITE, *LOWER], None),
        (SHORT, None),
        ([*SHORT, at(3, 3, 0.05), at(4, 3, 0.05)], Promote("exam-2", 3, 9)),
    ],
)
def test_who_goes_on(records: list[TrialRecord], promoted: Promote | None) -> None:
    assert next_rung(SPEC, records) == promoted
    assert promoted is None or next_rung(SPEC, records, running={promoted.key}) != promoted


# Several objectives.

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


def test_the_claim_counts_as_the_budget_that_it_was_solved_for() -> None:
    """Calibration leaves claims a hair apart, which is no better budget."""
    records = [trial(number, *one) for number, one in enumerate([(3, 0.9, 8.0), (3, 0.8, 7.9999), (3, 0.7, 8.0)])]
    assert next_rung(TWO, records) == Promote("exam-0", 3, 9)


def test_every_decision_is_what_the_store_alone_would_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a controller that is killed anywhere goes on as if it had lived."""
    change: dict[str, Any] = {
        "objectives": [{"metric": "expected_error"}, {"metric": "epsilon"}],
        "privacy": {"epsilon": [1.0, 4.0], "delta": 1e-5},
    }
    sweep, decisions = FakeSweep(folder, {"method": "asha", "reduction": 2, "rungs": 3}, change=change), []

    def from_the_store(spec: SweepSpec, records: Any, running: Any) -> Promote | None:
        decided = next_rung(spec, records, running)
        decisions.append(decided)
        assert decided == next_rung(spec, [was_published(one) for one in sweep.store.trials("fake")], running)
        return decided

    monkeypatch.setattr("sweeps.execution.controller.next_rung", from_the_store)
    sweep.finish()
    sweep.check_end(trials=5)
    assert any(decisions)
    # Stopped ones are charged for the rungs that ran, no more (`check_end` has the lower bound).
    stopped = [one for one in sweep.store.trials("fake") if one.step < one.planned_steps]
    assert 0 < len(stopped) < 5
    assert all(spending(sweep.store.ledger("fake", one.key)).executed == one.step for one in stopped)

"""Successive halving: who goes on, how far, and that the same records always give the same answer."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.asha import Promote, first_stop, next_rung, rung_ends
from sweeps.spec.sections import EarlyStopping
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.toys import finished, spec_with
from tests.sweeps.view_sweeps import plan

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


def test_without_early_stopping_a_trial_runs_through() -> None:
    spec = spec_with()
    assert first_stop(spec, 27) == 27
    assert next_rung(spec, [at(i, 3, 0.5) for i in range(9)]) is None
    assert first_stop(SPEC, 27) == 3


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


@pytest.mark.parametrize("workers", [1, 4])
def test_a_sweep_of_27_spends_a_third_and_finishes_the_best(workers: int) -> None:
    """27 trials, all launched, about 9 + 3 promotions: at most half of the steps of a full sweep."""
    rng = random.Random(workers)
    quality = [rng.random() for _ in range(27)]
    records: dict[str, TrialRecord] = {}
    running: dict[str, int] = {}
    spent = 0
    while True:
        promotion = next_rung(SPEC, records.values(), running)
        assert promotion == next_rung(SPEC, rng.sample(list(records.values()), len(records)), running)
        if promotion is not None and len(running) < workers:
            running[promotion.key] = promotion.to_step
            spent += promotion.to_step - promotion.from_step
            records[promotion.key] = replace(records[promotion.key], state=TrialState.RUNNING)
        elif len(records) < 27 and len(running) < workers:
            record = at(len(records), 0, 0.0, TrialState.RUNNING)
            records[record.key] = replace(record, metrics={})
            running[record.key] = first_stop(SPEC, 27)
            spent += first_stop(SPEC, 27)
        elif running:
            key = rng.choice(sorted(running))
            number = records[key].number
            records[key] = at(number, running.pop(key), quality[number])
        else:
            break
    best = max(range(27), key=lambda number: quality[number])
    assert records[f"exam-{best}"].step == 27
    assert spent <= 27 * 27 / 2
    assert min(record.step for record in records.values()) == 3

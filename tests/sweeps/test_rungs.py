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


def test_the_best_of_three_goes_on() -> None:
    records = [at(0, 3, 0.5), at(1, 3, 0.7)]
    assert next_rung(SPEC, records) is None
    records.append(at(2, 3, 0.6))
    assert next_rung(SPEC, records) == Promote("exam-1", 3, 9)
    assert next_rung(SPEC, records, running={"exam-1"}) is None
    # On its way it keeps its place, also between two attempts.
    for state in (TrialState.RUNNING, TrialState.PLANNED, TrialState.FAILED):
        assert next_rung(SPEC, [*records[:1], replace(records[1], state=state), records[2]]) is None


def test_higher_rungs_come_first() -> None:
    upper = [at(i, 9, 0.8 + i / 100) for i in range(3)]
    lower = [at(i, 3, 0.1) for i in range(3, 12)]
    assert next_rung(SPEC, upper + lower) == Promote("exam-2", 9, 27)


def test_a_better_late_comer_is_promoted_although_others_went_on() -> None:
    records = [at(0, 9, 0.5), at(1, 9, 0.5), at(2, 3, 0.1), at(3, 3, 0.1), at(4, 3, 0.1)]
    assert next_rung(SPEC, [*records, at(5, 3, 0.05)]) is None
    assert next_rung(SPEC, [*records, at(5, 3, 0.9)]) == Promote("exam-5", 3, 9)


CROSSING = [at(0, 9, 0.9, before=0.5), at(1, 3, 0.6), *(at(i, 3, 0.1) for i in range(2, 5))]
"""Trial 0 went on from the first rung with 0.5 and has 0.9 now. One of the five there goes on: 0.6 beats its 0.5."""


def test_a_trial_is_ranked_in_a_rung_by_what_it_reported_there() -> None:
    assert next_rung(SPEC, CROSSING) == Promote("exam-1", 3, 9)
    gone = [CROSSING[0], at(1, 9, 0.2, before=0.6), *CROSSING[2:], at(5, 3, 0.55)]
    assert next_rung(SPEC, gone) == Promote("exam-5", 3, 9)
    # A trial that got worse keeps its place too: nobody is promoted in its stead.
    fallen = [at(0, 9, 0.05, before=0.9), *(at(i, 3, 0.1 * i) for i in range(1, 3))]
    assert next_rung(SPEC, fallen) is None


def test_a_trial_that_reported_nothing_finite_at_a_rung_has_no_place_in_it() -> None:
    lower = [at(i, 3, 0.1 * i) for i in range(1, 3)]
    assert next_rung(SPEC, [at(0, 9, 0.05), *lower]) == Promote("exam-2", 3, 9)
    silent = replace(at(0, 9, 0.05), reports={9: {"accuracy": 0.05}})
    broken = replace(silent, reports={3: {"accuracy": math.inf}, 9: {"accuracy": 0.05}})
    assert next_rung(SPEC, [silent, *lower]) is None
    assert next_rung(SPEC, [broken, *lower]) is None


def test_a_short_trial_tops_out_early() -> None:
    short = replace(at(9, 1, 0.99), plan=plan({"system": "hill"}, 1.0, steps=1))
    records = [at(i, 3, 0.1 * i) for i in range(3)]
    # It rests in the last rung: it has nowhere to go and takes up a place in the rungs below.
    assert next_rung(SPEC, [short, *records]) is None
    assert next_rung(SPEC, [short, *records, *(at(i, 3, 0.05) for i in range(3, 5))]) == Promote("exam-2", 3, 9)


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

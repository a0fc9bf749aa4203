"""The budget of a whole sweep is never exceeded, whatever is launched, lost, killed or chosen by results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpcore.gdp import mu_gdp
from dpcore.selection.filters import BudgetExceeded
from sweeps.execution.limits import NO_RETRY
from sweeps.privacy.privacy_filter import SweepFilter
from sweeps.ray.decisions import Done
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.records import LedgerEntry, Reservation, TrialState
from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep, launched, memory_folder, simulate

# Random adaptive schedules of a sweep with one budget, on a real controller and store: launches in parallel, partial
# work, losses, kills between and inside writes. What was reserved is added up here anew, from plans alone.
#
# Reservations are never taken back, so what they add up to at the end is the most that they ever did.

EPSILON, DELTA = 3.0, 1e-5
PRIVACY = {"epsilon": EPSILON, "delta": DELTA, "scope": "sweep", "shares": 2}
CHANGE: dict[str, Any] = {
    "privacy": PRIVACY,
    "search": {"sampler": "random", "trials": 6, "seed": 3},
    "execution": {"retries": 3},
}


class Exceeded(AssertionError):
    """More was reserved than the budget."""


def spent(sweep: FakeSweep) -> float:
    """sqrt of the sum of mu^2 over all that was ever reserved: noisy-mean adds Gaussian noise at each step."""
    noise = {one.key: float(one.plan.config["noise_multiplier"]) for one in sweep.store.trials(NAME) if one.plan}
    return math.sqrt(sum((one.to_step - one.from_step) / noise[one.key] ** 2 for one in sweep.store.ledger(NAME)))


def check(sweep: FakeSweep) -> None:
    """Raises Exceeded; and AssertionError where workers executed what nobody reserved."""
    if spent(sweep) > mu_gdp(EPSILON, DELTA) * (1 + 1e-9):
        raise Exceeded(spent(sweep))
    sweep.check()


SHAPES: list[tuple[dict[str, Any] | None, dict[str, Any]]] = [
    (None, {}),
    (ASHA, {}),
    (ASHA, {"privacy": {**PRIVACY, "spread": "halving"}}),
    (None, {"privacy": {**PRIVACY, "spread": "front-loaded"}}),
]


def schedule(number: int) -> list[int]:
    """Of random acts, the same for each number."""
    rng = random.Random(number)
    return [rng.randrange(8 * 64) for _ in range(rng.randrange(4, 16))]


def run(numbers: range, bug: Callable[[FakeSweep], None] | None = None) -> None:
    """Simulate schedules, each in one of the shapes."""
    for number in numbers:
        stopping, change = SHAPES[number % len(SHAPES)]
        simulate(schedule(number), stopping, CHANGE | change, bug, check)


def test_random_adaptive_schedules_stay_within_the_budget() -> None:
    run(range(24))


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(3000)
def test_10000_random_adaptive_schedules_stay_within_the_budget() -> None:
    run(range(24, 10_024))


Keep = Callable[[LedgerEntry], LedgerEntry | None]
"""What a filter counts of an entry: what it should is all that was reserved."""


def _what_ran(entry: LedgerEntry) -> LedgerEntry | None:
    return replace(entry, to_step=entry.from_step + entry.steps_spent) if entry.steps_spent else None


def _what_has_ended(entry: LedgerEntry) -> LedgerEntry | None:
    return None if entry.executed_to is None else entry


def _first_attempts(entry: LedgerEntry) -> LedgerEntry | None:
    return entry if entry.attempt == 1 else None


@pytest.mark.parametrize("keep", [_what_ran, _what_has_ended, _first_attempts])
def test_a_filter_that_forgets_something_is_caught(keep: Keep) -> None:
    def forget(sweep: FakeSweep) -> None:
        budget = sweep.controller.budget
        assert budget.filter is not None
        plans = {one.key: one.plan for one in sweep.store.trials(NAME) if one.plan is not None}
        entries = [kept for one in sweep.store.ledger(NAME) if (kept := keep(one)) is not None]
        budget.filter = SweepFilter.begun(budget.filter.budget, plans, entries, {})

    # Seen from outside, or by the next controller, which reads the ledger anew.
    with pytest.raises((Exceeded, BudgetExceeded)):
        run(range(60), forget)


def test_a_sweep_ends_when_a_lost_attempt_has_taken_the_part_of_the_last_trial() -> None:
    change = {"privacy": {**PRIVACY, "shares": 5}, "search": {"sampler": "random", "trials": 5, "seed": 3}}
    with memory_folder() as folder:
        sweep = FakeSweep(folder, None, CHANGE | change)
        worker = launched(sweep)
        worker.execute(1, 1, stop_inside=True)
        sweep.lose(worker)
        sweep.finish()
        assert sweep.controller.decide() == Done(over_budget=True)
        assert len(sweep.store.trials(NAME)) == 4
        check(sweep)
        before = sweep.controller.budget.filter
        sweep.lease.release()
        sweep.start()
        after = sweep.controller.budget.filter
        assert before is not None
        assert after is not None
        # The ledger alone says how much is left.
        assert sorted(before.training.charges, key=str) == sorted(after.training.charges, key=str)
        assert sweep.controller.decide() == Done(over_budget=True)


def test_a_retry_that_does_not_fit_fails_its_trial() -> None:
    change = {"privacy": {**PRIVACY, "shares": 1}, "search": {"sampler": "random", "trials": 3, "seed": 3}}
    with memory_folder() as folder:
        sweep = FakeSweep(folder, None, CHANGE | change)
        worker = launched(sweep)
        worker.execute(1, 1, stop_inside=True)
        sweep.lose(worker)
        assert sweep.controller.decide() == Done(over_budget=True)
        (trial,) = sweep.store.trials(NAME)
        assert (trial.state, trial.reason) == (TrialState.FAILED, NO_RETRY)
        assert not sweep.controller.has_work()


def test_rungs_that_are_not_launched_leave_room_for_trials_beyond_the_shares() -> None:
    with memory_folder() as folder:
        sweep = FakeSweep(folder, ASHA, CHANGE)
        sweep.finish()
        assert len(sweep.store.trials(NAME)) > PRIVACY["shares"]
        assert 0.8 < spent(sweep) / 0.72 <= 1


def test_a_ledger_beyond_the_budget_launches_nothing() -> None:
    with memory_folder() as folder:
        sweep = FakeSweep(folder, None, CHANGE)
        launched(sweep)
        (trial,), budget = sweep.store.trials(NAME), budget_of(sweep.spec)
        assert trial.plan is not None
        assert budget is not None
        several = [Reservation(key=trial.key, attempt=n, from_step=0, to_step=trial.planned_steps) for n in range(1, 4)]
        assert len(SweepFilter.begun(budget, {trial.key: trial.plan}, several[:2], {}).training.charges) == 2
        with pytest.raises(BudgetExceeded, match="3 launches"):
            SweepFilter.begun(budget, {trial.key: trial.plan}, several, {})

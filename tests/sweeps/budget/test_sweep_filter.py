"""The budget of a whole sweep is never exceeded, whatever is launched, lost, killed or chosen by results."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Status
from dpcore.selection.filters import BudgetExceeded, GDPCharge
from sweeps.execution.limits import NO_RETRY
from sweeps.execution.requests import enqueue
from sweeps.execution.resume import check_budget_left, extension_for
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.charge import LaunchCharge, SweepFilter, charge_of
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import IN_TIME, Assumptions, choices_of, own_total
from sweeps.privacy.wording import Verdict, quote_of_total, total_text
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.records import LedgerEntry, Reservation, SweepState, TrialState
from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep, launched, memory_folder, simulate
from tests.sweeps.specs import people, spec_of

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


FORGETFUL: dict[str, Callable[[LedgerEntry], LedgerEntry | None]] = {
    "what ran": lambda one: replace(one, to_step=one.from_step + one.steps_spent) if one.steps_spent else None,
    "what has ended": lambda one: None if one.executed_to is None else one,
    "first attempts": lambda one: one if one.attempt == 1 else None,
}
"""What a filter counts of an entry: what it should is all that was reserved."""


@pytest.mark.parametrize("keep", FORGETFUL.values(), ids=FORGETFUL)
def test_a_filter_that_forgets_something_is_caught(keep: Callable[[LedgerEntry], LedgerEntry | None]) -> None:
    def forget(sweep: FakeSweep) -> None:
        budget = sweep.controller.budget
        plans = {one.key: one.plan for one in sweep.store.trials(NAME) if one.plan is not None}
        entries = [kept for one in sweep.store.ledger(NAME) if (kept := keep(one)) is not None]
        budget.filter = SweepFilter.begun(budget.filter.budget, plans, entries, {})

    # Seen from outside, or by the next controller, which reads the ledger anew.
    with pytest.raises((Exceeded, BudgetExceeded)):
        run(range(60), forget)


def test_a_ledger_that_is_beyond_its_budget_is_not_gone_on_with() -> None:
    with begun(1, 1) as sweep:
        launched(sweep)
        filter, [entry] = sweep.controller.budget.filter, sweep.store.ledger(NAME)
        plans = {one.key: one.plan for one in sweep.store.trials(NAME)}
        twice = [entry, replace(entry, attempt=2)]
        with pytest.raises(BudgetExceeded, match="the ledger has 2 launches"):
            SweepFilter.begun(filter.budget, plans, twice, {})


@contextmanager
def begun(shares: int, trials: int) -> Iterator[FakeSweep]:
    """A sweep of so many trials, whose budget has so many parts."""
    search = {"sampler": "random", "trials": trials, "seed": 3}
    with memory_folder() as folder:
        yield FakeSweep(folder, None, CHANGE | {"privacy": {**PRIVACY, "shares": shares}, "search": search})


def test_a_sweep_ends_when_a_lost_attempt_has_taken_the_part_of_the_last_trial() -> None:
    with begun(5, 5) as sweep:
        worker = launched(sweep)
        worker.execute(1, 1, stop_inside=True)
        sweep.lose(worker)
        sweep.finish()
        assert sweep.controller.decide() is SweepState.OUT_OF_BUDGET
        assert len(sweep.store.trials(NAME)) == 4
        check(sweep)
        before = sweep.controller.budget.filter
        sweep.lease.release()
        sweep.start()
        after = sweep.controller.budget.filter
        # The ledger alone says how much is left.
        assert before.charges == after.charges
        assert sweep.controller.decide() is SweepState.OUT_OF_BUDGET


def test_a_retry_that_does_not_fit_fails_its_trial() -> None:
    with begun(1, 3) as sweep:
        worker = launched(sweep)
        worker.execute(1, 1, stop_inside=True)
        sweep.lose(worker)
        assert sweep.controller.decide() is SweepState.OUT_OF_BUDGET
        (trial,) = sweep.store.trials(NAME)
        assert (trial.state, trial.reason) == (TrialState.FAILED, NO_RETRY)
        assert not sweep.controller.has_work()


def test_rungs_that_are_not_launched_leave_room_for_trials_beyond_the_shares() -> None:
    with memory_folder() as folder:
        sweep = FakeSweep(folder, ASHA, CHANGE)
        sweep.finish()
        assert len(sweep.store.trials(NAME)) > PRIVACY["shares"]
        assert 0.8 < spent(sweep) / 0.72 <= 1


# Sweeps with one budget from outside: what they say of their total, of more trials, and after a kill.


__all__ = ["people"]

TPE = {"search": {"sampler": "tpe", "trials": 6, "seed": 3}}


def total_of(sweep: FakeSweep) -> Procedure:
    """As views state it."""
    store = PublishedStore(sweep.store)
    found = own_total(store, NAME, store.trials(NAME)).procedure
    return found


def finished(change: dict[str, Any], early_stopping: dict[str, Any] | None = None) -> Procedure:
    """The total of a sweep that ran without accidents, within its budget."""
    with memory_folder() as folder:
        sweep = FakeSweep(folder, early_stopping, CHANGE | change)
        sweep.finish()
        check(sweep)
        return total_of(sweep)


def test_where_results_chose_the_total_is_the_budget() -> None:
    total = finished(TPE, ASHA)
    claim = total.guarantee
    assert (claim.epsilon, claim.delta, claim.accountant) == (EPSILON, DELTA, "gdp-filter")
    assert claim.status is Status.PROVED
    assert IN_TIME in claim.assumptions
    assert total.is_claim
    assert quote_of_total(total).verdict is Verdict.WITH
    said = total_text(total, Assumptions.of([claim]))
    assert said.endswith("It is the sweep's budget: its gdp filter launched nothing beyond it.")


def test_where_all_was_fixed_the_composition_of_what_ran_is_smaller() -> None:
    total = finished({"privacy": {**PRIVACY, "shares": 6}})
    assert 0.9 * EPSILON < total.guarantee.epsilon <= EPSILON
    assert (total.guarantee.accountant, total.is_claim) == ("pld", True)


def test_people_who_see_results_take_nothing_from_the_total() -> None:
    with begun(2, 2) as sweep:
        launched(sweep).finish()
        record, trials = sweep.store.sweep(NAME), sweep.store.trials(NAME)
        wish = extension_for(record, sweep.spec, trials, 6)
        sweep.store.extend(sweep.lease, wish)
        record = sweep.store.sweep(NAME)
        assert choices_of(record, trials)
        found = total_of(sweep)
        assert found.filtered
        assert found.is_claim
        with pytest.raises(InvalidValue, match="the budgets 3"):
            extension_for(record, sweep.spec, trials, None, None, [5.0])
        sweep.store.set_state(sweep.lease, SweepState.OUT_OF_BUDGET)
        with pytest.raises(InvalidValue, match="those of the trials that it began with"):
            extension_for(sweep.store.sweep(NAME), sweep.spec, trials, 8)


@pytest.mark.parametrize("shares", [4, 6])
def test_more_trials_are_refused_where_nothing_is_left_for_one(shares: int) -> None:
    """Before anything runs, and before the extension takes away the total of what ran."""
    with begun(shares, 4) as sweep:
        sweep.finish()
        record = sweep.store.sweep(NAME)
        known = {one.key: one for one in sweep.store.trials(NAME)}
        wish = extension_for(record, sweep.spec, list(known.values()), 5)
        if shares > 4:
            check_budget_left(sweep.store, record, sweep.spec, known, wish)
        else:
            with pytest.raises(InvalidValue, match=r"trials=5: expected 4: the budget of sweep .* holds no trial like"):
                check_budget_left(sweep.store, record, sweep.spec, known, wish)


def test_a_point_that_somebody_enqueues_is_within_the_budget() -> None:
    with begun(2, 6) as sweep:
        launched(sweep).finish()
        answer = enqueue(sweep.store, NAME, {"clip": 0.5, "steps": 3})
        assert str(answer).endswith("which then stays the total.")
        assert answer.plan.guarantee.epsilon <= answer.config["target_epsilon"]
        sweep.store.set_state(sweep.lease, SweepState.OUT_OF_BUDGET)
        with pytest.raises(InvalidValue, match="one whose budget is not spent"):
            enqueue(sweep.store, NAME, {"clip": 0.5, "steps": 3})


def test_training_and_private_reports_have_a_ledger_each(people: Path) -> None:
    privacy = {"epsilon": 3.0, "delta": 1e-5, "scope": "sweep"}
    search = {"sampler": "random", "trials": 4, "seed": 1}
    spec = load_spec(spec_of(people, privacy=privacy, search=search))
    budget = budget_of(spec)
    config = {"system": "noisy-sgd", "target_epsilon": budget.trial_epsilon, "learning_rate": 0.5}
    known: dict[str, float] = {}
    plan = plan_proposal(spec, {**spec.systems["noisy-sgd"], **config}, public_facts(spec), known)
    launches = [Reservation(key="own-0", attempt=one, from_step=0, to_step=plan.steps) for one in range(1, 5)]
    filter = SweepFilter.begun(budget, {"own-0": plan}, launches, known)
    charge = charge_of(budget, plan, 0, plan.steps, known)
    assert charge.validation is not None
    # Each takes nearly its part of the whole budget, which one ledger for both would not hold.
    assert all(0.9 < amount / budget.part(0) <= 1 for amount in charge.amounts)
    assert len(filter.charges) == 4
    assert filter.parts
    assert not filter.admits(plan, 0, plan.steps)
    # A launch that trains no more and reports once more is refused by the other ledger.
    assert not filter.holds(LaunchCharge(GDPCharge(0.0), charge.validation))
    begun = SweepFilter.begun(budget, {"own-0": plan}, launches[:1], known)
    with pytest.raises(InvalidValue, match="one rule parts"):
        begun.add(launches[1], replace(charge, parts="by another"))

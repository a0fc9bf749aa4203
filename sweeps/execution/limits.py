"""`limits.hours` and `limits.trial_minutes`: how long attempts have run, and what happens when that is too long.

Time is that of attempts, as the store has it: pauses between two controllers are nobody's, and attempts side by side
are one time for the sweep. When a controller is killed, nobody writes down when. Its attempts then count up to the last
thing that it wrote, which is less than they ran.

What a trial claims that was stopped by the clock is its whole plan: how long it ran may depend on records, and a total
of whichever steps came out would be one of a number that was not fixed beforehand. One that `limits.trial_minutes`
stopped has failed, and all of its reservation is charged. One that `limits.hours` left on its way is charged in the
ledger as far as it came, since it may go on, and counts in a total with its whole plan; the total then rests on that
records did not decide how many trials ended in time (`sweeps.privacy.totals.cut_short`). Ending within what was
planned reveals no more than the plan (`ex_post` in `sweeps.privacy.charge` says why).
"""

from __future__ import annotations

import signal
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from sweeps.privacy.charge import SweepFilter, charge_of_steps
from sweeps.privacy.population import ledger_of
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.errors import PopulationSpent
from sweeps.store.population import Charge, Population, admits, charges_of
from sweeps.store.records import AttemptRecord, LedgerEntry, Outcome, Reservation, TrialRecord
from sweeps.store.store import Store
from sweeps.util.log import say
from trainables.system import PrivacyPlan
from trainables.worker.attempt import NODE_LEAVES, UNWRITABLE

# The budget that launches are reserved from: a launch that it does not hold does not happen.
#
# There are two. A sweep whose trials have budgets of their own may share one with other sweeps, over its population.
# A sweep that has one budget for everything that leaves it keeps that by a filter, and is one row of its population.

NO_RETRY = "another attempt does not fit into what is left of the budget of its sweep"
"""Why a trial whose launch was lost has failed."""
SPENT = "The budget of the sweep is spent: the next launch would exceed what may leave it in all."


@dataclass(slots=True)
class SharedBudget:
    """What is reserved for the attempts of one sweep. Used from one thread.

    population  None where the sweep has none, or where one row pays for all of it: then nothing is reserved of it here
    over        why the budget holds no further launch; empty while it does. Then nothing new is launched
    filter      of a sweep that has one budget; None where each trial has its own
    """

    population: Population | None = None
    over: str = ""
    filter: SweepFilter | None = None

    @classmethod
    def of(cls, store: Store, spec: SweepSpec) -> SharedBudget:
        """Of a sweep of this spec. Raises as `ledger_of`."""
        population = ledger_of(store, spec)
        # One row pays for the whole of a sweep that has one budget (`sweeps.privacy.population`).
        return cls(population if spec.privacy.scope != "sweep" else None)

    @property
    def is_final(self) -> bool:
        """Whether the filter of the sweep refused a launch: what it holds never grows."""
        return self.filter is not None and bool(self.over)

    @property
    def lets_go_on(self) -> bool:
        """Whether trials that were launched may still go on, where the budget holds that."""
        return self.is_final or not self.over

    def open_filter(
        self,
        spec: SweepSpec,
        trials: Mapping[str, TrialRecord],
        entries: Iterable[LedgerEntry],
        known: MutableMapping[str, float],
    ) -> None:
        """At every start of a sweep with one budget, as its ledger has used that up; else nothing.

        known  {question: answer}, what charges are calculated from

        Raises BudgetExceeded for a ledger that is beyond it.
        """
        budget = budget_of(spec)
        if budget is not None:
            plans = {key: one.plan for key, one in trials.items() if one.plan is not None}
            self.filter = SweepFilter.begun(budget, plans, entries, known)

    def stays_spent(self) -> None:
        """Of a sweep that ended when its filter refused a launch: nothing new is asked of it."""
        if self.filter is not None:
            self.over = SPENT

    def holds_any(self, store: Store, plans: Iterable[PrivacyPlan]) -> bool:
        """Whether what is left holds one of these plans whole. Nothing is reserved."""
        if self.filter is not None:
            return any(self.filter.admits(plan, 0, plan.steps) for plan in plans)
        if self.population is None:
            return True
        counted = charges_of(store.charges(self.population.name))
        charges = (charge_of_steps(self.population, plan, 0, plan.steps) for plan in plans)
        return any(admits(self.population, counted, one) for one in charges)

    def reserve(
        self, plan: PrivacyPlan, from_step: int, to_step: int, write: Callable[[Charge | None], Reservation]
    ) -> Reservation | None:
        """What `write` reserves in one transaction with the charge for these steps; None where the budget is over."""
        if self.filter is not None and not self.filter.admits(plan, from_step, to_step):
            self.over = SPENT
            return None
        charge = None if self.population is None else charge_of_steps(self.population, plan, from_step, to_step)
        try:
            reserved = write(charge)
        except PopulationSpent as spent:
            self.over = str(spent)
            return None
        if self.filter is not None:
            # The store has it by now; it counts before anything else is decided.
            self.filter.charge(reserved, plan)
        return reserved


# Which lost attempts count against `execution.retries`: those whose worker was lost while its controller lived.
#
# A worker that dies takes its trial's luck with it: the next one may die of the same trial (memory, a bad node), so
# such losses are limited, and the store remembers them across controllers. Nobody's worker is to blame when the
# attempt ended because its controller did: stopped by Ctrl-C, SIGTERM or limits.hours, killed, or gone with its
# cluster. Nor when the folder of records refused a write, or when it moved away from a node that had notice to go.
# Those attempts are charged like any other, are lost in the store's words, and cost no retry.

CONTROLLER_ENDED = "the controller ended while it ran"
INTERRUPTED = "interrupted by the user"
HOURS_OVER = "the hours of its sweep were over"

NOT_OF_THE_WORKER = (CONTROLLER_ENDED, INTERRUPTED, HOURS_OVER, UNWRITABLE, NODE_LEAVES)
"""Reasons of attempts that begin like this are no loss of the worker; every other reason is."""


def worker_losses(attempts: Iterable[AttemptRecord]) -> Counter[str]:
    """{key: how often the trial's worker was lost}."""
    return Counter(
        attempt.key
        for attempt in attempts
        if attempt.outcome is Outcome.LOST and not attempt.reason.startswith(NOT_OF_THE_WORKER)
    )


OVERRAN = "it trained for longer than limits.trial_minutes: stopped, and charged for all of its reservation"
"""Why a trial has failed that the clock stopped."""


def seconds_left(minutes: float | None, trials: Iterable[Sequence[AttemptRecord]]) -> float | None:
    """Of `limits.trial_minutes`, for trials that train together, by their earlier attempts; None without a limit."""
    if minutes is None:
        return None
    return sum(max(0.0, 60 * minutes - seconds_run(attempts)) for attempts in trials)


def seconds_run(attempts: Iterable[AttemptRecord]) -> float:
    """For how many seconds at least one of these attempts ran. Those without a known end count up to the last known
    moment before somebody found them."""
    listed = sorted(attempts, key=lambda one: one.started_at)
    known = {(one.key, one.attempt): one.ended_at for one in listed if not one.reason.startswith(CONTROLLER_ENDED)}
    moments = sorted([*(one.started_at for one in listed), *(at for at in known.values() if at is not None)])
    seconds, reached = 0.0, float("-inf")
    for one in listed:
        end = known.get((one.key, one.attempt))
        if end is None:
            before = len(moments) if one.ended_at is None else bisect_left(moments, one.ended_at)
            end = moments[max(before, 1) - 1]
        seconds += max(0.0, end - max(one.started_at, reached))
        reached = max(reached, end)
    return seconds


class Deadline:
    """Interrupts the main thread, as Ctrl-C does, when so many seconds have passed while the block runs; None: never.

    seconds  of that
    passed   whether it did
    """

    def __init__(self, seconds: float | None, said: str) -> None:
        self.seconds, self.passed = seconds, False
        self._said, self._over, self._lock = said, False, threading.Lock()
        # No timer waits for longer than that.
        after = None if seconds is None else min(max(0.0, seconds), threading.TIMEOUT_MAX)
        self._timer = None if after is None else threading.Timer(after, self._end)

    def _end(self) -> None:
        with self._lock:
            if self._over:
                return
            self.passed = True
            say(self._said)
            # Not `interrupt_main`: that wakes nobody out of a call that waits.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def __enter__(self) -> Deadline:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._over = True

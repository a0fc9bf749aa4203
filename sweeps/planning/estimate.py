"""Numbers about a sweep before it runs, from public facts: what all trials would release, what that would cost their
population, and which method `sampler: auto` comes to. No record is read."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.guarantee import STANDING, Guarantee, Status, delta_text, epsilon_text
from sweeps.planning.plan import SECONDS_PER_GRADIENT, certain, draws, feasible
from sweeps.privacy.charge import UNCOUNTED, charge_of_steps, check_terms
from sweeps.privacy.heldout import Charged, planned
from sweeps.privacy.ledger import Choice, both, tuned_of
from sweeps.privacy.population import (
    IN_THIS_STORE,
    NOBODY_COUNTS,
    NextSweep,
    account,
    check_not_refuted,
    is_own,
    whole_of,
)
from sweeps.privacy.release import PublishedStore, Release
from sweeps.privacy.totals import NOT_COVERED, choices_by_results, filtered_guarantee, procedure_guarantee
from sweeps.privacy.wording import COUNTS, COVERS, ONE_BUDGET, PROMISES_NOTHING
from sweeps.search import samplers
from sweeps.search.asha import judged
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.errors import StoreError, UnknownPopulation
from sweeps.store.population import Charge, Population, admits, public_files, spent
from sweeps.store.records import LedgerEntry
from trainables.system import DatasetSpec, PrivacyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Smallest, median and largest of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """The spread of some values; None of none."""
        return cls(low=min(values), median=float(np.median(values)), high=max(values)) if values else None

    def __str__(self) -> str:
        return f"{self.low:.4g} .. {self.high:.4g} (median {self.median:.4g})"


@dataclass(frozen=True, slots=True)
class TotalEstimate:
    """What the whole sweep may release, when every trial is published: the composition of all of them, and the reading
    of private test records that is planned once.

    The trials are not known yet, but for points of `search.first` and those of a whole grid; the total is that of these
    and of as many feasible draws from the prior as are left: an estimate, no claim.

    choices  what will let results choose budgets: then what was executed will have no total that is a claim
    standing  of the weakest claim among the draws
    public   whether the records are declared public: then more leaves than is counted
    budget   whether it is the budget of the whole sweep, which its filter keeps: no estimate then
    """

    trials: int
    epsilon: float
    delta: float
    accountant: str
    notion: str
    choices: tuple[Choice, ...] = ()
    standing: str = Status.PROVED
    public: bool = False
    budget: bool = False

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"all {self.trials} trials together: {PROMISES_NOTHING}"
        number = f"epsilon {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)}, {self.notion},"
        if self.budget:
            return (
                f"all {self.trials} trials together: at most {number} whichever are launched. After the run it can be "
                f"quoted. It {COUNTS if self.public else COVERS}."
            )
        estimate = (
            f"all {self.trials} trials together: about {number} an estimate by {self.accountant} from draws of the "
            "space"
        )
        if self.standing not in STANDING:
            return f"{estimate}. It will be no guarantee, because the weakest claim among them is {self.standing}."
        if not self.choices:
            return f"{estimate}. After the run the exact total can be quoted. It {COUNTS if self.public else COVERS}."
        what = " and ".join(choice.will or choice.what for choice in self.choices)
        instead = " and ".join(choice.instead for choice in self.choices)
        return f"{estimate}. It will be no guarantee, because {what}. For one, {instead}{ONE_BUDGET}."


def estimated_total(
    spec: SweepSpec,
    plans: Sequence[PrivacyPlan],
    choices: tuple[Choice, ...] | None = None,
    tests: Sequence[Charged] | None = None,
    certain: Sequence[PrivacyPlan] = (),
) -> tuple[TotalEstimate | None, list[str]]:
    """The estimate from plans that may be launched; None with the reason, if there is one, where there is no total.

    choices  what lets results choose budgets; that of the spec by default
    tests    readings of private test records, apart from all else; the one that the spec plans by default
    certain  plans that are among the trials whatever is drawn
    """
    plans = plans or certain
    if not plans:
        return None, []
    if not Release.of(spec).covered:
        return None, [f"total of the procedure: {NOT_COVERED}"]
    if (whole := budget_of(spec)) is not None:
        return _estimate(spec, claim := filtered_guarantee(whole, plans), standing=claim.standing, budget=True), []
    tests = planned(spec) if tests is None else tests
    choices = choices_by_results(spec) if choices is None else choices
    chosen = [*certain, *(plans[i % len(plans)] for i in range(spec.search.trials - len(certain)))]
    known = {str(number): plan for number, plan in enumerate(chosen)}
    whole_plans = [
        LedgerEntry(key=key, attempt=1, from_step=0, to_step=one.steps, executed_to=one.steps)
        for key, one in known.items()
    ]
    try:
        claim = procedure_guarantee(known, whole_plans, spec.privacy.delta, adaptive=False, tests=tests)
        if (tuned := tuned_of(spec)) is not None:
            claim = both(tuned, claim)
    except (InvalidValue, *UNCOUNTED) as error:
        return None, [f"total of the procedure: no accountant can count it ({error})"]
    choices = (*choices, *(choice for one in tests for choice in one.choices))
    return _estimate(spec, claim, choices=choices, standing=claim.standing), []


def _estimate(spec: SweepSpec, claim: Guarantee, **more: Any) -> TotalEstimate:
    numbers = claim.epsilon, claim.delta, claim.accountant, str(claim.notion)
    return TotalEstimate(spec.search.trials, *numbers, public=spec.data.records_are_public is not None, **more)


# What the next sweep would cost its population.

Calibrations = MutableMapping[str, float]
POPULATION_DRAWS = 6
"""Feasible draws whose cost is counted, in turn."""


def before(spec: SweepSpec, facts: DatasetSpec, store_url: str) -> tuple[str, ...]:
    """What a sweep of this spec would cost its population; nothing for published data that declare none.

    Raises InvalidValue for a spec that its population's ledger cannot count.
    """
    name = spec.data.population
    if name is None:
        return (NOBODY_COUNTS,) if is_own(spec.data.source) else ()
    try:
        store = PublishedStore.at(store_url)
        known = account(store, name)
    except StoreError as error:
        unknown = error if isinstance(error, UnknownPopulation) else UnknownPopulation(name, ())
        return (f"{unknown} Until then no sweep over it begins.",)
    check_terms(known.population, spec.privacy.adjacency, spec.privacy.unit)
    check_not_refuted(store, name, spec.systems)
    following = next_sweep(known.population, known.counted, spec, facts)
    costs = () if following is None else (str(following), *following.public)
    if known.not_known:
        return (f"{name}: {known.not_known}", *costs)
    return (f"{name}: {known.spent_text} are spent {IN_THIS_STORE}, {known.left_text} are left", *costs)


def next_sweep(
    population: Population, charges: Sequence[Charge] | None, spec: SweepSpec, facts: DatasetSpec
) -> NextSweep | None:
    """What a sweep of this spec would cost beside what was charged; None where no draw of its space may be launched.

    charges  that count; None where what is spent is not known

    Raises InvalidValue for plans that have no place in the ledger.
    """
    public = public_files(spec.data.options())
    if spec.privacy.scope == "sweep":
        whole = whole_of(spec, population)
        fits = None if charges is None else spec.search.trials * admits(population, charges, whole)
        return NextSweep(
            trials=spec.search.trials, cost=spent(population, [whole]), fits=fits, whole=True, public=public
        )
    # Of trials that there will be whatever is drawn, and of a few draws.
    space, solved = Space.of(spec), dict[str, float]()
    each = (feasible(spec, configs, facts, solved) for configs in (certain(spec, space), draws(spec, space)))
    known, drawn = (
        [charge_of_steps(population, plan, 0, plan.steps) for plan in islice(plans, most)]
        for plans, most in zip(each, (None, POPULATION_DRAWS), strict=True)
    )
    if not known and not drawn:
        return None
    wanted = list(islice(chain(known, cycle(drawn or known)), spec.search.trials))

    def refused(number: int) -> bool:
        assert charges is not None
        return not admits(population, [*charges, *wanted[:number]], wanted[number])

    # It stops at the first that the budget does not hold.
    fits = None if charges is None else bisect_left(range(len(wanted)), True, key=refused)
    return NextSweep(trials=len(wanted), cost=spent(population, wanted), fits=fits, whole=False, public=public)


# `sampler: auto`: which method proposes, by a rule that looks at the spec and at what its trials are planned to cost.
#
# The time of a trial is planned, or that of the rehearsal where a model is the user's own: nobody knows it before.
# The rule looks once: a sweep keeps in `search.resolved` what was chosen when it began, however it is extended. Which
# budget a proposal gets is a schedule of seed and number (`samplers.Turns`).

COST_PLANS, COST_DRAWS = 5, 20
"""Plans whose median cost is taken, and draws from the prior among which they are sought."""
MANY_TRIALS = 300
"""From here on a Gaussian process would look at some trials only, and take seconds for a proposal."""
PROPOSAL_SECONDS = 0.1
"""A trial that is planned to take less than that waits for the process, not the process for it."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `auto` comes to, and why, in words for people."""

    method: str
    why: str


def resolution(spec: SweepSpec, work: float, rehearsed: float | None = None) -> Resolution:
    """The method for a sweep whose median trial is planned to cost `work`, or took `rehearsed` seconds in small."""
    trials, goals = spec.search.trials, len(judged(spec))
    seconds = work * SECONDS_PER_GRADIENT if rehearsed is None else rehearsed
    trial = f"of work {work:,.0f}" if rehearsed is None else f"of {rehearsed:.2g} s"
    many = "nsga2" if goals > 1 else "tpe"
    if len(spec.systems) > 1 and not spec.search.stratified:
        return Resolution(many, f"{len(spec.systems)} systems share one search")
    if trials > MANY_TRIALS:
        return Resolution(many, f"{trials} trials are many for a Gaussian process")
    if seconds < PROPOSAL_SECONDS:
        return Resolution(many, f"a trial {trial} is small beside a proposal of a Gaussian process")
    return Resolution("gp", f"{trials} trials {trial} each")


def resolved(
    spec: SweepSpec, facts: DatasetSpec, calibrations: Calibrations | None = None, rehearsed: float | None = None
) -> SweepSpec:
    """The spec with `search.resolved`, where its sampler is `auto` and none is given; else the spec as it is.

    A function of spec, public facts and what was rehearsed. Reads no record.
    """
    found = resolution_of(spec, facts, calibrations, rehearsed)
    if found is None:
        return spec
    return spec.model_copy(update={"search": spec.search.model_copy(update={"resolved": found.method})})


def resolution_of(
    spec: SweepSpec, facts: DatasetSpec, calibrations: Calibrations | None = None, rehearsed: float | None = None
) -> Resolution | None:
    """What `sampler: auto` comes to, and why; None for other samplers.

    rehearsed  seconds of a trial by its rehearsal; None: as it is planned
    """
    if spec.search.sampler != samplers.AUTO:
        return None
    if spec.search.resolved is not None:
        return Resolution(spec.search.resolved, "as search.resolved says")
    # Planned work of the median trial, of a few draws; 0 where none of them may be launched.
    rng, space = samplers.generator(spec.search.seed, 0, samplers.COSTS), Space.of(spec)
    drawn = (space.draw(rng) for _ in range(COST_DRAWS))
    plans = feasible(spec, drawn, facts, {} if calibrations is None else calibrations)
    works = [plan.work for plan in islice(plans, COST_PLANS)]
    return resolution(spec, float(np.median(works)) if works else 0.0, rehearsed)

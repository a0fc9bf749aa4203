"""What a release costs, by which filters, budgets, populations and totals all count.

A launch of a trial releases training steps and reports on private validation records. Where a function of each record
alone parts the two, a record is in one of them, whoever else is there: then they compose in parallel, and cost the
larger of the two under add-remove (`dpcore.accounting`). Else both add. `ReleasedParts` is the one place that knows.

adds up                                                    for
epsilon and delta                                          populations by rule linear
mu^2, and the chance tau beside it (`dominating_gaussian`)  filters of one sweep, populations by rule gdp
the divergence at one order                                filters of one sweep
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, reduce
from typing import Any, Self

from dpcore import checks, events
from dpcore.accountants.gdp import GDPAccountant
from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accounting import headline_of_many, headline_of_parts, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, PoissonSampled, Repeated, UnsupportedEvent, phases
from dpcore.guarantee import STANDING, Guarantee, Notion, resting_on
from dpcore.selection.filters import BudgetExceeded, DPCharge, GDPCharge, PrivacyFilter, RenyiCharge
from dpcore.selection.profiles import EventProfile, TrialProfile, WorstProfile, covering_mu, is_covered
from sweeps.spec.sweep_budget import SweepBudget
from sweeps.store.population import AddingRule, Charge, Population, to_charge
from sweeps.store.records import Reservation
from trainables.system import PrivacyPlan, Refusal

MAX_PHASES = 128
"""More distinct (rate, noise multiplier) than this are rounded to the safe side onto a coarser grid before counting."""
FINEST_ROUNDING, COARSEST_ROUNDING = 0.001, 0.512
"""Relative grid steps that are tried, doubling, until the phases are few enough."""
TOLERANCE = 2e-3
"""Of a mu that covers, relative and from above."""
ROUGH = 1e-2
"""Of the deltas that it covers: those that decide are told far more closely, and of the others a few are dear."""
ROUND_UP = 1 + 1e-12
UNCOUNTED = (UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid)
"""What accountants raise for events that they do not bound."""

_NOTHING = Composed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedParts:
    """What was released of training, validation and test records.

    training, reports, tests  of each part, all together
    parallel  whether training and reports compose in parallel, where the adjacency lets them
    apart     whether the test records do so with both
    """

    training: Event
    reports: Event = _NOTHING
    tests: Event = _NOTHING
    parallel: bool = False
    apart: bool = False

    @classmethod
    def of(cls, plan: PrivacyPlan, from_step: int = 0, to_step: int | None = None) -> Self:
        """Steps [from_step, to_step) of a plan, and the reports that follow them; the whole trial by default."""
        training, reports = plan.event(from_step, to_step), plan.validation
        if reports is None:
            return cls(training=training)
        return cls(training=training, reports=reports.event(from_step, to_step), parallel=reports.parallel)

    def in_parallel(self, adjacency: Adjacency) -> tuple[Event, ...]:
        """Releases that compose in parallel: what all of them cost is the largest cost among them."""
        added = self.training if self.reports == _NOTHING else Composed(events=(self.training, self.reports))
        parallel, apart = (one and adjacency is Adjacency.ADD_REMOVE for one in (self.parallel, self.apart))
        parts = (self.training, self.reports) if parallel else (added,)
        if not phases(self.tests):
            return parts
        return (*parts, self.tests) if apart else (Composed(events=(added, self.tests)),)

    def together(self, adjacency: Adjacency) -> tuple[Event, ...]:
        """Those of `in_parallel` that are not empty, each rounded to the safe side."""
        return tuple(event for event, _ in self._rounded(adjacency))

    def claim(self, delta: float, adjacency: Adjacency, unit: str) -> tuple[Guarantee, float]:
        """The headline of all, and the largest ratio by which `coarsened` moved a number to its safe side.

        delta  on top of what approximate releases have fixed as their own deltas: the guarantee carries the sum
        Raises as `dpcore.accounting.headline_of_many` does.
        """
        rounded = self._rounded(adjacency) or ((_NOTHING, 1.0),)
        claims = (headline_of_many(event, delta, adjacency, unit) for event, _ in rounded)
        counted, ratio = reduce(larger_of_parts, claims), max(ratio for _, ratio in rounded)
        # The lower bound belongs to the rounded event, which spends more than the true one.
        return (replace(counted, epsilon_lower=None) if ratio > 1 else counted), ratio

    def _rounded(self, adjacency: Adjacency) -> tuple[tuple[Event, float], ...]:
        parts = (one for one in self.in_parallel(adjacency) if phases(one))
        return tuple(coarsened(collapsed(one), MAX_PHASES) for one in parts)


def rounding_line(ratio: float) -> tuple[str, ...]:
    """What a claim rests on whose event was rounded by `ratio`; nothing for one that was not."""
    if ratio <= 1:
        return ()
    return (
        f"Counted with noise multipliers rounded down and sampling rates up by at most {(ratio - 1):.2%}, which "
        "only raises epsilon.",
    )


def collapsed(event: Event) -> Event:
    """The same release with all unsampled Gaussians as one.

    Gaussian noise of multipliers s_i composes to one Gaussian of multiplier 1/sqrt(sum 1/s_i^2) exactly (Dong, Roth
    & Su 2022, corollary 2). Its float is moved down by 1e-12 of itself, which outweighs the rounding of the sum.
    """
    counts, precision = phases(event), dict[Adjacency, list[float]]()
    for part, count in counts.items():
        if isinstance(part, Gaussian):
            precision.setdefault(part.adjacency, []).append(count / part.noise_multiplier**2)
    if sum(map(len, precision.values())) <= 1:
        return event
    rest = (Repeated(event=part, count=count) for part, count in counts.items() if not isinstance(part, Gaussian))
    gaussians = [
        Gaussian(noise_multiplier=(1 - 1e-12) / math.sqrt(math.fsum(parts)), adjacency=stated)
        for stated, parts in precision.items()
    ]
    return Composed(events=(*gaussians, *rest))


def coarsened(event: Event, max_phases: int) -> tuple[Event, float]:
    """An event that spends at least as much, with at most `max_phases` phases where rounding can reach that.

    Returns it with the largest ratio by which a noise multiplier was lowered or a rate raised (1.0: unchanged).
    A smaller noise multiplier is dominated by adding the missing noise; rate q by keeping each draw at a larger
    rate q' with probability q/q'. Values move to powers of the ratio, so the largest noise and rates do too.
    """
    counts = phases(event)
    if len(counts) <= max_phases:
        return event, 1.0
    ratio, excess = 1.0, FINEST_ROUNDING
    rounded = Counter(counts)
    while len(rounded) > max_phases and excess <= COARSEST_ROUNDING:
        ratio, excess = 1 + excess, 2 * excess
        rounded = Counter()
        for part, count in counts.items():
            rounded[_rounded(part, ratio)] += count
    return Composed(events=tuple(Repeated(event=part, count=count) for part, count in rounded.items())), ratio


def _rounded(part: Event, ratio: float) -> Event:
    match part:
        case Gaussian():
            return replace(part, noise_multiplier=_down(part.noise_multiplier, ratio))
        case PoissonSampled(rate=rate, event=Gaussian() as inner):
            return PoissonSampled(rate=min(1.0, 1 / _down(1 / rate, ratio)), event=_rounded(inner, ratio))
        case _:
            return part


def _down(value: float, ratio: float) -> float:
    """The largest power of `ratio` at most `value`."""
    power = ratio ** math.floor(math.log(value) / math.log(ratio))
    return power if power <= value else power / ratio


FilterCharge = GDPCharge | RenyiCharge


def dominating_gaussian(
    event: Event, adjacency: Adjacency, tau: float, known: MutableMapping[str, float] | None = None
) -> GDPCharge:
    """The least mu that covers an event, up to the chance tau where the event is not Gaussian itself. It may be
    infinite.

    known  {question: answer} of events that were dominated before: asked first, and told

    Raises UnsupportedEvent for what no accountant counts as a curve, and as the accountants do.
    """
    parts, known = phases(event), {} if known is None else known
    if not parts:
        return GDPCharge(0.0)
    if all(isinstance(part, Gaussian) for part in parts):
        # Exact, and nothing stands beside it (Dong, Roth & Su 2022, corollary 2).
        return GDPCharge(GDPAccountant(adjacency).compose(event).mu * ROUND_UP)
    counted = sorted(json.dumps([events.to_dict(part), count], sort_keys=True) for part, count in parts.items())
    asked = json.dumps(["covering-mu/1", counted, str(adjacency), tau, TOLERANCE, ROUGH])
    question = f"covering-mu:{hashlib.sha256(asked.encode()).hexdigest()}"
    mu = known.get(question)
    if mu is None:
        mu = covering_mu(EventProfile(event, adjacency, tolerance=ROUGH), tau, TOLERANCE)
        if math.isfinite(mu):
            known[question] = mu
    return GDPCharge(mu, tau)


@lru_cache(maxsize=4096)
def shown_to_cover(event: Event, mu: float, tau: float, adjacency: Adjacency) -> bool:
    """Whether a Gaussian of this mu is shown to cover an event that is none itself, up to tau: at points of its own,
    not at those that whoever found it looked at."""
    if not (0 < mu < math.inf and tau):
        return False
    accountant = PLDAccountant(adjacency=adjacency)
    if not accountant.supports(event):
        return False
    start = accountant.compose(event).epsilon(tau)
    return 0 < start < math.inf and is_covered(EventProfile(event, adjacency).delta, 1.01 * start, mu, tau)


@dataclass(frozen=True, slots=True)
class LaunchCharge:
    """What a launch adds to the two ledgers of its sweep: all steps that it may run, and the reports among them.

    training    what adds to the ledger of training, and of all else where nothing composes in parallel
    validation  of reports on private validation records that are parted from training; None where they are not
    parts       the rule that parts them
    """

    training: FilterCharge
    validation: FilterCharge | None = None
    parts: str = ""

    @property
    def amounts(self) -> tuple[float, float]:
        """What adds up, of each."""
        return _amount(self.training), 0.0 if self.validation is None else _amount(self.validation)


def _amount(charge: FilterCharge) -> float:
    return charge.mu**2 * ROUND_UP if isinstance(charge, GDPCharge) else charge.divergence


def charge_of(
    budget: SweepBudget, plan: PrivacyPlan, from_step: int, to_step: int, known: MutableMapping[str, float]
) -> LaunchCharge:
    """What steps [from_step, to_step) of a plan add to the filter of a sweep. Raises as `filter_charge`."""
    released = ReleasedParts.of(plan, from_step, to_step)
    training, *reports = (filter_charge(budget, one, known) for one in released.in_parallel(budget.adjacency))
    if not reports or plan.validation is None:
        return LaunchCharge(training)
    return LaunchCharge(training, validation=reports[0], parts=plan.validation.parts)


def filter_charge(
    budget: SweepBudget, event: Event = _NOTHING, known: MutableMapping[str, float] | None = None
) -> FilterCharge:
    """What an event adds to one ledger of a sweep's filter; by default that of what reads no record.

    Raises as `dominating_gaussian`.
    """
    if budget.order is None:
        return dominating_gaussian(event, budget.adjacency, budget.tau, known)
    return RenyiCharge(float(EventProfile(event, budget.adjacency).renyi((budget.order,))[0]))


def trial_profile(plan: PrivacyPlan) -> TrialProfile:
    """Upper bounds, in both directions, on what a plan reveals, with its reports. Where they compose in parallel, the
    larger at every point.

    What a price of a search is made of has to be proved: raises InvalidValue for a plan whose claim does not stand, and
    UnsupportedEvent for one that no accountant counts as a curve.
    """
    claim = plan.guarantee
    if claim.status not in STANDING:
        raise InvalidValue(
            f"{plan.system}'s claim",
            str(claim.status),
            f"{' or '.join(STANDING)}",
            "A budget for the whole sweep covers trials whose claims stand. Use privacy.scope: trial.",
        )
    parts = ReleasedParts.of(plan).in_parallel(claim.adjacency)
    profiles = tuple(EventProfile(one, claim.adjacency) for one in parts)
    return profiles[0] if len(profiles) == 1 else WorstProfile(profiles)


# What an attempt of a trial, a twin of an audit, or a reading of test records costs a population, by its rule.
#
# A row covers all that its release reads of the population, whichever part. So it holds whatever other sweeps part the
# records by, and rows add. By rule linear steps cost their epsilon at the plan's delta, and a whole plan its claim. By
# rule gdp what no accountant bounds, and claims known as (epsilon, delta) alone, are charged by `GDPCharge.of_dp`.


def charge_of_steps(population: Population, plan: PrivacyPlan, from_step: int, to_step: int) -> Charge:
    """What steps [from_step, to_step) of a plan cost, its reports on private validation records included.

    Raises InvalidValue for a plan without a claim of differential privacy that stands, or under another adjacency or
    unit than the population's.
    """
    claim = standing_claim(plan)
    check_terms(population, claim.adjacency, claim.unit)
    if claim is plan.guarantee:
        # The events of a plan are those of its first claim: beside one of another notion they say nothing of it.
        released = ReleasedParts.of(plan, from_step, to_step)
        if population.rule is AddingRule.GDP:
            covers = [_covered(one, population) for one in released.in_parallel(claim.adjacency)]
            if all(math.isfinite(one.mu) for one in covers):
                return GDPCharge(max(one.mu for one in covers), max(one.tau for one in covers))
        if (from_step, to_step) != (0, plan.steps):
            claim = _claim_of_steps(released, claim)
    return to_charge(population, claim.epsilon, claim.delta)


def _claim_of_steps(released: ReleasedParts, claim: Guarantee) -> Guarantee:
    """Of some steps at the claim's delta; where no accountant counts them, the claim of all, which holds of them."""
    try:
        counted = resting_on(released.claim(claim.delta, claim.adjacency, claim.unit)[0], [claim])
    except (InvalidValue, *UNCOUNTED):
        return claim
    return counted if counted.status in STANDING and counted.delta <= claim.delta else claim


def charge_of_event(population: Population, event: Event, delta: float) -> Charge:
    """What a release costs whose event is counted at `delta`. Raises as the accountants do."""
    if population.rule is AddingRule.GDP and math.isfinite((covered := _covered(event, population)).mu):
        return covered
    counted = headline_of_many(event, delta, population.adjacency, population.unit)
    return to_charge(population, counted.epsilon, counted.delta)


@lru_cache(maxsize=4096)
def _covered(event: Event, population: Population) -> GDPCharge:
    """The least Gaussian that covers an event; infinite where nothing bounds it at so small a chance."""
    try:
        return dominating_gaussian(event, population.adjacency, population.tau)
    except UNCOUNTED:
        return GDPCharge(math.inf, population.tau)


def repeated(charge: Charge, times: int) -> Charge:
    """The same so many times over, each with noise of its own."""
    if isinstance(charge, DPCharge):
        return DPCharge(charge.epsilon * times, min(charge.delta * times, math.nextafter(1.0, 0.0)))
    return GDPCharge(charge.mu * math.sqrt(times), min(charge.tau * times, math.nextafter(1.0, 0.0)))


def standing_claim(plan: PrivacyPlan) -> Guarantee:
    """A plan's claim of differential privacy that stands: its own, or one beside it. Raises InvalidValue."""
    for claim in (plan.guarantee, *plan.beside):
        if claim.notion is Notion.DP and claim.status in STANDING and math.isfinite(claim.epsilon):
            return claim
    raise InvalidValue(
        "data.population",
        plan.system,
        f"systems with a finite claim of differential privacy that stands: that of this one is {plan.guarantee.status}",
        "A budget cannot hold what nothing bounds: leave that system, or the population, out.",
    )


def check_terms(population: Population, adjacency: Adjacency, unit: str) -> None:
    """Raises InvalidValue for a release under other neighbours than the ledger's: they never add up."""
    if (adjacency, unit) != (population.adjacency, population.unit):
        raise InvalidValue(
            "data.population",
            population.name,
            f"a sweep per {population.unit} under {population.adjacency}, as its ledger counts, not per {unit} under "
            f"{adjacency}",
            "Numbers under other neighbours never add up.",
        )


# What a trial claims that early stopping ended before its last planned step: what its whole plan claims.
#
# Why not less. Where a trial stops is chosen from results: its own at the rungs, and other trials' (asynchronous
# successive halving promotes the best of those it has seen). "The first k steps are (epsilon_k, delta)-DP" is a theorem
# about a k that was fixed before the first step. A rule may stop exactly where the steps so far have revealed most, and
# spend delta once at every rung: stated for whichever k came out, delta is violated by up to the number of rungs.
#
# Why the whole plan's claim holds. The plan fixes every step (mechanism, sampling rate, noise, count) before the first
# of them. Adaptive composition (Dwork, Rothblum & Vadhan 2010; Zhu, Dong & Wang 2022, theorem 27) lets whoever looks on
# choose between two steps what comes next, within those mechanisms; "nothing" is within each of them. Put as a filter
# (Rogers, Roth, Ullman & Vadhan 2016; Whitehouse, Ramdas, Rogers & Wu 2023): the budget is that of all planned steps
# and the trial halts at or before it. Or as post-processing: what is released, the path to the stop and the stop
# itself, is computed from the path of the whole plan, from coins and from messages of other trials, none of which read
# a record through this trial. Other trials may wait for this one's reports and read the same records: they are part of
# who looks on, as concurrent composition allows (Vadhan & Wang 2021; Haney et al. 2023). Like every claim of one trial,
# this one is about the trial's own release; what all of them released together is the total of the sweep.
#
# What the prefix does guarantee. Of J rungs that are public before the first step, let epsilon_k be the epsilon of the
# first k at delta / J. Split any set S of outcomes by the rung they stopped at: S_k is an event of the first k rungs,
# so
#
#     P(S) = sum_k P(S_k) <= sum_k (exp(epsilon_k) P'(S_k) + delta / J) = sum_k exp(epsilon_k) P'(S_k) + delta.
#
# Outcomes that stopped at rung k are bounded by epsilon_k, up to delta in all: a guarantee that is known when the trial
# has ended (ex-post privacy; Ligett, Neel, Roth, Waggoner & Wu 2017), of another notion than an epsilon that was
# promised beforehand. It stands beside the claim under its own name, and on no axis with it.

BY_RUNGS = "The prefix at delta / J, a union over the J public rungs (ex-post privacy: Ligett et al. 2017)"


def ex_post(plan: PrivacyPlan, step: int, rungs: int) -> Guarantee | None:
    """What the first `step` steps guarantee after the event, where that is less than the whole plan's claim.

    rungs  number J of the steps at which the trial could have stopped, its last one included; public beforehand

    The guarantee covers reports on private validation records up to there, and carries the plan's delta, which all
    rungs share. None where it says no more than the claim, where the
    claim is of another notion than differential privacy, and where no accountant can count the prefix. Raises
    InvalidValue for a step beyond the plan's or fewer than one rung.
    """
    checks.count(minimum=1, rungs=rungs)
    released, whole = ReleasedParts.of(plan, 0, step), plan.guarantee
    if whole.notion is not Notion.DP or whole.delta == 0:
        return None
    try:
        counted = headline_of_parts(
            released.training,
            released.reports,
            parallel=released.parallel,
            delta=whole.delta / rungs,
            adjacency=whole.adjacency,
            unit=whole.unit,
        )
    except UNCOUNTED:
        return None
    if counted.epsilon >= whole.epsilon:
        return None
    return replace(
        resting_on(counted, [whole]),
        notion=Notion.EX_POST,
        delta=whole.delta,
        theorem=BY_RUNGS,
        assumptions=whole.assumptions,
        epsilon_lower=None,
    )


# One budget for a whole sweep: the plan that spends most of its part, and whether a launch still fits.
#
# A system plans for a target epsilon of one trial. A rule of a sweep asks something else of the plan (a mu, two points
# of its profile), which rises with that epsilon as noise falls. So the epsilon is moved until the rule is met as nearly
# as planning allows, from the safe side. Whether it is met is asked of the very plan that is given.
#
# How far the budget is used up is a pure function of plans and ledger entries. Every entry is one charge, of all steps
# that it reserved: settled or not, published or not. When an attempt stops may depend on what it saw, so that stopping
# early gives nothing back; a lost attempt may have drawn all of its noise; the attempt after it draws its own, and is
# an entry of its own. A rung that is not launched has no entry. The controller asks before it writes a reservation:
# launches in parallel are counted by then (Haney et al. 2023).

NEAR = 2e-3
"""How far below the rule, in logarithms of what is spent, a plan may stay."""

Rule = Callable[[PrivacyPlan], float]
"""ln(spent / allowed) of a plan, or any number that is at most 0 exactly where the rule is met."""

_LEAST, _MOST = math.log(1e-6), math.log(1e6)
_STRIDE = 0.7
_NARROWEST = 1e-4


def fitted(plan_at: Callable[[float], PrivacyPlan | Refusal], exceeds: Rule, start: float) -> PrivacyPlan | Refusal:
    """The plan that comes nearest to the rule from below.

    plan_at  the plan for a target epsilon, or why there is none: it spends no less as the target rises
    exceeds  the rule
    start    a target to begin with, above 0; a good guess saves planning

    A Refusal where no plan meets the rule: one that says by how much the least plan exceeds it, or the system's own
    where it has no plan. Raises as `plan_at` and `exceeds` do.
    """
    tried: list[tuple[float, PrivacyPlan]] = []
    refusals: list[Refusal] = []

    @cache
    def excess(log_target: float) -> float:
        """Of the plan for a target; minus infinity where the system refuses, for which the target is too small."""
        plan = plan_at(math.exp(log_target))
        if isinstance(plan, Refusal):
            refusals.append(plan)
            return -math.inf
        tried.append((exceeds(plan), plan))
        return tried[-1][0]

    def near() -> bool:
        """Whether a plan that was tried is near enough."""
        return any(-NEAR <= one <= 0 for one, _ in tried)

    low = high = math.log(start)
    while excess(low) > 0 and low > _LEAST:
        low, high = low - _STRIDE, low
    while excess(high) <= 0 and not near() and high < _MOST:
        low, high = high, high + _STRIDE
        if excess(high) == excess(low) != -math.inf:
            # Nothing is solved: every target has the same plan.
            break
    while not near() and high - low > _NARROWEST and excess(low) <= 0 < excess(high):
        middle = low + (high - low) * _share(excess(low), excess(high))
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)
    if within := [one for one in tried if one[0] <= 0]:
        return max(within, key=lambda one: one[0])[1]
    return _too_dear(min(one for one, _ in tried)) if tried else refusals[-1]


def _share(below: float, above: float) -> float:
    """Where between two targets the excess is about -NEAR/2, as a share of the way: by the straight line, not too near
    to either, so that both ends move."""
    if math.isinf(below) or math.isinf(above):
        return 0.5
    return min(max((-NEAR / 2 - below) / (above - below), 0.02), 0.98)


def _too_dear(excess: float) -> Refusal:
    return Refusal(
        violations={"budget": excess},
        reason=f"the least that this trial can spend is {math.exp(min(excess, 700)):.4g} times its part of the sweep's "
        "budget. Raise the noise or privacy.epsilon, or take fewer steps or trials.",
    )


def fitted_to_part(
    plan_at: Callable[[float], PrivacyPlan | Refusal],
    stops: Callable[[int], Sequence[int]],
    budget: SweepBudget,
    number: int,
    known: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    """The plan that spends most of what trial `number` may spend.

    plan_at  the plan for a target epsilon
    stops    of a number of planned steps: at the end of which of them a launch ends
    known    as of `charge_of`

    Raises InvalidValue for a system whose claims do not stand, or that no accountant counts as a curve.
    """

    def exceeds(plan: PrivacyPlan) -> float:
        trial_profile(plan)
        ends = stops(plan.steps)
        try:
            charges = [
                charge_of(budget, plan, start, end, known).amounts for start, end in zip((0, *ends), ends, strict=False)
            ]
        except UnsupportedEvent as error:
            raise InvalidValue(
                plan.system,
                "privacy.scope: sweep",
                "a system whose releases have a curve of epsilon and delta",
                f"{error} Use privacy.scope: trial.",
            ) from error
        training, validation = ([one[part] for one in charges] for part in (0, 1))
        beyond = math.log(max(plan.guarantee.epsilon, 1e-300) / budget.trial_epsilon)
        return max(budget.excess(training, number), budget.excess(validation, number), beyond)

    return fitted(plan_at, exceeds, budget.alone(number))


@dataclass(slots=True)
class SweepFilter:
    """The filter of one sweep while it runs: a ledger of training, and of all else where nothing composes in parallel,
    and one of reports on private validation records that are parted from training. Used from one thread.

    known    {question: answer} of charges that were calculated before
    charges  {launch: what it is charged}, in both ledgers
    parts    the rule that parts the records; empty before the first such report
    """

    budget: SweepBudget
    known: MutableMapping[str, float]
    charges: dict[str, LaunchCharge] = field(default_factory=dict)
    parts: str = ""

    @classmethod
    def begun(
        cls,
        budget: SweepBudget,
        plans: Mapping[str, PrivacyPlan],
        entries: Iterable[Reservation],
        known: MutableMapping[str, float],
    ) -> Self:
        """As its ledger says. Raises BudgetExceeded for one that is beyond the budget, and InvalidValue as `add`."""
        found, nothing = cls(budget, known), filter_charge(budget)
        for one in entries:
            found.add(one, charge_of(budget, plans[one.key], one.from_step, one.to_step, known))
        if not found.holds(LaunchCharge(nothing, nothing)):
            raise BudgetExceeded(
                f"the ledger has {len(found.charges)} launches: expected some that epsilon={budget.epsilon!r} at "
                f"delta={budget.delta!r} holds. Nothing further is launched."
            )
        return found

    def holds(self, charge: LaunchCharge) -> bool:
        """Whether both ledgers have room for a launch beside everything that is charged."""
        empty: PrivacyFilter[Any] = self.budget.filter
        training = tuple((name, one.training) for name, one in self.charges.items())
        validation = tuple((name, one.validation) for name, one in self.charges.items() if one.validation is not None)
        return replace(empty, charged=training).admits(charge.training) and (
            charge.validation is None or replace(empty, charged=validation).admits(charge.validation)
        )

    def admits(self, plan: PrivacyPlan, from_step: int, to_step: int) -> bool:
        """Whether steps [from_step, to_step) of a plan may be launched beside all that was launched."""
        return self.holds(charge_of(self.budget, plan, from_step, to_step, self.known))

    def charge(self, launch: Reservation, plan: PrivacyPlan) -> None:
        """Count a launch, which was admitted. Raises as `add`."""
        self.add(launch, charge_of(self.budget, plan, launch.from_step, launch.to_step, self.known))

    def add(self, launch: Reservation, charge: LaunchCharge) -> None:
        """Count a charge. Raises InvalidValue for records that another rule parts."""
        if charge.validation is not None:
            if self.parts not in ("", charge.parts):
                expected = "validation records that one rule parts from training in all trials"
                raise InvalidValue("data.validation", charge.parts, expected)
            self.parts = charge.parts
        self.charges[f"{launch.key}.{launch.attempt}"] = charge

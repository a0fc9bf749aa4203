"""The least Gaussian that covers an event up to a public tau: what adds up in the filter of a sweep or a population."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import lru_cache

from dpcore.accountants import registry
from dpcore.accountants.gdp import GDPAccountant
from dpcore.accountants.pld import DiscretisationInvalid, PLDAccountant, ToleranceNotReached
from dpcore.accounting import headline_of_many
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, Gaussian, UnsupportedEvent, phases, to_dict
from dpcore.guarantee import STANDING, Guarantee, Notion
from dpcore.selection import EventProfile, TrialProfile, WorstProfile, covering_mu, is_covered
from dpcore.selection.filters import DPCharge, GDPCharge, RenyiCharge
from sweeps.privacy.population import AddingRule, Charge, Population, to_charge
from sweeps.privacy.sweep_budget import SweepBudget
from trainables.system import PrivacyPlan

TOLERANCE = 2e-3
"""Of a mu that covers, relative and from above."""
ROUGH = 1e-2
"""Of the deltas that it covers: those that decide are told far more closely, and of the others a few are dear."""
ROUND_UP = 1 + 1e-12


def dominating_gaussian(event: Event, adjacency: Adjacency, tau: float, known: MutableMapping[str, float]) -> GDPCharge:
    """The mu of an event, and the tau that stands beside it where it is not Gaussian itself; mu may be infinite.

    known  {question: answer}, which is asked first, and told; an answer counts where it is shown to cover

    Raises UnsupportedEvent for what no accountant counts as a curve, and as the accountants do.
    """
    parts = phases(event)
    if not parts:
        return GDPCharge(0.0)
    if all(isinstance(part, Gaussian) for part in parts):
        # Exact, and nothing stands beside it (Dong, Roth & Su 2022, corollary 2).
        return GDPCharge(GDPAccountant(adjacency).compose(event).mu * ROUND_UP)
    question = _question(event, adjacency, tau)
    mu = known.get(question)
    # What somebody kept is no proof: the next launch rests on it, and with it the total of the sweep.
    if mu is None or not shown_to_cover(event, mu, tau, adjacency):
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


def _question(event: Event, adjacency: Adjacency, tau: float) -> str:
    counted = sorted(json.dumps([to_dict(part), count], sort_keys=True) for part, count in phases(event).items())
    asked = json.dumps(["covering-mu/1", counted, str(adjacency), tau, TOLERANCE, ROUGH])
    return f"covering-mu:{hashlib.sha256(asked.encode()).hexdigest()}"


# What one launch is charged in the filter of its sweep: all steps that it may run, and the reports among them.
#
# Training and reports on private validation records have a ledger each where a record is in one of the two parts
# alone (add-remove, parted by a rule of the records' own): then what one part spends is nothing to a record of the
# other. Else one ledger holds both.

FilterCharge = GDPCharge | RenyiCharge


@dataclass(frozen=True, slots=True)
class LaunchCharge:
    """What a launch adds to the ledger of training, and to that of validation; None: it has none of its own."""

    training: FilterCharge
    validation: FilterCharge | None

    @property
    def amounts(self) -> tuple[float, float]:
        """What adds up, of each."""
        return _amount(self.training), 0.0 if self.validation is None else _amount(self.validation)


def charge_of(
    budget: SweepBudget, plan: PrivacyPlan, from_step: int, to_step: int, known: MutableMapping[str, float]
) -> LaunchCharge:
    """Of steps [from_step, to_step) of a plan.

    known  {question: answer}, which is asked first and told

    Raises UnsupportedEvent for what no accountant counts as a curve.
    """
    training, reports = plan.event(from_step, to_step), plan.validation
    if reports is None:
        return LaunchCharge(_charge(budget, training, known), None)
    reported = reports.event(from_step, to_step)
    if reports.parallel and budget.adjacency is Adjacency.ADD_REMOVE:
        return LaunchCharge(_charge(budget, training, known), _charge(budget, reported, known))
    return LaunchCharge(_charge(budget, Composed(events=(training, reported)), known), None)


def nothing(budget: SweepBudget) -> FilterCharge:
    """The charge of what reads no record."""
    return GDPCharge(0.0) if budget.order is None else RenyiCharge(0.0)


def _amount(charge: FilterCharge) -> float:
    return charge.mu**2 * ROUND_UP if isinstance(charge, GDPCharge) else charge.divergence


def _charge(budget: SweepBudget, event: Event, known: MutableMapping[str, float]) -> FilterCharge:
    if budget.order is not None:
        return RenyiCharge(float(EventProfile(event, budget.adjacency).renyi((budget.order,))[0]))
    return dominating_gaussian(event, budget.adjacency, budget.tau, known)


# The profile of a whole trial: training and its reports on private validation records together.


def trial_profile(
    plan: PrivacyPlan, from_step: int = 0, to_step: int | None = None, tolerance: float = registry.TOLERANCE
) -> TrialProfile:
    """Upper bounds, in both directions, on what steps from_step..to_step-1 of `plan` reveal, with the reports that
    follow them (the whole trial by default).

    tolerance  relative, of the accountant's bounds: they are upper ones whatever it is

    Where train and validation compose in parallel a record is in one of them: the larger at every point. Else both are
    composed. What a price of a search is made of has to be proved: raises InvalidValue for a plan whose claim does not
    stand, and UnsupportedEvent for one that no accountant counts as a curve.
    """
    claim = plan.guarantee
    if claim.status not in STANDING:
        raise InvalidValue(
            f"{plan.system}'s claim",
            str(claim.status),
            f"{' or '.join(STANDING)}",
            "A budget for the whole sweep covers trials whose claims stand. Use privacy.scope: trial.",
        )
    training, reports = plan.event(from_step, to_step), plan.validation
    if reports is None:
        return EventProfile(training, claim.adjacency, tolerance=tolerance)
    judging = reports.event(from_step, to_step)
    if reports.parallel and claim.adjacency is Adjacency.ADD_REMOVE:
        return WorstProfile(
            (
                EventProfile(training, claim.adjacency, tolerance=tolerance),
                EventProfile(judging, claim.adjacency, tolerance=tolerance),
            )
        )
    return EventProfile(Composed(events=(training, judging)), claim.adjacency, tolerance=tolerance)


# What an attempt of a trial, a twin of an audit, or a reading of test records costs a population, by its rule.
#
# A row covers all that its release reads of the population, whichever part: where its own plan parts records that
# train from records that validate by a function of each record alone, the larger of the two (`dpcore.accounting`), else
# both together. So it holds whatever other sweeps part the records by, and rows add.
#
# linear the epsilon of these steps at the plan's delta. Of a whole plan its claim gdp the mu of Gaussian events, or
# the least that covers others up to the ledger's public tau: no limit theorem. Events that no accountant bounds, and
# claims known as (epsilon, delta) alone, enter by `GDPCharge.of_dp`
#
# Where a plan's first claim is of another notion, its events may be that notion's: then the claim beside it is
# charged.

_UNCOUNTED = (UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid)


def charge_of_steps(population: Population, plan: PrivacyPlan, from_step: int, to_step: int) -> Charge:
    """What steps [from_step, to_step) of a plan cost, its reports on private validation records included.

    Raises InvalidValue for a plan without a claim of differential privacy that stands, or under another adjacency or
    unit than the population's.
    """
    claim = standing_claim(plan)
    check_terms(population, claim.adjacency, claim.unit)
    if claim is not plan.guarantee:
        # Beside a first claim of another notion, whose events the plan has.
        return _of_claim(population, claim)
    whole = (from_step, to_step) == (0, plan.steps)
    if population.rule is AddingRule.LINEAR:
        return _of_claim(population, claim if whole else _slice_claim(plan, claim, from_step, to_step))
    parts = [plan.event(from_step, to_step)]
    if plan.validation is not None:
        parts.append(plan.validation.event(from_step, to_step))
        if not (plan.validation.parallel and claim.adjacency is Adjacency.ADD_REMOVE):
            parts = [Composed(events=tuple(parts))]
    covers = [_cover(one, claim.adjacency, population.tau) for one in parts]
    if all(math.isfinite(one.mu) for one in covers):
        return GDPCharge(max(one.mu for one in covers), max(one.tau for one in covers))
    return _of_claim(population, claim if whole else _slice_claim(plan, claim, from_step, to_step))


def charge_of_event(population: Population, event: Event, delta: float) -> Charge:
    """What a release costs whose event is counted at `delta`. Raises as the accountants do."""
    if population.rule is AddingRule.GDP:
        dominating_gaussian = _cover(event, population.adjacency, population.tau)
        if math.isfinite(dominating_gaussian.mu):
            return dominating_gaussian
    return _of_claim(population, headline_of_many(event, delta, population.adjacency, population.unit))


def repeated(charge: Charge, times: int) -> Charge:
    """The same so many times over, each with noise of its own."""
    if isinstance(charge, DPCharge):
        return DPCharge(charge.epsilon * times, min(charge.delta * times, math.nextafter(1.0, 0.0)))
    return GDPCharge(charge.mu * math.sqrt(times), min(charge.tau * times, math.nextafter(1.0, 0.0)))


def standing_claim(plan: PrivacyPlan) -> Guarantee:
    """A plan's claim of differential privacy that stands: its own, or one beside it. Raises InvalidValue."""
    for one in (plan.guarantee, *plan.beside):
        if one.notion is Notion.DP and one.status in STANDING and math.isfinite(one.epsilon):
            return one
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


def _slice_claim(plan: PrivacyPlan, claim: Guarantee, from_step: int, to_step: int) -> Guarantee:
    """Of some steps at the claim's delta; where no accountant counts them, the claim of all, which holds of them."""
    from sweeps.privacy.totals import procedure_guarantee
    from sweeps.store.records import LedgerEntry

    entry = LedgerEntry(key=plan.system, attempt=1, from_step=from_step, to_step=to_step)
    try:
        counted = procedure_guarantee({plan.system: plan}, [entry], claim.delta, adaptive=False)
    except (InvalidValue, *_UNCOUNTED):
        return claim
    return counted if counted.status in STANDING and counted.delta <= claim.delta else claim


def _of_claim(population: Population, claim: Guarantee) -> Charge:
    return to_charge(population, claim.epsilon, claim.delta)


@lru_cache(maxsize=4096)
def _cover(event: Event, adjacency: Adjacency, tau: float) -> GDPCharge:
    """The least Gaussian that covers an event; infinite where nothing bounds it at so small a chance."""
    try:
        return dominating_gaussian(event, adjacency, tau, {})
    except _UNCOUNTED:
        return GDPCharge(math.inf, tau)

"""What an attempt of a trial, a twin of an audit, or a reading of test records costs a population, by its rule.

A row covers all that its release reads of the population, whichever part: where its own plan parts records that train
from records that validate by a function of each record alone, the larger of the two (`dpcore.accounting`), else both
together. So it holds whatever other sweeps part the records by, and rows add.

linear  the epsilon of these steps at the plan's delta. Of a whole plan its claim
gdp     the mu of Gaussian events, or the least that covers others up to the ledger's public tau: no limit theorem.
        Events that no accountant bounds, and claims known as (epsilon, delta) alone, enter by `GDPCharge.of_dp`

Where a plan's first claim is of another notion, its events may be that notion's: then the claim beside it is charged.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.accounting import headline_of_many
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event, UnsupportedEvent
from dpcore.guarantee import STANDING, Guarantee, Notion
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.budget.covers import cover
from sweeps.population.arithmetic import AddingRule, Charge, Population, entering
from trainables.system import PrivacyPlan

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
        cover = _cover(event, population.adjacency, population.tau)
        if math.isfinite(cover.mu):
            return cover
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
    from sweeps.ledger.spending import procedure_guarantee
    from sweeps.store.records import LedgerEntry

    entry = LedgerEntry(key=plan.system, attempt=1, from_step=from_step, to_step=to_step)
    try:
        counted = procedure_guarantee({plan.system: plan}, [entry], claim.delta, adaptive=False)
    except (InvalidValue, *_UNCOUNTED):
        return claim
    return counted if counted.status in STANDING and counted.delta <= claim.delta else claim


def _of_claim(population: Population, claim: Guarantee) -> Charge:
    return entering(population, claim.epsilon, claim.delta)


@lru_cache(maxsize=4096)
def _cover(event: Event, adjacency: Adjacency, tau: float) -> GDPCharge:
    """The least Gaussian that covers an event; infinite where nothing bounds it at so small a chance."""
    try:
        return cover(event, adjacency, tau, {})
    except _UNCOUNTED:
        return GDPCharge(math.inf, tau)

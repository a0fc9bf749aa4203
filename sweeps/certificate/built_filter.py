"""`scope: sweep, release: all` where results chose what was launched: the budget, and what its filter was charged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dpcore.events import Adjacency, phases
from dpcore.guarantee import Guarantee
from dpcore.selection import GDPCharge, RenyiFilter
from sweeps.certificate.built import Built, ledger_rows, planned
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.gathering import KnownSweep
from sweeps.certificate.modes import Filtered
from sweeps.certificate.modes.filtered import ChargedLaunch, FilterLedger, GaussianRule, Part, RenyiRule
from sweeps.certificate.modes.plans import composes_in_parallel
from sweeps.privacy.charge import FilterCharge, charge_of
from sweeps.privacy.sweep_budget import SweepBudget, budget_of
from trainables.system import PrivacyPlan


def of_filter(known: KnownSweep, plans: Mapping[str, PrivacyPlan], claim: Guarantee) -> Built:
    """All trials of a sweep with one budget, which is the claim. Raises InvalidValue."""
    budget = budget_of(known.spec)
    assert budget is not None
    # What a launch was allowed to run is charged, however far it came.
    reserved = [replace(entry, executed_to=entry.to_step) for entry in known.entries]
    rows, listed = ledger_rows(plans, reserved), tuple(planned(key, plan) for key, plan in plans.items())
    rule = _rule(budget)
    parted = composes_in_parallel(listed) and claim.adjacency is Adjacency.ADD_REMOVE
    known_charges: dict[str, float] = {}
    charges = [charge_of(budget, plans[one.trial], one.from_step, one.to_step, known_charges) for one in rows]
    training = [(row, one.training) for row, one in zip(rows, charges, strict=True)]
    reports = [(row, one.validation) for row, one in zip(rows, charges, strict=True) if one.validation is not None]
    ledgers = [_ledger(rule, "training" if parted else "both", training)]
    ledgers += [_ledger(rule, "reports", reports)] if parted else []
    mode = Filtered(mode="filter", scope="sweep", release="all", trials=listed, rule=rule, ledgers=tuple(ledgers))
    artefact = f"every published metric of {len(plans)} trials at every report, and their models where systems have any"
    return Built(mode=mode, claim=claim, rows=rows, artefact=artefact)


def _rule(budget: SweepBudget) -> GaussianRule | RenyiRule:
    empty = budget.filter
    if isinstance(empty, RenyiFilter):
        return RenyiRule(kind="renyi", order=empty.order, budget=empty.budget)
    return GaussianRule(kind="gdp", tau_share=empty.tau_share, mu_total=empty.mu_total, tau_total=empty.tau_total)


def _ledger(
    rule: GaussianRule | RenyiRule, part: Part, charges: Sequence[tuple[LedgerRow, FilterCharge]]
) -> FilterLedger:
    found = tuple(_charged(row, one) for row, one in charges if _reads(row, part))
    added = math.fsum(rule.added(one) for one in found)
    return FilterLedger(part=part, charges=found, sum=added, taus=math.fsum(one.tau for one in found))


def _reads(row: LedgerRow, part: Part) -> bool:
    """Whether a launch released anything of this part of the records."""
    own = {"training": (row.training,), "reports": (row.reports,), "both": (row.training, row.reports)}[part]
    return any(phases(event) for event in own)


def _charged(row: LedgerRow, charge: FilterCharge) -> ChargedLaunch:
    amount, tau = (charge.mu, charge.tau) if isinstance(charge, GDPCharge) else (charge.divergence, 0.0)
    return ChargedLaunch(trial=row.trial, attempt=row.attempt, amount=amount, tau=tau)

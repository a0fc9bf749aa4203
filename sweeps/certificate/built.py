"""The arithmetic part of a certificate as its mode's file makes it from the store, and what these files share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpcore.events import Adjacency, Composed
from dpcore.guarantee import Guarantee
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.modes import Mode
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.store.records import LedgerEntry
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a mode's file found.

    rows      of the published ledger
    artefact  what was released, exactly
    """

    mode: Mode
    claim: Guarantee
    rows: Sequence[LedgerRow]
    artefact: str


def planned(key: str, plan: PrivacyPlan, claim: Guarantee | None = None) -> PlannedTrial:
    """A plan in a document.  claim  what the trial claims, where that is not the plan's own"""
    system, reports = SYSTEMS.get(plan.system), plan.validation
    return PlannedTrial(
        trial=key,
        system=plan.system,
        publication="" if system is None else system.source,
        mechanism=plan.description,
        hyperparameters=dict(plan.config),
        solved=plan.solved,
        status=(claim or plan.guarantee).status,
        steps=plan.steps,
        training=plan.event(),
        reports=Composed() if reports is None else reports.event(),
        reported_after=() if reports is None else reports.at,
        parts=reports.parts if reports is not None and reports.histogram.adjacency is Adjacency.ADD_REMOVE else "",
    )


def ledger_rows(plans: Mapping[str, PrivacyPlan], entries: Sequence[LedgerEntry]) -> list[LedgerRow]:
    """Of the launches of these plans."""
    return [ledger_row(plans[entry.key], entry) for entry in entries]


def ledger_row(plan: PrivacyPlan, entry: LedgerEntry) -> LedgerRow:
    """What one launch was charged for: as a reader finds it in the plan, so never less than it released."""
    listed = planned(entry.key, plan)
    start, stop = entry.from_step, entry.from_step + entry.steps_spent
    return LedgerRow(
        trial=entry.key,
        attempt=entry.attempt,
        from_step=start,
        to_step=max(entry.to_step, stop),
        charged_to=stop,
        training=listed.trained(start, stop),
        reports=listed.reported(start, stop),
    )


def whole_row(key: str, plan: PrivacyPlan) -> LedgerRow:
    """A plan as if one launch had run all of it."""
    return ledger_row(plan, LedgerEntry(key=key, attempt=1, from_step=0, to_step=plan.steps, executed_to=plan.steps))

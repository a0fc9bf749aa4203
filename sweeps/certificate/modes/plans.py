"""The plan of one trial in a document, and whether ledger rows are slices of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, JsonValue

from dpcore.events import Event, phases
from dpcore.guarantee import Status
from sweeps.certificate.chain import LedgerRow
from sweeps.certificate.claimed import Check
from sweeps.certificate.fields import EventText, FrozenPart, Sentence


class PlannedTrial(FrozenPart):
    """What one trial releases at most, fixed before it ran.

    system, publication  who trains, and after whom
    mechanism        in one sentence
    hyperparameters  complete; `solved` names those that calibration chose
    status           of what the trial claims for itself
    steps            of the plan
    training, reports  of all its steps, as events
    parts            what parts validation records from those that are trained on, where both compose in parallel
    """

    trial: Sentence
    system: Sentence
    publication: str
    mechanism: Sentence
    hyperparameters: dict[str, JsonValue]
    solved: tuple[str, ...]
    status: Status
    steps: Annotated[int, Field(ge=1)]
    training: EventText
    reports: EventText
    parts: str


def composes_in_parallel(plans: Sequence[PlannedTrial]) -> bool:
    """Whether training and reports of all of them do: every one parts the records, and in one way."""
    found = {one.parts for one in plans}
    return len(found) == 1 and "" not in found


def slices(plans: Sequence[PlannedTrial], rows: Sequence[LedgerRow]) -> Iterator[Check]:
    """Whether every ledger row is of a plan, counts what it was allowed to run, and releases no more than its plan."""
    known = {one.trial: one for one in plans}
    wrong = [why for row in rows if (why := _wrong(row, known.get(row.trial)))]
    launches = [(row.trial, row.attempt) for row in rows]
    if len(set(launches)) < len(launches) or len(known) < len(plans):
        wrong.append("a trial or a launch is listed twice")
    yield Check("ledger rows against plans", not wrong, "; ".join(wrong) or f"{len(rows)} rows of {len(plans)} plans")


def _wrong(row: LedgerRow, plan: PlannedTrial | None) -> str:
    name = f"{row.trial}, launch {row.attempt}"
    if plan is None:
        return f"{name}: no such plan"
    if not row.from_step < row.to_step <= plan.steps or row.charged_to > row.to_step:
        return f"{name}: steps {row.from_step} to {row.charged_to} of {row.to_step} within a plan of {plan.steps}"
    ran = max(0, row.charged_to - row.from_step)
    if not _of_steps(row.training, plan.training, ran, plan.steps) or not _within(row.reports, plan.reports):
        return f"{name}: it does not release what its plan says of {ran} steps"
    if ran == plan.steps and phases(row.reports) != phases(plan.reports):
        return f"{name}: it does not report what its plan says"
    return ""


def _of_steps(part: Event, plan: Event, ran: int, of: int) -> bool:
    """Whether `part` may be what so many steps of a plan release.

    Where every step is alike, it is so many times the release of one. Where steps differ it lies within the plan's; and
    what a mechanism releases whose noise is correlated over steps is no part of its plan at all.
    """
    parts, whole = phases(part), phases(plan)
    if ran == of or not whole:
        return parts == whole
    if not ran:
        return not parts
    if len(whole) == 1:
        ((one, count),) = whole.items()
        return count % of != 0 or parts == {one: count // of * ran}
    return _within(part, plan)


def _within(part: Event, whole: Event) -> bool:
    known = phases(whole)
    return all(count <= known.get(one, 0) for one, count in phases(part).items())

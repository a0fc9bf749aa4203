"""The plan of one trial in a document, and whether ledger rows are slices of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import Field, JsonValue

from dpcore.events import Composed, Event, Repeated, blocks, phases
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
    reported_after  numbers of steps after which there is a report, increasing
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
    reported_after: tuple[Annotated[int, Field(ge=1)], ...]
    parts: str

    def trained(self, start: int, stop: int) -> Event:
        """What steps `start` to `stop` - 1 release of training records: exactly where the plan tells its steps apart
        (all are alike, or each is one release in order), and else all of the plan, which is no less."""
        listed = list(blocks(self.training))
        total, ran = sum(count for _, count in listed), stop - start
        if ran <= 0:
            return Composed()
        if len(phases(self.training)) == 1 and total % self.steps == 0:
            return Repeated(event=listed[0][0], count=total // self.steps * ran)
        return _in_order(listed, start, stop) if total == self.steps else self.training

    def reported(self, start: int, stop: int) -> Event:
        """What the reports after more than `start` and at most `stop` steps release, likewise: all are alike."""
        drawn, every = sum(start < one <= stop for one in self.reported_after), len(self.reported_after)
        whole = phases(self.reports)
        if not drawn or any(count % every for count in whole.values()):
            return self.reports if drawn else Composed()
        return Composed(events=tuple(Repeated(event=one, count=count // every * drawn) for one, count in whole.items()))


def _in_order(listed: Sequence[tuple[Event, int]], start: int, stop: int) -> Event:
    found, position = [], 0
    for one, count in listed:
        inside = min(stop, position + count) - max(start, position)
        if inside > 0:
            found.append(Repeated(event=one, count=inside))
        position += count
    return Composed(events=tuple(found))


def composes_in_parallel(plans: Sequence[PlannedTrial]) -> bool:
    """Whether training and reports of all of them do: every one parts the records, and in one way."""
    found = {one.parts for one in plans}
    return len(found) == 1 and "" not in found


def slices(plans: Sequence[PlannedTrial], rows: Sequence[LedgerRow]) -> Iterator[Check]:
    """Whether every plan was launched, and every ledger row is of a plan, counts what it was allowed to run, and
    releases what its plan says of the steps that it counts."""
    known = {one.trial: one for one in plans}
    wrong = [f"{one.trial}: its reports are not after steps of its plan" for one in plans if not _reports_fit(one)]
    wrong += [why for row in rows if (why := _wrong(row, known.get(row.trial)))]
    launches = [(row.trial, row.attempt) for row in rows]
    if len(set(launches)) < len(launches) or len(known) < len(plans):
        wrong.append("a trial or a launch is listed twice")
    wrong += [f"{one}: no launch" for one in known if one not in {row.trial for row in rows}]
    yield Check("ledger rows against plans", not wrong, "; ".join(wrong) or f"{len(rows)} rows of {len(plans)} plans")


def run_whole(plans: Sequence[PlannedTrial], rows: Sequence[LedgerRow]) -> Check:
    """Whether the last launch of every plan is charged to its end.

    Budgets add up that were fixed beforehand: how far a trial came that failed, or was left on its way, is none.
    """
    last = {row.trial: row for row in sorted(rows, key=lambda row: row.attempt)}
    short = [one.trial for one in plans if one.trial in last and last[one.trial].charged_to < one.steps]
    said = f"{', '.join(short)}: charged for a part of what was fixed beforehand" if short else "all of them"
    return Check("plans are charged whole", not short, said)


def _reports_fit(plan: PlannedTrial) -> bool:
    after = plan.reported_after
    in_order = list(after) == sorted(set(after)) and all(step <= plan.steps for step in after)
    return in_order and bool(after) is bool(phases(plan.reports))


def _wrong(row: LedgerRow, plan: PlannedTrial | None) -> str:
    name = f"{row.trial}, launch {row.attempt}"
    if plan is None:
        return f"{name}: no such plan"
    if not row.from_step < row.to_step <= plan.steps or not row.from_step <= row.charged_to <= row.to_step:
        return f"{name}: steps {row.from_step} to {row.charged_to} of {row.to_step} within a plan of {plan.steps}"
    ran = f"steps {row.from_step} to {row.charged_to}"
    if phases(row.training) != phases(plan.trained(row.from_step, row.charged_to)):
        return f"{name}: it does not release what its plan says of {ran}"
    if phases(row.reports) != phases(plan.reported(row.from_step, row.charged_to)):
        return f"{name}: it does not report what its plan says of {ran}"
    return ""

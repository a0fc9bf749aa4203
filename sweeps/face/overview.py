"""`sweeps show` of one sweep: where it stands, what its trials claim, what it spent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeps.held_out.declared import declared_test
from sweeps.held_out.readings import charged, readings
from sweeps.ledger.assumptions import HEADING, Assumptions
from sweeps.ledger.phases import tuned_by_now
from sweeps.ledger.spending import summary_in_passing
from sweeps.ledger.summary import Summary
from sweeps.ledger.text import claim_lines, executed_text, stopped_lines, total_lines
from sweeps.ledger.totals import Total, earlier_lines, earlier_totals, total_of
from sweeps.population.saying import now
from sweeps.release.policy import Release
from sweeps.release.publisher import Publisher
from sweeps.release.validation_text import recorded_text
from sweeps.store.records import Refutation, SweepRecord, accepted, notes, tags
from sweeps.util.workspace import Workspace
from trainables.worker.redaction import shown_url


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One sweep as `sweeps show` prints it.

    counts        {state: trials}
    stopped       a line for each rule that ended trials before their last planned step
    ledger        steps, claims and the total
    started_from  totals of the sweeps whose results its search started from
    assumptions   what the statuses of its claims and totals rest on
    heading       what stands above every claim of the sweep (`sweeps.release.policy`); mostly empty
    validation    what is done with the validation records, in one line; None without any
    test          the same of test records, and each reading of them
    refuted       {system: the audit that refuted a claim of it}
    places        where its files and views are
    population    where its population's budget stands (`sweeps.population.saying`); None: nothing is to be said
    accepted      changes with which it went on
    notes, tags   of its people
    called        how they call it; empty where that is its name
    """

    sweep: str
    state: str
    counts: Mapping[str, int]
    stopped: tuple[str, ...]
    ledger: Summary
    started_from: tuple[Total, ...]
    assumptions: Assumptions
    heading: str
    validation: str | None
    refuted: Mapping[str, Refutation]
    places: Mapping[str, str]
    test: tuple[str, ...] = ()
    population: str | None = None
    accepted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    called: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "sweep": self.sweep,
            "heading": self.heading,
            "called": self.called or self.sweep,
            "state": self.state,
            "trials": dict(self.counts),
            "notes": list(self.notes),
            "tags": dict(self.tags),
            "validation_records": self.validation,
            "test_records": list(self.test),
            **({} if self.population is None else {"population": self.population}),
            "accepted": list(self.accepted),
            "stopped": list(self.stopped),
            "refuted": {system: found.trial for system, found in self.refuted.items()},
            "ledger": self.ledger.to_dict(),
            "started_from": [total.to_dict() for total in self.started_from],
            "assumptions": list(self.assumptions.sentences),
            **self.places,
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        if self.heading:
            yield self.heading
        began = "" if self.called in ("", self.sweep) else f" ({self.sweep} in keys and folders)"
        yield f"{self.called or self.sweep}{began}  {self.state}"
        yield f"trials   {', '.join(f'{count} {state}' for state, count in self.counts.items())}"
        if self.tags:
            yield f"tags     {', '.join(f'{key}={value}' for key, value in self.tags.items())}"
        yield from (f"note     {line}" for line in self.notes)
        if self.validation is not None:
            yield f"validation records: {self.validation}"
        yield from (f"test records: {line}" for line in self.test)
        yield from (f"accepted {line}" for line in self.accepted)
        yield from (f"stopped  {line}" for line in self.stopped)
        yield from self._claimed()
        yield f"ledger   {executed_text(self.ledger)}"
        if self.population is not None:
            yield f"population  {self.population}"
        yield from self._assumed()

    def claim_lines(self) -> Iterator[str]:
        """Of them what its claims are, with all that has to stand beside them."""
        if self.heading:
            yield self.heading
        yield from self._claimed()
        yield from self._assumed()

    def _claimed(self) -> Iterator[str]:
        ledger, assumptions = self.ledger, self.assumptions
        yield from refuted_lines(self.refuted)
        yield from (f"claim    {line}" for line in claim_lines(ledger.claims, assumptions))
        yield from (f"total    {line}" for line in total_lines(ledger.procedure, ledger.uncounted, assumptions))
        yield from (f"total    {line}" for line in earlier_lines(self.started_from, assumptions))

    def _assumed(self) -> Iterator[str]:
        if self.assumptions.sentences:
            yield f"{HEADING}:"
            yield from (f"  {line}" for line in self.assumptions.lines())


def refuted_lines(refuted: Mapping[str, Refutation]) -> Iterator[str]:
    """What audits of a sweep refuted."""
    for system, by in refuted.items():
        yield (
            f"REFUTED  Audit {by.audit} refuted the claim of {by.trial}: publish no trial of {system}, whatever stands "
            "below. They run the same code."
        )


def counted(workspace: Workspace) -> list[dict[str, Any]]:
    """Every sweep of the store: its name, its state, how many of its trials are in each state, its tags and notes."""
    store = Publisher.open(workspace.store_url)
    return [_counted(store, one) for one in store.sweeps()]


def _counted(store: Publisher, record: SweepRecord) -> dict[str, Any]:
    asked = store.requests(record.name)
    said = {"tags": tags(asked), "notes": notes(asked)}
    return {"sweep": record.called, "state": record.state, **store.counts(record.name), **said}


def shown(sweep: str, workspace: Workspace) -> Shown:
    """Read a sweep. Raises UnknownSweep, StoreError."""
    store = Publisher.open(workspace.store_url)
    record = store.sweep(sweep)
    sweep = record.name
    trials = store.trials(sweep)
    asked = store.requests(sweep)
    ledger = summary_in_passing(
        record, trials, store.ledger(sweep), charged(store, record), tuned_by_now(store, record.spec)
    )
    test = declared_test(record.spec)
    started_from = earlier_totals(store, record.spec)
    claims = [trial.guarantee for trial in trials if trial.guarantee is not None]
    totals = (total_of(sweep, ledger), *started_from)
    return Shown(
        sweep=sweep,
        state=record.state,
        counts=store.counts(sweep),
        stopped=tuple(stopped_lines(trials, record.spec.early_stopping is not None)),
        ledger=ledger,
        started_from=started_from,
        assumptions=Assumptions.of([*claims, *(claim for total in totals for claim in total.claims())]),
        heading=Release.recorded(record.spec).heading,
        validation=recorded_text(record.spec),
        refuted=store.refuted(sweep),
        places={
            "root": workspace.root,
            "report": str(workspace.report(sweep)),
            "tracking": shown_url(workspace.tracking_uri),
        },
        test=() if test is None else (str(test), *(f"{one.trial}: {one}" for one in readings(store, sweep))),
        population=now(record.spec, store),
        accepted=tuple(accepted(asked)),
        notes=tuple(notes(asked)),
        tags=tags(asked),
        called=record.called,
    )

"""A sweep's trials as `sweeps show` lists them: chosen, in order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from dpcore.guarantee import Guarantee
from dpcore.rounding import delta_text, epsilon_text
from sweeps.face.selecting import named_in, page_of, place_of, selected, value_of
from sweeps.face.trial_rows import assumptions_of, row_columns, trial_rows
from sweeps.face.under_way import UnderWay, under_way
from sweeps.front.csv_text import csv_text
from sweeps.front.fitted import FittedColumn, FittedTable, cell
from sweeps.ledger.assumptions import Assumptions, covers_search
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import legend, legend_of, metric_quotes, quote_of_claim
from sweeps.store.records import DECIDED, EPSILON, TARGET_EPSILON, TrialState
from sweeps.util.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

MORE = "use --format csv or json"
_KIND = ("notion", "delta", "adjacency", "unit", "accountant", "status")
_REASONS, _LONGEST = 5, 200
"""Reasons under a page, and characters of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The trials of a sweep that were asked for.

    heading   what stands above every claim of the sweep; mostly empty
    metrics   that the spec asks for: objectives, and what is reported besides, in its order
    named     what conditions and order named: columns of the table too
    matching  how many trials meet the conditions
    trials    those that are listed: one page, or all that match
    page      its number; None where all are listed
    running   {key: where it is} of those that run
    """

    sweep: str
    heading: str
    metrics: tuple[str, ...]
    named: tuple[str, ...]
    matching: int
    trials: Sequence[Published]
    page: int | None
    running: Mapping[str, UnderWay]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row each; `heading` and `assumptions` stand in each, since rows travel alone."""
        assumptions = assumptions_of(self.trials)
        rows = trial_rows(self.trials, self.running, assumptions)
        for trial, row in zip(self.trials, rows, strict=True):
            if self.heading:
                row["heading"] = self.heading
            if trial.guarantee is not None:
                row["assumptions"] = " ".join(assumptions.lines_of(trial.guarantee))
        return rows

    def as_csv(self) -> str:
        """Comma-separated values with a header; a text that a spreadsheet would compute begins with an apostrophe."""
        rows = self.rows()
        return csv_text(row_columns(rows), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, times as text."""
        assumptions = assumptions_of(self.trials)
        rows = trial_rows(self.trials, self.running, assumptions)
        return {"matching": self.matching, "page": self.page, "quotes": legend_of(self.trials), "trials": rows}

    def table(self, assumptions: Assumptions) -> RenderableType:
        """For the terminal: no wider than it is. `assumptions` numbers what statuses rest on in the whole view."""
        if not self.trials:
            return Text("No trial yet." if not self.named else "No such trial.")
        kinds = [_kind(trial.guarantee, assumptions) for trial in self.trials if trial.guarantee is not None]
        varied = [name for name in _KIND if len({kind[name] for kind in kinds}) > 1]
        table = FittedTable(self._title(kinds, varied), list(self._columns(assumptions, varied)), MORE)
        return Group(table, *(Text(line, style="dim") for line in self._below()))

    def _title(self, kinds: Sequence[Mapping[str, str]], varied: Sequence[str]) -> str:
        if not kinds:
            return f"Trials of {self.sweep}"
        shared = ", ".join(_WORDS[name].format(kinds[0][name]) for name in _KIND if name not in varied)
        searched = all(covers_search(trial.guarantee) for trial in self.trials if trial.guarantee is not None)
        whose = "the epsilon is that of the whole search" if searched else "each epsilon by itself"
        return f"Trials of {self.sweep}, {whose}: {shared}"

    def _columns(self, assumptions: Assumptions, varied: Sequence[str]) -> Iterator[FittedColumn]:
        trials = self.trials
        claims = [trial.guarantee for trial in trials]
        yield FittedColumn("trial", [str(trial.number) for trial in trials])
        yield FittedColumn("state", [str(trial.state) for trial in trials])
        measured = [name for name in self.metrics if name not in DECIDED]
        for name in measured:
            yield FittedColumn(name, [cell(trial.metrics.get(name)) for trial in trials])
        if self.running:
            where = [self.running.get(trial.key) for trial in trials]
            yield FittedColumn("step", ["" if one is None else f"{one.step}/{one.until}" for one in where])
            yield FittedColumn("left", ["" if one is None else _seconds(one.seconds_left) for one in where])
            yield FittedColumn("node", ["" if one is None else one.node for one in where], needed=False)
        yield FittedColumn(EPSILON, ["" if one is None else epsilon_text(one.epsilon) for one in claims])
        for name in varied:
            kinds = [None if one is None else _kind(one, assumptions, short=True) for one in claims]
            yield FittedColumn(name, ["" if kind is None else kind[name] for kind in kinds])
        budgets = ["" if one.target_epsilon is None else epsilon_text(one.target_epsilon) for one in trials]
        yield FittedColumn(TARGET_EPSILON, budgets, needed=False)
        quotes = [None if one is None else quote_of_claim(one).words for one in claims]
        if len({one for one in quotes if one is not None}) > 1:
            yield FittedColumn("quote", [one or "" for one in quotes])
        shown = {"trial", "state", "quote", EPSILON, TARGET_EPSILON, "number", "reason", *measured, *_KIND}
        if len({trial.system for trial in trials}) > 1:
            shown.add("system")
            yield FittedColumn("system", [trial.system for trial in trials])
        for name in self.named:
            if name not in shown:
                shown.add(name)
                yield FittedColumn(name, [cell(value_of(trial, name)) for trial in trials])
        knobs = list(dict.fromkeys(name for trial in trials for name in trial.knobs))
        for name in knobs:
            if name not in shown and len({trial.knobs.get(name) for trial in trials}) > 1:
                yield FittedColumn(name, [cell(trial.knobs.get(name)) for trial in trials], needed=False)

    def _below(self) -> Iterator[str]:
        claims = [trial.guarantee for trial in self.trials if trial.guarantee is not None]
        yield from legend(map(quote_of_claim, claims), metric_quotes(self.trials, self.metrics))
        ended = [trial for trial in self.trials if trial.reason]
        for trial in ended[:_REASONS]:
            text = " ".join(trial.reason.split())
            yield f"trial {trial.number}: {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}"
        if len(ended) > _REASONS:
            yield f"and {len(ended) - _REASONS} more with a reason: {MORE}"
        if self.page is not None and self.matching > len(self.trials):
            yield place_of(self.page, len(self.trials), self.matching)


_WORDS = {
    "notion": "{}",
    "delta": "at delta {}",
    "adjacency": "{}",
    "unit": "per {}",
    "accountant": "by {}",
    "status": "status: {}",
}


def _kind(claim: Guarantee, assumptions: Assumptions, short: bool = False) -> dict[str, str]:
    kind = {name: str(getattr(claim, name)) for name in _KIND} | {"delta": delta_text(claim.delta)}
    return kind | {"status": assumptions.cite(claim) if short else assumptions.status(claim)}


def _seconds(left: float | None) -> str:
    if left is None:
        return "?"
    return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.1f} h"


def goals_of(spec: RecordedSpec) -> dict[str, str]:
    """{metric: maximize or minimize} of every number that a sweep of this spec may report."""
    from trainables.publishing import declared
    from trainables.registry import SYSTEMS

    found: dict[str, str] = {}
    for system in spec.systems:
        if system in SYSTEMS:
            found |= {name: str(one.goal) for name, one in declared(SYSTEMS[system]).items() if one.goal is not None}
    return found | {metric: goal for metric, goal in spec.objectives if goal}


def listed(
    store: Publisher,
    workspace: Workspace,
    sweep: str,
    *,
    where: str | Iterable[str] = (),
    sort: str | None = None,
    page: int | None = None,
) -> Listed:
    """The trials that meet every condition: running ones first, then by number, unless an order is given.

    where, sort  as `sweeps.face.selecting.selected` reads them
    page         its number, from 1; None lists them all

    Raises UnknownSweep, and InvalidValue for a condition, an order or a page that cannot be.
    """
    spec = store.sweep(sweep).spec
    conditions = [where] if isinstance(where, str) else list(where)
    chosen = selected(store.trials(sweep), conditions, sort, goals_of(spec))
    if sort is None:
        chosen.sort(key=lambda trial: trial.state is not TrialState.RUNNING)
    shown = chosen if page is None else page_of(chosen, page)
    return Listed(
        sweep=sweep,
        heading=Release.recorded(spec).heading,
        metrics=tuple(dict.fromkeys(spec.asked)),
        named=named_in(conditions, sort),
        matching=len(chosen),
        trials=shown,
        page=page,
        running=under_way(store, workspace, sweep, shown),
    )

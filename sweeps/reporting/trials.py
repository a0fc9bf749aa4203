"""A sweep's trials for people: which are listed in which order, the table of them, and one trial whole."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from dpcore.checks import InvalidValue
from dpcore.events import Event, blocks, event_text
from dpcore.guarantee import Guarantee, delta_text, epsilon_text
from sweeps.privacy.ledger import HEADING, Assumptions, claim_text, count_text
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.wording import Quote, dependence, legend_of, quote_of_claim, quote_of_metric
from sweeps.reporting import summary
from sweeps.reporting.front import goals_of
from sweeps.reporting.tables import FittedColumn, FittedTable, cell, csv_text
from sweeps.store import records
from sweeps.store.workspace import Workspace
from sweeps.util.log import LOG
from sweeps.util.text import QUOTES, did_you_mean
from trainables.metrics import Dependence, scores_of, with_error
from trainables.worker.attempt import ERROR, Attempt
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    from rich.console import RenderableType


PAGE = 20
"""Trials on a page of `sweeps show`."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*([^=<>!\s]+)\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
_EXAMPLE = "For example state=failed, accuracy>=0.9 or model=linear."


_Row = Mapping[str, Any]
"""Of a trial: its `trial_values`."""


def condition(text: str) -> tuple[str, Callable[[_Row], bool]]:
    """What a trial must be to be listed: `state=failed`, `accuracy>=0.9`, `model!=linear`; as (name, test of a row).

    Numbers are equal where they are written alike in four digits, as tables show them. A trial without the value meets
    no condition but `!=`. Raises InvalidValue.
    """
    found = _CONDITION.fullmatch(text)
    if found is None or not found[3]:
        raise InvalidValue("where", text, "NAME=VALUE, or !=, <, <=, > or >= in its place", _EXAMPLE)
    name, sign, value = found.groups()
    states = [str(state) for state in records.TrialState]
    if name == "state" and value not in states:
        raise InvalidValue("where", text, f"one of the states {', '.join(states)}", did_you_mean(value, states))
    if sign not in _COMPARED:
        return name, lambda row: _alike(summary.value_in(row, name), value) is (sign != "!=")
    wanted, compare = _number(value), _COMPARED[sign]
    if wanted is None:
        raise InvalidValue("where", text, f"a number behind {sign}", _EXAMPLE)

    def holds(row: _Row) -> bool:
        found = summary.value_in(row, name)
        return isinstance(found, int | float) and not isinstance(found, bool) and compare(float(found), wanted)

    return name, holds


def _alike(value: object, text: str) -> bool:
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, int | float):
        given = _number(text)
        return given is not None and (value == given or f"{value:.4g}" == f"{given:.4g}")
    return value is not None and str(value) == text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def trial_order(text: str) -> tuple[str, bool | None]:
    """By which value trials are listed: `NAME`, `NAME:ascending` or `NAME:descending`, as (name, whether descending).

    None: a metric's best first, everything else from small to large. Raises InvalidValue.
    """
    name, colon, word = text.rpartition(":")
    if colon and (not name or word not in ("ascending", "descending")):
        raise InvalidValue("sort", text, "NAME, NAME:ascending or NAME:descending", "For example accuracy.")
    return (name, word == "descending") if colon else (text, None)


def selected(
    trials: Sequence[Published],
    where: str | Iterable[str] = (),
    sort: str | None = None,
    goals: Mapping[str, str] | None = None,
) -> list[Published]:
    """Those of `trials` that meet every condition, in the order asked for, or in their own.

    where  texts as `condition` reads them
    sort   as `trial_order` reads it; equal ones by number, those without the value last
    goals  {metric: maximize or minimize}, for the order

    Raises InvalidValue for a name that no trial has.
    """
    conditions = [condition(one) for one in ([where] if isinstance(where, str) else where)]
    by, descending = (None, None) if sort is None else trial_order(sort)
    if not conditions and by is None:
        return list(trials)
    rows = [(trial, summary.trial_values(trial)) for trial in trials]
    for what, name in [*(("where", name) for name, _ in conditions), *([] if by is None else [("sort", by)])]:
        if rows and name not in summary.COLUMNS and all(summary.value_in(values, name) is None for _, values in rows):
            bare = (column.partition(".")[2] for _, values in rows for column in values if "." in column)
            names = list(dict.fromkeys([*summary.COLUMNS, *bare]))
            expected = "a knob, solved value, metric or column of a trial"
            raise InvalidValue(what, name, expected, did_you_mean(name, names))
    found = [(trial, values) for trial, values in rows if all(holds(values) for _, holds in conditions)]
    if by is None:
        return [trial for trial, _ in found]
    if descending is None:
        descending = (goals or {}).get(by.removeprefix("metric.")) == "maximize"
    keyed = [(summary.value_in(values, by), trial) for trial, values in sorted(found, key=lambda row: row[0].number)]
    numbers = [one for one in keyed if isinstance(one[0], int | float) and not math.isnan(one[0])]
    texts = [one for one in keyed if isinstance(one[0], str) and one[0]]
    for values_of in (numbers, texts):
        values_of.sort(key=itemgetter(0), reverse=descending)
    ranked = [trial for _, trial in (*numbers, *texts)]
    keys = {trial.key for trial in ranked}
    return [*ranked, *(trial for _, trial in keyed if trial.key not in keys)]


def page_of(trials: Sequence[Published], page: int) -> Sequence[Published]:
    """The trials of one page of `PAGE`, the first being page 1. Raises InvalidValue for one that is not there."""
    last = pages(len(trials))
    if not 1 <= page <= last:
        expected = f"a page from 1 to {last}: {len(trials)} trials, {PAGE} on each"
        raise InvalidValue("page", page, expected)
    return trials[(page - 1) * PAGE : page * PAGE]


def place_of(page: int, shown: int, count: int, what: str = "") -> str:
    """Which of `count` are `shown` on a page, in words, and how to see the next ones."""
    first, last = (page - 1) * PAGE + 1, pages(count)
    more = f"; --page {page + 1} has the next" if page < last else ""
    return f"{first} to {first + shown - 1} of {count}{what} (page {page} of {last}{more})"


def pages(count: int) -> int:
    """How many pages so many trials have: one at least."""
    return max(1, -(-count // PAGE))


# A sweep's trials as `sweeps show` lists them: chosen, in order, a page at a time.

MORE = "use --format csv or json"
_KIND = ("notion", "delta", "adjacency", "unit", "accountant", "status")
_REASONS, _LONGEST = 5, 200
"""Reasons under a page, and characters of one."""


class Listed:
    """The trials of a sweep that meet every condition: running ones first, then by number, unless an order is given.

    heading   what stands above every claim of the sweep; mostly empty
    metrics   that the spec asks for: objectives, and what is reported besides, in its order
    named     what conditions and order named: columns of the table too
    matching  how many trials meet the conditions
    trials    those that are listed: one page, or all that match
    page      its number; None where all are listed
    running   {key: where it is} of those that run
    """

    def __init__(
        self,
        store: PublishedStore,
        workspace: Workspace,
        sweep: str,
        *,
        where: Sequence[str] = (),
        sort: str | None = None,
        page: int | None = None,
    ) -> None:
        """Read them.

        where, sort  as `sweeps.reporting.trials.selected` reads them
        page         its number, from 1; None lists them all

        Raises UnknownSweep, and InvalidValue for a condition, an order or a page that cannot be.
        """
        spec = store.sweep(sweep).spec
        chosen = selected(store.trials(sweep), where, sort, goals_of(spec))
        if sort is None:
            chosen.sort(key=lambda trial: trial.state is not records.TrialState.RUNNING)
        self.sweep, self.heading, self.metrics = sweep, store.heading(sweep), tuple(dict.fromkeys(spec.asked))
        self.named = [*(condition(one)[0] for one in where), *([] if sort is None else [trial_order(sort)[0]])]
        self.matching, self.page = len(chosen), page
        self.trials = chosen if page is None else page_of(chosen, page)
        self.running = summary.trial_progress(store, workspace, sweep, self.trials)

    def as_csv(self) -> str:
        """Comma-separated values with a header; a text that a spreadsheet would compute begins with an apostrophe.

        `heading` and `assumptions` stand in each row, since rows travel alone.
        """
        assumptions = summary.assumptions_of(self.trials)
        rows = summary.trial_rows(self.trials, self.running, assumptions)
        for trial, row in zip(self.trials, rows, strict=True):
            if self.heading:
                row["heading"] = self.heading
            if trial.guarantee is not None:
                row["assumptions"] = " ".join(assumptions.lines_of(trial.guarantee))
        return csv_text(summary.row_columns(rows), rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, times as text."""
        assumptions = summary.assumptions_of(self.trials)
        rows = summary.trial_rows(self.trials, self.running, assumptions)
        return {"matching": self.matching, "page": self.page, "quotes": legend_of(self.trials), "trials": rows}

    def table(self, assumptions: Assumptions) -> RenderableType:
        """For the terminal: no wider than it is. `assumptions` numbers what statuses rest on in the whole view."""
        if not self.trials:
            return Text("No trial yet." if not self.named else "No such trial.")
        columns = trial_columns(self.trials, assumptions, self.metrics, named=self.named, running=self.running)
        some = "" if self.matching == len(self.trials) else f": {len(self.trials)} of {self.matching}"
        table = FittedTable(f"Trials of {self.sweep}{some}", list(columns), MORE)
        return Group(table, *(Text(line, style="dim") for line in self._below()))

    def _below(self) -> Iterator[str]:
        ended = [trial for trial in self.trials if trial.reason]
        for trial in ended[:_REASONS]:
            text = " ".join(trial.reason.split())
            yield f"trial {trial.number}: {text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}"
        if len(ended) > _REASONS:
            yield f"and {len(ended) - _REASONS} more with a reason: {MORE}"
        if self.page is not None and self.matching > len(self.trials):
            yield place_of(self.page, len(self.trials), self.matching)


def trial_columns(
    trials: Sequence[Published],
    assumptions: Assumptions,
    metrics: Iterable[str],
    *,
    named: Collection[str] = (),
    running: Mapping[str, summary.TrialProgress] = MappingProxyType({}),
    kinds: Collection[str] = (),
) -> Iterator[FittedColumn]:
    """What people are shown of trials. What all claims share stands beside, but for `kinds`.

    metrics  shown where a trial has one; `named` always, and what else it names
    """
    claims = [trial.guarantee for trial in trials]
    yield FittedColumn("trial", [str(trial.number) for trial in trials])
    yield FittedColumn("state", [str(trial.state) for trial in trials])
    measured = [name for name in metrics if name not in records.DECIDED]
    for name in measured:
        if name in named or any(trial.metrics.get(name) for trial in trials):
            yield FittedColumn(name, [with_error(trial.metrics, name) for trial in trials])
    if running:
        where = [running.get(trial.key) for trial in trials]
        yield FittedColumn("step", ["" if one is None else f"{one.step}/{one.until}" for one in where])
        yield FittedColumn("left", ["" if one is None else _seconds(one.seconds_left) for one in where])
        yield FittedColumn("node", ["" if one is None else one.node for one in where], needed=False)
    yield FittedColumn(records.EPSILON, ["" if one is None else epsilon_text(one.epsilon) for one in claims])
    alike = [None if one is None else _kind(one, assumptions) for one in claims]
    short = [None if one is None else _kind(one, assumptions, short=True) for one in claims]
    for name in _KIND:
        if name in kinds or len({kind[name] for kind in alike if kind is not None}) > 1:
            yield FittedColumn(name, ["" if kind is None else kind[name] for kind in short])
    quotes = ["" if one is None else quote_of_claim(one).words for one in claims]
    if len(set(quotes) - {""}) > 1:
        yield FittedColumn("quote", quotes)
    shown = {"trial", "state", "quote", records.EPSILON, "number", "reason", *measured, *_KIND}
    several = ["system"] if len({trial.system for trial in trials}) > 1 else []
    knobs = dict.fromkeys(name for trial in trials for name in trial.knobs)
    varied = [name for name in knobs if len({trial.knobs.get(name) for trial in trials}) > 1]
    values = [summary.trial_values(trial) for trial in trials]
    for name in dict.fromkeys([*several, *named, *varied]):
        if name not in shown:
            column = f"knob.{name}" if name in varied and name not in named else name
            found = [summary.value_in(row, column) for row in values]
            # A budget is never shown below itself.
            budgets = name == records.TARGET_EPSILON
            yield FittedColumn(name, [epsilon_text(one) if budgets and one is not None else cell(one) for one in found])


def _kind(claim: Guarantee, assumptions: Assumptions, short: bool = False) -> dict[str, str]:
    kind = {name: str(getattr(claim, name)) for name in _KIND} | {"delta": delta_text(claim.delta)}
    return kind | {"status": assumptions.cite(claim) if short else assumptions.status(claim)}


def _seconds(left: float | None) -> str:
    if left is None:
        return "?"
    return f"{left:.0f} s" if left < 120 else f"{left / 60:.0f} min" if left < 7200 else f"{left / 3600:.1f} h"


# One trial whole, as `sweeps show NAME TRIAL` prints it.

_EVENTS = 5
"""Different steps of a plan that are written out."""

_DEPENDS = {
    Dependence.PUBLIC: "of public facts",
    Dependence.RELEASED: "of what its claim covers",
    Dependence.SIDE_CHANNEL: "of the machine: no claim covers it",
    Dependence.RAW: "of training records, outside of every claim",
}


Launch = tuple[records.LedgerEntry, records.AttemptRecord | None]
"""Of a trial: the steps that it may have run, and how it ended; None where the sweep holds its results back."""


def _launch_values(launch: Launch) -> dict[str, Any]:
    entry, ended = launch
    out: dict[str, Any] = {name: getattr(entry, name) for name in ("attempt", "from_step", "to_step")}
    told = () if ended is None else ("outcome", "reason", "seconds", "started_at", "ended_at")
    return out | {"charged": entry.steps_spent} | {name: getattr(ended, name) for name in told}


def _launch_text(launch: Launch) -> str:
    entry, ended = launch
    text = f"steps {entry.from_step:,} to {entry.to_step:,}, {count_text(entry.steps_spent, 'step')} charged"
    if ended is None:
        return text
    took = f", {ended.seconds:.3g} s" if ended.seconds else ""
    return f"{ended.outcome}: {text}{took}{f' ({ended.reason})' if ended.reason else ''}"


class TrialSummary:
    """One trial with all that may be seen of it.

    running      where it is, if it runs
    curve        what it told of itself at planned steps
    depends      {metric: on what the number depends}
    heading      what stands above every claim of the sweep; mostly empty
    refuted      the audit that refuted the claim of its system; None without one
    assumptions  what the statuses of its claims rest on
    files        {what: where it is}, of those that are there
    """

    def __init__(self, store: PublishedStore, workspace: Workspace, sweep: str, trial: Published) -> None:
        """Read what belongs to it. Raises UnknownSweep, StoreError."""
        attempts = {one.attempt: one for one in store.attempts_of(sweep, trial.key)}
        claims: list[Guarantee] = [] if trial.guarantee is None else [trial.guarantee]
        claims += [] if trial.plan is None else [trial.plan.guarantee, *trial.plan.beside]
        named = {name: dependence(trial, name) for name in trial.metrics if name not in records.DECIDED}
        self.trial, self.curve = trial, store.curves(sweep, [trial.key])
        self.launches = [(one, attempts.get(one.attempt)) for one in store.ledger(sweep, trial.key)]
        self.running = summary.trial_progress(store, workspace, sweep, [trial]).get(trial.key)
        self.depends = {name: one for name, one in named.items() if one is not None}
        self.heading, self.refuted = store.heading(sweep), store.refuted(sweep).get(trial.system)
        self.assumptions = Assumptions.of(claims)
        # What an attempt left behind says how it ended.
        self.files = _files(store, workspace, sweep, trial) if attempts else {}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: its row, its plan, each report, each launch."""
        trial, plan = self.trial, self.trial.plan
        return {
            **summary.trial_row(trial, self.assumptions, self.running),
            "heading": self.heading,
            "refuted_by_audit_of": None if self.refuted is None else self.refuted.trial,
            "quotes": {name: quote.to_dict() for name, quote in self.quotes().items()},
            "plan": None if plan is None else plan.to_dict(),
            "violations": dict(trial.violations),
            "reports": {str(step): _measured(metrics) for step, metrics in trial.reports.items()},
            "curve": summary.curve_rows([trial], {trial.key: self.curve}),
            "depends": {name: str(one) for name, one in self.depends.items()},
            "claim": None if trial.guarantee is None else trial.guarantee.to_dict(),
            "launches": [_launch_values(one) for one in self.launches],
            "files": self.files,
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        trial = self.trial
        if self.heading:
            yield self.heading
        yield f"{trial.key}  {trial.state}"
        if trial.reason:
            yield f"reason   {trial.reason}"
        if self.refuted is not None:
            yield f"REFUTED  {self.refuted.sentence(trial.key)} Publish no trial of {trial.system}."
        yield f"system   {trial.system}"
        yield f"knobs    {_values(trial.knobs) or 'none'}"
        yield from self._planned()
        if trial.proposed_at:
            finished = "" if trial.finished_at is None else f", finished {_time(trial.finished_at)}"
            yield f"times    proposed {_time(trial.proposed_at)}{finished}"
        yield from (f"launch {one[0].attempt} {_launch_text(one)}" for one in self.launches)
        if self.running is not None:
            left = self.running.seconds_left
            pace = "" if left is None else f", about {left:.0f} s left"
            where = f" on {self.running.node}" if self.running.node else ""
            yield f"running  at step {self.running.step:,} of {self.running.until:,}{where}{pace}"
        yield from self._reported()
        if trial.guarantee is None:
            failed = trial.state is records.TrialState.FAILED
            yield f"claim    none{', and its launches count in the total' if failed else ' yet'}: nothing was reported"
        else:
            yield f"claim    {claim_text(trial.guarantee, self.assumptions.status(trial.guarantee))}"
            quote = quote_of_claim(trial.guarantee)
            yield f"quote    {quote.said}: {quote.sentence}"
            yield f"theorem  {trial.guarantee.theorem}"
        yield from (f"{what:8} {place}" for what, place in self.files.items())
        if "error" in self.files:
            yield f"  {QUOTES}"
        if self.assumptions.sentences:
            yield f"{HEADING}:"
            yield from (f"  {line}" for line in self.assumptions.lines())

    def quotes(self) -> dict[str, Quote]:
        """{number: how it may be quoted}: of its epsilon, and of each metric that it measured."""
        trial = self.trial
        claimed = {} if trial.guarantee is None else {records.EPSILON: quote_of_claim(trial.guarantee)}
        measured = [name for name in scores_of(trial.metrics) if name not in records.DECIDED]
        return claimed | {name: quote_of_metric(self.depends.get(name), trial) for name in measured}

    def _planned(self) -> Iterator[str]:
        plan = self.trial.plan
        if plan is None:
            yield "plan     none: it was infeasible by public numbers, never launched, and spent nothing"
            return
        solved = {name: plan.config.get(name) for name in plan.solved}
        yield f"solved   {_values(solved) or 'nothing'}"
        yield f"plan     {plan.description}; {count_text(plan.steps, 'step')}, work {plan.work:,.6g}"
        yield f"steps    {_steps(plan.event())}"
        yield f"planned  {claim_text(plan.guarantee, self.assumptions.status(plan.guarantee))}"
        for claim in plan.beside:
            yield f"beside   {claim_text(claim, self.assumptions.status(claim))}"

    def _reported(self) -> Iterator[str]:
        trial, quotes = self.trial, self.quotes()
        for name in scores_of(trial.metrics):
            if name not in records.DECIDED:
                yield f"metric   {name} {with_error(trial.metrics, name)}{self._origin(name)}; {quotes[name].said}"
        if len(self.curve) > 1 or trial.state is records.TrialState.RUNNING:
            for one in self.curve:
                share = f"{one.step:,} of {trial.planned_steps:,} steps ({one.step / trial.planned_steps:.0%})"
                told = ", ".join(f"{name} {with_error(one.metrics, name)}" for name in scores_of(one.metrics))
                yield f"curve    {share}: {told}"

    def _origin(self, name: str) -> str:
        found = self.depends.get(name)
        if found is Dependence.VALIDATION:
            plan = self.trial.plan
            noised = plan is not None and plan.validation is not None
            return f" (of validation records, {'noised and within the claim' if noised else 'treated as public'})"
        return "" if found is None else f" ({_DEPENDS[found]})"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _files(store: PublishedStore, workspace: Workspace, sweep: str, trial: Published) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        folder = Attempt.of(workspace.of(store.sweep(sweep)).trials(sweep), trial.key, max(trial.attempts, 1)).folder
        names: Sequence[str] = folder.names() if trial.attempts else ()
    except (InvalidValue, OSError):
        # On another machine, or gone.
        names = ()
    if names:
        found["files"] = shown_url(folder.url)
    if ERROR in names:
        found["error"] = f"the whole text is in {shown_url(folder.url)}/{ERROR}"
    log = workspace.folder(sweep) / LOG
    return found | ({"log": str(log)} if log.exists() else {})


def _steps(event: Event) -> str:
    parts = [f"{count:,} x {event_text(one)}" for one, count in blocks(event)]
    more = len(parts) - _EVENTS
    return "; ".join(parts[:_EVENTS]) + (f"; and {more} more" if more > 0 else "")


def _measured(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without what is a claim's: an epsilon never stands alone."""
    return {name: value for name, value in metrics.items() if name not in records.DECIDED}


def _values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_value(name, value)}" for name, value in values.items())


def _value(name: str, value: object) -> str:
    """Six digits; of what an event or a budget spends none is below it."""
    if not isinstance(value, float):
        return str(value)
    if name in (records.EPSILON, records.TARGET_EPSILON):
        return epsilon_text(value, digits=6)
    return delta_text(value) if name == "delta" else f"{value:.6g}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

"""Tables for the terminal: as wide as it is and no wider."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dpcore.checks import InvalidValue
from dpcore.guarantee import epsilon_text
from sweeps.privacy.ledger import HEADING, compared_epsilon
from sweeps.privacy.release import Published
from sweeps.privacy.wording import legend_of, quote_of_claim
from sweeps.reporting.front import Front, Panel, claims_of
from sweeps.reporting.summary import TrialProgress, assumptions_of, curve_columns, curve_rows, row_columns, trial_rows
from sweeps.store.records import EPSILON, SYSTEM, TARGET_EPSILON, CurveReport, LedgerEntry, sweep_of, varied_knobs
from sweeps.util.text import closest
from trainables.metrics import STANDARD_ERROR, with_error

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """needed  it stays however narrow the terminal is: the others give way, the last one first"""

    header: str
    cells: list[str]
    needed: bool = True


@dataclass(frozen=True, slots=True)
class FittedTable:
    """The columns that fit, those that give way named below; or, where not even the needed ones fit, a line each.

    No name is cut: where whole names are too wide, the words of a name stand one below the other.

    more  where the columns are that gave way
    """

    title: str
    columns: Sequence[FittedColumn]
    more: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Not as the title of the grid, which would break it to a narrow grid's width.
        yield Text(self.title, style="bold")
        yield Text()
        kept = list(self.columns)
        grids = [_grid(kept, whole=True), _grid(kept, whole=False)]
        while not _fits(grids[-1], console, options) and not all(one.needed for one in kept):
            kept.remove(next(one for one in reversed(kept) if not one.needed))
            grids.append(_grid(kept, whole=False))
        yield next((grid for grid in grids if _fits(grid, console, options)), _told(kept))
        if gone := [one.header for one in self.columns if one not in kept]:
            yield Text(f"{', '.join(gone)} left out: {self.more}", style="dim")


def _fits(grid: Table, console: Console, options: ConsoleOptions) -> bool:
    return Measurement.get(console, options.update(width=10_000), grid).maximum <= options.max_width


def _grid(columns: Sequence[FittedColumn], whole: bool) -> Table:
    grid = Table(box=None, header_style="dim", pad_edge=False)
    for one in columns:
        header = one.header if whole else one.header.replace("_", "\n").replace(" ", "\n")
        grid.add_column(escape(header), justify="right", no_wrap=True)
    for row in zip(*(one.cells for one in columns), strict=True):
        grid.add_row(*map(escape, row))
    return grid


def _told(columns: Sequence[FittedColumn]) -> Table:
    """Each row in a line of names and values."""
    first, *others = columns
    grid = Table(box=None, header_style="dim", pad_edge=False)
    grid.add_column(first.header, no_wrap=True)
    grid.add_column("", overflow="fold")
    for number, name in enumerate(first.cells):
        said = (f"{one.header} {one.cells[number]}" for one in others if one.cells[number])
        grid.add_row(escape(name), escape(", ".join(said)))
    return grid


def cell(value: object) -> str:
    """A value as a table shows it: four digits of a number, nothing where there is none."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


# The one door of every CSV that we write: no cell is a formula.
#
# Spreadsheets compute a cell that begins with one of a few signs, and a computed cell can send the others anywhere.
# Names and texts in a table come from whoever wrote the spec or a system. The remedy is that of OWASP ("CSV
# Injection"): an apostrophe before the first sign. Numbers, negative ones too, stay numbers.

_STARTS = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What makes a formula of a cell; the last four are the same signs as wide as a Chinese character."""


def csv_text(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A header and one line per row; a name that a row lacks is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows([_cell(row.get(name, "")) for name in names] for row in rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    # A bare carriage return would end the row: Python's writer quotes line feeds alone.
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.lstrip(" ").startswith(_STARTS) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# What people are shown of a front's points: the columns of the terminal's table and of a notebook's.


def columns(front: Front, panel: Panel, limit: int) -> list[FittedColumn]:
    """What people are shown of a panel's front, its best `limit` points. What all rows share stands beside."""
    listed = panel.order_of_front()[:limit]
    records = [panel.records[i] for i in listed]
    claims = claims_of(records)
    found = [FittedColumn("trial", [one.key if front.is_joint else str(one.number) for one in records])]
    for number, one in enumerate(front.objectives):
        cells = [
            epsilon_text(float(panel.values[i][number]))
            if one.metric in (EPSILON, TARGET_EPSILON)
            else with_error({one.metric: float(panel.values[i][number])} | dict(panel.records[i].metrics), one.metric)
            for i in listed
        ]
        found.append(FittedColumn(f"{one.metric} {'↑' if one.goal == 'maximize' else '↓'}", cells))
    if alike := [panel.alike(i, front.objectives) for i in listed if panel.compared_errors.any()]:
        found.append(FittedColumn(ALIKE, [_numbers(one) for one in alike]))
    if EPSILON not in [one.metric for one in front.objectives]:
        # What may be quoted stands in every row, whatever the axes are.
        found.append(FittedColumn(EPSILON, [epsilon_text(claim.epsilon) for claim in claims]))
    # What a panel mixes is told even where one kind has the whole front: that is the answer.
    if len({one.system for one in panel.records}) > 1:
        found.append(FittedColumn(SYSTEM, [one.system for one in records]))
    for name in varied_knobs(panel.records):
        found.append(FittedColumn(name, [cell(one.config.get(name)) for one in records]))
    if len(set(front.statuses(panel))) > 1:
        found.append(FittedColumn("status", [front.assumptions.cite(claim) for claim in claims]))
    if len(set(front.quotes(panel))) > 1:
        found.append(FittedColumn("quote", [quote_of_claim(claim).words for claim in claims]))
    return found


ALIKE = "not told apart"
"""Heading of the trials that may be as good as a point of the front: of equal ones 5% are told apart by chance."""


def _numbers(trials: Sequence[int]) -> str:
    """At most three of them."""
    return ", ".join(map(str, trials[:3])) + (f" +{len(trials) - 3}" if len(trials) > 3 else "")


# A front for the terminal: one table a panel, as wide as the terminal and no wider.

LIMIT = 40
"""Points of a front that people are shown."""
MORE = "use --format csv, parquet or json"


def table(front: Front, limit: int = LIMIT) -> RenderableType:
    """Rich tables, one per panel, at most `limit` rows each; says how many rows it leaves out."""
    parts: list[Any] = [Text(front.heading)] if front.heading else []
    for panel in front.panels:
        parts.append(FittedTable(front.title(panel), columns(front, panel, limit), MORE))
        if left := panel.order_of_front()[limit:]:
            parts.append(Text(f"… and {len(left)} more on the front: {MORE}"))
        parts.append(Text(front.footer(panel), style="dim"))
    if not front.panels:
        parts.append(Text(front.empty))
    if front.excluded:
        parts.append(Text(f"left out: {front.left_out}", style="dim"))
    parts += [Text(line, style="dim") for line in front.legend()]
    if front.note:
        parts.append(Text(front.note))
    if front.assumptions.sentences:
        parts.append(Text(f"{HEADING}:"))
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in front.assumptions.lines()]
    return Group(*parts)


# A front as a table, csv, parquet, json, html or png: all the same rows in the same order.

COMPARED = "compared_epsilon"
_RESTS_ON = ("rests_on", "assumptions")
FORMATS = ("table", "csv", "parquet", "json", "html", "png")
SUFFIXES = {"": "table", ".txt": "table", **{f".{form}": form for form in FORMATS if form != "table"}}


def format_of(output: str | Path | None, given: str | None = None) -> str:
    """One of `FORMATS`: the one that is given, else by the name of the file; a table without one.

    Raises InvalidValue.
    """
    if given is not None and given not in FORMATS:
        raise InvalidValue("--format", given, f"one of {', '.join(FORMATS)}", closest(given, FORMATS))
    ending = Path(output or "").suffix.lower()
    if given is None and ending not in SUFFIXES:
        expected = f"a name that ends in {', '.join(filter(None, SUFFIXES))}"
        raise InvalidValue("output", str(output), expected, f"Or say --format: {', '.join(FORMATS)}.")
    return given or SUFFIXES[ending]


_KIND = ("delta", "notion", "adjacency", "unit", "status", "accountant")
_GUARANTEE = (EPSILON, TARGET_EPSILON, COMPARED, "quote", "quote_as", *_KIND)


def rows(front: Front, everything: bool = False) -> Iterator[dict[str, Any]]:
    """One flat row per front point (per point when `everything`): key, number, guarantee, objectives, knobs, metrics.

    sweep             whose trial it is, of a front of several
    epsilon           of the claim
    target_epsilon    the budget that it was held to
    compared_epsilon  what the claim counts as in dominance and hypervolume
    quote             whether its epsilon may be quoted (`sweeps.privacy.wording.Verdict`)
    quote_as          with which words, or why not
    heading           what stands above every claim of the sweep, where anything does: rows travel alone
    rests_on          the status with its assumptions counted
    assumptions       those in full, numbered as in every other form
    <metric>_se       standard error of an objective's score, and <metric>_shrunk the score as fronts compare it
    not_told_apart    numbers of the trials that may be as good, of a point on the front whose score has an error
    knob.<name>, metric.<name>  of a knob, and of a metric that is no objective
    """
    for panel in front.panels:
        yield from _rows(front, panel, everything)


def _rows(front: Front, panel: Panel, everything: bool = False) -> Iterator[dict[str, Any]]:
    names = [one.metric for one in front.objectives]
    statuses = front.statuses(panel)
    in_full: dict[str, str] = {}
    noisy = [int(column) for column in np.flatnonzero(panel.errors.any(axis=0))]
    for index in panel.order():
        on_front = bool(panel.on_front[index])
        if not on_front and not everything:
            break
        record = panel.records[index]
        claim = record.guarantee
        assert claim is not None
        row: dict[str, Any] = {"key": record.key, "number": record.number, "on_front": on_front}
        row |= {"sweep": sweep_of(record.key)} if front.is_joint else {}
        row.update(zip(names, panel.values[index].tolist(), strict=True))
        for column in noisy:
            row[names[column] + STANDARD_ERROR] = float(panel.errors[index, column])
            row[f"{names[column]}_shrunk"] = float(panel.compared[index, column])
        if noisy:
            row["not_told_apart"] = panel.alike(index, front.objectives) if on_front else []
        row[EPSILON] = claim.epsilon
        row.setdefault(TARGET_EPSILON, record.target_epsilon)
        row[COMPARED] = compared_epsilon(claim)
        quote = quote_of_claim(claim)
        row |= {"quote": str(quote.verdict), "quote_as": str(quote)}
        row |= {name: str(getattr(claim, name)) for name in _KIND} | {"delta": claim.delta}
        if front.heading:
            row["heading"] = front.heading
        row["rests_on"] = status = statuses[index]
        if status not in in_full:
            in_full[status] = " ".join(front.assumptions.lines_of(claim))
        row["assumptions"] = in_full[status]
        row.update((f"knob.{name}", value) for name, value in record.config.items() if name != TARGET_EPSILON)
        row.update((f"metric.{name}", value) for name, value in record.metrics.items() if name not in row)
        yield row


def to_csv(front: Front) -> str:
    """Comma-separated values with a header; an infinite epsilon is `inf`, an absent knob empty.

    A text that a spreadsheet would compute begins with an apostrophe.
    """
    listed = list(rows(front))
    return csv_text(_columns(front, listed), listed)


def to_json(front: Front) -> str:
    """One JSON object; an infinite number is the string "inf" or "-inf" (JSON has no infinity)."""
    points = [
        # The sentences stand once, beside the panels.
        [{n: _plain(value) for n, value in row.items() if n != "assumptions"} for row in _rows(front, panel)]
        for panel in front.panels
    ]
    content = {
        "sweep": front.sweep,
        "heading": front.heading,
        "note": front.note,
        "procedure": None if front.procedure is None else front.procedure.to_dict(),
        "started_from": [total.to_dict() for total in front.totals[1:]],
        "quotes": front.legend(),
        "assumptions": list(front.assumptions.sentences),
        "objectives": [{"metric": one.metric, "goal": one.goal} for one in front.objectives],
        "reference": {metric: {"value": end.value, "source": end.source} for metric, end in front.reference.items()},
        "excluded": dict(front.excluded),
        "panels": [
            {
                "label": dict(panel.label),
                "trials": len(panel.records),
                "hypervolume": panel.hypervolume,
                "points": listed,
            }
            for panel, listed in zip(front.panels, points, strict=True)
        ],
    }
    return json.dumps(content, indent=None if sum(map(len, points)) > 1000 else 2, allow_nan=False)


def to_parquet(front: Front) -> bytes:
    """An Apache Parquet file; a knob that is a number in one trial and text in another is kept as text."""
    listed = list(rows(front))
    return bytes(_of_rows(listed).reindex(columns=_columns(front, listed)).to_parquet(index=False))


def _columns(front: Front, listed: list[dict[str, Any]]) -> list[str]:
    whose = ["sweep"] if front.is_joint else []
    fixed = ["key", "number", "on_front", *whose, *(one.metric for one in front.objectives), *_GUARANTEE, *_RESTS_ON]
    return list(dict.fromkeys([*fixed, *(name for row in listed for name in row)]))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None if isinstance(value, float) and math.isnan(value) else value


# Published trials, fronts and ledgers as pandas tables: one row each, one number a cell, nothing rounded.


def trials_table(trials: Iterable[Published], running: Mapping[str, TrialProgress] | None = None) -> pd.DataFrame:
    """One row a trial, in the order given, indexed by its number.

    key, state, reason     its name everywhere; where it stands, and why
    system, target_epsilon what was proposed, with `knob.<name>` for each hyperparameter
    solved.<name>          what the calibration chose, the noise multiplier for example
    metric.<name>          as reported last, metric.<name>_se its standard error
    epsilon, delta, ...    its claim, empty before the first report; `status` counts its assumptions, whose sentences
                           are in `.attrs["assumptions"]`, the first of them number 1
    quote, quote_as        whether its epsilon may be quoted, and with which words; of the metrics, and in sentences, in
                           `.attrs["quotes"]`
    steps, planned_steps, work, attempts, proposed_at, finished_at   times in UTC
    at_step, seconds_left, node  of trials in `running`: steps in the newest checkpoint, the time to the launch's end,
                           the machine
    """
    import pandas as pd

    listed = list(trials)
    assumptions = assumptions_of(listed)
    rows = trial_rows(listed, running or {}, assumptions)
    if not rows:
        return pd.DataFrame(columns=["key", "state", "reason", "system", "target_epsilon"]).rename_axis("number")
    table = _of_rows(rows)[row_columns(rows)].set_index("number")
    table.attrs |= {"assumptions": list(assumptions.sentences), "quotes": legend_of(listed)}
    return table


def _of_rows(listed: list[dict[str, Any]]) -> pd.DataFrame:
    """A column of numbers in one row and text in another (`clip_norm: automatic`) is kept as text, as Parquet asks."""
    import pandas as pd

    table = pd.DataFrame(listed)
    for name, column in table.items():
        if column.dtype == object and len({type(value) for value in column.dropna()}) > 1:
            table[name] = column.map(str, na_action="ignore")
    return table


def curves_table(
    trials: Iterable[Published], curves: Mapping[str, Sequence[CurveReport]], heading: str = ""
) -> pd.DataFrame:
    """One row for each planned step after which a trial reported, in the order of `trials`.

    number, key             whose
    step, share             after how many of its planned steps, and which share of them (1: all)
    attempt                 the launch that ran the last of them
    metric.<name>           measured there
    metric.<name>_se        its standard error
    status                  of the trial's claim; empty before it has one
    heading                 what stands above every claim of the sweep, where something does
    """
    import pandas as pd

    rows = curve_rows(trials, curves, heading)
    return pd.DataFrame(rows, columns=curve_columns(rows))


def front_table(front: Front, everything: bool = False) -> pd.DataFrame:
    """One row a point of the front (of every ranked trial with `everything`), best of the first objective first.

    Columns as `rows` names them; `.attrs` has the heading and the sentences that statuses rest on.
    """
    table = _of_rows(list(rows(front, everything)))
    table.attrs |= {"quotes": front.legend()}
    table.attrs |= {"heading": front.heading, "assumptions": list(front.assumptions.sentences), "note": front.note}
    return table


def ledger_table(entries: Iterable[LedgerEntry]) -> pd.DataFrame:
    """One row a launch: steps [from_step, to_step) reserved, up to which they may have run, and how many are charged.

    `executed_to` is empty while a launch has not been settled: then all that it reserved counts.
    """
    import pandas as pd

    names = ("key", "attempt", "from_step", "to_step", "executed_to")
    rows = [{name: getattr(entry, name) for name in names} | {"charged": entry.steps_spent} for entry in entries]
    return pd.DataFrame(rows, columns=[*names, "charged"]).astype({"executed_to": "Int64"})

"""A front for the terminal: one table a panel, as wide as the terminal and no wider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sweeps.front.panels import Front, Panel
from sweeps.ledger.assumptions import HEADING
from sweeps.records import EPSILON, SYSTEM, TARGET_EPSILON
from sweeps.release.rounding import epsilon_text

if TYPE_CHECKING:
    from rich.console import RenderableType

MORE = "use --format csv, parquet or json"


@dataclass(frozen=True, slots=True)
class _Column:
    """needed  it stays however narrow the terminal is: knobs give way, the last one first"""

    header: str
    cells: list[str]
    needed: bool = True


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The columns that fit, those that give way named below; or, where not even the needed ones fit, a line each."""

    title: str
    columns: list[_Column]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = list(self.columns)
        grids = [self._grid(kept, " "), self._grid(kept, "\n")]
        while not self._fits(grids[-1], console, options) and not all(one.needed for one in kept):
            kept.remove(next(one for one in reversed(kept) if not one.needed))
            grids.append(self._grid(kept, "\n"))
        yield next((grid for grid in grids if self._fits(grid, console, options)), self._lines(kept))
        if gone := [one.header for one in self.columns if one not in kept]:
            yield Text(f"{', '.join(gone)} left out: {MORE}", style="dim")

    def _fits(self, grid: Table, console: Console, options: ConsoleOptions) -> bool:
        return Measurement.get(console, options.update(width=10_000), grid).maximum <= options.max_width

    def _grid(self, columns: list[_Column], between: str) -> Table:
        """`between` the words of a header: one word a line where eight knobs have to fit a terminal of 80 columns."""
        first, *others = columns
        grid = self._empty()
        grid.add_column(first.header, no_wrap=True)
        for one in others:
            header = one.header.replace("_", " ").replace(" ", between)
            grid.add_column(escape(header), justify="right", no_wrap=True)
        for row in zip(*(one.cells for one in columns), strict=True):
            grid.add_row(*map(escape, row))
        return grid

    def _lines(self, columns: list[_Column]) -> Table:
        first, *others = columns
        grid = self._empty()
        grid.add_column(first.header, no_wrap=True)
        grid.add_column("", overflow="fold")
        for number, name in enumerate(first.cells):
            grid.add_row(escape(name), escape(", ".join(f"{one.header} {one.cells[number]}" for one in others)))
        return grid

    def _empty(self) -> Table:
        return Table(title=escape(self.title), title_justify="left", title_style="bold", header_style="dim")


def table(front: Front, limit: int = 40) -> RenderableType:
    """Rich tables, one per panel, at most `limit` rows each; says how many rows it leaves out."""
    parts: list[Any] = [Text(front.heading)] if front.heading else []
    for panel in front.panels:
        chosen = [int(i) for i in panel.order()[: int(panel.on_front.sum())]]
        parts.append(_Fitted(front.title(panel), _columns(front, panel, chosen[:limit])))
        if len(chosen) > limit:
            parts.append(Text(f"… and {len(chosen) - limit} more on the front: {MORE}"))
        parts.append(Text(front.footer(panel), style="dim"))
    if not front.panels:
        parts.append(Text("No finished trial yet."))
    if front.excluded:
        left = ", ".join(f"{count} {reason}" for reason, count in front.excluded.items())
        parts.append(Text(f"left out: {left}", style="dim"))
    if front.note:
        parts.append(Text(front.note))
    if front.assumptions.sentences:
        parts.append(Text(f"{HEADING}:"))
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in front.assumptions.lines()]
    return Group(*parts)


def _columns(front: Front, panel: Panel, listed: list[int]) -> list[_Column]:
    records = [panel.records[i] for i in listed]
    claims = [one.guarantee for one in records if one.guarantee is not None]
    columns = [_Column("trial", [one.key for one in records])]
    for number, one in enumerate(front.objectives):
        values = [float(panel.values[i][number]) for i in listed]
        cells = [epsilon_text(value) if one.metric == EPSILON else f"{value:.4g}" for value in values]
        columns.append(_Column(f"{one.metric} {'↑' if one.goal == 'maximize' else '↓'}", cells))
        if one.metric == EPSILON and TARGET_EPSILON not in [other.metric for other in front.objectives]:
            budgets = [_short(one.target_epsilon) for one in records]
            columns.append(_Column(TARGET_EPSILON, budgets, needed=False))
    if EPSILON not in [one.metric for one in front.objectives]:
        # What may be quoted stands in every row, whatever the axes are.
        columns.append(_Column(EPSILON, [epsilon_text(claim.epsilon) for claim in claims]))
    # What a panel mixes is told even where one kind has the whole front: that is the answer.
    if len({one.system for one in panel.records}) > 1:
        columns.append(_Column(SYSTEM, [one.system for one in records]))
    for name in _varied(panel):
        columns.append(_Column(name, [_short(one.config.get(name)) for one in records], needed=False))
    if len(set(front.statuses(panel))) > 1:
        columns.append(_Column("status", [front.assumptions.cite(claim) for claim in claims]))
    return columns


def _varied(panel: Panel) -> list[str]:
    """Knobs that differ among the front's trials of one system: what a spec fixed for each says nothing here."""
    values: dict[str, dict[str, set[object]]] = {}
    for i in panel.order()[: int(panel.on_front.sum())]:
        record = panel.records[int(i)]
        for name, value in record.knobs.items():
            values.setdefault(name, {}).setdefault(record.system, set()).add(value)
    return [name for name, found in values.items() if any(len(one) > 1 for one in found.values())]


def _short(value: object) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

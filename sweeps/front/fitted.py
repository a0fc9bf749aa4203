"""Tables for the terminal: as wide as it is and no wider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """needed  it stays however narrow the terminal is: the others give way, the last one first"""

    header: str
    cells: list[str]
    needed: bool = True


@dataclass(frozen=True, slots=True)
class FittedTable:
    """The columns that fit, those that give way named below; or, where not even the needed ones fit, a line each.

    more  where the columns are that gave way
    """

    title: str
    columns: Sequence[FittedColumn]
    more: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Not as the title of the grid, which would break it to a narrow grid's width.
        yield Text(self.title, style="bold")
        kept = list(self.columns)
        grids = [self._grid(kept, " "), self._grid(kept, "\n")]
        while not self._fits(grids[-1], console, options) and not all(one.needed for one in kept):
            kept.remove(next(one for one in reversed(kept) if not one.needed))
            grids.append(self._grid(kept, "\n"))
        yield next((grid for grid in grids if self._fits(grid, console, options)), self._lines(kept))
        if gone := [one.header for one in self.columns if one not in kept]:
            yield Text(f"{', '.join(gone)} left out: {self.more}", style="dim")

    def _fits(self, grid: Table, console: Console, options: ConsoleOptions) -> bool:
        return Measurement.get(console, options.update(width=10_000), grid).maximum <= options.max_width

    def _grid(self, columns: list[FittedColumn], between: str) -> Table:
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

    def _lines(self, columns: list[FittedColumn]) -> Table:
        first, *others = columns
        grid = self._empty()
        grid.add_column(first.header, no_wrap=True)
        grid.add_column("", overflow="fold")
        for number, name in enumerate(first.cells):
            grid.add_row(escape(name), escape(", ".join(f"{one.header} {one.cells[number]}" for one in others)))
        return grid

    def _empty(self) -> Table:
        return Table(header_style="dim")


def cell(value: object) -> str:
    """A value as a table shows it: four digits of a number, nothing where there is none."""
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

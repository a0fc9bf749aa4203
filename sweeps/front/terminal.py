"""A front for the terminal: one table a panel, as wide as the terminal and no wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from sweeps.front.columns import columns
from sweeps.front.fitted import FittedTable
from sweeps.front.panels import Front
from sweeps.ledger.assumptions import HEADING

if TYPE_CHECKING:
    from rich.console import RenderableType

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

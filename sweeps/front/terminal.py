"""A front for the terminal: one table a panel, as wide as the terminal and no wider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from dpcore.rounding import epsilon_text
from sweeps.front.fitted import FittedColumn, FittedTable, cell
from sweeps.front.panels import Front, Panel
from sweeps.ledger.assumptions import HEADING
from sweeps.records import EPSILON, SYSTEM, TARGET_EPSILON
from sweeps.release.quoting import quote_of_claim

if TYPE_CHECKING:
    from rich.console import RenderableType

MORE = "use --format csv, parquet or json"


def table(front: Front, limit: int = 40) -> RenderableType:
    """Rich tables, one per panel, at most `limit` rows each; says how many rows it leaves out."""
    parts: list[Any] = [Text(front.heading)] if front.heading else []
    for panel in front.panels:
        chosen = [int(i) for i in panel.order()[: int(panel.on_front.sum())]]
        parts.append(FittedTable(front.title(panel), _columns(front, panel, chosen[:limit]), MORE))
        if len(chosen) > limit:
            parts.append(Text(f"… and {len(chosen) - limit} more on the front: {MORE}"))
        parts.append(Text(front.footer(panel), style="dim"))
    if not front.panels:
        parts.append(Text("No finished trial yet."))
    if front.excluded:
        parts.append(Text(f"left out: {front.left_out}", style="dim"))
    parts += [Text(line, style="dim") for line in front.legend()]
    if front.note:
        parts.append(Text(front.note))
    if front.assumptions.sentences:
        parts.append(Text(f"{HEADING}:"))
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in front.assumptions.lines()]
    return Group(*parts)


def _columns(front: Front, panel: Panel, listed: list[int]) -> list[FittedColumn]:
    records = [panel.records[i] for i in listed]
    claims = [one.guarantee for one in records if one.guarantee is not None]
    columns = [FittedColumn("trial", [one.key for one in records])]
    for number, one in enumerate(front.objectives):
        values = [float(panel.values[i][number]) for i in listed]
        cells = [epsilon_text(value) if one.metric == EPSILON else f"{value:.4g}" for value in values]
        columns.append(FittedColumn(f"{one.metric} {'↑' if one.goal == 'maximize' else '↓'}", cells))
        if one.metric == EPSILON and TARGET_EPSILON not in [other.metric for other in front.objectives]:
            budgets = [cell(one.target_epsilon) for one in records]
            columns.append(FittedColumn(TARGET_EPSILON, budgets, needed=False))
    if EPSILON not in [one.metric for one in front.objectives]:
        # What may be quoted stands in every row, whatever the axes are.
        columns.append(FittedColumn(EPSILON, [epsilon_text(claim.epsilon) for claim in claims]))
    # What a panel mixes is told even where one kind has the whole front: that is the answer.
    if len({one.system for one in panel.records}) > 1:
        columns.append(FittedColumn(SYSTEM, [one.system for one in records]))
    for name in _varied(panel):
        columns.append(FittedColumn(name, [cell(one.config.get(name)) for one in records], needed=False))
    if len(set(front.statuses(panel))) > 1:
        columns.append(FittedColumn("status", [front.assumptions.cite(claim) for claim in claims]))
    if len(set(front.quotes(panel))) > 1:
        columns.append(FittedColumn("quote", [quote_of_claim(claim).words for claim in claims]))
    return columns


def _varied(panel: Panel) -> list[str]:
    """Knobs that differ among the front's trials of one system: what a spec fixed for each says nothing here."""
    values: dict[str, dict[str, set[object]]] = {}
    for i in panel.order()[: int(panel.on_front.sum())]:
        record = panel.records[int(i)]
        for name, value in record.knobs.items():
            values.setdefault(name, {}).setdefault(record.system, set()).add(value)
    return [name for name, found in values.items() if any(len(one) > 1 for one in found.values())]

"""What people are shown of a front's points: the columns of the terminal's table and of a notebook's."""

from __future__ import annotations

from dpcore.rounding import epsilon_text
from sweeps.front.fitted import FittedColumn, cell
from sweeps.front.panels import Front, Panel
from sweeps.release.quoting import quote_of_claim
from sweeps.store.records import EPSILON, SYSTEM, TARGET_EPSILON, varied_knobs


def columns(front: Front, panel: Panel, limit: int) -> list[FittedColumn]:
    """What people are shown of a panel's front, its best `limit` points. What all rows share stands beside."""
    listed = panel.order_of_front()[:limit]
    records = [panel.records[i] for i in listed]
    claims = [one.guarantee for one in records if one.guarantee is not None]
    found = [FittedColumn("trial", [one.key for one in records])]
    for number, one in enumerate(front.objectives):
        values = [float(panel.values[i][number]) for i in listed]
        cells = [epsilon_text(value) if one.metric in (EPSILON, TARGET_EPSILON) else f"{value:.4g}" for value in values]
        found.append(FittedColumn(f"{one.metric} {'↑' if one.goal == 'maximize' else '↓'}", cells))
        if one.metric == EPSILON and TARGET_EPSILON not in [other.metric for other in front.objectives]:
            budgets = ["" if one.target_epsilon is None else epsilon_text(one.target_epsilon) for one in records]
            found.append(FittedColumn(TARGET_EPSILON, budgets, needed=False))
    if EPSILON not in [one.metric for one in front.objectives]:
        # What may be quoted stands in every row, whatever the axes are.
        found.append(FittedColumn(EPSILON, [epsilon_text(claim.epsilon) for claim in claims]))
    # What a panel mixes is told even where one kind has the whole front: that is the answer.
    if len({one.system for one in panel.records}) > 1:
        found.append(FittedColumn(SYSTEM, [one.system for one in records]))
    for name in varied_knobs(panel.records[i] for i in panel.order_of_front()):
        found.append(FittedColumn(name, [cell(one.config.get(name)) for one in records], needed=False))
    if len(set(front.statuses(panel))) > 1:
        found.append(FittedColumn("status", [front.assumptions.cite(claim) for claim in claims]))
    if len(set(front.quotes(panel))) > 1:
        found.append(FittedColumn("quote", [quote_of_claim(claim).words for claim in claims]))
    return found

"""The comparison of modes as a plot: noise of a trial against the chance of a good one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from dpcore.rounding import delta_text, epsilon_text
from sweeps.selection.modes import BudgetFor, Comparison, ModeRow

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = {BudgetFor.SWEEP: "#0f766e", BudgetFor.EACH_TRIAL: "#b45309", BudgetFor.ONE_RUN: "#57534e"}


def figure(comparison: Comparison) -> go.Figure:
    """A bar from the least to the largest noise of a mode's trials, at its chance; right and low is good.

    Raises InvalidValue where no mode has a solved noise.
    """
    import plotly.graph_objects as go

    drawn = [row for row in comparison.rows if row.noise and row.chance is not None]
    if not drawn:
        raise InvalidValue(
            "privacy.solve", "no noise", "noise: the plot compares the modes by the noise that is solved"
        )
    out = go.Figure()
    for whose in dict.fromkeys(row.budget_for for row in drawn):
        rows = [row for row in drawn if row.budget_for is whose]
        low = [row.noise[0] for row in rows]
        out.add_scatter(
            x=[row.chance for row in rows],
            y=low,
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [(row.chance_at_most or row.chance or 0.0) - (row.chance or 0.0) for row in rows],
                "arrayminus": [0.0] * len(rows),
            },
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [row.noise[-1] - row.noise[0] for row in rows],
                "arrayminus": [0.0] * len(rows),
            },
            mode="markers",
            marker={"size": 9, "color": _COLOURS[whose]},
            name=f"the budget is for {whose}",
            hovertext=[_told(comparison, row) for row in rows],
            hoverinfo="text",
        )
    for row, side, height in _labels(drawn):
        out.add_annotation(
            x=row.chance,
            y=height,
            text=escape(row.mode),
            showarrow=False,
            xanchor="left" if side > 0 else "right",
            xshift=8 * side,
            font={"size": 10},
        )
    title = (
        f"{escape(comparison.spec)}: epsilon {epsilon_text(comparison.epsilon)}, delta {delta_text(comparison.delta)} "
        "for the whole sweep"
    )
    out.update_layout(title=title, template="plotly_white", legend={"orientation": "h", "y": -0.2})
    out.update_xaxes(
        title="chance that some trial comes from the best tenth of the prior", tickformat=".0%", range=[-0.15, 1.2]
    )
    out.update_yaxes(title=f"{drawn[0].parameter} of a trial", type="log")
    return out


def _labels(rows: Sequence[ModeRow]) -> Iterator[tuple[ModeRow, int, float]]:
    """Where names stand: on alternate sides of their points, and none on top of another; heights as log10."""
    heights = [math.log10(value) for row in rows for value in (row.noise[0], row.noise[-1])]
    gap = 0.035 * (max(heights) - min(heights))
    taken = {1: -math.inf, -1: -math.inf}
    for number, row in enumerate(sorted(rows, key=lambda row: row.noise[0])):
        side = 1 if number % 2 else -1
        taken[side] = max(math.log10(row.noise[0]), taken[side] + gap)
        yield row, side, taken[side]


def write(comparison: Comparison, target: Path) -> Path:
    """The plot as a page that needs no network, in a file whose name ends in .html. Raises InvalidValue, OSError."""
    from sweeps.util.files import write_output

    if target.suffix.lower() != ".html":
        raise InvalidValue("output", str(target), "a name that ends in .html")
    return write_output(figure(comparison).to_html(include_plotlyjs=True), target)


def _told(comparison: Comparison, row: ModeRow) -> str:
    hours = comparison.hours(row)
    took = "" if hours is None else f"<br>{hours[0]:.2g} hours expected, {hours[1]:.2g} at the worst"
    if comparison.proxy is not None and (values := comparison.predicted(row)):
        took += f"<br>{comparison.proxy.metric} predicted: {' .. '.join(f'{one:.4g}' for one in values)}"
    return (
        f"{escape(row.mode)}<br>trials: {escape(row.trials)}{took}<br>"
        f"epsilon {epsilon_text(row.epsilon)} of everything that leaves"
    )

"""A front as a picture: its first two objectives, one set of axes per panel."""

from __future__ import annotations

import io
import textwrap
from typing import Any

import numpy as np

from dpcore.guarantee import Status
from sweeps.front.panels import Front, Panel
from sweeps.front.pareto import nondominated

_MARKERS = {Status.PROVED: "o", Status.PROVED_UNDER_ASSUMPTIONS: "s"}
_COLOURS = ("#0f766e", "#b45309", "#1d4ed8", "#be185d", "#4d7c0f", "#6d28d9", "#0e7490", "#57534e")


def to_png(front: Front) -> bytes:
    """A PNG file of 150 dots an inch."""
    from matplotlib.figure import Figure

    count = max(1, len(front.panels))
    figure = Figure(figsize=(7.2, 4.4 * count), dpi=150, layout="constrained")
    axes = figure.subplots(count, 1, squeeze=False)[:, 0]
    for axis, panel in zip(axes, front.panels, strict=False):
        _draw(axis, front, panel)
    if not front.panels:
        axes[0].text(0.5, 0.5, "no finished trial yet", ha="center", va="center", transform=axes[0].transAxes)
        axes[0].set_axis_off()
    note = textwrap.fill(front.note, 100, break_on_hyphens=False)
    figure.suptitle(f"Pareto front {front.sweep}".strip(), fontsize=11)
    figure.supxlabel(note, fontsize=7)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _draw(axis: Any, front: Front, panel: Panel) -> None:
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """0.6 where Matplotlib says 6e-01."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    first, second = 0, min(1, len(front.objectives) - 1)
    if len(front.objectives) > 1 and front.objectives[1].metric == "epsilon":
        first, second = 1, 0
    x, y = panel.values[:, first], panel.values[:, second]
    shown = [front.objectives[first], front.objectives[second]]
    _scatter(axis, panel, x, y, [one.goal == "maximize" for one in shown])
    axis.set_xlabel(front.objectives[first].metric)
    axis.set_ylabel(front.objectives[second].metric)
    if front.objectives[first].metric == "epsilon" and (x > 0).all() and x.max() > 4 * x.min():
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter(Plain(minor_thresholds=(1, 0.4)))
    axis.set_title(panel.title, fontsize=9)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)


def _scatter(axis: Any, panel: Panel, x: Any, y: Any, maximize: list[bool]) -> None:
    """The points: by system and status where there are several, each with a line through its own best; else front
    against dominated.
    """
    kinds = [(str(record.config.get("system", "")), panel.status(i)) for i, record in enumerate(panel.records)]
    if len(set(kinds)) == 1:
        axis.scatter(x[~panel.on_front], y[~panel.on_front], s=14, color="#9aa5b1", linewidths=0, label="dominated")
        axis.scatter(x[panel.on_front], y[panel.on_front], s=30, color=_COLOURS[0], linewidths=0, label="front")
        return
    systems = sorted({system for system, _ in kinds})
    statuses = {status for _, status in kinds}
    for system, status in sorted(set(kinds)):
        mine = np.array([kind == (system, status) for kind in kinds])
        style = {"color": _COLOURS[systems.index(system) % len(_COLOURS)], "marker": _MARKERS.get(Status(status), "^")}
        told = f"{system} ({status})" if len(statuses) > 1 else system
        dominated, front = mine & ~panel.on_front, mine & panel.on_front
        own = mine.copy()
        own[mine] = nondominated(np.column_stack([x[mine], y[mine]]), maximize)
        line = np.flatnonzero(own)[np.argsort(x[own], kind="stable")]
        # At an x between two points, the better y of the two is not to be had.
        steps = "steps-pre" if maximize[0] else "steps-post"
        axis.plot(x[line], y[line], color=style["color"], alpha=0.6, linewidth=1, drawstyle=steps)
        axis.scatter(x[dominated], y[dominated], s=14, alpha=0.35, linewidths=0, **style)
        axis.scatter(x[front], y[front], s=44, linewidths=0.8, edgecolors="black", label=told, **style)
    axis.plot([], [], " ", label="outlined: on the front; lines: each one's own")

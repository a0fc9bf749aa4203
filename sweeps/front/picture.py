"""A front as a picture: its first two objectives, one set of axes per panel."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

from dpcore.guarantee import Status
from sweeps.front.axes import log_ticks
from sweeps.front.kinds import kinds
from sweeps.front.panels import Front, Panel
from sweeps.store.records import EPSILON, TARGET_EPSILON

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARKERS = {Status.PROVED: "o", Status.PROVED_UNDER_ASSUMPTIONS: "s"}
_COLOURS = ("#0f766e", "#b45309", "#1d4ed8", "#be185d", "#4d7c0f", "#6d28d9", "#0e7490", "#57534e")


def to_png(front: Front) -> bytes:
    """A PNG file of 150 dots an inch."""
    buffer = io.BytesIO()
    drawn(front).savefig(buffer, format="png")
    return buffer.getvalue()


def drawn(front: Front) -> Figure:
    """The picture as Matplotlib has it."""
    from matplotlib.figure import Figure

    panels = max(1, len(front.panels))
    figure = Figure(figsize=(7.2, 4.4 * panels), dpi=150, layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    for axis, panel in zip(axes, front.panels, strict=False):
        _draw(axis, front, panel)
    if not front.panels:
        axes[0].text(0.5, 0.5, "no finished trial yet", ha="center", va="center", transform=axes[0].transAxes)
        axes[0].set_axis_off()
    count = len(front.assumptions.sentences)
    listed = f" The statuses rest on {count} assumptions; `sweeps pareto` lists them." if count else ""
    quoted = "".join(f" {line}." for line in front.legend()[:-1])
    note = textwrap.fill(f"{front.note}{listed}{quoted}", 100, break_on_hyphens=False)
    heading = textwrap.fill(front.heading, 80, break_on_hyphens=False)
    figure.suptitle("\n".join(filter(None, (heading, f"Pareto front {front.sweep}".strip()))), fontsize=11)
    figure.supxlabel(note, fontsize=7)
    return figure


def _draw(axis: Any, front: Front, panel: Panel) -> None:
    first, second = 0, min(1, len(front.objectives) - 1)
    if len(front.objectives) > 1 and front.objectives[1].metric in (EPSILON, TARGET_EPSILON):
        first, second = 1, 0
    _scatter(axis, front, panel, first, second)
    axis.set_xlabel(front.objectives[first].axis)
    axis.set_ylabel(front.objectives[second].axis)
    ticks = log_ticks(panel.compared[:, first]) if (panel.values[:, first] > 0).all() else None
    if front.objectives[first].metric in (EPSILON, TARGET_EPSILON) and ticks is not None:
        low, high = axis.get_xlim()
        axis.set_xscale("log")
        axis.set_xticks([tick for tick in ticks if low <= tick <= high], minor=False)
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:g}")
    axis.set_title(panel.title, fontsize=9)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8)


def _scatter(axis: Any, front: Front, panel: Panel, across: int, up: int) -> None:
    """The points: by system and status where there are several, each with a line through its own best; else front
    against dominated.
    """
    x, y, found = panel.values[:, across], panel.values[:, up], kinds(panel, front.objectives, across, up)
    # At an x between two points, the better y of the two is not to be had.
    steps = "steps-pre" if front.objectives[across].goal == "maximize" else "steps-post"
    if len(found) == 1:
        own = found[0].own
        if len(front.objectives) == 2:
            axis.plot(x[own], y[own], color=_COLOURS[0], alpha=0.6, linewidth=1, drawstyle=steps)
        axis.scatter(x[~panel.on_front], y[~panel.on_front], s=14, color="#9aa5b1", linewidths=0, label="dominated")
        axis.scatter(x[panel.on_front], y[panel.on_front], s=30, color=_COLOURS[0], linewidths=0, label="front")
        return
    for kind in found:
        style = {"color": _COLOURS[kind.system % len(_COLOURS)], "marker": _MARKERS.get(kind.status, "^")}
        dominated, best = kind.members & ~panel.on_front, kind.members & panel.on_front
        axis.plot(x[kind.own], y[kind.own], color=style["color"], alpha=0.6, linewidth=1, drawstyle=steps)
        axis.scatter(x[dominated], y[dominated], s=14, alpha=0.35, linewidths=0, **style)
        axis.scatter(x[best], y[best], s=44, linewidths=0.8, edgecolors="black", label=kind.name, **style)
    axis.plot([], [], " ", label="outlined: on the front; lines: each one's own")

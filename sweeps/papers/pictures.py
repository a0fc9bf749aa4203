"""Pictures: panels of lines with errors, histograms and levels, one PNG each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Series:
    """Points, joined or not: `style` is matplotlib's; `text` stands beside the last of them."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Mapping[str, Any] = field(default_factory=dict)
    across: Sequence[float] | None = None
    up: Sequence[float] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Values in 40 bins from 0 to `top`; the last holds the rest."""

    label: str
    values: Sequence[float]
    top: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """One pair of axes.

    log     axes with a logarithmic scale: "", "x", "y" or "xy"
    places  marks of the horizontal axis; its own by default
    levels  horizontal lines, (height, style)
    limits  of the vertical axis; None leaves an end open
    """

    title: str
    x: str
    y: str
    lines: Sequence[Series | Histogram]
    log: str = ""
    places: Sequence[float] = ()
    levels: Sequence[tuple[float, Mapping[str, Any]]] = ()
    limits: tuple[float | None, float | None] = (None, None)


def draw(path: Path, panels: Sequence[Axes], *, columns: int = 0, size: tuple[float, float] = (5.6, 4.2)) -> Path:
    """A picture of the panels in rows of `columns` (one row by default), each of `size` inches."""
    from matplotlib.figure import Figure

    across = min(columns or len(panels), len(panels)) if columns < 2 else columns
    rows = -(-len(panels) // across)
    figure = Figure(figsize=(size[0] * across, size[1] * rows), dpi=120, layout="constrained")
    cells = list(figure.subplots(rows, across, squeeze=False).flat)
    for cell in cells[len(panels) :]:
        cell.set_visible(False)
    for cell, panel in zip(cells, panels, strict=False):
        _fill(cell, panel)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _fill(cell: Any, panel: Axes) -> None:
    for one in panel.lines:
        if isinstance(one, Histogram):
            bins = np.linspace(0, one.top, 40).tolist()
            cell.hist(np.minimum(one.values, one.top), bins=bins, alpha=0.5, label=one.label)
            continue
        cell.errorbar(one.x, one.y, yerr=one.up, xerr=one.across, label=one.label, **one.style)
        if one.text:
            at = {"xytext": (6, -3), "textcoords": "offset points", "fontsize": 7, "alpha": 0.7}
            cell.annotate(one.text, (one.x[-1], one.y[-1]), color=one.style.get("color"), **at)
    for height, style in panel.levels:
        cell.axhline(height, **style)
    cell.set_title(panel.title, fontsize=9)
    scales = {f"{axis}scale": "log" if axis in panel.log else "linear" for axis in "xy"}
    cell.set(xlabel=panel.x, ylabel=panel.y, **scales)
    if panel.places:
        cell.set_xticks(panel.places, [f"{one:g}" for one in panel.places])
        cell.minorticks_off()
    cell.set_ylim(*panel.limits)
    cell.grid(alpha=0.3)
    if cell.get_legend_handles_labels()[1]:
        cell.legend(fontsize=7)

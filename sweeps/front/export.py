"""A front as a table, csv, parquet, json, html or png: all the same rows in the same order."""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.front.pareto import Front, Panel

FORMATS = ("table", "csv", "parquet", "json", "html", "png")
SUFFIXES = {"": "table", ".txt": "table", **{f".{form}": form for form in FORMATS if form != "table"}}
_GUARANTEE = ("epsilon", "delta", "notion", "adjacency", "unit", "status", "accountant")


def rows(front: Front, everything: bool = False) -> Iterator[dict[str, Any]]:
    """One flat row per front point (per point when `everything`): key, number, guarantee, objectives, knobs, metrics.

    `epsilon` is the claim's; knobs are named `knob.<name>`, metrics that are no objectives `metric.<name>`.
    """
    for panel in front.panels:
        yield from _rows(front, panel, everything)


def _rows(front: Front, panel: Panel, everything: bool) -> Iterator[dict[str, Any]]:
    names = [one.metric for one in front.objectives]
    for index in panel.order():
        on_front = bool(panel.on_front[index])
        if not on_front and not everything:
            break
        record = panel.records[index]
        assert record.guarantee is not None
        row: dict[str, Any] = {"key": record.key, "number": record.number, "on_front": on_front}
        row.update(zip(names, panel.values[index].tolist(), strict=True))
        for name in _GUARANTEE:
            row[name] = float(record.guarantee[name]) if name == "epsilon" else record.guarantee[name]
        row.update((f"knob.{name}", value) for name, value in record.config.items())
        row.update((f"metric.{name}", value) for name, value in record.metrics.items() if name not in row)
        yield row


def render(front: Front, form: str, everything: bool = False) -> str | bytes:
    """The front in one of `FORMATS`: bytes for parquet and png, else text. Raises InvalidValue."""
    if form == "table":
        from rich.console import Console

        from sweeps.front.terminal import table

        buffer = io.StringIO()
        Console(file=buffer, width=120).print(table(front))
        return buffer.getvalue()
    if form == "csv":
        return to_csv(front, everything)
    if form == "json":
        return to_json(front, everything)
    if form == "parquet":
        return to_parquet(front, everything)
    if form == "png":
        return to_png(front)
    if form == "html":
        from sweeps.report.page import front_page

        return front_page(front)
    raise InvalidValue("format", form, f"one of {', '.join(FORMATS)}")


def to_csv(front: Front, everything: bool = False) -> str:
    """Comma-separated values with a header; an infinite epsilon is `inf`, an absent knob empty."""
    listed = list(rows(front, everything))
    names = _columns(front, listed)
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return buffer.getvalue()


def to_json(front: Front, everything: bool = False) -> str:
    """One JSON object; an infinite number is the string "inf" or "-inf" (JSON has no infinity)."""
    points = [
        [{name: _plain(value) for name, value in row.items()} for row in _rows(front, panel, everything)]
        for panel in front.panels
    ]
    content = {
        "sweep": front.sweep,
        "note": front.note,
        "procedure": None if front.procedure is None else dict(front.procedure),
        "objectives": [{"metric": one.metric, "goal": one.goal} for one in front.objectives],
        "log10": list(front.log10),
        "reference_source": front.reference_source,
        "excluded": dict(front.excluded),
        "panels": [
            {
                "label": dict(panel.label),
                "trials": len(panel.records),
                "hypervolume": panel.hypervolume,
                "reference": list(panel.reference),
                "points": listed,
            }
            for panel, listed in zip(front.panels, points, strict=True)
        ],
    }
    return json.dumps(content, indent=None if sum(map(len, points)) > 1000 else 2, allow_nan=False)


def to_parquet(front: Front, everything: bool = False) -> bytes:
    """An Apache Parquet file; a knob that is a number in one trial and text in another is kept as text."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    listed = list(rows(front, everything))
    columns = {name: _typed([row.get(name) for row in listed]) for name in _columns(front, listed)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def to_png(front: Front) -> bytes:
    """The first two objectives, one set of axes per panel."""
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


def footer(front: Front, panel: Panel) -> str:
    volume = "not computed (too many points for so many objectives)"
    if panel.hypervolume is not None:
        corner = ", ".join(
            f"{one.metric} {value:.4g}" for one, value in zip(front.objectives, panel.reference, strict=True)
        )
        logs = f", log10 {', '.join(front.log10)}" if front.log10 else ""
        volume = f"{panel.hypervolume:.4g} (reference {corner}; {front.reference_source}{logs})"
    average = [one.metric for one in front.objectives if one.metric.startswith("bayesian_epsilon")]
    apart = f". {', '.join(average)}: average-case, no part of the claim above" if average else ""
    return f"{int(panel.on_front.sum())} of {len(panel.records)} trials on the front, hypervolume {volume}{apart}"


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
    _scatter(axis, panel, x, y)
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


_MARKERS = {Status.PROVED: "o", Status.PROVED_UNDER_ASSUMPTIONS: "s"}
_COLOURS = ("#0f766e", "#b45309", "#1d4ed8", "#be185d", "#4d7c0f", "#6d28d9", "#0e7490", "#57534e")


def _scatter(axis: Any, panel: Panel, x: Any, y: Any) -> None:
    """The points: by system and status where there are several, else front against dominated."""
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
        axis.scatter(x[dominated], y[dominated], s=14, alpha=0.35, linewidths=0, **style)
        axis.scatter(x[front], y[front], s=44, linewidths=0.8, edgecolors="black", label=told, **style)
    axis.plot([], [], " ", label="large and outlined: on the front")


def _columns(front: Front, listed: list[dict[str, Any]]) -> list[str]:
    fixed = ["key", "number", "on_front", *(one.metric for one in front.objectives), *_GUARANTEE]
    return list(dict.fromkeys([*fixed, *(name for row in listed for name in row)]))


def _typed(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None if isinstance(value, float) and math.isnan(value) else value

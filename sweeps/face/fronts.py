"""A Pareto front as Python has it: a table, a figure, a file, and a picture of itself in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.face.notebook_page import folded
from sweeps.face.tables import front_table
from sweeps.front.columns import columns
from sweeps.front.export import FORMATS, SUFFIXES, render
from sweeps.front.fitted import FittedColumn
from sweeps.front.joint import joint_front
from sweeps.front.panels import AxisEnd, Front, FrontAxis
from sweeps.front.pareto import LABELS
from sweeps.front.terminal import LIMIT
from sweeps.release.publisher import Publisher
from sweeps.util.files import write_output
from sweeps.util.suggest import as_html, closest

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


@dataclass(frozen=True, slots=True, eq=False)
class ParetoFront:
    """The trials that no other beats, with what their claims rest on.

    front  the values: objectives, one panel for each kind of claim, totals, assumptions
    """

    front: Front

    @property
    def keys(self) -> list[str]:
        """Keys of the trials on the front, best of the first objective first."""
        return self.front.keys()

    @property
    def hypervolumes(self) -> list[float | None]:
        """What each panel's front dominates up to the references; None without a reference for every objective."""
        return [panel.hypervolume for panel in self.front.panels]

    @property
    def note(self) -> str:
        """The totals of the sweep in words: which number may be quoted for what."""
        return self.front.note

    def table(self, everything: bool = False) -> pd.DataFrame:
        """One row a point; with `everything`, one for each ranked trial. See `sweeps.face.tables.front_table`."""
        return front_table(self.front, everything)

    def figure(self) -> go.Figure:
        """The first panel's picture. Raises InvalidValue where there is no point."""
        from sweeps.face.plots import figure_of
        from sweeps.report.figures import front_figure

        if not self.front.panels:
            raise InvalidValue("front", self.front.sweep, "a sweep with a finished trial that reports its objectives")
        return figure_of(front_figure(self.front, self.front.panels[0]))

    def write(self, path: str | Path, format: str | None = None) -> Path:
        """Write it as table, csv, parquet, json, html or png, by the name of `path` unless said; return the path.

        Raises InvalidValue for a format that is none, OSError for a place that cannot be written.
        """
        form = format or SUFFIXES.get(Path(path).suffix.lower())
        if form not in FORMATS:
            known = ", ".join(FORMATS)
            raise InvalidValue("format", format or str(path), f"one of {known}", closest(form or "", FORMATS))
        return write_output(render(self.front, form), Path(path))

    def __str__(self) -> str:
        return str(render(self.front, "table"))

    def __repr__(self) -> str:
        points = sum(len(panel.order_of_front()) for panel in self.front.panels)
        ranked = sum(len(panel.records) for panel in self.front.panels)
        axes = ", ".join(f"{one.metric} {one.goal}" for one in self.front.objectives)
        return f"<ParetoFront of {self.front.sweep!r}: {points} of {ranked} trials; {axes}>"

    def _repr_html_(self) -> str:
        """For notebooks, what the terminal shows: heading, points, what is under each panel, totals, assumptions."""
        front = self.front
        parts = [f"<p><b>{escape(front.heading)}</b></p>"] if front.heading else []
        for panel in front.panels:
            parts += [f"<p><b>{escape(front.title(panel))}</b></p>", _table(columns(front, panel, LIMIT))]
            left = len(panel.order_of_front()[LIMIT:])
            more = f"… and {left} more on the front<br>" if left else ""
            parts.append(f"<p>{more}{escape(front.footer(panel))}<br><code>front.table()</code> has every column</p>")
        parts += [] if front.panels else [f"<p>{front.empty}</p>"]
        parts += [f"<p>left out: {escape(front.left_out)}</p>"] if front.excluded else []
        parts += [f"<p>{'<br>'.join(map(as_html, front.legend()))}</p>"] if front.panels else []
        parts += [f"<p>{as_html(front.note)}</p>"] if front.note else []
        parts.append(folded(list(front.assumptions.lines())))
        return "\n".join(parts)


def _table(shown: Sequence[FittedColumn]) -> str:
    """As HTML; in the headers a space, where a narrow page may break them."""
    heads = "".join(f"<th>{escape(one.header.replace('_', ' '))}</th>" for one in shown)
    rows = zip(*(one.cells for one in shown), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def asked_front(
    store: Publisher,
    sweeps: Sequence[str],
    objective: str | Sequence[str] = (),
    reference: Mapping[str, float] | None = None,
    mix: Collection[str] = (),
    as_refuted: bool = False,
) -> ParetoFront:
    """The front of one sweep or several, as `sweeps.pareto` and `Sweep.front` are asked for it."""
    for label in mix:
        if label not in LABELS:
            raise InvalidValue("mix", label, f"one of {', '.join(LABELS)}", closest(label, LABELS))
    ends = {metric: AxisEnd(float(value)) for metric, value in (reference or {}).items()}
    axes = [FrontAxis.parse(one) for one in ([objective] if isinstance(objective, str) else objective)]
    return ParetoFront(joint_front(store, sweeps, axes or None, mix=mix, reference=ends, as_refuted=as_refuted))

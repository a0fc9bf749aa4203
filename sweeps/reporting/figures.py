"""The page's charts as plain Plotly values (data and layout), SVG traces only; colours of text and grid are the page's.

Every text that came from a spec is escaped: Plotly reads tags in its labels.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import accumulate, chain, product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.guarantee import Status, epsilon_text
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.wording import is_refuted, was_stopped
from sweeps.reporting.front import Front, FrontAxis, Panel, SystemPoints, kinds, log_ticks, spec_objectives
from sweeps.reporting.summary import Importance
from sweeps.store.records import (
    DECIDED,
    EPSILON,
    SYSTEM,
    TARGET_EPSILON,
    CurveReport,
    TrialState,
    by_trial,
    varied_knobs,
)
from trainables.metrics import STANDARD_ERROR, with_error

if TYPE_CHECKING:
    import matplotlib.figure
    import plotly.graph_objects as go


Figure = dict[str, Any]

ON_FRONT, DOMINATED = "#0d9488", "#94a3b8"
SCALE = ("#4f6bed", "#3f86d8", "#2a9ec4", "#1fae9a", "#5aab5c", "#97a33b", "#c98f2c", "#e0702e")
SERIES = ("#2563eb", "#d97706", "#0d9488", "#be185d", "#7c3aed", "#65a30d", "#dc2626", "#0891b2")
SYMBOLS = {Status.PROVED: "circle", Status.PROVED_UNDER_ASSUMPTIONS: "square"}
OUTLINE = "#1f2937"
STOPPED = "#d97706"
MAX_DOMINATED = 2000
MAX_LINES = 600


def front_figure(front: Front, panel: Panel) -> Figure:
    """Front against dominated points over the first two objectives, epsilon across; staircase of what is attained.

    Where a panel mixes systems or statuses, each has a colour, a shape and a staircase of its own.
    """
    names = [one.metric for one in front.objectives]
    if len(names) == 1:
        return _strip(front.objectives[0], panel)
    across = next((names.index(one) for one in (EPSILON, TARGET_EPSILON) if one in names), 1)
    up = next(i for i in range(len(names)) if i != across)
    found = kinds(panel, front.objectives, across, up)
    data = [trace for kind in found for trace in _traces(front, panel, kind, len(found) == 1, across, up)]
    xaxis = _axis(front.objectives[across], panel.values[:, across], panel.compared[:, across])
    return _figure(data, 400 if len(found) == 1 else 460, xaxis, _axis(front.objectives[up], panel.values[:, up]))


def _traces(front: Front, panel: Panel, kind: SystemPoints, alone: bool, across: int, up: int) -> Iterator[Figure]:
    """Of one kind of points: the staircase through its own best, what is dominated, what is on the panel's front."""
    names, colour = [one.metric for one in front.objectives], SERIES[kind.system % len(SERIES)]
    symbol = SYMBOLS.get(kind.status, "triangle-up")
    below: Figure = {"size": 6, "opacity": 0.5, "color": colour, "symbol": symbol}
    best: Figure = {"size": 11, "line": {"width": 1.2, "color": OUTLINE}, "color": colour, "symbol": symbol}
    legend = [escape(kind.name)] * 2
    if alone:
        colour, legend = ON_FRONT, ["dominated", "Pareto front"]
        below, best = {"size": 6, "opacity": 0.55, "color": DOMINATED}, {"size": 9, "color": ON_FRONT}
    if len(names) == 2:
        line = {"color": colour, "width": 1.5 if alone else 1, "shape": _stairs(front.objectives[across])}
        x, y = (_plain(panel.values[kind.own, axis]) for axis in (across, up))
        yield _scatter(x, y, mode="lines", line=line, hoverinfo="skip", showlegend=False)
    shown = np.zeros(len(panel.records), dtype=bool)
    shown[_thinned(np.flatnonzero(~panel.on_front), MAX_DOMINATED)] = True
    on_front = panel.on_front & kind.members
    for members, marker, name in ((shown & kind.members, below, legend[0]), (on_front, best, legend[1])):
        if members.any():
            named = alone or members is on_front or not on_front.any()
            drawn = _points(panel, np.flatnonzero(members), across, up, names)
            yield drawn | {"name": name, "marker": marker, "showlegend": named}


def _stairs(across: FrontAxis) -> str:
    """The line through a front: at an x between two points, the better y of the two is not to be had."""
    return "hv" if across.goal == "minimize" else "vh"


def parallel_figure(trials: Sequence[Published], objectives: Sequence[FrontAxis], on_front: set[str]) -> Figure | None:
    """One line per finished trial through its knobs and objectives, coloured by the first measured objective.

    None when fewer than two axes vary. At most MAX_LINES lines, front trials first.
    """
    finished = [trial for trial in trials if trial.state is TrialState.COMPLETE and trial.guarantee is not None]
    kept = [trial for trial in finished if trial.key in on_front][:MAX_LINES]
    rest = [trial for trial in finished if trial.key not in on_front]
    kept = [rest[i] for i in _thinned(np.arange(len(rest)), max(0, MAX_LINES - len(kept)))] + kept
    metrics = [one.metric for one in objectives]
    knobs = [name for name in (SYSTEM, TARGET_EPSILON, *varied_knobs(kept)) if name not in metrics]
    columns = {name: [trial.config.get(name) for trial in kept] for name in knobs}
    columns |= {name: [trial.metric(name) for trial in kept] for name in metrics}
    columns = {name: values for name, values in columns.items() if len(set(values)) > 1}
    if len(columns) < 2 or len(kept) < 2:
        return None
    names, scaled = list(columns), {name: _unit_interval(values) for name, values in columns.items()}
    measured = next((name for name in metrics if name not in DECIDED and name in scaled), names[-1])
    bins = [min(len(SCALE) - 1, int((place or 0.0) * len(SCALE))) for place in scaled[measured][0]]

    def line_of(i: int) -> Iterator[tuple[float | None, float | None, str | None]]:
        """Its points, and one without a place, which parts it from the next."""
        text = f"<b>{escape(kept[i].key)}</b>{' on the front' if kept[i].key in on_front else ''}"
        text += " (refuted)" if is_refuted(kept[i]) else ""
        for position, name in enumerate(names):
            place, _, _ = scaled[name]
            yield position, place[i], f"{text}<br>{escape(name)} = {escape(_show(columns[name][i]))}"
        yield None, None, None

    data: list[Figure] = []
    for (level, colour), front_line in product(enumerate(SCALE), (False, True)):
        members = [i for i, one in enumerate(kept) if bins[i] == level and (one.key in on_front) == front_line]
        if members:
            x, y, hover = (list(column) for column in zip(*chain.from_iterable(map(line_of, members)), strict=True))
            line = {"color": colour, "width": 2.6 if front_line else 1.1}
            style = {"mode": "lines+markers", "line": line, "marker": {"size": 4, "color": colour}}
            drawn = _scatter(x, y, hover, opacity=1.0 if front_line else 0.45, showlegend=False)
            data.append(drawn | style)
    notes = [
        {"x": i, "y": y, "text": escape(text), "showarrow": False, "yshift": shift, "font": {"size": 11}}
        for i, (_, bottom, top) in enumerate(scaled.values())
        for y, text, shift in ((1, top, 13), (0, bottom, -13))
    ]
    lines = [
        {"type": "line", "x0": i, "x1": i, "y0": 0, "y1": 1, "line": {"width": 1, "color": DOMINATED}, "layer": "below"}
        for i in range(len(names))
    ]
    # One word a line: the names of eight axes stay upright on a telephone.
    ticks = [escape(name if len(name) < 30 else name[:28] + "…").replace("_", "<br>") for name in names]
    words = max(tick.count("<br>") for tick in ticks) + 1
    xaxis = {
        "tickvals": list(range(len(names))),
        "ticktext": ticks,
        "showgrid": False,
        "zeroline": False,
        "side": "top",
        "automargin": True,
        "tickfont": {"size": 12},
        "range": [-0.35, len(names) - 0.65],
    }
    around = {"annotations": notes, "shapes": lines, "margin": {"l": 24, "r": 24, "t": 30 + 16 * words, "b": 16}}
    figure = _figure(data, 400, xaxis, {"visible": False, "range": [-0.12, 1.12]}, **around)
    broken = any(None in places for places, _, _ in scaled.values())
    told = {"coloured_by": measured, "lines": len(kept), "of": len(finished), "broken": broken, "axes": len(names)}
    return figure | told


def curves_figure(
    trials: Sequence[Published], curves: Mapping[str, Sequence[CurveReport]], objective: FrontAxis, on_front: set[str]
) -> Figure | None:
    """One line for each trial through its planned steps; those on the front stand out, and show their errors.

    A line that early stopping ended, ends there, with a mark. None where no trial has two points. At most MAX_LINES
    lines, front trials first.
    """
    name = objective.metric
    every = [(one, [p for p in curves.get(one.key, ()) if _finite(p.metrics.get(name))]) for one in trials]
    lines = [(one, points) for one, points in every if points]
    if all(len(points) < 2 for _, points in lines):
        return None
    best = [line for line in lines if line[0].key in on_front][:MAX_LINES]
    others = [line for line in lines if line[0].key not in on_front]
    others = [others[i] for i in _thinned(np.arange(len(others)), MAX_LINES - len(best))]
    data = [
        _drawn_lines(others, name) | {"name": "other trials", "opacity": 0.45} | _stroke(DOMINATED, 1, 3),
        _drawn_lines(best, name, bars=True) | {"name": "on the front"} | _stroke(ON_FRONT, 2, 5),
    ]
    if ends := [(trial, points[-1:]) for trial, points in (*others, *best) if was_stopped(trial)]:
        cross = {"symbol": "x-thin", "size": 6, "opacity": 0.7, "line": {"width": 1.5, "color": STOPPED}}
        data.append(_drawn_lines(ends, name) | {"name": "stopped early", "mode": "markers", "marker": cross})
    xaxis = {"title": {"text": "share of the planned steps"}, "tickformat": ".0%", "range": [0, 1.03]}
    yaxis = {"title": {"text": escape(objective.axis)}, "automargin": True}
    figure = _figure([one for one in data if one["x"]], 400, xaxis, yaxis)
    barred = any(name + STANDARD_ERROR in points[-1].metrics for _, points in lines)
    return figure | {"lines": len(best) + len(others), "of": len(lines), "barred": barred}


def _drawn_lines(lines: Iterable[tuple[Published, list[CurveReport]]], name: str, bars: bool = False) -> Figure:
    """Their points over shares of the plan; between two lines there is a point without a place, which parts them."""
    gap = (None, None, None, None)
    points: list[tuple[float | None, float | None, float | None, str | None]] = []
    for trial, told in lines:
        for one in told:
            value, error = one.metrics[name], one.metrics.get(name + STANDARD_ERROR)
            text = f"<b>{escape(trial.key)}</b><br>after {one.step:,} of {trial.planned_steps:,} steps"
            text += f"<br>{escape(name)} {with_error(one.metrics, name)}"
            text += "" if trial.guarantee is None else f"<br>epsilon {epsilon_text(trial.guarantee.epsilon)}"
            points.append((round(one.step / trial.planned_steps, 4), value, error, text))
        points.append(gap)
    x, y, errors, hover = ([one[column] for one in points] for column in range(4))
    drawn = _scatter(x, y, hover)  # type: ignore[arg-type]
    if bars and any(errors):
        drawn["error_y"] = _bars([error or 0.0 for error in errors])  # type: ignore[misc]
    return drawn


def _bars(errors: Sequence[float]) -> Figure:
    """One standard error up and down."""
    return {"type": "data", "array": list(errors), "thickness": 1, "width": 3}


def _stroke(colour: str, width: float, marker: float) -> Figure:
    return {
        "mode": "lines+markers",
        "line": {"color": colour, "width": width},
        "marker": {"size": marker, "color": colour},
    }


def importance_figure(one: Importance) -> Figure:
    """Bars, the most important knob on top."""
    names = list(one.by_knob)[::-1]
    values = [one.by_knob[name] for name in names]
    bar = {
        "type": "bar",
        "orientation": "h",
        "x": values,
        "y": [escape(name) for name in names],
        "marker": {"color": ON_FRONT},
        "hovertemplate": "%{y}: R² falls by %{x:.3f}<extra></extra>",
    }
    xaxis = {"title": {"text": "fall of held-out R² when shuffled"}, "rangemode": "tozero"}
    return _figure([bar], 90 + 30 * len(names), xaxis, {"automargin": True})


def progress_figure(trials: Sequence[Published], objective: FrontAxis) -> Figure | None:
    """Every finished trial by the time it ended, and the best so far of each fixed epsilon. None without any."""
    ended = [one for one in trials if one.state is TrialState.COMPLETE and one.finished_at and not is_refuted(one)]
    measured = [trial for trial in ended if _finite(trial.metric(objective.metric))]
    done = sorted(measured, key=lambda trial: trial.finished_at or 0.0)
    if not done:
        return None
    start = min(trial.proposed_at for trial in trials)
    longest = (done[-1].finished_at or start) - start
    unit, seconds = ("minutes", 60.0) if longest > 180 else ("seconds", 1.0)
    budgets = sorted({trial.target_epsilon for trial in done}, key=lambda budget: budget or 0.0)
    better = max if objective.goal == "maximize" else min
    data: list[Figure] = []
    for index, budget in enumerate(budgets):
        own = [trial for trial in done if trial.target_epsilon == budget]
        x = [round(((trial.finished_at or start) - start) / seconds, 3) for trial in own]
        y = [trial.metric(objective.metric) or 0.0 for trial in own]
        best = list(accumulate(y, better))
        colour = SERIES[index % len(SERIES)]
        name = "best so far" if budget is None else f"best at epsilon {epsilon_text(budget)}"
        some = _thinned(np.arange(len(own)), MAX_DOMINATED)
        hover = [f"<b>{escape(own[i].key)}</b><br>{escape(objective.metric)} {y[i]:.4g}" for i in some]
        dot = {"size": 5, "color": colour, "opacity": 0.4}
        dots = _scatter([x[i] for i in some], [y[i] for i in some], hover, marker=dot, showlegend=False)
        line = {"shape": "hv", "color": colour, "width": 2}
        steps = {"mode": "lines", "name": name, "line": line, "hoverinfo": "skip"}
        reached = _scatter([*x, round(longest / seconds, 3)], [*best, best[-1]]) | steps
        data += [dots | {"legendgroup": name}, reached | {"legendgroup": name}]
    xaxis = {"title": {"text": f"{unit} since the first proposal"}, "rangemode": "tozero"}
    return _figure(data, 360, xaxis, {"title": {"text": escape(objective.axis)}, "automargin": True})


def _strip(objective: FrontAxis, panel: Panel) -> Figure:
    numbers = [record.number for record in panel.records]
    colours = [ON_FRONT if best else DOMINATED for best in panel.on_front]
    hover = [_hover(panel, i, [objective.metric]) for i in range(len(numbers))]
    marker = {"size": [11 if best else 6 for best in panel.on_front], "color": colours}
    points = _scatter(numbers, _plain(panel.values[:, 0]), hover, marker=marker, showlegend=False)
    return _figure([points], 360, {"title": {"text": "trial"}}, _axis(objective, panel.values[:, 0]))


def _points(panel: Panel, chosen: np.ndarray, across: int, up: int, names: list[str]) -> Figure:
    """With a bar of one standard error for those on the front."""
    x, y = (_plain(panel.values[chosen, axis]) for axis in (across, up))
    drawn = _scatter(x, y, [_hover(panel, int(i), names) for i in chosen])
    for key, axis in (("error_x", across), ("error_y", up)):
        if (errors := np.where(panel.on_front[chosen], panel.errors[chosen, axis], 0.0)).any():
            drawn[key] = _bars(errors.tolist())
    return drawn


def _scatter(x: Sequence[Any], y: Sequence[Any], hover: Sequence[str | None] | None = None, **style: Any) -> Figure:
    told = {} if hover is None else {"hovertext": hover, "hoverinfo": "text"}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, **told, **style}


def _figure(data: list[Figure], height: int, xaxis: Figure, yaxis: Figure, **layout: Any) -> Figure:
    return {"data": data, "layout": {"height": height, "xaxis": xaxis, "yaxis": yaxis, **layout}}


def _hover(panel: Panel, index: int, names: list[str]) -> str:
    record = panel.records[index]
    lines = [f"<b>{escape(record.key)}</b>{' (refuted)' if is_refuted(record) else ''}"]
    for name, value in zip(names, panel.values[index].tolist(), strict=True):
        is_budget = name in (EPSILON, TARGET_EPSILON)
        shown = epsilon_text(value) if is_budget else with_error({name: value} | dict(record.metrics), name)
        lines.append(f"{escape(name)} <b>{shown}</b>")
    if EPSILON not in names and record.guarantee is not None:
        lines.append(f"epsilon <b>{epsilon_text(record.guarantee.epsilon)}</b>")
    lines += [f"{escape(name)} = {escape(_show(value))}" for name, value in list(record.knobs.items())[:12]]
    return "<br>".join(lines)


def _axis(objective: FrontAxis, values: np.ndarray, compared: np.ndarray | None = None) -> Figure:
    """`compared` where the axis may be logarithmic."""
    axis: Figure = {"title": {"text": escape(objective.axis)}, "automargin": True}
    ticks = None if compared is None or not (values > 0).all() else log_ticks(compared)
    if ticks is not None:
        finite = values[np.isfinite(values)]
        pad = 0.06 * math.log10(finite.max() / finite.min())
        axis |= {
            "type": "log",
            "tickvals": ticks,
            "ticktext": [f"{tick:g}" for tick in ticks],
            "range": [math.log10(finite.min()) - pad, math.log10(finite.max()) + pad],
        }
    return axis


def _unit_interval(values: Sequence[Any]) -> tuple[list[float | None], str, str]:
    """A column on [0, 1], None where it has no value, and the texts of its ends."""
    present = [value for value in values if value is not None]
    if all(_finite(value) and not isinstance(value, bool) for value in present):
        low, high = min(present), max(present)
        log = low > 0 and high > 20 * low
        lower, upper = (math.log(low), math.log(high)) if log else (float(low), float(high))
        span = (upper - lower) or 1.0
        places = [None if v is None else round(((math.log(v) if log else float(v)) - lower) / span, 4) for v in values]
        return places, _show(low), _show(high) + (" log" if log else "")
    kinds = sorted({str(value) for value in present})
    codes = {value: round(code / max(1, len(kinds) - 1), 4) for code, value in enumerate(kinds)}
    return [None if v is None else codes[str(v)] for v in values], kinds[0], kinds[-1]


def _thinned(indices: np.ndarray, limit: int) -> np.ndarray:
    if len(indices) <= limit:
        return indices
    return indices[np.linspace(0, len(indices) - 1, limit).astype(int)] if limit else indices[:0]


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _plain(values: np.ndarray) -> list[float | None]:
    # JSON has no infinity; a point without a place is not drawn, and the table below has it.
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# A front as a picture: its first two objectives, one set of axes per panel.


def to_png(front: Front) -> bytes:
    """A PNG file of 150 dots an inch."""
    buffer = io.BytesIO()
    drawn(front).savefig(buffer, format="png")
    return buffer.getvalue()


def drawn(front: Front) -> matplotlib.figure.Figure:
    """The picture as Matplotlib has it."""
    from matplotlib.figure import Figure as Picture

    panels = max(1, len(front.panels))
    figure = Picture(figsize=(7.2, 5.6 * panels), dpi=150, layout="constrained")
    axes = figure.subplots(panels, 1, squeeze=False)[:, 0]
    for axis, panel in zip(axes, front.panels, strict=False):
        _draw(axis, front_figure(front, panel))
        axis.set_title(textwrap.fill(panel.title, 95, break_on_hyphens=False), fontsize=9)
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


_MARKERS = {"circle": "o", "square": "s", "triangle-up": "^"}
_STEPS = {"hv": "steps-post", "vh": "steps-pre"}


def _draw(axis: Any, figure: Figure) -> None:
    """A chart of points and staircases on axes of Matplotlib."""
    for trace in figure["data"]:
        named = trace.get("name") if trace.get("showlegend", True) else None
        x, y = (np.array(trace[one], dtype=float) for one in "xy")
        if trace["mode"] == "lines":
            line = trace["line"]
            axis.plot(x, y, color=line["color"], linewidth=line["width"], alpha=0.6, drawstyle=_STEPS[line["shape"]])
            continue
        marker = trace["marker"]
        edge = {"edgecolors": OUTLINE, "linewidths": 0.8} if "line" in marker else {"linewidths": 0}
        symbol, size = _MARKERS[marker.get("symbol", "circle")], np.square(marker["size"]) / 2
        style = {"color": marker["color"], "alpha": marker.get("opacity"), "label": named and unescape(named)}
        axis.scatter(x, y, s=size, marker=symbol, **style, **edge)
        bars = {f"{key[-1]}err": trace[key]["array"] for key in ("error_x", "error_y") if key in trace}
        if bars:
            axis.errorbar(x, y, **bars, fmt="none", ecolor=marker["color"], elinewidth=0.8, capsize=2, zorder=0)
    across, up = figure["layout"]["xaxis"], figure["layout"]["yaxis"]
    axis.set(xlabel=unescape(across["title"]["text"]), ylabel=unescape(up["title"]["text"]))
    if across.get("type") == "log":
        low, high = (10.0**end for end in across["range"])
        axis.set(xscale="log", xlim=(low, high))
        axis.set_xticks([tick for tick in across["tickvals"] if low <= tick <= high])
        axis.set_xticks([], minor=True)
        axis.xaxis.set_major_formatter("{x:g}")
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    # Below the points, wherever they lie.
    axis.legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2))


# The report page's charts as Plotly figures, for a notebook or a paper.


@dataclass(frozen=True, slots=True, repr=False)
class Plots:
    """Pictures of one sweep, drawn from what it published. Each raises InvalidValue where there is nothing to draw."""

    published: PublishedStore
    sweep: str

    def __repr__(self) -> str:
        calls = "front(front), parallel(front), curves(front), progress()"
        return f"<Plots of {self.sweep!r}: {calls}; front is sweep.front().front>"

    def front(self, front: Front, panel: int = 0) -> go.Figure:
        """One panel of a front: its points against the others, over the first two objectives."""
        if panel not in range(len(front.panels)):
            raise InvalidValue("panel", panel, f"the number of one of {len(front.panels)} panels, counted from 0")
        return figure_of(front_figure(front, front.panels[panel]))

    def parallel(self, front: Front) -> go.Figure:
        """Every finished trial as a line through its knobs and objectives; those on `front` stand out."""
        trials = self.published.trials(self.sweep, [TrialState.COMPLETE])
        return self._drawn(parallel_figure(trials, front.objectives, set(front.keys())))

    def curves(self, front: Front, metric: str | None = None) -> go.Figure:
        """Metrics at planned steps, a line for each trial; those on `front` stand out.

        metric  an objective; the first that training decides by default
        """
        decided = [one for one in front.objectives if one.metric not in DECIDED]
        chosen = _chosen(metric, decided, "an objective that training decides")
        trials, curves = self.published.trials(self.sweep), by_trial(self.published.curves(self.sweep))
        return self._drawn(curves_figure(trials, curves, chosen, set(front.keys())))

    def progress(self, metric: str | None = None) -> go.Figure:
        """The best value of an objective (the first by default) by number of finished trials."""
        objectives = spec_objectives(self.published.sweep(self.sweep).spec)
        chosen = _chosen(metric, objectives, "an objective of the sweep")
        return self._drawn(progress_figure(self.published.trials(self.sweep), chosen))

    def _drawn(self, figure: Figure | None) -> go.Figure:
        if figure is None:
            raise InvalidValue("sweep", self.sweep, "a sweep with finished trials that can be drawn")
        return figure_of(figure)


def _chosen(metric: str | None, objectives: Sequence[FrontAxis], what: str) -> FrontAxis:
    """The objective of this metric, the first by default. Raises InvalidValue."""
    found = next((one for one in objectives if metric in (None, one.metric)), None)
    if found is None:
        known = ", ".join(one.metric for one in objectives)
        raise InvalidValue("metric", metric, f"{what}: {known or 'none'}")
    return found


def figure_of(figure: Figure) -> go.Figure:
    """A chart of the report as a Plotly figure."""
    import plotly.graph_objects as go

    return go.Figure(figure)

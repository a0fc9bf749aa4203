"""The page: content and charts in one HTML file that asks nobody for anything.

A content security policy forbids every request, so a library that tried to load something would be stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from html import escape

from sweeps.front.panels import Front
from sweeps.front.pareto import REFUTED
from sweeps.report import figures
from sweeps.report.assets import SCRIPT, STYLE
from sweeps.report.audits import audits_section
from sweeps.report.content import Content
from sweeps.report.guarantees import assumptions_list, guarantee_box
from sweeps.report.sealed import left_section
from sweeps.report.trials import trials_table
from sweeps.store.records import DECIDED, TrialState
from sweeps.util.suggest import as_html

_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def report_page(content: Content) -> str:
    """The whole report as HTML."""
    charts: dict[str, figures.Figure] = {}
    found = left_section(content) if content.is_sealed else _found(content, charts)
    compared = "" if content.is_sealed else _compared(content, charts)
    sections = [
        _heading(content),
        found,
        f"<h2>What is guaranteed</h2>{guarantee_box(content)}",
        audits_section(content.audits, content.release),
        compared,
        trials_table(content),
    ]
    return _page(f"{content.sweep.name} · sweep report", "".join(sections), charts)


def _found(content: Content, charts: dict[str, figures.Figure]) -> str:
    front = f"{_tiles(content)}<h2>Pareto front</h2>{_front(content.front, charts)}"
    listed = "".join(f"<li>{escape(f'{one.trial}: {one}')}</li>" for one in content.tests)
    return front + (f'<h2>Test records</h2><div class="card"><ul>{listed}</ul></div>' if listed else "")


def _compared(content: Content, charts: dict[str, figures.Figure]) -> str:
    parts = (_parallel, _importances, _curves, _progress)
    return "".join(part(content, charts) for part in parts)


def front_page(front: Front) -> str:
    """A front alone as HTML."""
    charts: dict[str, figures.Figure] = {}
    title = f"Pareto front {front.sweep}".strip()
    note = f"<p>{as_html(front.note)}</p>" if front.note else ""
    listed = assumptions_list(front.assumptions)
    body = f"<h1>{escape(title)}</h1>{_above(front.heading)}{note}{_front(front, charts)}{listed}"
    return _page(title, body, charts)


def _above(heading: str) -> str:
    return f'<p class="heading">{escape(heading)}</p>' if heading else ""


def _page(title: str, body: str, charts: Mapping[str, figures.Figure]) -> str:
    from plotly.offline import get_plotlyjs

    # "</" and "<!--" inside a script would end or hide it.
    data = json.dumps(charts, allow_nan=False).replace("<", "\\u003c")
    library = get_plotlyjs() if charts else "const Plotly = null;"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>{body}</main>"
        f'<script type="application/json" id="figures">{data}</script>'
        f"<script>{library}</script><script>{SCRIPT}</script></body></html>\n"
    )


def _heading(content: Content) -> str:
    spec = content.sweep.spec
    facts = [f"state {content.sweep.state}"]
    facts += [f"data {spec.source}"] if spec.source else []
    facts += [f"{spec.sampler} sampler"] if spec.sampler else []
    facts += ["systems and budgets in turn"] if spec.is_stratified else []
    facts += [time.strftime("written %Y-%m-%d %H:%M UTC", time.gmtime(content.written_at))]
    return (
        f"<h1>{escape(content.sweep.name)}</h1>{_above(content.front.heading)}"
        f'<p class="soft">{escape(" · ".join(facts))}</p>'
    )


def _tiles(content: Content) -> str:
    tiles = [(str(len(content.in_state(state))), str(state)) for state in _SHOWN]
    on_front = sum(int(panel.on_front.sum()) for panel in content.front.panels)
    tiles.insert(1, (str(on_front), "on the front"))
    listed = "".join(f'<div class="tile"><b>{n}</b><span>{w}</span></div>' for n, w in tiles)
    return f'<div class="tiles">{listed}</div>'


AXIS_PIXELS = 56
"""That the axis of a knob needs for its name and ends."""
_SHOWN = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.PLANNED, TrialState.FAILED, TrialState.INFEASIBLE)


def _front(front: Front, charts: dict[str, figures.Figure]) -> str:
    parts = []
    for index, panel in enumerate(front.panels):
        charts[f"front-{index}"] = figures.front_figure(front, panel)
        parts.append(
            f'<div class="card"><h3>{escape(front.title(panel))}</h3>{_chart(f"front-{index}")}'
            f'<p class="soft">{escape(front.footer(panel))}.</p></div>'
        )
    if not parts:
        fallen = REFUTED in front.excluded
        why = "No finished trial has a claim that stands" if fallen else "No trial has finished yet"
        parts.append(f'<div class="card"><p>{why}: there is no front.</p></div>')
    if len(front.panels) > 1:
        parts.insert(0, "<p>The guarantees differ in kind, so their epsilons cannot be compared: one panel each.</p>")
    if front.excluded:
        parts.append(f'<p class="soft">Not in the picture: {escape(front.left_out)}.</p>')
    if front.panels:
        listed = "<br>".join(map(as_html, front.legend()))
        parts.append(f'<p class="soft">{listed}</p>')
    return "".join(parts)


def _parallel(content: Content, charts: dict[str, figures.Figure]) -> str:
    figure = figures.parallel_figure(content.trials, content.objectives, set(content.front.keys()))
    if figure is None:
        return ""
    charts["parallel"] = figure
    lines = "every finished trial" if figure["lines"] == figure["of"] else f"{figure['lines']} of {figure['of']} trials"
    parted = " A line is parted where its trial has no such knob." if figure["broken"] else ""
    return (
        f'<h2>Knobs and results together</h2><div class="card"><p class="soft">One line is one trial ({lines}), '
        f"coloured by {escape(figure['coloured_by'])}: blue is low, orange is high. Bold lines are on the "
        f"front.{parted}</p>"
        f"{_chart('parallel', AXIS_PIXELS * figure['axes'])}</div>"
    )


def _importances(content: Content, charts: dict[str, figures.Figure]) -> str:
    if not content.importances:
        return ""
    parts = []
    for index, one in enumerate(content.importances):
        name = f"<h3>{escape(one.metric)} of {escape(one.system)}</h3>"
        if one.reason:
            parts.append(f'{name}<p class="soft">Not shown: {escape(one.reason)} ({one.trials} now).</p>')
            continue
        charts[f"importance-{index}"] = figures.importance_figure(one)
        parts.append(
            f'{name}{_chart(f"importance-{index}")}<p class="soft">A random forest explains {max(0.0, one.r2):.0%} of '
            f"the variance of trials that it has not seen ({one.trials} trials, cross-validated).</p>"
        )
    return (
        '<h2>Which knobs matter</h2><div class="card"><p class="soft">Permutation importance: how much less the forest '
        f"explains when one knob is shuffled (Breiman 2001).</p>{''.join(parts)}</div>"
    )


def _curves(content: Content, charts: dict[str, figures.Figure]) -> str:
    on_front = set(content.front.keys())
    measured = [one for one in content.objectives if one.metric not in DECIDED]
    drawn = [figures.curves_figure(content.trials, content.curves, one, on_front) for one in measured]
    shown = [figure for figure in drawn if figure is not None]
    if not shown:
        return ""
    names = [f"curves-{index}" for index in range(len(shown))]
    charts |= zip(names, shown, strict=True)
    lines, of = shown[0]["lines"], shown[0]["of"]
    which = "every trial that reported" if lines == of else f"{lines} of {of} trials"
    said = f"One line is one trial ({which}); its claim is that of all its planned steps, wherever the line ends."
    if any(figure["noised"] for figure in shown):
        said += " Bars are the standard deviation of the noise in each report on private validation records."
    parts = [f'<p class="soft">{said}</p>', *map(_chart, names)]
    return f'<h2>Learning curves</h2><div class="card">{"".join(parts)}</div>'


def _progress(content: Content, charts: dict[str, figures.Figure]) -> str:
    parts = []
    for index, one in enumerate(content.objectives):
        figure = None if one.metric in DECIDED else figures.progress_figure(content.trials, one)
        if figure is not None:
            charts[f"progress-{index}"] = figure
            parts.append(_chart(f"progress-{index}"))
    return f'<h2>Progress</h2><div class="card">{"".join(parts)}</div>' if parts else ""


def _chart(name: str, least: int = 0) -> str:
    """least  pixels that it needs: on a narrower page it is moved sideways"""
    if not least:
        return f'<div class="chart" id="{name}"></div>'
    return f'<div class="scroll"><div class="chart" id="{name}" style="min-width:{least}px"></div></div>'

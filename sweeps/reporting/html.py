"""The report page: what `report.html` shows of a summary, in one file that asks nobody for anything.

A content security policy forbids every request, so a library that tried to load something would be stopped.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from time import gmtime, strftime
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from rich.console import Console

from dpcore.events import blocks, to_dict
from dpcore.guarantee import Guarantee, delta_text, epsilon_text
from sweeps.privacy import wording
from sweeps.privacy.charge import ex_post
from sweeps.privacy.ledger import HEADING, count_text, spans
from sweeps.privacy.release import Published, PublishedStore, best_by
from sweeps.privacy.totals import earlier_lines, sentences
from sweeps.reporting import figures
from sweeps.reporting.front import Front
from sweeps.reporting.summary import SweepSummary
from sweeps.reporting.tables import LIMIT, columns, table, to_csv, to_json, to_parquet
from sweeps.reporting.trials import trial_columns
from sweeps.search.asha import rung_ends
from sweeps.store.records import DECIDED, TARGET_EPSILON, TrialState
from sweeps.util.files import write_output
from sweeps.util.text import as_html
from trainables.metrics import scores_of, with_error
from trainables.models import shaping

HERE = Path(__file__).parent
STYLE = (HERE / "style.css").read_text(encoding="utf-8")
"""Of every page. No font, image or script comes from anywhere else."""
MAX_ROWS = 500
_SHOWN = (TrialState.COMPLETE, TrialState.RUNNING, TrialState.PLANNED, TrialState.FAILED, TrialState.INFEASIBLE)

Charts = dict[str, figures.Figure]


def write_report(store: PublishedStore, sweep: str, path: Path | str) -> Path:
    """Write the page of `sweep` to `path` and return it. Raises UnknownSweep, OSError."""
    return write_output(report_page(SweepSummary(store, sweep, count_all=True)), Path(path))


def report_page(summary: SweepSummary) -> str:
    """The whole report as HTML."""
    charts = {} if summary.is_sealed else _charts(summary)
    body = macro("report")(summary, charts, _trials_table(summary))
    return _page(f"{summary.record.name} · sweep report", body, charts)


def front_page(front: Front) -> str:
    """A front alone as HTML."""
    title, charts = f"Pareto front {front.sweep}".strip(), _front_charts(front)
    return _page(title, macro("front_alone")(front, title, charts), charts)


def render(front: Front, form: str) -> str | bytes:
    """The front in one of `sweeps.reporting.tables.FORMATS`: bytes for parquet and png, else text."""
    if form == "png":
        return figures.to_png(front)
    if form == "html":
        return front_page(front)
    if form == "table":
        buffer = io.StringIO()
        Console(file=buffer, width=120).print(table(front))
        return buffer.getvalue()
    if form == "parquet":
        return to_parquet(front)
    return to_csv(front) if form == "csv" else to_json(front)


def macro(name: str) -> Any:
    """A part of `report.html`: a function that returns HTML."""
    return getattr(_template("report.html").module, name)


def _page(title: str, body: str, charts: Charts) -> str:
    from plotly.offline import get_plotlyjs

    # "</" and "<!--" inside a script would end or hide it.
    figures_text = json.dumps(charts, allow_nan=False).replace("<", "\\u003c")
    library = get_plotlyjs() if charts else "const Plotly = null;"
    script = (HERE / "charts.js").read_text(encoding="utf-8")
    scripts = {"figures": figures_text, "library": library, "script": script, "style": STYLE}
    return _template("page.html").render(title=title, body=body, **{name: Markup(one) for name, one in scripts.items()})


@cache
def _template(name: str) -> Template:
    options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    found = Environment(loader=FileSystemLoader(HERE), undefined=StrictUndefined, **options)  # type: ignore[arg-type]
    found.filters |= {
        "epsilon": lambda value: epsilon_text(value).replace("inf", "∞"),
        "lower": lambda value: epsilon_text(value, up=False),
        "delta": delta_text,
        "cell": _cell,
        "code": lambda text: Markup(as_html(text)),
        "sentence": lambda line: Markup(as_html(sentences([line]))),
        "quote": wording.quote_of_claim,
        "status_of": lambda claim, assumptions: (claim.status, assumptions.status(claim)),
    }
    given = (spans, count_text, earlier_lines, not_covered, winner, plan_text, afterwards, strftime, gmtime)
    found.globals |= {one.__name__: one for one in given}
    found.globals |= {"wording": wording, "HEADING": HEADING, "STATES": _SHOWN}
    return found.get_template(name)


# What the template asks for.


def not_covered(summary: SweepSummary) -> list[str]:
    """What no claim of the sweep covers, or covers only as said."""
    metrics = [one.metric for one in summary.objectives if one.metric in summary.released]
    validation = wording.recorded_text(summary.record.spec)
    return [
        *([summary.heading] if summary.heading else []),
        wording.FLOATING_POINT,
        *([] if summary.covers_search else [wording.SELECTION]),
        wording.SPACE,
        wording.MACHINE,
        *([wording.BAYESIAN] if "bayesian_epsilon" in summary.released else []),
        *wording.judged((), wording.metric_quotes(summary.trials, metrics)),
        *(f"Metric {name}: {summary.released[name]}" for name in metrics),
        *([] if validation is None else [f"Validation records are {validation}."]),
    ]


def winner(summary: SweepSummary, trial: Published) -> list[tuple[str, str]]:
    """What is shown of a trial that left a sealed search: scores, test records, knobs."""
    objectives = [one.metric for one in summary.objectives]
    measured = [name for name in scores_of(trial.metrics) if name not in DECIDED]
    names = sorted(measured, key=lambda name: objectives.index(name) if name in objectives else len(objectives))
    solved = () if trial.plan is None else trial.plan.solved
    config = shaping(trial.config if trial.plan is None else trial.plan.config)
    values = {name: f"{name} {_cell(value)}" for name, value in config.items()}
    orders = summary.record.spec.orders
    won = [str(order) for order in orders if best_by(order, summary.trials) == trial.key]
    return [
        *([("best by", "; ".join(won))] if len(orders) > 1 else []),
        *((name, with_error(trial.metrics, name)) for name in names),
        *(("test records", str(one)) for one in summary.tests if one.trial == trial.key),
        ("knobs", ", ".join(text for name, text in values.items() if name not in solved)),
        ("solved", ", ".join(values[name] for name in solved) or "nothing"),
    ]


def _trials_table(summary: SweepSummary) -> dict[str, Any]:
    """Front first, then finished, then the rest; infeasible proposals only as counts of their reasons.

    columns of the first MAX_ROWS `trials`, of `of`; those of numbers; keys on the front; (reason, times) of infeasible
    ones, the most frequent first.
    """
    front = set() if summary.is_sealed else set(summary.front.keys())
    ranks = {TrialState.COMPLETE: 1, TrialState.RUNNING: 2, TrialState.PLANNED: 3, TrialState.FAILED: 4}
    known = [trial for trial in summary.trials if trial.state is not TrialState.INFEASIBLE]
    known.sort(key=lambda trial: (0 if trial.key in front else ranks[trial.state], trial.number))
    trials, metrics = known[:MAX_ROWS], [one.metric for one in summary.objectives]
    named = (*metrics, TARGET_EPSILON)
    columns = list(trial_columns(trials, summary.assumptions, metrics, named=named, kinds=("status",)))[1:]
    numeric = {one.header for one in columns if all(_NUMBER.match(cell) for cell in one.cells if cell)}
    reasons = Counter(trial.reason for trial in summary.in_state(TrialState.INFEASIBLE)).most_common()
    return {"columns": columns, "trials": trials, "of": len(known), "numeric": numeric, "front": front} | {
        "infeasible": reasons
    }


_NUMBER = re.compile(r"[-\d]|inf")


def plan_text(trial: Published) -> str:
    """Configuration, metrics and events of a trial, as JSON."""
    plan = trial.plan
    text: dict[str, Any] = {"config": dict(trial.config if plan is None else plan.config)}
    text["metrics"] = dict(trial.metrics)
    if plan is not None:
        text["schedule"] = [[to_dict(event), count] for event, count in blocks(plan.event())]
    return json.dumps(text, indent=1, default=str)


def afterwards(summary: SweepSummary, trial: Published) -> Guarantee | None:
    """What is known, afterwards, of a trial that early stopping ended.

    Of one that goes on, or failed on its way to a further rung, nothing is: that comes of steps beyond its last report.
    """
    stopping = summary.record.spec.early_stopping
    assert stopping is not None
    assert trial.plan is not None
    return ex_post(trial.plan, trial.step, len(rung_ends(stopping, trial.plan.steps)))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "∞" if value == float("inf") else f"{value:.4g}"
    return "" if value is None else str(value)


# Charts, by the id of their place on the page.


def _front_charts(front: Front) -> Charts:
    """Of the panels in which a point has a place: infinite values have none."""
    shown = [(i, panel) for i, panel in enumerate(front.panels) if np.isfinite(panel.values).all(axis=1).any()]
    return {f"front-{i}": figures.front_figure(front, panel) for i, panel in shown}


def _charts(summary: SweepSummary) -> Charts:
    """Every chart of a sweep."""
    on_front, trials = set(summary.front.keys()), summary.trials
    measured = [(i, one) for i, one in enumerate(summary.objectives) if one.metric not in DECIDED]
    curves = [figures.curves_figure(trials, summary.curves, one, on_front) for _, one in measured]
    found: dict[str, figures.Figure | None] = {**_front_charts(summary.front)}
    found["parallel"] = figures.parallel_figure(trials, summary.objectives, on_front)
    found |= {f"curves-{i}": one for i, one in enumerate(filter(None, curves))}
    found |= {f"progress-{i}": figures.progress_figure(trials, one) for i, one in measured}
    known = [(i, one) for i, one in enumerate(summary.importances) if not one.reason]
    found |= {f"importance-{i}": figures.importance_figure(one) for i, one in known}
    return {name: one for name, one in found.items() if one is not None}


# Lines for people as a notebook shows them: the same words, what the statuses rest on folded away.


def as_page(head: str, *lines: str) -> str:
    """HTML of what `print` says: `head` and the label of each line in bold.

    lines  "claim    one trial by itself: ...": a label ends at two blanks; what statuses rest on comes last
    """
    said = list(lines)
    where = said.index(f"{HEADING}:") if f"{HEADING}:" in said else len(said)
    listed = [line.partition("  ") for line in said[:where]]
    return str(macro("printed")(head, listed, [line.strip() for line in said[where + 1 :]]))


def front_in_notebook(front: Front) -> str:
    """HTML of what the terminal shows: heading, points, what is under each panel, totals, assumptions."""
    shown = [(panel, columns(front, panel, LIMIT), len(panel.order_of_front()[LIMIT:])) for panel in front.panels]
    return str(macro("front_in_notebook")(front, shown))

"""What left a sealed search: its winner with score and knobs, and what the test records said of it.

Of several orders each has its winner. There is nothing to compare them with, and no course of the search: these stayed
inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from sweeps.release.published import Published, best_by
from sweeps.release.quoting import judged, metric_quotes
from sweeps.report.content import Content
from sweeps.store.records import DECIDED
from trainables.validation.declaration import NOISE_SD


def left_section(content: Content) -> str:
    """A card for each trial that left; where none did, what that means."""
    selection = content.sweep.spec.selection
    assert selection is not None
    cards = "".join(_winner(content, one) for one in content.trials if one.metrics)
    if not cards:
        said = "Nothing has left yet." if content.running else "Nothing left: no trial was done in time that could win."
        cards = f'<div class="card"><p>{said}</p></div>'
    return f'<h2>What left</h2><p class="soft">{escape(_search(content, selection))}</p>{cards}'


def _search(content: Content, selection: Mapping[str, Any]) -> str:
    spec = content.sweep.spec
    shape = "" if selection.get("shape") is None else f" of shape {selection['shape']:g}"
    what = "first trial that met the target" if selection.get("target") else "best trial"
    if len(spec.orders) > 1:
        what = f"best trial by each of {len(spec.orders)} orders ({'; '.join(map(str, spec.orders))})"
    return (
        f"The {what} of a secret number of them ({selection['count']}{shape}, mean {selection['mean']:g} before its "
        f"cap at {spec.trials}), {selection['deadline_minutes']:g} minutes after the start, however many there were."
    )


def _winner(content: Content, trial: Published) -> str:
    objectives = [one.metric for one in content.objectives]
    measured = [name for name in trial.metrics if not name.endswith(NOISE_SD) and name not in DECIDED]
    names = [*(name for name in objectives if name in measured), *(name for name in measured if name not in objectives)]
    solved = () if trial.plan is None else trial.plan.solved
    config = trial.config if trial.plan is None else trial.plan.config
    knobs = ", ".join(f"{name} {_shown(config[name])}" for name in config if name not in solved)
    orders = content.sweep.spec.orders
    won = [str(order) for order in orders if best_by(order, content.trials) == trial.key]
    rows = [
        *([("best by", "; ".join(won))] if len(orders) > 1 else []),
        *((name, _score(trial.metrics, name)) for name in names),
        *(("test records", str(one)) for one in content.tests if one.trial == trial.key),
        ("knobs", knobs),
        ("solved", ", ".join(f"{name} {_shown(config[name])}" for name in solved) or "nothing"),
    ]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows)
    quoted = "".join(f'<p class="soft">{escape(line)}</p>' for line in judged((), metric_quotes([trial], objectives)))
    return f'<div class="card"><h3>{escape(trial.key)}</h3><dl>{listed}</dl>{quoted}</div>'


def _score(metrics: Mapping[str, float], name: str) -> str:
    noise = metrics.get(name + NOISE_SD)
    spread = "" if noise is None else f" (its noise has a standard deviation of {noise:.2g})"
    return f"{metrics[name]:.6g}{spread}"


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

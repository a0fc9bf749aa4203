"""The table of trials, each row opening its plan."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from dpcore.events import blocks, to_dict
from dpcore.rounding import epsilon_text
from sweeps.execution.stopped_trials import ex_post
from sweeps.ledger.text import was_stopped
from sweeps.release.published import Published
from sweeps.release.quoting import quote_of_claim
from sweeps.report.content import Content
from sweeps.report.guarantees import claim_badge, guarantee_line
from sweeps.search.asha import rung_ends
from sweeps.spec.sections import EarlyStopping
from sweeps.store.records import DECIDED, EPSILON, SYSTEM, TARGET_EPSILON, TrialState, varied_knobs
from trainables.system import PrivacyPlan

MAX_ROWS = 500
MAX_REASONS = 8


def trials_table(content: Content) -> str:
    """Front first, then finished, then the rest; infeasible proposals only as counts of their reasons."""
    front = set() if content.is_sealed else set(content.front.keys())
    ranks = {TrialState.COMPLETE: 1, TrialState.RUNNING: 2, TrialState.PLANNED: 3, TrialState.FAILED: 4}
    listed = [trial for trial in content.trials if trial.state is not TrialState.INFEASIBLE]
    listed.sort(key=lambda trial: (0 if trial.key in front else ranks[trial.state], trial.number))
    parts = ["<h2>Trials</h2>"]
    if not listed:
        # Of a sealed search nobody is told what was launched.
        said = "None that left." if content.is_sealed else "Nothing has been launched yet."
        parts.append(f'<div class="card"><p>{said}</p></div>')
    else:
        shown = listed[:MAX_ROWS]
        parts.append(f'<p class="soft">Open a trial to see its plan. {_cut(len(shown), len(listed))}</p>')
        parts.append(_table(content, shown, front))
    parts.append(_infeasible(content.in_state(TrialState.INFEASIBLE)))
    return "".join(parts)


def _cut(shown: int, total: int) -> str:
    if shown == total:
        return ""
    return f"The first {shown} of {total}; all of them: sweeps pareto --format parquet."


def _table(content: Content, trials: Sequence[Published], front: set[str]) -> str:
    metrics = [one.metric for one in content.objectives]
    beside = (*metrics, TARGET_EPSILON)
    several = [SYSTEM] if len({trial.system for trial in trials}) > 1 else []
    varied = [name for name in [*several, *varied_knobs(trials)] if name not in beside]
    measured = [name for name in metrics if name not in DECIDED]
    # What is the same for all stands once, above.
    quotes = {trial.key: quote_of_claim(trial.guarantee).words for trial in trials if trial.guarantee is not None}
    quoted = quotes if len(set(quotes.values())) > 1 else None
    beside_status = [] if quoted is None else ["quote"]
    names = ["trial", "state", *measured, EPSILON, TARGET_EPSILON, "status", *beside_status, *varied]
    numbers = (name for name in varied if all(_is_number(trial.config.get(name)) for trial in trials))
    numeric = {*measured, EPSILON, TARGET_EPSILON, *numbers}
    head = "".join(f'<th class="n">{escape(n)}</th>' if n in numeric else f"<th>{escape(n)}</th>" for n in names)
    rows = "".join(_row(content, trial, measured, quoted, varied, numeric, front, len(names)) for trial in trials)
    return f'<div class="card scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(
    content: Content,
    trial: Published,
    measured: list[str],
    quoted: Mapping[str, str] | None,
    varied: list[str],
    numeric: set[str],
    front: set[str],
    width: int,
) -> str:
    guarantee, target = trial.guarantee, trial.target_epsilon
    star = ' <span class="star" title="on the Pareto front">★</span>' if trial.key in front else ""
    number = f"plan-{trial.number}"
    opened = f'aria-expanded="false" aria-controls="{number}"'
    cells = [
        f'<td><button class="key" {opened}>{escape(trial.key)}</button>{star}</td>',
        f"<td>{trial.state}</td>",
        *(f'<td class="n">{_show(trial.metrics.get(name))}</td>' for name in measured),
        f'<td class="n">{"" if guarantee is None else epsilon_text(guarantee.epsilon)}</td>',
        f'<td class="n">{"" if target is None else epsilon_text(target)}</td>',
        f"<td>{'' if guarantee is None else claim_badge(guarantee, content.assumptions)}</td>",
        *([] if quoted is None else [f"<td class='words'>{escape(quoted.get(trial.key, ''))}</td>"]),
        *(f"<td{' class=n' if name in numeric else ''}>{_show(trial.config.get(name))}</td>" for name in varied),
    ]
    return f'<tr>{"".join(cells)}</tr><tr id="{number}" hidden><td colspan="{width}">{_plan(content, trial)}</td></tr>'


def _plan(content: Content, trial: Published) -> str:
    rows: list[tuple[str, str]] = []
    if trial.reason:
        rows.append(("reason", escape(trial.reason)))
    if trial.guarantee is not None:
        rows.append(("claimed", guarantee_line(trial.guarantee, content.assumptions)))
        rows.append(("theorem", escape(trial.guarantee.theorem)))
    plan = trial.plan
    if plan is not None:
        solved = ", ".join(f"{name} = {_show(plan.config.get(name))}" for name in plan.solved)
        rows.append(("mechanism", escape(plan.description)))
        rows.append(("solved", solved or "nothing"))
        rows.append(("planned", guarantee_line(plan.guarantee)))
        rows += [("beside", guarantee_line(one)) for one in plan.beside]
        taken = f"{trial.step:,} of {plan.steps:,}, launches: {trial.attempts}, work {plan.work:,.6g}"
        rows.append(("steps", taken))
        rows += _stopped(content, trial, plan)
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    config = dict(trial.config if plan is None else plan.config)
    text: dict[str, Any] = {"config": config, "metrics": dict(trial.metrics)}
    if plan is not None:
        text["schedule"] = [[to_dict(event), count] for event, count in blocks(plan.event())]
    return f"<dl>{listed}</dl><pre>{escape(json.dumps(text, indent=1, default=str))}</pre>"


def _stopped(content: Content, trial: Published, plan: PrivacyPlan) -> list[tuple[str, str]]:
    """Of a trial that early stopping ended: what it claims all the same, and what is known of it now.

    Of one that goes on, or failed on its way to a further rung, nothing is: that comes of steps beyond its last report.
    """
    stopping = content.sweep.spec.early_stopping
    if stopping is None or trial.guarantee is None or not was_stopped(trial):
        return []
    rows = [("stopped", "early, by results: the claim is that of all planned steps")]
    rungs = len(rung_ends(EarlyStopping.model_validate(stopping), plan.steps))
    known = ex_post(plan, trial.step, rungs)
    if known is not None:
        rows.append(("afterwards", f"{guarantee_line(known)} ({escape(known.theorem)})"))
    return rows


def _infeasible(trials: Sequence[Published]) -> str:
    if not trials:
        return ""
    reasons = Counter(trial.reason for trial in trials)
    items = "".join(f"<li>{count} × {escape(reason)}</li>" for reason, count in reasons.most_common(MAX_REASONS))
    more = len(reasons) - MAX_REASONS
    items += f"<li>and {more} other reasons</li>" if more > 0 else ""
    who = (
        "1 proposal was infeasible by public numbers. It was"
        if len(trials) == 1
        else (f"{len(trials)} proposals were infeasible by public numbers. They were")
    )
    return (
        f'<h2>Infeasible proposals</h2><div class="card"><p>{who} never launched and spent nothing.</p>'
        f"<ul>{items}</ul></div>"
    )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _show(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "∞" if value == float("inf") else f"{value:.4g}"
    return escape(str(value))

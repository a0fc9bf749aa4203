"""The page: content and charts in one HTML file that asks nobody for anything.

A content security policy forbids every request, so a library that tried to load something would be stopped.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from dpcore.audit import AuditOutcome
from dpcore.events import blocks, to_dict
from dpcore.guarantee import Guarantee, Status
from dpcore.rounding import delta_text, epsilon_text
from sweeps.audit import AuditRecord
from sweeps.execution.stopped_trials import ex_post
from sweeps.privacy import wording
from sweeps.privacy.claims import HEADING, Assumptions, covers_search, spans
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import REFUTED, judged, metric_quotes, quote_of_claim
from sweeps.privacy.release import Published, Release, best_by
from sweeps.privacy.totals import earlier_lines, sentences
from sweeps.privacy.wording import executed_text, recorded_text, total_text, was_stopped
from sweeps.reporting import figures
from sweeps.reporting.front import REFUTED_STATUS, Front
from sweeps.reporting.summary import ClaimRange, SweepSummary
from sweeps.search.asha import rung_ends
from sweeps.spec.sections import EarlyStopping
from sweeps.store.records import DECIDED, EPSILON, SYSTEM, TARGET_EPSILON, TrialState, varied_knobs
from sweeps.util.files import write_output
from sweeps.util.suggest import as_html
from trainables.metrics import Dependence
from trainables.system import PrivacyPlan
from trainables.validation.declaration import NOISE_SD

# The box that says what is claimed, by which argument, how firmly, and what is not covered.


def badge(status: str, text: str = "") -> str:
    """A status in its colour, or `text` in its place (`Assumptions.status`)."""
    return f'<span class="badge {escape(status)}">{escape(text or status)}</span>'


def claim_badge(claim: Guarantee, assumptions: Assumptions) -> str:
    """The status of a claim in its colour, with what it rests on."""
    return badge(claim.status, assumptions.status(claim))


def guarantee_box(content: SweepSummary) -> str:
    """What is claimed and the procedure's total, side by side; claims by kind; what is not covered."""
    if not content.claims:
        # Steps that no trial lived to report are spent all the same.
        is_spent = content.ledger.spent.attempts or content.ledger.uncounted
        spent = f"<p>Total: all trials together</p>{_total(content)}" if is_spent else ""
        nothing = f'<div class="card"><p>No trial has reported yet: nothing is claimed.</p>{spent}</div>'
        return nothing + assumptions_list(content.assumptions) + _uncovered(content)
    parts = [
        _two_numbers(content),
        *(_claim(claim, content.assumptions) for claim in content.claims),
        assumptions_list(content.assumptions),
        _uncovered(content),
    ]
    return "".join(parts)


def assumptions_list(assumptions: Assumptions) -> str:
    """The numbered sentences, once for the whole page."""
    listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in assumptions.sentences)
    return f'<div class="card" id="assumptions"><h3>{HEADING}</h3><ol>{listed}</ol></div>' if listed else ""


def _two_numbers(content: SweepSummary) -> str:
    # What is refuted is in no range of numbers that stand: it has its own box below.
    claims = [one for one in content.claims if one.kind.status is not Status.REFUTED]
    kinds = {(c.kind.notion, c.kind.adjacency, c.kind.delta, c.kind.unit) for c in claims}
    if not claims:
        claim = f"<b>none</b> {badge(Status.REFUTED)}<p>{escape(str(REFUTED))}.</p>"
    elif len(kinds) == 1:
        lowest, highest = min(c.lowest for c in claims), max(c.highest for c in claims)
        statuses = " ".join(dict.fromkeys(claim_badge(c.kind, content.assumptions) for c in claims))
        kind = claims[0].kind
        accountants = " or ".join(sorted({c.kind.accountant for c in claims}))
        meant = f"{kind.notion}, {kind.adjacency}, per {kind.unit}, counted by {accountants}"
        claim = (
            f"<b>ε {_span(lowest, highest)}</b> at δ = {delta_text(kind.delta)} {statuses}"
            f'<p class="soft">{escape(meant)}.</p>{_quoted(claims)}'
        )
    else:
        claim = "<b>several kinds</b> see below; they cannot be compared"
    whose, all_of_it = "one trial by itself", "all trials together"
    what = "What the training of one trial released. It leaves out the search among the trials."
    if _search_is_covered(content):
        whose, what = "the whole search", "What left of a secret number of trials: nothing else did."
        all_of_it = "what leaves, and the search for it"
    return (
        f'<div class="card numbers"><div><span class="soft">Claim: {whose}</span>'
        f"{claim}<p>{what}</p></div>"
        f'<div><span class="soft">Total: {all_of_it}</span>{_total(content)}'
        f'<p class="soft">Ledger: {executed_text(content.ledger)}.</p></div></div>'
    )


def _search_is_covered(content: SweepSummary) -> bool:
    standing = [one.bound for one in content.claims if one.kind.status is not Status.REFUTED]
    return bool(standing) and all(map(covers_search, standing))


def _quoted(claims: Sequence[ClaimRange]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in judged(quote_of_claim(one.bound) for one in claims))


def _total(content: SweepSummary) -> str:
    total, assumptions = content.ledger.procedure, content.assumptions
    more = "".join(f"<p>{as_html(sentences([line]))}</p>" for line in earlier_lines(content.started_from, assumptions))
    if total is None:
        reason = content.ledger.uncounted or "Nothing has been launched yet."
        return f"<b>not counted</b><p>{as_html(reason)}</p>{more}"
    claim = total.guarantee
    number = f"<b>no guarantee</b> {badge(claim.status, claim.standing)}"
    if total.is_claim:
        epsilon = f"<b>ε = {_number(claim.epsilon)}</b>"
        number = f"{epsilon} at δ = {delta_text(claim.delta)} {claim_badge(claim, assumptions)}"
    counted = f"{escape(claim.theorem)}, counted by {escape(claim.accountant)}"
    return f'{number}<p>{as_html(sentences([total_text(total, assumptions)]))}</p><p class="soft">{counted}.</p>{more}'


def _claim(claim: ClaimRange, assumptions: Assumptions) -> str:
    kind, quote = claim.kind, quote_of_claim(claim.bound)
    rows = [
        ("epsilon", f"{_span(claim.lowest, claim.highest)} over {claim.trials} trials"),
        ("delta", delta_text(kind.delta)),
        ("notion", escape(kind.notion)),
        ("neighbours", f"{escape(kind.adjacency)}, per {escape(kind.unit)}"),
        ("accountant", escape(kind.accountant)),
        ("theorem", escape(kind.theorem)),
        ("quote", escape(f"{quote.said}: {quote.sentence}")),
    ]
    if numbers := assumptions.numbers(kind):
        rows.append(("assuming", f'<a href="#assumptions">{spans(numbers)} below</a>'))
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return (
        f'<div class="card"><h3>Claims of {escape(claim.system or "the sweep")} '
        f"{claim_badge(kind, assumptions)}</h3><dl>{listed}</dl></div>"
    )


def _uncovered(content: SweepSummary) -> str:
    items = [
        *([content.release.heading] if content.release.heading else []),
        wording.FLOATING_POINT,
        *([] if _search_is_covered(content) else [wording.SELECTION]),
        wording.SPACE,
        wording.MACHINE,
    ]
    if "bayesian_epsilon" in content.released:
        items.append(wording.BAYESIAN)
    metrics = [one.metric for one in content.objectives if one.metric in content.released]
    items += judged((), metric_quotes(content.trials, metrics))
    items += [f"Metric {name}: {content.released[name]}" for name in metrics]
    if (validation := recorded_text(content.record.spec)) is not None:
        items.append(f"Validation records are {validation}.")
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<div class="card"><h3>Not covered, or covered only as said</h3><ul>{listed}</ul></div>'


def guarantee_line(claim: Guarantee, assumptions: Assumptions | None = None) -> str:
    """One guarantee in a line of HTML; of a claim of the page, with what it rests on."""
    status = badge(claim.status, claim.standing) if assumptions is None else claim_badge(claim, assumptions)
    lower = claim.epsilon_lower
    # What ran may spend less: of a part that is known by its own epsilon alone, the events say no more than that.
    bound = f" (a release with such events can spend {epsilon_text(lower, up=False)})" if lower is not None else ""
    return (
        f"ε = {_number(claim.epsilon)}{bound} at δ = {delta_text(claim.delta)}, {escape(claim.notion)}, "
        f"{escape(claim.adjacency)}, per {escape(claim.unit)}, by {escape(claim.accountant)} {status}"
    )


def _span(lowest: float, highest: float) -> str:
    return f"= {_number(lowest)}" if lowest == highest else f"{_number(lowest)} to {_number(highest)}"


def _number(value: float) -> str:
    return epsilon_text(value).replace("inf", "∞")


# The table of trials, each row opening its plan.

MAX_ROWS = 500
MAX_REASONS = 8


def trials_table(content: SweepSummary) -> str:
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


def _table(content: SweepSummary, trials: Sequence[Published], front: set[str]) -> str:
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
    content: SweepSummary,
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


def _plan(content: SweepSummary, trial: Published) -> str:
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


def _stopped(content: SweepSummary, trial: Published, plan: PrivacyPlan) -> list[tuple[str, str]]:
    """Of a trial that early stopping ended: what it claims all the same, and what is known of it now.

    Of one that goes on, or failed on its way to a further rung, nothing is: that comes of steps beyond its last report.
    """
    stopping = content.record.spec.early_stopping
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


# What audits of the sweep's trials found; nothing where there was none.

_NOTE = (
    "Lower bounds on epsilon from twins with canaries. An audit refutes or stays silent; it verifies nothing. These "
    "numbers are in no ledger and covered by no claim."
)
_KEPT = "read the sweep's records: its numbers are covered by no claim and stay where the records are kept"


def audits_section(audits: Sequence[AuditRecord], release: Release) -> str:
    """A table of audits, with a warning above it where one refuted its claim.

    Numbers of an audit that read the sweep's own records are withheld as a raw metric's are: it is named, and told
    where they are. That a claim is refuted is always said.
    """
    if not audits:
        return ""
    refuted = sorted({one.system for one in audits if one.outcome is AuditOutcome.REFUTED})
    warning = "".join(
        f'<p><span class="badge refuted">refuted</span> Publish no trial of {escape(system)}: an audit refuted its '
        "claim, and its trials share the code.</p>"
        for system in refuted
    )
    head = "".join(f"<th>{one}</th>" for one in ("trial", "system", "claimed ε", "audited ε", "verdict", "how"))
    withheld = Dependence.RAW in release.withheld
    rows = "".join(_kept(one) if withheld and one.reads_records else _audit_row(one) for one in audits)
    return (
        f'<h2>Audits</h2><div class="card scroll">{warning}<p class="soft">{_NOTE}</p><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>"
    )


def _kept(one: AuditRecord) -> str:
    told = f'<td colspan="4">{_KEPT} (audit {one.number})</td>'
    return f"<tr><td>{escape(one.trial)}</td><td>{escape(one.system)}</td>{told}</tr>"


def _audit_row(one: AuditRecord) -> str:
    against = "the whole curve" if one.on_curve else "the claimed point"
    cells = (
        escape(one.trial),
        escape(one.system),
        epsilon_text(one.claim.epsilon),
        f"≥ {epsilon_text(one.audit.epsilon_lower, up=False)}",
        f"{one.outcome} at level {one.level:.3g}, against {against}",
        escape(f"{one.audit}; {one.design}"),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


# What left a sealed search: its winner with score and knobs, and what the test records said of it.
#
# Of several orders each has its winner. There is nothing to compare them with, and no course of the search: these
# stayed inside.


def left_section(content: SweepSummary) -> str:
    """A card for each trial that left; where none did, what that means."""
    selection = content.record.spec.selection
    assert selection is not None
    cards = "".join(_winner(content, one) for one in content.trials if one.metrics)
    if not cards:
        said = (
            "Nothing has left yet." if content.is_running else "Nothing left: no trial was done in time that could win."
        )
        cards = f'<div class="card"><p>{said}</p></div>'
    return f'<h2>What left</h2><p class="soft">{escape(_search(content, selection))}</p>{cards}'


def _search(content: SweepSummary, selection: Mapping[str, Any]) -> str:
    spec = content.record.spec
    shape = "" if selection.get("shape") is None else f" of shape {selection['shape']:g}"
    what = "first trial that met the target" if selection.get("target") else "best trial"
    if len(spec.orders) > 1:
        what = f"best trial by each of {len(spec.orders)} orders ({'; '.join(map(str, spec.orders))})"
    return (
        f"The {what} of a secret number of them ({selection['count']}{shape}, mean {selection['mean']:g} before its "
        f"cap at {spec.trials}), {selection['deadline_minutes']:g} minutes after the start, however many there were."
    )


def _winner(content: SweepSummary, trial: Published) -> str:
    objectives = [one.metric for one in content.objectives]
    measured = [name for name in trial.metrics if not name.endswith(NOISE_SD) and name not in DECIDED]
    names = [*(name for name in objectives if name in measured), *(name for name in measured if name not in objectives)]
    solved = () if trial.plan is None else trial.plan.solved
    config = trial.config if trial.plan is None else trial.plan.config
    knobs = ", ".join(f"{name} {_shown(config[name])}" for name in config if name not in solved)
    orders = content.record.spec.orders
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


# Style and script of the page. No font, image or script comes from anywhere else.

STYLE = """
:root { color-scheme: light dark;
  --ground: #fbfbfa; --card: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #e3e6ea; --accent: #0d9488;
  --good: #047857; --warn: #b45309; --bad: #b91c1c; --code: #f3f4f6; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #12161c; --card: #1a2028; --ink: #e6e9ee; --soft: #9aa6b5; --line: #2c3541; --accent: #2dd4bf;
  --good: #34d399; --warn: #fbbf24; --bad: #f87171; --code: #232b35; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 40px 0 8px; }
h3 { font-size: 14px; margin: 16px 0 4px; }
p { margin: 6px 0; max-width: 78ch; }
.soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 20px; margin: 12px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.tile { flex: 1 1 110px; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px 16px; }
.tile b { display: block; font-size: 22px; font-weight: 600; }
.tile span { color: var(--soft); font-size: 13px; }
.numbers { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; }
.numbers b { font-size: 24px; font-weight: 600; display: block; }
@media (max-width: 640px) { .numbers { grid-template-columns: 1fr; } }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; font-weight: 500; color: var(--soft); white-space: nowrap; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.words { white-space: nowrap; }
tr > td:first-child:not([colspan]) { white-space: nowrap; }
tr:last-child > td { border-bottom: 0; }
button.key { font: inherit; color: var(--accent); background: none; border: 0; padding: 0; cursor: pointer;
  white-space: nowrap; }
button.key::before { content: "\\25B8"; display: inline-block; width: 1.1em; }
button.key[aria-expanded=true]::before { content: "\\25BE"; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 99px; padding: 0 9px; font-size: 12px;
  white-space: nowrap; }
.proved { color: var(--good); } .refuted { color: var(--bad); }
.proved-under-assumptions, .asymptotic, .average-case, .membership-only, .asserted { color: var(--warn); }
.not-covered, .heading { color: var(--bad); } .heading { font-weight: 600; }
.star { color: var(--accent); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 6px 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: 6px 0; padding-left: 20px; } li { margin: 4px 0; max-width: 78ch; }
pre { background: var(--code); border-radius: 6px; padding: 10px 12px; overflow: auto; max-height: 260px;
  font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, monospace; margin: 6px 0; }
code { background: var(--code); border-radius: 4px; padding: 1px 4px;
  font: 0.92em ui-monospace, SFMono-Regular, Menlo, monospace; }
.chart { width: 100%; }
@media print {
  :root { color-scheme: light; --ground: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --accent: #0d9488;
    --good: #047857; --warn: #92400e; --bad: #b91c1c; --code: #f6f6f6; }
  main { max-width: none; padding: 0; } .card, .tile, tr { break-inside: avoid; } button.key::before { content: ""; }
  h2, h3, h2 + p { break-after: avoid; }
  /* Paper does not scroll: the table may break between rows, and its columns share the width. */
  .card.scroll { break-inside: auto; overflow: visible; padding: 8px; }
  .scroll table { font-size: 9.5px; } .scroll .badge { font-size: 8.5px; padding: 0 4px; white-space: normal; }
  .scroll th, .scroll td { padding: 3px 4px; white-space: normal; overflow-wrap: anywhere; }
  .scroll td:first-child:not([colspan]) { white-space: nowrap; } pre { max-height: none; white-space: pre-wrap; }
}
"""

SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink"), soft: read("--soft"), line: read("--line"), card: read("--card") };
}
function layout(figure) {
  const c = colours();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: c.ink };
  const axis = { gridcolor: c.line, zerolinecolor: c.line, linecolor: c.line, tickcolor: c.line };
  const own = figure.layout;
  return Object.assign(
    { margin: { l: 64, r: 16, t: 16, b: 56 }, hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 } },
    own, { font: font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      hoverlabel: { bgcolor: c.card, bordercolor: c.soft, font: { color: c.ink }, align: "left" },
      xaxis: Object.assign({}, axis, own.xaxis), yaxis: Object.assign({}, axis, own.yaxis) });
}
function draw(width) {
  const size = width ? { width: width, autosize: false } : {};
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  for (const [id, figure] of Object.entries(figures))
    Plotly.react(id, figure.data, Object.assign(layout(figure), size), options);
}
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
for (const button of document.querySelectorAll("button.key"))
  button.addEventListener("click", () => {
    const row = document.getElementById(button.getAttribute("aria-controls"));
    row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!row.hidden));
  });
// A page of paper has its own width, which nothing measures before it is printed: A4 and Letter have room for this.
addEventListener("beforeprint", () => draw(640));
addEventListener("afterprint", () => draw());
"""


_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def report_page(content: SweepSummary) -> str:
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
    return _page(f"{content.record.name} · sweep report", "".join(sections), charts)


def _found(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
    front = f"{_tiles(content)}<h2>Pareto front</h2>{_front(content.front, charts)}"
    listed = "".join(f"<li>{escape(f'{one.trial}: {one}')}</li>" for one in content.tests)
    return front + (f'<h2>Test records</h2><div class="card"><ul>{listed}</ul></div>' if listed else "")


def _compared(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
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


def _heading(content: SweepSummary) -> str:
    spec = content.record.spec
    facts = [f"state {content.record.state}"]
    facts += [f"data {spec.source}"] if spec.source else []
    facts += [f"{spec.sampler} sampler"] if spec.sampler else []
    facts += ["systems and budgets in turn"] if spec.is_stratified else []
    facts += [time.strftime("written %Y-%m-%d %H:%M UTC", time.gmtime())]
    return (
        f"<h1>{escape(content.record.name)}</h1>{_above(content.front.heading)}"
        f'<p class="soft">{escape(" · ".join(facts))}</p>'
    )


def _tiles(content: SweepSummary) -> str:
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
        fallen = REFUTED_STATUS in front.excluded
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


def _parallel(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
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


def _importances(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
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


def _curves(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
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


def _progress(content: SweepSummary, charts: dict[str, figures.Figure]) -> str:
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


# Lines for people as a notebook shows them: the same words, what the statuses rest on folded away.


def as_page(head: str, *lines: str) -> str:
    """HTML of what `print` says: `head` and the label of each line in bold.

    lines  "claim    one trial by itself: ...": a label ends at two blanks; what statuses rest on comes last
    """
    said = list(lines)
    where = said.index(f"{HEADING}:") if f"{HEADING}:" in said else len(said)
    listed = "<br>".join(_labelled(line) for line in said[:where])
    return f"<p><b>{escape(head)}</b></p><p>{listed}</p>{folded([line.strip() for line in said[where + 1 :]])}"


def folded(sentences: list[str]) -> str:
    """What statuses rest on, numbered as they are cited, seen by whoever opens it. Empty without a sentence."""
    listed = "<br>".join(map(as_html, sentences))
    return f"<details><summary>{HEADING}</summary><p>{listed}</p></details>" if sentences else ""


def _labelled(line: str) -> str:
    label, blanks, rest = line.partition("  ")
    return f"<b>{escape(label)}</b> {as_html(rest.strip())}" if blanks and label else as_html(line)


def write_report(store: PublishedStore, sweep: str, path: Path | str) -> Path:
    """Write the page of `sweep` to `path` and return it. Raises UnknownSweep, OSError."""
    return write_output(report_page(SweepSummary.load(store, sweep, count_all=True)), Path(path))

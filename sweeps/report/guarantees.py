"""The box that says what is claimed, by which argument, how firmly, and what is not covered."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dpcore.guarantee import Guarantee, Status
from dpcore.rounding import delta_text, epsilon_text
from sweeps.ledger.assumptions import HEADING, Assumptions, covers_search, spans
from sweeps.ledger.text import executed_text, total_text
from sweeps.ledger.totals import earlier_lines, sentences
from sweeps.release import not_covered
from sweeps.release.quoting import REFUTED, judged, metric_quotes, quote_of_claim
from sweeps.release.validation_text import recorded_text
from sweeps.report.content import ClaimRange, Content
from sweeps.util.suggest import as_html


def badge(status: str, text: str = "") -> str:
    """A status in its colour, or `text` in its place (`Assumptions.status`)."""
    return f'<span class="badge {escape(status)}">{escape(text or status)}</span>'


def claim_badge(claim: Guarantee, assumptions: Assumptions) -> str:
    """The status of a claim in its colour, with what it rests on."""
    return badge(claim.status, assumptions.status(claim))


def guarantee_box(content: Content) -> str:
    """What is claimed and the procedure's total, side by side; claims by kind; what is not covered."""
    if not content.claims:
        # Steps that no trial lived to report are spent all the same.
        is_spent = content.spending.spent.attempts or content.spending.uncounted
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


def _two_numbers(content: Content) -> str:
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
        f'<p class="soft">Ledger: {executed_text(content.spending)}.</p></div></div>'
    )


def _search_is_covered(content: Content) -> bool:
    standing = [one.bound for one in content.claims if one.kind.status is not Status.REFUTED]
    return bool(standing) and all(map(covers_search, standing))


def _quoted(claims: Sequence[ClaimRange]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in judged(quote_of_claim(one.bound) for one in claims))


def _total(content: Content) -> str:
    total, assumptions = content.spending.procedure, content.assumptions
    more = "".join(f"<p>{as_html(sentences([line]))}</p>" for line in earlier_lines(content.started_from, assumptions))
    if total is None:
        reason = content.spending.uncounted or "Nothing has been launched yet."
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


def _uncovered(content: Content) -> str:
    items = [
        *([content.release.heading] if content.release.heading else []),
        not_covered.FLOATING_POINT,
        *([] if _search_is_covered(content) else [not_covered.SELECTION]),
        not_covered.SPACE,
        not_covered.MACHINE,
    ]
    if "bayesian_epsilon" in content.released:
        items.append(not_covered.BAYESIAN)
    metrics = [one.metric for one in content.objectives if one.metric in content.released]
    items += judged((), metric_quotes(content.trials, metrics))
    items += [f"Metric {name}: {content.released[name]}" for name in metrics]
    if (validation := recorded_text(content.sweep.spec)) is not None:
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

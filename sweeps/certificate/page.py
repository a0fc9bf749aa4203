"""The certificate as one page for people: self-contained HTML without a script, made from the document alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dpcore.events import phases
from dpcore.rounding import delta_text, epsilon_text
from sweeps.certificate.canonical import number_text
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.document import Approval, Body, HoldoutBody, Signed, spelled
from sweeps.certificate.holdout import lines_of_both
from sweeps.certificate.modes.plans import PlannedTrial
from sweeps.certificate.titles import attested_in
from sweeps.reporting.html import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def certificate_page(signed: Signed) -> str:
    """The whole page. What is verified is the document, whose SHA-256 it names."""
    body = signed.body
    sections = _holdout(body) if isinstance(body, HoldoutBody) else _sweep(body)
    head = f"<h1>{escape(body.title)}</h1><p>{escape(body.claim.covers)}</p>{_numbers(body.claim, body.approval)}"
    sections = [
        head,
        *sections,
        _listed("Attested by the signer, and not recomputed by verification", attested_in(body)),
        _card("Signature", _signature(signed)),
    ]
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(body.title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _holdout(body: HoldoutBody) -> list[str]:
    """The claim of both sweeps, then each by itself."""
    sections = [
        _card("What is claimed", _pairs(_claim(body.claim))),
        _card("How it was counted", _pairs(lines_of_both(body))),
        _listed("What it rests on", body.claim.assumptions),
        _card("Approval", _pairs(_texts(body.approval.model_dump()))),
    ]
    for what, one in (("The sweep that tuned", body.tuning), ("The final run", body.final)):
        head = f"<h1>{escape(what)}: {escape(one.sweep.name)}</h1><p>{escape(one.claim.covers)}</p>"
        sections += [head, _numbers(one.claim, one.approval), *_sweep(one)]
    return sections


def _sweep(body: Body) -> list[str]:
    """Every row of one sweep."""
    swept = f"{body.sweep.name}, {body.sweep.state}, begun {body.sweep.began}, spec {body.sweep.digest}"
    return [
        _card("What is claimed", _pairs([*_claim(body.claim), ("sweep", swept)])),
        _card("How it was counted", _pairs(body.mode.lines())),
        _listed("What it rests on", body.claim.assumptions),
        _listed("What it does not cover", body.not_covered),
        _card("What was released", _pairs(_texts(body.released.model_dump()))),
        _card("Who read the records", _pairs(_texts(body.accesses.model_dump()))),
        _card("Which records, and what public things went in", _pairs(_texts(body.provenance.model_dump()))),
        _card("What was searched", _searched(body)),
        _plans(body.mode.plans),
        _accuracy(body),
        _audits(body),
        _listed("Random sources", body.random),
        _card("Software", _pairs(_texts(body.software.model_dump()))),
        _card("Approval", _pairs(_texts(body.approval.model_dump()))),
        _ledger(body),
    ]


def _numbers(claim: Claimed, approval: Approval) -> str:
    reached = "" if claim.epsilon_lower is None else epsilon_text(claim.epsilon_lower, up=False)
    lower = f", and a release with such events can spend {reached}" if reached else ""
    return (
        f'<div class="card numbers"><div><b>ε = {epsilon_text(claim.epsilon)}</b> at δ = {delta_text(claim.delta)} '
        f'<span class="badge {escape(claim.status)}">{escape(claim.status)}</span>'
        f'<p class="soft">{escape(claim.notion)}, {escape(claim.adjacency)}, per {escape(claim.unit)}; the same events '
        f'spend at most this{lower}.</p></div><div><span class="soft">approved by</span>'
        f"<b>{escape(approval.by)}</b><p>{escape(approval.because)}</p></div></div>"
    )


def _claim(claim: Claimed) -> list[tuple[str, str]]:
    return [
        ("epsilon, delta", f"{number_text(claim.epsilon)}, {number_text(claim.delta)}"),
        ("neighbours", f"{claim.adjacency}, per {claim.unit}, of at most {claim.contributions} records each"),
        ("theorem", claim.theorem),
        ("accountant", f"{claim.accountant}, of private-sweeps {claim.version}"),
    ]


def _plans(trials: Sequence[PlannedTrial]) -> str:
    rows = [
        (one.trial, one.system, one.mechanism, one.publication, _events(one), _plain(one.hyperparameters))
        for one in trials
    ]
    return _table("Plans", ("trial", "system", "mechanism", "published by", "events", "hyperparameters"), rows)


def _events(one: PlannedTrial) -> str:
    counted = [*phases(one.training).items(), *phases(one.reports).items()]
    return "; ".join(f"{count} × {part}" for part, count in counted) or "none"


def _searched(body: Body) -> str:
    searched = body.searched
    ranges = [
        (f"{name}.{knob}", _plain(value)) for name, knobs in searched.ranges.items() for knob, value in knobs.items()
    ]
    named = [("sampler", f"{searched.sampler}, {searched.trials} trials"), ("how chosen", searched.how_chosen)]
    return _pairs([*named, *ranges])


def _accuracy(body: Body) -> str:
    rows = [
        (one.trial, one.metric, "none" if one.value is None else f"{one.value:.6g}", one.quote)
        for one in body.accuracy.metrics
    ]
    head = "Metrics" + (f", and of the groups of {body.accuracy.groups}" if body.accuracy.groups else "")
    return _table(head, ("trial", "metric", "value", "how it may be quoted"), rows)


def _audits(body: Body) -> str:
    rows = [(one.trial, one.method, one.outcome, one.said) for one in body.audits]
    return _table("Audits", ("trial", "method", "verdict", "how"), rows) or _card("Audits", "<p>None was made.</p>")


def _ledger(body: Body) -> str:
    rows = [
        (row.trial, str(row.attempt), f"{row.from_step} to {row.charged_to} of {row.to_step}", link)
        for row, link in zip(body.ledger.rows, body.ledger.links[1:], strict=True)
    ]
    return _table("Ledger, as a hash chain", ("trial", "launch", "steps", "link"), rows)


def _signature(signed: Signed) -> str:
    digest = hashlib.sha256(spelled(signed)).hexdigest()
    how = "sweeps certify --verify FILE --signer PUBLIC_KEY"
    signature = signed.signature
    return _pairs(
        [
            ("algorithm", signature.algorithm),
            ("key", signature.key),
            ("value", signature.value),
            ("SHA-256 of the document", digest),
            ("verified by", how),
        ]
    )


def _card(head: str, content: str) -> str:
    return f'<div class="card"><h3>{escape(head)}</h3>{content}</div>'


def _listed(head: str, lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return _card(head, f"<ul>{items}</ul>") if items else ""


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value)
    return f"<dl>{listed}</dl>"


def _table(head: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    above = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<h2>{escape(head)}</h2><div class="card scroll"><table><thead><tr>{above}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _texts(row: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), _plain(value)) for name, value in row.items()]


def _plain(value: object) -> str:
    match value:
        case None:
            return "not known"
        case str():
            return value
        case list() | tuple():
            return "; ".join(map(_plain, value)) or "none"
        case Mapping():
            return ", ".join(f"{name} {_plain(inner)}" for name, inner in value.items())
    return json.dumps(value)

"""The certificate as one page for people: self-contained HTML without a script, made from the document alone.

Every field of the document is on it, under its own name and with every digit of its numbers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

from dpcore.events import KINDS, event_text, phases
from dpcore.guarantee import Guarantee, Notion, delta_text, epsilon_text
from sweeps.certificate.document import Approval, Body, HashSplit, HoldoutBody, Signature, attested_in
from sweeps.certificate.modes import Part
from sweeps.privacy.charge import LaunchCharge
from sweeps.reporting.html import STYLE

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_HEADS = {
    "claim": "What is claimed",
    "mode": "How it was counted",
    "trials": "Plans",
    "not_covered": "What it does not cover",
    "released": "What was released",
    "accesses": "Who read the records",
    "provenance": "Which records, and what public things went in",
    "searched": "What was searched",
    "accuracy": "How good it is",
    "random": "Random sources",
    "target": "What every point of the final run was held to, once for each launch",
}
"""Of fields whose names are not the whole of it."""


def certificate_page(body: Body | HoldoutBody, data: bytes, signature: Signature) -> str:
    """The whole page. What is verified are the bytes of the document, whose SHA-256 it names."""
    sections = [_head("", body)]
    if isinstance(body, HoldoutBody):
        sections += [
            *_section("claim", body.claim),
            *_section("target", dict(body.target) | {"launches": len(body.final.ledger)}),
        ]
    for what, one in body.sweeps:
        sections += [_head(f"The {'sweep that tuned' if what == 'tuning' else what}: {one.sweep.name}", one)] * bool(
            what
        )
        sections += _sweep(one)
    how = {
        "SHA-256 of the document": hashlib.sha256(data).hexdigest(),
        "verified by": "sweeps certify --verify FILE --signer PUBLIC_KEY",
    }
    sections += [
        *_section("Attested by the signer, and not recomputed by verification", attested_in(body)),
        *_section("signature", signature.model_dump() | how),
    ]
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(body.title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(sections)}</main></body></html>\n"
    )


def _sweep(body: Body) -> Iterator[str]:
    for name, value in body:
        if name not in ("format", "title", "covers", "attested"):
            yield from _section(name, value)
        if name == "mode":
            yield from _section("Which follows from this", body.mode.constants(body.claim))


def _head(what: str, body: Body | HoldoutBody) -> str:
    claim = body.claim
    return f"<h1>{escape(what or body.title)}</h1><p>{escape(body.covers)}</p>{_numbers(claim, body.approval)}"


def _numbers(claim: Guarantee, approval: Approval) -> str:
    reached = "" if claim.epsilon_lower is None else epsilon_text(claim.epsilon_lower, up=False)
    lower = f", and a release with such events can spend {reached}" if reached else ""
    return (
        f'<div class="card numbers"><div><b>ε = {epsilon_text(claim.epsilon)}</b> at δ = {delta_text(claim.delta)} '
        f'<span class="badge {escape(claim.status)}">{escape(claim.status)}</span>'
        f'<p class="soft">{escape(claim.notion)}, {escape(claim.adjacency)}, per {escape(claim.unit)}; the same events '
        f'spend at most this{lower}.</p><p>{escape(for_one(claim))}</p></div><div><span class="soft">approved by</span>'
        f"<b>{escape(approval.by)}</b><p>{escape(approval.because)}</p></div></div>"
    )


def for_one(claim: Guarantee) -> str:
    """What the claim means for one person, in plain words; empty for one that is no differential privacy.

    Guessing at even odds whether somebody is among the records is right at most (exp(epsilon) + delta) / (1 +
    exp(epsilon)) of the time (Kairouz, Oh & Viswanath 2015, theorem 2.1).
    """
    if claim.notion is not Notion.DP or not math.isfinite(claim.epsilon):
        return ""
    factor = math.exp(min(claim.epsilon, 700.0))
    right = min(1.0, (factor + claim.delta) / (1 + factor))
    return (
        f"For one {claim.unit}: whoever sees all that was released, and knows all other records, finds any of it at "
        f"most {factor:.4g} times as likely with this {claim.unit} among the records as without, but for a chance of "
        f"{delta_text(claim.delta)}. Somebody who guesses at even odds whether it is among them is right at most "
        f"{math.ceil(1000 * right) / 10:.1f}% of the time."
    )


def _section(name: str, value: object) -> Iterator[str]:
    """A card of one field: a list, a table, or pairs with a table for each list of values in them."""
    head = escape(_HEADS.get(name, name[:1].upper() + name[1:]))
    if not isinstance(value, tuple):
        pairs = _pairs(value)
        tables = {inner: one for inner, one in pairs.items() if _is_table(one)}
        listed = [(inner, one) for inner, one in pairs.items() if inner not in tables and one != ""]
        rows = "".join(f"<dt>{escape(_name(inner))}</dt><dd>{escape(_plain(one))}</dd>" for inner, one in listed)
        yield f'<div class="card"><h3>{head}</h3><dl>{rows}</dl></div>' if rows else ""
        for inner, one in tables.items():
            yield from _section(inner, one)
    elif _is_table(value):
        table = list(map(_pairs, value))
        above = "".join(f"<th>{escape(_name(one))}</th>" for one in table[0])
        below = ("".join(f"<td>{escape(_plain(one))}</td>" for one in row.values()) for row in table)
        yield f'<h2>{head}</h2><div class="card scroll"><table><thead><tr>{above}</tr></thead>'
        yield f"<tbody>{''.join(f'<tr>{row}</tr>' for row in below)}</tbody></table></div>"
    else:
        items = "".join(f"<li>{escape(_plain(one))}</li>" for one in value) or "<li>none</li>"
        yield f'<div class="card"><h3>{head}</h3><ul>{items}</ul></div>'


def _is_table(value: object) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Part | LaunchCharge)


def _pairs(value: Any) -> Mapping[str, object]:
    """The fields of a value, by name."""
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return dict(value)


def _name(field: str) -> str:
    return field.replace("_", " ")


def _plain(value: Any) -> str:
    if type(value) in KINDS.values():
        return "; ".join(f"{count} × {event_text(part, digits=17)}" for part, count in phases(value).items()) or "none"
    match value:
        case None:
            return "–"
        case HashSplit():
            return str(value)
        case str():
            return value or "none"
        case list() | tuple():
            apart = ", " if all(isinstance(one, int | float) for one in value) else "; "
            return apart.join(map(_plain, value)) or "none"
        case Mapping() | Part():
            return ", ".join(f"{_name(name)} {_plain(inner)}" for name, inner in _pairs(value).items())
    return str(value) if is_dataclass(value) else json.dumps(value)

"""Verification: what a certificate says of itself, recomputed from the document alone. No store, data or network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.checks import InvalidValue
from dpcore.events import UnsupportedEvent
from sweeps.certificate.agreeing import agreed
from sweeps.certificate.canonical import NotCanonical
from sweeps.certificate.claimed import Check, word
from sweeps.certificate.document import Body, HoldoutBody, NotACertificate, Signed, parsed, spelled
from sweeps.certificate.holdout import combined
from sweeps.certificate.second_opinion import second_opinion
from sweeps.certificate.signing import is_signed, key_text
from sweeps.certificate.titles import attested, attested_in, covered, title_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

UNSIGNED = "it may have been written by anybody: nothing in it was looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of it.

    body      what was verified; None where the bytes are no certificate, or nobody's whom one expects
    checks    in order: form, signature, ledger, arithmetic, second opinion
    unasked   why another accountant was not asked
    """

    body: Body | HoldoutBody | None
    checks: tuple[Check, ...]
    unasked: tuple[str, ...] = ()

    @property
    def stands(self) -> bool:
        """Whether everything holds."""
        return self.body is not None and all(check.held for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "stands": self.stands,
            "title": None if self.body is None else self.body.title,
            "checks": [{"what": one.what, "held": one.held, "said": one.said} for one in self.checks],
            "attested": [] if self.body is None else list(attested_in(self.body)),
            "unasked": list(self.unasked),
        }

    def __str__(self) -> str:
        body, lines = self.body, []
        if body is not None:
            lines += [body.title, f"  {body.claim.covers}"]
        lines += ["Recomputed from this document alone:", *(f"  {check}" for check in self.checks)]
        lines += [f"  {line}" for line in self.unasked]
        if body is not None:
            lines += ["Attested by the signer, and not recomputed:", *(f"  {line}" for line in attested_in(body))]
        return "\n".join([*lines, "The certificate stands." if self.stands else "THE CERTIFICATE DOES NOT STAND."])


def verify(data: bytes, signer: Ed25519PublicKey) -> Verification:
    """Verify the bytes of a certificate, of whose signer one has the public key from elsewhere."""
    try:
        signed = parsed(data)
    except (NotCanonical, NotACertificate) as error:
        return Verification(body=None, checks=(Check("form", False, str(error)),))
    form = Check("form", True, "the one spelling of its values, each of its type")
    by_whom = _signature(signed, signer)
    if not by_whom.held:
        return Verification(body=None, checks=(form, by_whom))
    checks, unasked = [form, by_whom, *recomputed(signed.body)], list[str]()
    for what, one in signed.body.sweeps:
        opinions, unheard = _opinion(one)
        checks += _named(what, opinions)
        unasked += [f"{what}: {line}" if what else line for line in unheard]
    return Verification(body=signed.body, checks=tuple(checks), unasked=tuple(unasked))


def recomputed(body: Body | HoldoutBody) -> Iterator[Check]:
    """Everything that the body implies of itself, recomputed."""
    for what, one in body.sweeps:
        yield from _named(what, _of_sweep(one))
    if isinstance(body, HoldoutBody):
        yield from _named("both", _counted(combined(body)))


def _named(what: str, checks: Iterable[Check]) -> Iterator[Check]:
    return (replace(one, what=f"{what}: {one.what}" if what else one.what) for one in checks)


def _of_sweep(body: Body) -> Iterator[Check]:
    yield word("title", body.title, title_of(body.mode, body.claim, body.released.heading, body.sweep.name))
    yield word("what is covered", body.claim.covers, covered(body.mode, body.sweep, body.approval.at))
    yield word("what is attested", body.attested, attested(body.mode))
    yield Check("it may be certified", body.claim.status in body.mode.statuses, str(body.claim.status))
    yield word("the ledger's sweep", body.ledger.sweep, f"{body.sweep.name} {body.sweep.digest}")
    yield from agreed(body)
    links = len(body.ledger.links)
    yield Check("hash chain of the ledger", body.ledger.is_whole, f"{links} links, the last {body.ledger.links[-1]}")
    yield from _counted(body.mode.checks(body.claim, body.ledger.rows))


def _counted(checks: Iterable[Check]) -> Iterator[Check]:
    """Checks of arithmetic, which may end where a number of the document is none that an accountant takes."""
    try:
        yield from checks
    except (InvalidValue, UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid) as error:
        yield Check("arithmetic", False, str(error))


def _signature(signed: Signed, signer: Ed25519PublicKey) -> Check:
    wanted = key_text(signer)
    if signed.signature.key != wanted:
        said = f"it is of the key {signed.signature.key}, and you expect {wanted}: {UNSIGNED}"
        return Check("signature", False, said)
    held = is_signed(signer, spelled(signed.body), signed.signature.value)
    return Check("signature", held, f"Ed25519 by {wanted}" if held else f"not of these bytes: {UNSIGNED}")


def _opinion(body: Body) -> tuple[list[Check], list[str]]:
    try:
        return second_opinion(body.mode.opinions(body.claim, body.ledger.rows), body.claim)
    except (InvalidValue, UnsupportedEvent) as error:
        return [], [f"no second opinion: {error}"]

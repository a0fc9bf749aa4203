"""Verification: what a certificate says of itself, recomputed from the document alone. No store, data or network."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.audit.audit import AuditOutcome
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, UnsupportedEvent, phases
from dpcore.guarantee import STANDING, Notion, epsilon_text
from sweeps.certificate.document import Body, HoldoutBody, NotACertificate, attested_in, parsed, parsed_signature
from sweeps.certificate.modes import SAME, Check, ComposedTrials, at_most, equal, headline_of, same_claim
from sweeps.certificate.signing import is_signed, key_text
from sweeps.privacy.ledger import Tuned, both
from sweeps.spec.sections import learns
from sweeps.store.records import ENDED, SweepState

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

UNSIGNED = "it may have been written by anybody: nothing in it was looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of it.

    body      what was verified; None where the bytes are no certificate, or nobody's whom one expects
    checks    in order: signature, form, rows, arithmetic, second opinion
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
            lines += [body.title, f"  {body.covers}"]
        lines += ["Recomputed from this document alone:", *(f"  {check}" for check in self.checks)]
        lines += [f"  {line}" for line in self.unasked]
        if body is not None:
            lines += ["Attested by the signer, and not recomputed:", *(f"  {line}" for line in attested_in(body))]
        return "\n".join([*lines, "The certificate stands." if self.stands else "THE CERTIFICATE DOES NOT STAND."])


def verify(data: bytes, signature: bytes, signer: Ed25519PublicKey) -> Verification:
    """Verify the bytes of a certificate, of whose signer one has the public key from elsewhere.

    signature  the bytes of the file of the signature
    """
    by_whom = _signature(data, signature, signer)
    if not by_whom.held:
        return Verification(body=None, checks=(by_whom,))
    try:
        body = parsed(data)
    except NotACertificate as error:
        return Verification(body=None, checks=(by_whom, Check("form", False, str(error))))
    checks, unasked = [by_whom, *recomputed(body)], list[str]()
    for what, one in body.sweeps:
        opinions, reason = second_opinion(one)
        checks += _named(what, opinions)
        unasked += [f"{what}: {reason}" if what else reason] if reason else []
    return Verification(body=body, checks=tuple(checks), unasked=tuple(unasked))


def _signature(data: bytes, signature: bytes, signer: Ed25519PublicKey) -> Check:
    try:
        found = parsed_signature(signature)
    except NotACertificate as error:
        return Check("signature", False, f"{error}: {UNSIGNED}")
    wanted = key_text(signer)
    if found.key != wanted:
        return Check("signature", False, f"it is of the key {found.key}, and you expect {wanted}: {UNSIGNED}")
    held = is_signed(signer, data, found.value)
    return Check("signature", held, f"Ed25519 by {wanted}" if held else f"not of these bytes: {UNSIGNED}")


def recomputed(body: Body | HoldoutBody) -> Iterator[Check]:
    """Everything that the body implies of itself, recomputed."""
    for what, one in body.sweeps:
        yield from _named(what, _of_sweep(one))
    if isinstance(body, HoldoutBody):
        yield from _named("both", _counted(_of_both(body)))


def _named(what: str, checks: Iterable[Check]) -> Iterator[Check]:
    return (replace(one, what=f"{what}: {one.what}" if what else one.what) for one in checks)


def _counted(checks: Iterable[Check]) -> Iterator[Check]:
    """Checks of arithmetic, which may end where a number of the document is none that an accountant takes."""
    try:
        yield from checks
    except (InvalidValue, UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid) as error:
        yield Check("arithmetic", False, str(error))


def _of_sweep(body: Body) -> Iterator[Check]:
    mode = body.mode
    yield Check("it may be certified", body.claim.status in mode.statuses, str(body.claim.status))
    yield _launches(body)
    # One trial's claim is its own, whatever became of the sweep; of a search that is not over more may leave.
    over = (SweepState.FINISHED,) if mode.sealed and not mode.trials else ENDED
    allowed = over if mode.searched else (*ENDED, SweepState.RUNNING)
    yield Check("state of the sweep", body.sweep.state in allowed, body.sweep.state)
    if mode.fixed:
        sampler = body.searched.sampler
        yield Check("no result chose the trials", not learns(sampler), f"the {sampler} sampler")
    yield _audited(body)
    yield from _counted(mode.recompute(body.claim, body.ledger))


def _launches(body: Body) -> Check:
    """Launches and steps are those of the ledger; the ledger of one trial has a part of those of its sweep."""
    told = (body.accesses.training, body.accesses.steps)
    launches, steps = len(body.ledger), sum(row.charged_to - row.from_step for row in body.ledger)
    what, said = "readings of training records", f"{launches} launches of {steps} steps in the ledger"
    match told:
        case (int(training), int(ran)) if not body.mode.searched:
            return Check(what, training >= launches and ran >= steps, said)
        case _:
            return Check(what, told == ((None, None) if body.mode.sealed else (launches, steps)), said)


def _audited(body: Body) -> Check:
    """Trials of one system run the same code: what an audit refuted of one is refuted of all, and of every total."""
    trials, systems = ({getattr(one, name) for one in body.mode.trials} for name in ("trial", "system"))
    about = [one for one in body.audits if body.mode.searched or one.trial in trials or one.system in systems]
    fallen = [one.trial for one in about if one.outcome != AuditOutcome.CONSISTENT]
    said = f"{', '.join(fallen)}: refuted" if fallen else f"{len(about)} audits, none of which refuted anything"
    return Check("verdicts of audits", not fallen, said)


def _of_both(body: HoldoutBody) -> Iterator[Check]:
    """A sweep that tuned on one part of the records, and a final run on the other: the larger of two numbers, since a
    record is in one part whoever else is there (`sweeps.privacy.ledger`, `dpcore.accounting`).

        epsilon = max(of the tuning, launches of the final run * target, of the final run),   delta likewise.

    Of the tuning that is what was promised beforehand: of a ladder of budgets its dearest end, wherever it ended. Where
    the point is from depends on the records that tuned, so that the final run counts as what every point was held to.
    Raises as accountants do.
    """
    tuning, final, claim, target = body.tuning, body.final, body.claim, body.target
    promised = tuning.mode.promised(tuning.claim)
    yield Check("it may be certified", claim.status in STANDING, str(claim.status))
    for what, one in body.sweeps:
        for name in ("adjacency", "unit"):
            yield equal(f"{name}, {what}", getattr(one.claim, name), getattr(claim, name))
        yield equal(f"notion, {what}", one.mode.promised(one.claim).notion, Notion.DP)
    yield equal("neighbours differ in one part", claim.adjacency, Adjacency.ADD_REMOVE)
    yield from _parted(tuning, final)
    mode = final.mode
    one_plan = isinstance(mode, ComposedTrials) and mode.scope == "holdout" and len(mode.trials) == 1
    yield Check("the final run is one trial", one_plan, f"{len(mode.trials)} plans of {mode.mode}")
    for plan in mode.trials:
        found = headline_of(plan, target.delta, claim.adjacency, claim.unit)
        yield at_most("the final run within its target", found.epsilon, target.epsilon)
    tuned = Tuned(claim=promised, target=target.epsilon, delta=target.delta)
    yield from same_claim(claim, both(tuned, final.claim, len(final.ledger)), "both together")


def _parted(tuning: Body, final: Body) -> Iterator[Check]:
    """Whether both sweeps read the two parts of one split, and the final run has the point that the other found."""
    ours, theirs = final.provenance, tuning.provenance
    yield equal("contributions", theirs.contributions, ours.contributions)
    tunes = theirs.part is not None and theirs.part.use == "tuning"
    parts = theirs.part is not None and ours.part == theirs.part.model_copy(update={"use": "final"})
    yield Check("two parts of one split", parts and tunes, f"{theirs.part} and {ours.part}")
    apart = bool(ours.fingerprint and theirs.fingerprint) and ours.fingerprint != theirs.fingerprint
    yield Check("the parts are not the same records", apart, f"{theirs.fingerprint}, {ours.fingerprint}")
    chosen, found = ours.chosen, (tuning.sweep.name, theirs.fingerprint)
    held = chosen is not None and (chosen.sweep, chosen.records) == found
    yield Check("where the hyperparameters are from", held, str(chosen))
    two = (tuning.sweep.name, tuning.sweep.digest) != (final.sweep.name, final.sweep.digest)
    yield Check("two sweeps", two, f"{tuning.sweep.name}, {final.sweep.name}")
    mode = tuning.mode
    tuned = mode.scope in ("trial", "sweep") if isinstance(mode, ComposedTrials) else mode.searched
    yield Check("a tuning", tuned, mode.title(tuning.sweep.name))


# What another project's accountant says of the same events: dp_accounting, where it is installed and can speak.
#
# It shares no code with ours. Its pessimistic estimate is an upper bound and its optimistic one a lower bound of the
# exact epsilon, so a claim below the optimistic one is false, whoever is right elsewhere. On the grid that is asked
# here the two may be far apart: it is a second opinion, and decides nothing where it does not contradict.

_GRID = 1e-3
_MOST_PHASES = 8
"""Distinct releases that it is asked about; each costs it a fifth of a second."""
_LEAST_NOISE = 0.3
"""Below it the losses reach farther than a grid of this step holds in a second."""
_ASKED = (
    f"dp_accounting is asked under add-remove, about 1 to {_MOST_PHASES} distinct Gaussian releases, subsampled or "
    f"not, with noise multipliers of at least {_LEAST_NOISE}"
)


def second_opinion(body: Body) -> tuple[list[Check], str]:
    """What it finds of the events that the claim bounds, or why it was not asked: checks, and a sentence."""
    claim, checks = body.claim, list[Check]()
    try:
        from dp_accounting.pld import privacy_loss_distribution as theirs

        events = body.mode.opinions(claim, body.ledger)
        noises = [_noise(part) for event in events for part in phases(event)]
        few = claim.adjacency is Adjacency.ADD_REMOVE and 0 < len(noises) <= _MOST_PHASES
        if not few or min(noises) < _LEAST_NOISE:
            return [], f"no second opinion: {_ASKED}"
        for event in events:
            low, high = (_epsilon(theirs, event, claim.delta, pessimistic) for pessimistic in (False, True))
            least, most = epsilon_text(low, up=False, digits=6), epsilon_text(high, digits=6)
            claimed, held = epsilon_text(claim.epsilon, digits=6), low <= claim.epsilon * (1 + SAME)
            said = f"epsilon in [{least}, {most}] on a grid of {_GRID:g}; {claimed} is claimed"
            checks.append(Check("dp_accounting does not contradict", held, said))
    except ImportError:
        return [], "no second opinion: dp_accounting is not installed here"
    except (InvalidValue, UnsupportedEvent, ValueError, OverflowError, MemoryError) as error:
        return checks, f"no second opinion: it could not be counted ({error})"
    return checks, ""


def _noise(part: Event) -> float:
    """The noise multiplier of a Gaussian, subsampled or not, under add-remove; 0 of any other event."""
    inner = part.event if isinstance(part, PoissonSampled) else part
    if isinstance(inner, Gaussian) and inner.adjacency is Adjacency.ADD_REMOVE:
        return inner.noise_multiplier
    return 0.0


def _epsilon(theirs: Any, event: Event, delta: float, pessimistic: bool) -> float:
    logger = logging.getLogger()
    level = logger.level
    # It warns at every call that one of its algorithms has no optimistic form.
    logger.setLevel(logging.ERROR)
    try:
        losses = (
            theirs.from_gaussian_mechanism(
                _noise(part),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=_GRID,
                sampling_prob=part.rate if isinstance(part, PoissonSampled) else 1.0,
                use_connect_dots=pessimistic,
            ).self_compose(count)
            for part, count in phases(event).items()
        )
        return float(reduce(lambda one, other: one.compose(other), losses).get_epsilon_for_delta(delta))
    finally:
        logger.setLevel(level)

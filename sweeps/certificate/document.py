"""What a certificate says, as values: one row of the field's checklist after the other, each filled by machine.

The JSON document is `Signed`: a `Body` of one sweep, or a `HoldoutBody` of two, and the signature of its canonical
bytes. Every value is strictly typed, nothing is optional that could be left out unseen, and no field is ignored: what
`parsed` returns spells the bytes that it read.

The rows are those that "How to DP-fy ML" (Ponomareva et al. 2023, section 5.3.3), NIST SP 800-226 and Gomez et al.
(2025) ask of whoever publishes an epsilon.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from sweeps.certificate.canonical import canonical_bytes, normal, read
from sweeps.certificate.chain import Chain
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.fields import Delta, FrozenPart, Hex, NotNegative, Sentence
from sweeps.certificate.modes import Mode


class NotACertificate(ValueError):
    """A file that is no certificate of this format; the message says where it differs."""


class CertifiedSweep(FrozenPart):
    """Which sweep.  digest  SHA-256 of the meaning of its spec; state  when the certificate was made"""

    name: Sentence
    digest: Hex
    state: Sentence
    began: Sentence


class ReleaseTerms(FrozenPart):
    """What leaves, and whom one has to trust.

    artefact       what was released, exactly
    intermediates  whether anything between is hidden
    trust          who sees the records
    heading        what stands above every claim of the sweep; empty where claims stand for themselves
    """

    artefact: Sentence
    intermediates: Sentence
    trust: Sentence
    heading: str


class Accesses(FrozenPart):
    """Every reading of records.

    training    launches of trials, lost ones included; null where their number is secret
    steps       that they were charged, as the ledger has it; likewise
    tuning      how results of one trial came to bear on others
    validation  how validation records were read
    tests       readings of test records, with what came of each
    audits      audits that read the sweep's own records, which no claim covers
    population  of which these records are, by declaration, and what all sweeps over it in this store have spent by now
    """

    training: int | None
    steps: int | None
    tuning: Sentence
    validation: Sentence
    tests: tuple[Sentence, ...]
    audits: tuple[Sentence, ...]
    population: tuple[Sentence, ...]


class Provenance(FrozenPart):
    """Which records, and everything public that went in.

    source       of the records, as the spec names it
    records, validation_records, counted  public numbers of them, and of what they count; null where not known here
    fingerprint  of the records, as the sweep has it now, keyed by the store: it confirms equality to whoever has the
        key, and a guess to nobody
    public_because  why nobody's privacy is at stake; empty where it is
    public_inputs  weights, encoders, files and code of the user's own that the spec names; of a final run its tuning
    declared     what the source states of the records: facts that nothing here protects (their number, bounds, classes)
    """

    source: Sentence
    records: int | None
    validation_records: int | None
    counted: Sentence
    fingerprint: Hex
    public_because: str
    public_inputs: tuple[Sentence, ...]
    declared: tuple[Sentence, ...]


class Searched(FrozenPart):
    """What was searched.

    sampler     as it was resolved
    ranges      {system: {knob: value or domain}}
    how_chosen  by the operator
    """

    sampler: Sentence
    trials: int
    ranges: dict[str, dict[str, JsonValue]]
    fixed_points: int
    how_chosen: Sentence


class Measured(FrozenPart):
    """One published metric of a trial, and how it may be quoted; no value where it is no finite number."""

    trial: Sentence
    metric: Sentence
    value: float | None
    quote: Sentence


class Accuracy(FrozenPart):
    """How good what left is.

    groups      the column of groups that subgroup accuracy is told of; empty where none is declared
    metrics     as they were published, subgroup accuracy among them
    """

    groups: str
    metrics: tuple[Measured, ...]


class Software(FrozenPart):
    """What ran, and what wrote this.

    code      SHA-256 of the code that trained, as the sweep has it now: one that was accepted on the way replaced it
    accepted  changes of code, data or spec with which the sweep went on, by whom and when
    code_now  of the code where the certificate was made; equal to `code` if nothing changed since
    versions  of packages where the certificate was made
    """

    code: Hex
    code_now: Hex
    accepted: tuple[Sentence, ...]
    versions: dict[str, str]


class Approval(FrozenPart):
    """Who approved this epsilon, and why.  at  when the certificate was made, in UTC"""

    by: Sentence
    because: Sentence
    at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]


class CertifiedAudit(FrozenPart):
    """The verdict of one audit of the sweep: `consistent` or `refuted`, never verified.

    system  of the trial: all of its trials run the same code
    """

    trial: Sentence
    system: Sentence
    method: Sentence
    outcome: Sentence
    said: Sentence


class Body(FrozenPart):
    """What is signed.

    title   what kind of document it is, which says so where it is no guarantee for everybody
    mode    what the arithmetic of the claim is, with every number that it needs
    ledger  published rows, each bound to those before it
    random  where noise, batches and other coins come from
    not_covered  what no number here says anything about
    attested     what is the signer's word alone
    """

    format: Literal["private-sweeps certificate 1"]
    title: Sentence
    claim: Claimed
    mode: Mode
    sweep: CertifiedSweep
    released: ReleaseTerms
    accesses: Accesses
    provenance: Provenance
    searched: Searched
    accuracy: Accuracy
    random: tuple[Sentence, ...]
    software: Software
    approval: Approval
    audits: tuple[CertifiedAudit, ...]
    ledger: Chain
    not_covered: tuple[Sentence, ...]
    attested: tuple[Sentence, ...]

    @property
    def sweeps(self) -> tuple[tuple[str, Body], ...]:
        """The sweeps that it is of, and what each is in it."""
        return (("", self),)


class RecordsSplit(FrozenPart):
    """How the records are parted: those whose keyed hash of their own id is below the share tune, all others are of the
    final run (`trainables.data.splits`).

    id  the column that is hashed; None where all that a record holds is
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    id: Sentence | None
    key: Sentence


class FinalTarget(FrozenPart):
    """What one launch of the final run spends at most, at whichever point."""

    epsilon: NotNegative
    delta: Delta


class HoldoutBody(FrozenPart):
    """What is signed of a holdout: two sweeps on two parts of the records, each as it would be by itself, and the claim
    of both together.

    claim    of both
    split    which record is in which part
    target   of the final run
    point    the trial of the tuning whose hyperparameters the final run has
    tuning, final  both sweeps, each with a claim and a ledger of its own
    """

    format: Literal["private-sweeps holdout certificate 1"]
    title: Sentence
    claim: Claimed
    split: RecordsSplit
    target: FinalTarget
    point: Sentence
    approval: Approval
    tuning: Body
    final: Body
    attested: tuple[Sentence, ...]

    @property
    def sweeps(self) -> tuple[tuple[str, Body], ...]:
        """See `Body.sweeps`."""
        return ("tuning", self.tuning), ("final run", self.final)


class Signature(FrozenPart):
    """Ed25519 of the canonical bytes of `body`.  key, value  32 and 64 bytes in hex"""

    algorithm: Literal["Ed25519"]
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    value: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


class Signed(FrozenPart):
    """The whole file."""

    body: Annotated[Body | HoldoutBody, Field(discriminator="format")]
    signature: Signature


def spelled(part: FrozenPart) -> bytes:
    """The canonical bytes of a document, or of a part of it. Raises NotCanonical."""
    return canonical_bytes(part.model_dump(mode="json"))


Content = TypeVar("Content", Body, HoldoutBody)


def normalised(body: Content) -> Content:
    """The body with all texts in Unicode's normal form C, and numbers as a reader will have them."""
    return type(body).model_validate_json(canonical_bytes(normal(body.model_dump(mode="json"))))


def parsed(data: bytes) -> Signed:
    """The certificate that these bytes spell. Raises NotCanonical, NotACertificate."""
    read(data)
    try:
        found = Signed.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise NotACertificate(f"{where}: {first['msg']}") from None
    except ValueError as error:
        raise NotACertificate(str(error)) from None
    if spelled(found) != data:
        # A value that was read as another one than it spells (a field that was added by default, say).
        raise NotACertificate("it says something that a certificate does not hold as it was written")
    return found

"""What a certificate says, as values: one row of the field's checklist after the other, each filled by machine.

The file is a `Body` of one sweep, or a `HoldoutBody` of two, as JSON. What is signed are its bytes, and the signature
lies in a file of its own beside it. Every value is strictly typed, and no unknown field is ignored.

The rows are those that "How to DP-fy ML" (Ponomareva et al. 2023, section 5.3.3), NIST SP 800-226 and Gomez et al.
(2025) ask of whoever publishes an epsilon.
"""

from __future__ import annotations

import json
import time
from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from sweeps.certificate.modes import AnyMode, Count, Delta, LedgerRow, NotNegative, Part, Sentence

Hex = Annotated[str, Field(pattern=r"^[0-9a-f]*$")]
T = TypeVar("T")
LEAST_LETTERS = 10
"""Of a reason: a word is none."""


class NotACertificate(ValueError):
    """A file that is no certificate of this format; the message says where it differs."""


class CertifiedSweep(Part):
    """Which sweep.  digest  SHA-256 of the meaning of its spec; state  when the certificate was made"""

    name: Sentence
    digest: Hex
    state: Sentence
    began: Sentence


class ReleaseTerms(Part):
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


class Accesses(Part):
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


class HashSplit(Part):
    """Which part of its records a sweep reads: those whose keyed hash of their own id is below the share tune, all
    others are of the final run (`trainables.data.splits`).

    id  the column that is hashed; null where all that a record holds is
    """

    use: Literal["tuning", "final"]
    share: Annotated[float, Field(gt=0, lt=1)]
    id: Sentence | None
    key: Sentence

    def __str__(self) -> str:
        whose = "own content" if self.id is None else self.id
        return f"{self.use} ({self.share:g} tune): a hash of each record's {whose} under the key {self.key!r} decides"


class ChosenPoint(Part):
    """Where the hyperparameters of a final run are from.  records  the keyed fingerprint of those that tuned"""

    sweep: Sentence
    trial: Sentence
    records: Hex


class Provenance(Part):
    """Which records, and everything public that went in.

    source       of the records, as the spec names it
    records, validation_records, counted  public numbers of them, and of what they count; null where not known here
    contributions  records that one unit contributes at most, as enforced
    fingerprint  of the records, as the sweep has it now, keyed by the store: it confirms equality to whoever has the
        key, and a guess to nobody
    public_because  why nobody's privacy is at stake; empty where it is
    public_inputs  weights, encoders, files and code of the user's own that the spec names
    declared     what the source states of the records: facts that nothing here protects (their number, bounds, classes)
    part         of the records, where the sweep reads no more
    chosen       of a final run the point that another sweep found
    """

    source: Sentence
    records: int | None
    validation_records: int | None
    counted: Sentence
    contributions: Count
    fingerprint: Hex
    public_because: str
    public_inputs: tuple[Sentence, ...]
    declared: tuple[Sentence, ...]
    part: HashSplit | None
    chosen: ChosenPoint | None


class Searched(Part):
    """What was searched.  sampler  as it was resolved; ranges  {system: {hyperparameter: value or domain}}"""

    sampler: Sentence
    trials: int
    ranges: dict[str, dict[str, JsonValue]]
    fixed_points: int


class Measured(Part):
    """One published metric of a trial, and how it may be quoted; no value where it is no finite number."""

    trial: Sentence
    metric: Sentence
    value: float | None
    quote: Sentence


class Accuracy(Part):
    """How good what left is.

    groups   the column of groups that subgroup accuracy is told of; empty where none is declared
    metrics  as they were published, subgroup accuracy among them
    """

    groups: str
    metrics: tuple[Measured, ...]


class Software(Part):
    """What ran, and what wrote this.

    code      SHA-256 of the code that trained, as the sweep has it now: one that was accepted on the way replaced it
    accepted  changes of code, data or spec with which the sweep went on, by whom and when
    code_now  of the code where the certificate was made; equal to `code` if nothing changed since
    versions  of packages where the certificate was made, this one among them
    """

    code: Hex
    code_now: Hex
    accepted: tuple[Sentence, ...]
    versions: dict[str, str]


class Approval(Part):
    """What only people know, and a certificate has to say: it is asked for, never filled in.

    by       who approved this epsilon
    because  why this epsilon is right for these records
    ranges   how ranges of hyperparameters, features and public inputs were chosen: earlier looks at these records too
    at       when the certificate was made, in UTC
    """

    by: Sentence
    because: Sentence
    ranges: Sentence
    at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]

    @classmethod
    def now(cls, by: str, because: str, ranges: str) -> Approval:
        """Given now. Raises InvalidValue for answers that are missing, all of them."""
        by, because, ranges = by.strip(), because.strip(), ranges.strip()
        asked = [
            ("--approved-by", by, 2, "who approved this epsilon"),
            ("--because", because, LEAST_LETTERS, "why this epsilon is right for these records"),
            ("--ranges", ranges, LEAST_LETTERS, "how the ranges of hyperparameters were chosen, and on which data"),
        ]
        if missing := [one for one in asked if len(one[1]) < one[2]]:
            listed = "; ".join(f"{name}: {why} (at least {least} letters)" for name, _, least, why in missing)
            names, said = ", ".join(name for name, *_ in missing), [text for _, text, *_ in missing if text]
            raise InvalidValue(names, said or None, f"what no machine knows: {listed}")
        return cls(by=by, because=because, ranges=ranges, at=utc(time.time()))


class CertifiedAudit(Part):
    """The verdict of one audit of the sweep: `consistent` or `refuted`, never verified.

    system  of the trial: all of its trials run the same code
    """

    trial: Sentence
    system: Sentence
    method: Sentence
    outcome: Sentence
    said: Sentence


class Body(Part):
    """The certificate of one sweep, or of one of its trials.

    title        what kind of document it is, which says so where it is no guarantee for everybody
    covers       what is certified, in words
    mode         what the arithmetic of the claim is, with every number that it needs
    ledger       published rows; none of a sealed search
    random       where noise, batches and other coins come from
    not_covered  what no number here says anything about
    attested     what is the signer's word alone
    """

    format: Literal["private-sweeps certificate 1"] = "private-sweeps certificate 1"
    title: Sentence
    covers: Sentence
    claim: Guarantee
    mode: AnyMode
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
    ledger: tuple[LedgerRow, ...]
    not_covered: tuple[Sentence, ...]
    attested: tuple[Sentence, ...]

    @property
    def sweeps(self) -> tuple[tuple[str, Body], ...]:
        """The sweeps that it is of, and what each is in it."""
        return (("", self),)


class FinalTarget(Part):
    """What one launch of the final run spends at most, at whichever point."""

    epsilon: NotNegative
    delta: Delta


class HoldoutBody(Part):
    """The certificate of a holdout: two sweeps on two parts of the records, each as it would be by itself, and the
    claim of both together.

    target         of the final run
    tuning, final  both sweeps, each with a claim and a ledger of its own
    """

    format: Literal["private-sweeps holdout certificate 1"] = "private-sweeps holdout certificate 1"
    title: Sentence
    covers: Sentence
    claim: Guarantee
    target: FinalTarget
    tuning: Body
    final: Body
    attested: tuple[Sentence, ...]

    @property
    def approval(self) -> Approval:
        """Of the claim of both."""
        return self.final.approval

    @property
    def sweeps(self) -> tuple[tuple[str, Body], ...]:
        """See `Body.sweeps`."""
        return ("tuning", self.tuning), ("final run", self.final)


def attested_in(body: Body | HoldoutBody) -> tuple[str, ...]:
    """What is the signer's word alone in a document, of whichever of its sweeps; each sentence once."""
    return tuple(dict.fromkeys([*body.attested, *(line for _, one in body.sweeps for line in one.attested)]))


class Signature(Part):
    """Ed25519 of the bytes of a document, in a file beside it.  key, value  32 and 64 bytes in hex"""

    algorithm: Literal["Ed25519"] = "Ed25519"
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    value: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]


_DOCUMENT: TypeAdapter[Body | HoldoutBody] = TypeAdapter(Annotated[Body | HoldoutBody, Field(discriminator="format")])
_SIGNATURE = TypeAdapter(Signature)


def written(part: Part) -> bytes:
    """The bytes of a document or a signature. Raises ValueError for a number that JSON has not."""
    text = json.dumps(part.model_dump(mode="json"), ensure_ascii=False, allow_nan=False, indent=1)
    return f"{text}\n".encode()


def parsed(data: bytes) -> Body | HoldoutBody:
    """The document in these bytes. Raises NotACertificate."""
    return _parsed(_DOCUMENT, data)


def parsed_signature(data: bytes) -> Signature:
    """The signature in these bytes. Raises NotACertificate."""
    return _parsed(_SIGNATURE, data)


def _parsed(adapter: TypeAdapter[T], data: bytes) -> T:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise NotACertificate(f"{where}: {first['msg']}") from None


def utc(seconds: float) -> str:
    """A time since 1970 as documents have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

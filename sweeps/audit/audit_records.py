"""What audits leave behind: one folder each, `<root>/<sweep>/audits/<number>/`, inside the release boundary.

The store hears the verdict alone, where it is `refuted` (`sweeps.release.refuting`), and with it every view. A number
that an audit computed from records is in no claim, so no view, front or MLflow server hears of it, and the report
page, which reads these folders, names such an audit without its numbers, unless the spec declares the records public
or says why raw measures leave. The folder is made before a twin is trained: an audit that was begun counts among the
sweep's audits, so that nobody can look at many and keep the one he likes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcore.audit import Audit, AuditOutcome
from dpcore.guarantee import Guarantee
from sweeps.release.refuting import FILE, FOLDER
from trainables.worker.files import Folder


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One finished audit.

    number         which audit of its sweep this is, from 1
    claim          what was held against it
    headline       the trial's own claim: `claim`, or one of another notion that no audit can be held against
    steps          of the trial, behind the claim
    level          error probability of the verdict; those of all audits of a sweep add up to at most 0.05
    on_curve       whether the whole trade-off curve of the planned steps was tested, or the claimed point alone
    design         who the canaries are, or how the neighbours differ
    reads_records  whether twins were trained on the sweep's own records
    at             seconds since 1970
    """

    sweep: str
    trial: str
    system: str
    number: int
    claim: Guarantee
    headline: Guarantee
    steps: int
    audit: Audit
    outcome: AuditOutcome
    level: float
    on_curve: bool
    design: str
    reads_records: bool
    trainings: int
    seconds: float
    at: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        claims = {"claim": self.claim.to_dict(), "headline": self.headline.to_dict()}
        values = {**claims, "audit": self.audit.to_dict(), "outcome": str(self.outcome)}
        return plain | values | {"covered_by_claim": False}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AuditRecord:
        """The inverse of `to_dict`; the bound is computed anew from the evidence."""
        # Records of earlier releases name one claim.
        fields = {"headline": data["claim"], **{name: data[name] for name in cls.__slots__ if name in data}}
        return cls(
            **fields
            | {
                "claim": Guarantee.from_dict(fields["claim"]),
                "headline": Guarantee.from_dict(fields["headline"]),
                "audit": Audit.from_dict(fields["audit"]),
                "outcome": AuditOutcome(fields["outcome"]),
            }
        )


def begin(folder: Path) -> int:
    """The number of a new audit of the sweep with this folder, taken by nobody else."""
    audits = folder / FOLDER
    audits.mkdir(parents=True, exist_ok=True)
    number = 1 + max((int(one.name) for one in audits.iterdir() if one.name.isdigit()), default=0)
    while True:
        try:
            (audits / str(number)).mkdir()
            return number
        except FileExistsError:
            number += 1


def share(number: int) -> int:
    """The `number`-th audit gets 1/share of the error: 1/2, 1/6, 1/12, ..., all of which add up to 1 (from 1 on)."""
    return number * (number + 1)


def keep(folder: Path, record: AuditRecord) -> Path:
    """Write the record and return its path. Raises OSError."""
    target = folder / FOLDER / str(record.number)
    Folder(str(target)).write(FILE, json.dumps(record.to_dict(), indent=2).encode())
    return target / FILE


def audits_of(folder: Path) -> list[AuditRecord]:
    """Finished audits of the sweep with this folder, in order."""
    return sorted(_read(folder), key=lambda one: one.number)


def _read(folder: Path) -> Iterator[AuditRecord]:
    for path in (folder / FOLDER).glob(f"*/{FILE}"):
        yield AuditRecord.from_dict(json.loads(path.read_text(encoding="utf-8")))


__all__ = ["AuditRecord", "audits_of", "begin", "keep", "share"]

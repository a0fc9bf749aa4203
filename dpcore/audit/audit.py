"""One audit as a value: a lower bound on epsilon, with everything that it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from dpcore import checks
from dpcore.adjacency import Adjacency
from dpcore.audit.multi_run import MultiRun
from dpcore.audit.one_run import Guesses, OneRun
from dpcore.audit.one_run_fdp import OneRunFDP

Evidence = MultiRun | OneRun | OneRunFDP

CONFIDENCE = 0.95
"""One minus the error probability of an audit, unless its caller asks for another."""


class ThreatModel(StrEnum):
    """What the attacker behind the evidence could see and insert. A bound says nothing about stronger attackers."""

    BLACK_BOX = "black-box"
    """Queries the final model on inputs of its choice."""

    FINAL_MODEL = "white-box, final model"
    """Reads the parameters of the final model."""

    EVERY_UPDATE = "white-box, every update"
    """Reads every noisy update and inserts gradients of its choice: the attacker that the theorems bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """With probability `confidence`, the audited mechanism is not (epsilon, delta)-DP for epsilon < `epsilon_lower`.

    evidence      what was observed, and the method that reads it
    threat_model  who observed it
    adjacency     the relation between the data sets of the experiment: add-remove where each coin (or the two kinds of
                  runs) decided whether a record was there, replace-one where it decided which of two was
    unit          what the experiment put in or left out
    delta         in [0, 1)
    confidence    in (0, 1), for this audit alone; several audits of one sweep share the error (`AuditVerdict`)

    An audit proves violations and never the absence of one. Raises InvalidValue.
    """

    evidence: Evidence
    threat_model: ThreatModel
    adjacency: Adjacency
    unit: str = "record"
    delta: float
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        checks.probability_open(confidence=self.confidence)
        checks.probability_below_one(delta=self.delta)

    @property
    def method(self) -> str:
        """The name of how the evidence is read."""
        return self.evidence.method

    @property
    def level(self) -> float:
        """The error probability, 1 - confidence."""
        return 1 - self.confidence

    @property
    def epsilon_lower(self) -> float:
        """Lower bound on epsilon at `delta`, whatever the shape of the mechanism's trade-off function. At least 0."""
        return self.evidence.epsilon_lower(self.delta, self.level)

    @property
    def mu_lower(self) -> float | None:
        """Lower bound on mu if the mechanism is mu-GDP; None where the method has none."""
        return None if isinstance(self.evidence, OneRun) else self.evidence.mu_lower(self.level)

    def __str__(self) -> str:
        """One line for a report; the bound is rounded down."""
        shown = math.floor(self.epsilon_lower * 1e4) / 1e4
        confidence = f"{100 * self.confidence:.10g}%"
        tried = f", best of {self.evidence.tried}" if self.evidence.tried > 1 else ""
        return (
            f"audited eps >= {shown:g} ({confidence}, {self.method}, {self.threat_model}, "
            f"{self.evidence.counts}{tried}, delta {self.delta:g}, {self.adjacency})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, the bound among them."""
        return {
            "method": self.method,
            "evidence": asdict(self.evidence),
            "threat_model": self.threat_model.value,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "delta": self.delta,
            "confidence": self.confidence,
            "epsilon_lower": self.epsilon_lower,
            "mu_lower": self.mu_lower,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Audit:
        """The inverse of `to_dict`; the bounds are computed anew from the evidence. Raises InvalidValue."""
        return cls(
            evidence=_evidence(data["method"], data["evidence"]),
            threat_model=ThreatModel(data["threat_model"]),
            adjacency=Adjacency(data["adjacency"]),
            unit=data["unit"],
            delta=data["delta"],
            confidence=data["confidence"],
        )


def _evidence(method: str, fields: dict[str, Any]) -> Evidence:
    match method:
        case MultiRun.method:
            return MultiRun(**fields)
        case OneRun.method:
            return OneRun(observed=Guesses(**fields["observed"]))
        case OneRunFDP.method:
            return OneRunFDP(observed=Guesses(**fields["observed"]))
    known = ", ".join(kind.method for kind in (MultiRun, OneRun, OneRunFDP))
    raise checks.InvalidValue("method", method, f"one of {known}")

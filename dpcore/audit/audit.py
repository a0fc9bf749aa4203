"""One audit as a value: a lower bound on epsilon, with everything that it rests on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from dpcore import checks, gdp
from dpcore.audit.evidence import Guesses, MultiRun, OneRun, OneRunFDP
from dpcore.events import Adjacency
from dpcore.gdp import TradeOff
from dpcore.guarantee import Guarantee, Notion, delta_text, epsilon_text

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
    kinds: dict[str, Any] = {one.method: one for one in (MultiRun, OneRun, OneRunFDP)}
    if method not in kinds:
        raise checks.InvalidValue("method", method, f"one of {', '.join(kinds)}")
    found: Evidence = kinds[method](
        **{**fields, **{one: Guesses(**fields[one]) for one in fields if one == "observed"}}
    )
    return found


class AuditOutcome(StrEnum):
    """There is no third one: an audit that finds nothing may have looked in the wrong place."""

    CONSISTENT = "consistent"
    """This attack did not contradict the claim."""

    REFUTED = "refuted"
    """The claim is false, or an event of probability below the audit's error happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """One of `audits` audits held against one claim.

    audit      tested at the claim's own delta, whatever delta its printed bound has
    guarantee  a claim of differential privacy with the same adjacency and unit
    audits     how many audits share the error probability 1 - audit.confidence (Bonferroni), this one included:
               the chance that any true claim among them is refuted stays below it
    curve      a symmetric trade-off function that the claim's accountant gives for what was to be run, of which the
               claim is one point. Evidence that can test a whole function is held against it; it finds more

    Raises InvalidValue for a claim that the audit cannot be compared with.
    """

    audit: Audit
    guarantee: Guarantee
    audits: int = 1
    curve: TradeOff | None = None

    def __post_init__(self) -> None:
        checks.count(minimum=1, audits=self.audits)
        audit, claim = self.audit, self.guarantee
        if claim.notion is not Notion.DP:
            raise checks.InvalidValue(
                "guarantee.notion",
                str(claim.notion),
                str(Notion.DP),
                "An average over the data does not bound what one chosen record shows.",
            )
        for name, ours, theirs in (
            ("adjacency", str(audit.adjacency), str(claim.adjacency)),
            ("unit", audit.unit, claim.unit),
        ):
            if ours != theirs:
                raise checks.InvalidValue(
                    f"audit.{name}", ours, f"{theirs}, as in the claim", "Audit the relation that is claimed."
                )

    @property
    def level(self) -> float:
        """This audit's share of the error probability."""
        return self.audit.level / self.audits

    @property
    def tests_curve(self) -> bool:
        """Whether the whole curve is tested, and not the claimed point alone."""
        return self.curve is not None and not isinstance(self.audit.evidence, OneRun)

    @property
    def outcome(self) -> AuditOutcome:
        """What the evidence says about the claim, at this audit's share of the error."""
        claim, evidence = self.guarantee, self.audit.evidence
        if self.curve is None or isinstance(evidence, OneRun):
            refuted = evidence.rejects_dp(claim.epsilon, claim.delta, self.level)
        else:
            refuted = evidence.rejects(claimed(claim, self.curve), self.level)
        return AuditOutcome.REFUTED if refuted else AuditOutcome.CONSISTENT

    def __str__(self) -> str:
        claim = self.guarantee
        share = f", one of {self.audits} audits" if self.audits > 1 else ""
        if self.tests_curve:
            share += ", tested on the whole curve of the planned steps"
        said = f"claimed eps {epsilon_text(claim.epsilon, digits=6)} at delta {delta_text(claim.delta)}"
        return f"{said}; {self.audit}{share}: {self.outcome}"


def claimed(guarantee: Guarantee, curve: TradeOff | None = None) -> TradeOff:
    """The trade-off function of a claim: that of its (epsilon, delta), and of `curve` where that is known."""
    # No canary tells exp(700) from infinity.
    point = gdp.dp_tradeoff(min(guarantee.epsilon, gdp.LARGEST_EPSILON), guarantee.delta)
    if curve is None:
        return point
    return lambda level: max(point(level), curve(level))

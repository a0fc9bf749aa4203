"""What an audit says about a claim: consistent with it, or against it. Nothing observed can verify a claim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dpcore import checks, tradeoff
from dpcore.audit.audit import Audit
from dpcore.audit.one_run import OneRun
from dpcore.guarantee import Guarantee, Notion
from dpcore.rounding import delta_text, epsilon_text
from dpcore.tradeoff import TradeOff


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
    point = tradeoff.epsilon_delta(min(guarantee.epsilon, tradeoff.LARGEST_EPSILON), guarantee.delta)
    if curve is None:
        return point
    return lambda level: max(point(level), curve(level))

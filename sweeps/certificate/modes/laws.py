"""The law of K, the number of trials, inside a document."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dpcore.checks import InvalidValue
from dpcore.selection import BinomialCount, Capped, CountLaw, PoissonCount, TruncatedNegativeBinomial
from sweeps.certificate.fields import Delta, FrozenPart, Positive


class NegativeBinomialLaw(FrozenPart):
    """Truncated negative binomial: geometric at shape 1, logarithmic at shape 0."""

    kind: Literal["truncated-negative-binomial"]
    shape: Annotated[float, Field(gt=-1)]
    success: Delta

    @property
    def law(self) -> CountLaw:
        """As `dpcore.selection` has it."""
        return TruncatedNegativeBinomial(float(self.shape), float(self.success))


class BinomialLaw(FrozenPart):
    """Successes of so many coins."""

    kind: Literal["binomial"]
    trials: Annotated[int, Field(ge=1)]
    probability: Delta

    @property
    def law(self) -> CountLaw:
        """As `dpcore.selection` has it."""
        return BinomialCount(self.trials, float(self.probability))


class PoissonLaw(FrozenPart):
    """Poisson."""

    kind: Literal["poisson"]
    rate: Positive

    @property
    def law(self) -> CountLaw:
        """As `dpcore.selection` has it."""
        return PoissonCount(float(self.rate))


Uncapped = Annotated[NegativeBinomialLaw | BinomialLaw | PoissonLaw, Field(discriminator="kind")]


class TrialsLaw(FrozenPart):
    """Of K, as it was drawn: conditioned on K <= cap where there is one.  mean  E K of the law without its cap"""

    law: Uncapped
    cap: Annotated[int, Field(ge=1)] | None
    mean: Positive

    def __str__(self) -> str:
        parameters = ", ".join(f"{name} {value:.6g}" for name, value in self.law if name != "kind")
        cap = "" if self.cap is None else f", conditioned on K ≤ {self.cap}"
        return f"{self.law.kind} with {parameters}, of mean {self.mean:.6g}{cap}"

    @property
    def drawn(self) -> CountLaw:
        """As `dpcore.selection` has it. Raises InvalidValue."""
        return self.law.law if self.cap is None else Capped(self.law.law, self.cap)

    @classmethod
    def of(cls, drawn: CountLaw) -> TrialsLaw:
        """A law of `dpcore.selection` in a document. Raises InvalidValue for one that no price is known of."""
        cap = drawn.cap if isinstance(drawn, Capped) else None
        found: NegativeBinomialLaw | BinomialLaw | PoissonLaw
        match drawn.priced:
            case TruncatedNegativeBinomial(shape=shape, success=success):
                found = NegativeBinomialLaw(kind="truncated-negative-binomial", shape=shape, success=success)
            case BinomialCount(trials=trials, probability=probability):
                found = BinomialLaw(kind="binomial", trials=trials, probability=probability)
            case PoissonCount(rate=rate):
                found = PoissonLaw(kind="poisson", rate=rate)
            case _:
                raise InvalidValue("law", drawn, "a truncated negative binomial, binomial or Poisson law")
        return cls(law=found, cap=cap, mean=drawn.priced.mean)

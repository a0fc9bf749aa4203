"""Zero-concentrated differential privacy: one number rho that adds up; no amplification by sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

from dpcore import checks
from dpcore.accountants.countable import Composing, factor
from dpcore.accountants.rounding import exp_up
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP
from dpcore.guarantee import Status

_ROUND_UP = 1 + 1e-14


@dataclass(frozen=True)
class ZCDPAccountant(Composing):
    """rho-zCDP; every number is a proved upper bound.

    A Poisson-sampled release is charged as if nobody were left out: with the coin shared between neighbours, Renyi
    divergence is jointly quasi-convex, so sampling never costs more; that it costs far less, zCDP cannot express.
    """

    name: ClassVar[str] = "zcdp"
    status: ClassVar[Status] = Status.PROVED
    theorem: ClassVar[str] = "Bun & Steinke (2016), Propositions 1.3, 1.4 and 1.6, Lemma 2.3"
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    rho: float = 0.0

    def _why_not(self, part: Event) -> str:
        return "no zCDP bound for it here." if isinstance(part, ApproximateDP) else ""

    def _with(self, parts: dict[Event, int]) -> Self:
        rho = self.rho
        for part, times in parts.items():
            rho += times * self._rho(part)
        return type(self)(self.adjacency, rho)

    def epsilon(self, delta: float) -> float:
        """rho + 2 sqrt(rho ln(1/delta)), at `delta` in (0, 1). Raises InvalidValue."""
        checks.probability_open(delta=delta)
        return (self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))) * _ROUND_UP

    def delta(self, epsilon: float) -> float:
        """exp(-(epsilon - rho)^2 / (4 rho)) for epsilon above rho, else 1. Raises InvalidValue."""
        checks.non_negative_finite(epsilon=epsilon)
        if self.rho == 0:
            return 0.0
        excess = epsilon / _ROUND_UP - self.rho
        return 1.0 if excess <= 0 or math.isinf(self.rho) else exp_up(-excess * excess / (4 * self.rho))

    def _rho(self, part: Event) -> float:
        match part:
            case Gaussian(noise_multiplier=noise):
                return (1 / noise) ** 2 / 2
            case PoissonSampled(event=Gaussian(noise_multiplier=noise) as inner):
                return (factor(self.name, inner, self.adjacency) / noise) ** 2 / 2
            case PureDP(epsilon=epsilon):
                return epsilon**2 / 2
            case _:
                return math.inf

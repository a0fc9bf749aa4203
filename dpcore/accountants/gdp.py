"""Gaussian differential privacy: exact for Gaussians without sampling, and the central limit theorem for those with."""

from __future__ import annotations

import math
from typing import ClassVar

from dpcore.accountants.protocol import LEAST_PROBABILITY, Composing
from dpcore.events import Adjacency, ApproximateDP, Event, Gaussian, NonPrivate, PoissonSampled, PureDP
from dpcore.gdp import delta_gdp, eps_gdp, mu_of_pure_dp
from dpcore.guarantee import Status

# mu_squared is a sum of squares and counts; this covers the rounding of any sum that fits in a program.
_ROUND_UP = 1 + 1e-14


class _GaussianDP(Composing):
    """Everything but what is covered: the GDP dual (Dong, Roth & Su 2022, Corollary 1) of mu_i^2 that add up."""

    @property
    def mu(self) -> float:
        """sqrt of the sum of mu_i^2: what has been composed is this much GDP; infinite after a NonPrivate release."""
        terms = [times * self._mu_squared(part) for part, times in self.parts.items()]
        return math.sqrt(math.fsum(terms)) if math.inf not in terms else math.inf

    def _epsilon(self, delta: float) -> float:
        mu = self.mu
        return math.inf if math.isinf(mu) else eps_gdp(mu * _ROUND_UP, delta)

    def _delta(self, epsilon: float) -> float:
        mu = self.mu
        if mu == 0:
            return 0.0
        return max(1.0 if math.isinf(mu) else delta_gdp(epsilon, mu * _ROUND_UP), LEAST_PROBABILITY)

    def _mu_squared(self, part: Event) -> float:
        match part:
            case Gaussian(noise_multiplier=noise):
                return (1 / noise) ** 2
            case PureDP(epsilon=epsilon):
                return mu_of_pure_dp(epsilon) ** 2
            case PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)):
                return mu_clt(rate, noise, 1) ** 2
            case _:
                return math.inf


class GDPAccountant(_GaussianDP):
    """Exact GDP: Gaussians without sampling (where epsilon is the true one), and pure DP (where it is a bound)."""

    name: ClassVar[str] = "gdp"
    theorem: ClassVar[str] = "Dong, Roth & Su (2022), Corollaries 1 and 3; Balle & Wang (2018), Theorem 8"

    def _why_not(self, part: Event) -> str:
        plain = isinstance(part, Gaussian | PureDP | NonPrivate)
        return "" if plain else "exact GDP covers Gaussians without sampling only."


class GDPCLTAccountant(_GaussianDP):
    """mu_CLT of Bu et al. (2020): an approximation for many steps, which may lie below the true epsilon."""

    name: ClassVar[str] = "gdp-clt"
    status: ClassVar[Status] = Status.ASYMPTOTIC
    theorem: ClassVar[str] = "Bu, Dong, Long & Su (2020), Theorem 5 (central limit theorem, not a bound)"

    def _why_not(self, part: Event) -> str:
        if isinstance(part, PoissonSampled) and self.adjacency is not Adjacency.ADD_REMOVE:
            return "the limit is known for add-remove only."
        return "no limit theorem for it here." if isinstance(part, ApproximateDP) else ""


def mu_clt(rate: float, noise_multiplier: float, steps: float) -> float:
    """rate * sqrt(steps * (exp(1 / noise_multiplier^2) - 1)): Bu et al. (2020), section 2.4. `steps` may be fractional.

    Infinite where the exponential overflows (noise_multiplier below about 0.0375).
    """
    exponent = noise_multiplier**-2
    return rate * math.sqrt(steps * math.expm1(exponent)) if exponent < 700 else math.inf

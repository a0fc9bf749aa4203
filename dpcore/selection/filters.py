"""Privacy filters: how far an adaptive search may go on spending, whatever it chooses after looking.

A filter is a value. `reserve` before a trial is launched: it answers with a new filter, or refuses what would exceed
the budget, counting everything that is running (so launches in parallel are covered: Haney et al. 2023). What was
reserved stays spent, also where the trial stopped early, since when it stops may depend on what it saw.

filter        admits while                                         all together is
GDPFilter     sum mu_i^2 <= mu_total^2, sum tau_i <= tau_total     (eps, delta_mu_total(eps) + tau_total)-DP
RenyiFilter   sum R_i(a) <= B at one order a declared beforehand   (a, B)-Renyi DP
LinearLedger  sum eps_i <= eps, sum delta_i <= delta               (eps, delta)-DP

Source  Smith & Thakurta (2022) and Koskela, Tobaben & Honkela (2023) for GDP; Feldman & Zrnic (2021) for Renyi;
        Whitehouse, Ramdas, Rogers & Wu (2023) for (eps, delta); Dwork & Roth (2014), theorem 3.16, for sums.

GDP. Gaussian losses that are chosen adaptively are a Brownian motion with drift run for a time of sum mu_i^2; filled up
to mu_total^2 by one last Gaussian their sum is exactly that of mu_total-GDP, of which the search is a post-processing.
Up to chance tau_i each trial is covered by a Gaussian (`profiles`); where none of these chances came true, the
factors 1 - tau_i of a transcript are the same under both neighbours. Renyi. exp((a-1) loss - (a-1) sum R_i) is a
supermartingale, at one order; over a curve of orders there is no such filter, nor for composing loss distributions of
budgets chosen while looking. Linear. Every prefix of losses is bounded by its own sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

from dpcore import checks
from dpcore.accountants.rdp import improved_epsilon
from dpcore.gdp import mu_gdp, mu_of_pure_dp

_ONCE = 1 + 1e-12
"""Allowance for the rounding of sums."""


class BudgetExceeded(ValueError):
    """A reservation that the budget does not hold; the message says what is left."""


@dataclass(frozen=True, slots=True)
class GDPCharge:
    """mu of a trial, and the chance tau beside it (`profiles.covering_mu`). Raises InvalidValue."""

    mu: float
    tau: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative(mu=self.mu)
        checks.probability_below_one(tau=self.tau)

    @classmethod
    def of_dp(cls, epsilon: float, delta: float = 0.0) -> GDPCharge:
        """Of a release known to be (epsilon, delta)-DP. Raises InvalidValue.

        Such a release is one that tells all with chance delta and else is randomised response (Kairouz, Oh & Viswanath
        2015, theorem 3.1), whose kink this mu's curve touches. About 1.2533 epsilon: mu = epsilon under-charges.
        """
        return cls(mu_of_pure_dp(epsilon), delta)


@dataclass(frozen=True, slots=True)
class RenyiCharge:
    """Renyi divergence of a trial at the filter's order, in nats. Raises InvalidValue."""

    divergence: float

    def __post_init__(self) -> None:
        checks.non_negative(divergence=self.divergence)


@dataclass(frozen=True, slots=True)
class DPCharge:
    """(epsilon, delta) of a trial. Raises InvalidValue."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        checks.non_negative(epsilon=self.epsilon)
        checks.probability_below_one(delta=self.delta)


Charge = TypeVar("Charge", bound=GDPCharge | RenyiCharge | DPCharge)


@dataclass(frozen=True, kw_only=True)
class PrivacyFilter(ABC, Generic[Charge]):
    """What all filters share: a budget (epsilon, delta), and what was charged to it.

    epsilon, delta  of everything together; above 0, and in (0, 1)
    charged         what counts, by name
    kind            of its charges
    """

    kind: ClassVar[type]
    epsilon: float
    delta: float
    charged: tuple[tuple[str, Charge], ...] = ()

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon)
        checks.probability_open(delta=self.delta)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """Everything that counts."""
        return tuple(charge for _, charge in self.charged)

    @abstractmethod
    def _fits(self, charges: tuple[Charge, ...]) -> bool:
        """Whether the budget holds all of them."""

    def admits(self, charge: Charge) -> bool:
        """Whether `charge` may be reserved beside everything that counts. Raises InvalidValue."""
        if not isinstance(charge, self.kind):
            raise checks.InvalidValue("charge", charge, f"a {self.kind.__name__}")
        return self._fits((*self.charges, charge))

    def reserve(self, name: str, charge: Charge) -> Self:
        """This filter with one more trial. Raises BudgetExceeded, and InvalidValue for a name that is there."""
        if any(name == known for known, _ in self.charged):
            raise checks.InvalidValue("name", name, "a name that was not charged before")
        if not self.admits(charge):
            raise BudgetExceeded(
                f"{name}: expected a charge that epsilon={self.epsilon!r} at delta={self.delta!r} still holds beside "
                f"{len(self.charges)} others, not {charge!r}. End the search, or reserve less."
            )
        return replace(self, charged=(*self.charged, (name, charge)))


@dataclass(frozen=True, kw_only=True)
class GDPFilter(PrivacyFilter[GDPCharge]):
    """Trials that are covered by Gaussians; no dearer than composing them unadaptively.

    tau_share  the part of delta, in (0, 1), kept for the chances beside the Gaussians. Raises InvalidValue.
    """

    kind = GDPCharge
    tau_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.probability_open(tau_share=self.tau_share)

    @property
    def tau_total(self) -> float:
        """sum tau_i, at most."""
        return self.delta * self.tau_share

    @property
    def mu_total(self) -> float:
        """sqrt(sum mu_i^2), at most."""
        return mu_gdp(self.epsilon, self.delta * (1 - self.tau_share) * (1 - 1e-15))

    def _fits(self, charges: tuple[GDPCharge, ...]) -> bool:
        squares = math.fsum(charge.mu * charge.mu for charge in charges)
        taus = math.fsum(charge.tau for charge in charges)
        return math.sqrt(squares) * _ONCE <= self.mu_total and taus <= self.tau_total


@dataclass(frozen=True, kw_only=True)
class RenyiFilter(PrivacyFilter[RenyiCharge]):
    """Trials by their Renyi divergence at one order, above 1, declared before the search. Raises InvalidValue."""

    kind = RenyiCharge
    order: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.order < math.inf:
            raise checks.InvalidValue("order", self.order, "a finite order above 1")
        if self.budget <= 0:
            raise checks.InvalidValue("order", self.order, f"an order that leaves something of {self.epsilon=}")

    @property
    def budget(self) -> float:
        """B: the largest divergence that converts to (epsilon, delta) at this order, in nats."""
        return self.epsilon - improved_epsilon(self.order, 0.0, self.delta)

    def _fits(self, charges: tuple[RenyiCharge, ...]) -> bool:
        return math.fsum(charge.divergence for charge in charges) * _ONCE <= self.budget


@dataclass(frozen=True, kw_only=True)
class LinearLedger(PrivacyFilter[DPCharge]):
    """Sums of epsilon and of delta."""

    kind = DPCharge

    def _fits(self, charges: tuple[DPCharge, ...]) -> bool:
        # fsum rounds once, so that the sign is exact: a charge of the whole budget fits.
        epsilon_over = math.fsum([-self.epsilon, *(charge.epsilon for charge in charges)])
        delta_over = math.fsum([-self.delta, *(charge.delta for charge in charges)])
        return epsilon_over <= 0 and delta_over <= 0

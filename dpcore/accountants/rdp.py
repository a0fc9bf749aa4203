"""Renyi differential privacy: a curve over orders, added up over steps, turned into (epsilon, delta) at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np

from dpcore import checks
from dpcore.accountants import _renyi
from dpcore.accountants.countable import NEEDS_ADD_REMOVE, Composing, has_no_bound, merge
from dpcore.accountants.rounding import exp_up
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP
from dpcore.guarantee import Status


def _wide_orders() -> tuple[float, ...]:
    """Orders from 1.0005 (huge epsilon) to 300,000 (tiny epsilon); fractional ones below 12."""
    near_one = 1 + np.geomspace(5e-4, 0.98, 60)
    fractional = np.concatenate([np.arange(2.0, 6.0, 0.125), np.arange(6.0, 12.0, 0.25)])
    middle = np.arange(12, 64)
    large = np.unique(np.round(np.geomspace(64, 300_000, 48)))
    return tuple(float(a) for a in np.unique(np.concatenate([near_one, fractional, middle, large])))


WIDE_ORDERS = _wide_orders()
BU2020_ORDERS: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(order) for order in range(5, 65)),
    *(128.0, 256.0, 512.0),
)
"""The orders with which Bu et al. (2020) computed their moments-accountant columns."""


@dataclass(frozen=True)
class RDPAccountant(Composing):
    """Renyi accountant; every number is a proved upper bound.

    orders      Renyi orders above 1 over which the bound is minimised
    conversion  "improved": Canonne, Kamath & Steinke (2020), Proposition 12; "old": Mironov (2017), Proposition 3

    Replace-one of a Poisson-subsampled Gaussian with an add-remove sensitivity goes through the data set without the
    record: by the weak triangle inequality (Mironov 2017, Proposition 11, p = q = 2) the divergence at order a is at
    most (a - 1/2)/(a - 1) R(2a) + R(2a - 1), R being the add-remove curve of both directions. For Gaussians that is
    the exact 4-fold cost up to a term that vanishes for large a. Raises InvalidValue.
    """

    name: ClassVar[str] = "rdp"
    status: ClassVar[Status] = Status.PROVED
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    orders: tuple[float, ...] = WIDE_ORDERS
    conversion: Literal["improved", "old"] = "improved"
    parts: dict[Event, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.orders or not all(math.isfinite(order) and order > 1 for order in self.orders):
            raise checks.InvalidValue("orders", self.orders, "at least one finite order, each above 1")
        if self.conversion not in ("improved", "old"):
            raise checks.InvalidValue("conversion", self.conversion, '"improved" or "old"')

    @property
    def theorem(self) -> str:
        """The step's divergence and the conversion: author, year, theorem."""
        step = "Mironov, Talwar & Zhang (2019), Theorem 5"
        if self.conversion == "old":
            return f"{step}; Mironov (2017), Proposition 3"
        return f"{step}; Canonne, Kamath & Steinke (2020), Proposition 12"

    def _why_not(self, part: Event) -> str:
        match part:
            case PoissonSampled(event=Gaussian(adjacency=Adjacency.REPLACE_ONE)):
                return NEEDS_ADD_REMOVE
            case ApproximateDP():
                return "its delta may hide any Renyi divergence."
        return ""

    def _with(self, parts: dict[Event, int]) -> Self:
        return type(self)(self.adjacency, self.orders, self.conversion, merge(self.parts, parts))

    def rdp(self, orders: tuple[float, ...]) -> np.ndarray:
        """Renyi divergence at each of `orders`, each above 1, in nats; infinite after a NonPrivate release."""
        a = np.array(orders)
        if has_no_bound(self.parts):
            return np.full(a.shape, math.inf)
        total = np.zeros(a.shape)
        for part, times in self.parts.items():
            total += times * self._scaled(part, orders) / (a - 1)
        return total

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at `delta` in (0, 1): the least over the orders. Raises InvalidValue."""
        checks.probability_open(delta=delta)
        if not self.parts:
            return 0.0

        def bound(a: float, divergence: float) -> float:
            if self.conversion == "improved":
                return improved_epsilon(a, divergence, delta)
            return divergence + math.log(1 / delta) / (a - 1)

        return max(0.0, self._least(bound))

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0: the least over the orders, at most 1. Raises InvalidValue."""
        checks.non_negative_finite(epsilon=epsilon)
        if not self.parts:
            return 0.0

        def bound(a: float, divergence: float) -> float:
            value = (a - 1) * (divergence - epsilon)
            return value + (a - 1) * math.log1p(-1 / a) - math.log(a) if self.conversion == "improved" else value

        return exp_up(min(0.0, self._least(bound)))

    def _least(self, bound: Callable[[float, float], float]) -> float:
        """The least bound(order, divergence), by descent over the sorted orders: each is a bound, few are computed."""
        orders = sorted(self.orders)
        known: dict[int, float] = {}

        def at(i: int) -> float:
            if i not in known:
                value = bound(orders[i], float(self.rdp((orders[i],))[0]))
                known[i] = math.inf if math.isnan(value) else value
            return known[i]

        best, stride = len(orders) // 2, 32
        while stride:
            beside = [i for i in (best - stride, best + stride) if 0 <= i < len(orders)]
            lowest = min((best, *beside), key=at)
            if lowest == best:
                stride //= 2
            best = lowest
        return at(best)

    def _scaled(self, part: Event, at: tuple[float, ...]) -> np.ndarray:
        """(order - 1) * divergence of one run of `part` at some orders."""
        orders = np.array(at)
        match part:
            case Gaussian(noise_multiplier=noise):
                return _renyi.gaussian(1 / noise, orders)
            case PureDP(epsilon=epsilon):
                return _renyi.pure_dp(epsilon, orders)
            case PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)):
                if self.adjacency is Adjacency.ADD_REMOVE:
                    return _renyi.sampled_gaussian(rate, noise, at)
                first = _renyi.sampled_gaussian(rate, noise, tuple(2 * order for order in at))
                second = _renyi.sampled_gaussian(rate, noise, tuple(2 * order - 1 for order in at))
                # (a-1) [ (a-1/2)/(a-1) R(2a) + R(2a-1) ] in terms of the scaled curves (2a-1) R(2a), (2a-2) R(2a-1).
                return first / 2 + second / 2
            case _:
                raise AssertionError(f"{part!r} is not countable")


def improved_epsilon(order: float, divergence: float, delta: float) -> float:
    """epsilon at `delta` in (0, 1) of a Renyi divergence (Canonne, Kamath & Steinke 2020, Proposition 12).

    Not yet clipped at 0; the least over the orders is what counts.
    """
    value = divergence + math.log(1 / delta) / (order - 1)
    return value + math.log1p(-1 / order) - math.log(order) / (order - 1)

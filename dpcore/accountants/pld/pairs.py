"""What is asked of the accountant, and what it answers: an interval around the exact number, or a refusal."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpcore.accountants.protocol import amplified, approximate, factor, refuse
from dpcore.events import Adjacency, ApproximateDP, Event, Gaussian, PoissonSampled, PureDP

EPSILON_FLOOR = 1e-6
"""Epsilons this close together, in nats, are always close enough."""

DELTA_FLOOR = 1e-14
"""Deltas this close together are always close enough."""


class Bounds(NamedTuple):
    """A certified interval around the exact value."""

    lower: float
    upper: float


def of_larger(one: Bounds, other: Bounds) -> Bounds:
    """Around the larger of two values: what both directions of a composition allow."""
    return Bounds(max(one.lower, other.lower), max(one.upper, other.upper))


class Asked(NamedTuple):
    """At which delta epsilon is asked for, or at which epsilon delta, and how close together the bounds shall be.

    at         delta in (0, 1); or epsilon, in nats, of either sign
    tolerance  upper - lower <= max(tolerance * upper, floor)
    floor      in nats where epsilon is asked for; a probability where delta is
    """

    at: float
    tolerance: float = 1e-3
    floor: float = EPSILON_FLOOR

    def gap(self, upper: float) -> float:
        """How far apart bounds may be whose upper end is this."""
        return max(self.tolerance * upper, self.floor)

    def met_by(self, bounds: Bounds) -> bool:
        """Whether `bounds` are as close together as asked."""
        return bounds.upper - bounds.lower <= self.gap(bounds.upper) < math.inf


class ToleranceNotReached(ArithmeticError):
    """There are no bounds as close together as asked, and the grid cannot be refined further.

    best  certified bounds all the same, farther apart; None where there are none
    """

    def __init__(self, asked: Asked, best: Bounds | None = None, reason: str = "") -> None:
        found = f"the best are [{best.lower!r}, {best.upper!r}]" if best is not None else reason or "there are none"
        super().__init__(
            f"tolerance={asked.tolerance!r}: expected bounds within it, but {found} (asked at {asked.at!r}). "
            "Another accountant may bound it."
        )
        self.asked, self.best = asked, best

    def of_a_part(self) -> ToleranceNotReached:
        """The refusal of a whole of which this bounds a part: without its best bounds."""
        return ToleranceNotReached(self.asked, reason="a part of it has none")


class DiscretisationInvalid(ArithmeticError):
    """A discrete privacy curve crosses the exact one: the bound would not hold, so there is none."""


# Pairs of distributions that dominate one release: nobody can tell the neighbours apart better than them.
#
# Every pair (P, Q) here has a likelihood ratio that is affine in a coordinate y: dP/dQ = base + slope * y.
# For a subsampled release y is the ratio of the release *before* subsampling, so that masses and means of
# y over any interval have closed forms, and no accuracy is lost when the sampling rate is tiny and the
# ratio nearly 1. Losses are ln dP/dQ; the other direction is the same pair read backwards.
#
# Sources: Zhu, Dong & Wang 2022 (dominating pairs, composition, Poisson subsampling, Theorems 10 and 11);
# Kairouz, Oh & Viswanath 2015 (randomised response dominates pure DP).

Array = NDArray[np.float64]

QUADRATURE_NODES = 240
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Tails(NamedTuple):
    """Integrals below and above each node: of dQ, and of y dQ."""

    q_below: Array
    y_below: Array
    q_above: Array
    y_above: Array


class DominatingPair(ABC):
    """A pair (P, Q) with dP/dQ = base + slope * y at a Poisson sampling rate; ranges and integrals in closed form.

    smooth  P and Q have densities (else atoms)
    """

    __slots__ = ()
    smooth: ClassVar[bool] = True
    rate: float

    @property
    def base(self) -> float:
        """The likelihood ratio at y = 0, dimensionless."""
        return 1.0 - self.rate

    @property
    def slope(self) -> float:
        """How much of y the likelihood ratio has: the sampling rate, in (0, 1]."""
        return self.rate

    @property
    def symmetric(self) -> bool:
        """Whether the reversed pair (Q, P) is equivalent to (P, Q): one direction suffices."""
        return self.rate == 1.0

    @property
    @abstractmethod
    def total_variation(self) -> float:
        """sup |P(A) - Q(A)|, in [0, 1]: the hockey-stick divergence at epsilon 0; to rounding."""

    @property
    @abstractmethod
    def smallest_loss(self) -> float:
        """Infimum of the losses of (P, Q), in nats; -infinity if there is none."""

    @abstractmethod
    def loss_range(self, tail: float) -> tuple[float, float]:
        """Losses, in nats, between which all lies but a Q-mass of `tail` below and a P-mass of `tail` above."""

    @abstractmethod
    def lowest_y(self, loss: float) -> float:
        """(exp(loss) - base) / slope without cancellation."""

    @abstractmethod
    def tails(self, y: Array) -> Tails:
        """The four integrals at each y (increasing). Shapes (y,)."""

    @abstractmethod
    def sample(self, tail: float) -> tuple[Array, Array]:
        """(losses, log Q-masses) of a few hundred quadrature nodes: an estimate, never a bound. Shapes (nodes,)."""


Parts = tuple[tuple[DominatingPair, int], ...]
"""A composition: pairs, and how many steps of each, at least 1."""


def tail_for(delta: float, parts: Parts, share: float = 1e-9) -> float:
    """Probability that one step's law may leave out at either end: all steps together, twice a share of `delta`."""
    return max(share * delta / sum(count for _, count in parts), 1e-280)


def guessing(epsilon: float) -> float:
    """The least delta at `epsilon` (either sign): no test is worse than guessing, 1 - exp(epsilon), or 0."""
    return -math.expm1(min(epsilon, 0.0))


def _normal_tails(z: Array) -> tuple[Array, Array]:
    small = ndtr(-np.abs(z))
    large = 1.0 - small
    negative = z < 0
    return np.where(negative, small, large), np.where(negative, large, small)


def _highest_output(q: float, s: float, tail: float) -> float:
    """Above it, (1-q) N(0, s^2) + q N(1, s^2) has at most `tail`."""
    return max(1 - s * float(ndtri(min(0.4, 0.5 * tail / q))), -s * float(ndtri(min(0.4, 0.5 * tail))))


_UNIT: Array = np.linspace(0.0, 1.0, QUADRATURE_NODES)


def _normal_nodes(low: float, high: float, scale: float) -> tuple[Array, float]:
    x = low + (high - low) * _UNIT
    return x, math.log((high - low) / (QUADRATURE_NODES - 1) / scale)


@dataclass(frozen=True, slots=True)
class SampledGaussianPair(DominatingPair):
    """P = (1-q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2): remove; reversed: add.

    rate              q in (0, 1]; 1 is the plain Gaussian mechanism
    noise_multiplier  s, noise over L2 sensitivity to one record added or removed
    """

    rate: float
    noise_multiplier: float

    @property
    def total_variation(self) -> float:
        return self.rate * math.erf(math.sqrt(0.125) / self.noise_multiplier)

    @property
    def smallest_loss(self) -> float:
        return math.log1p(-self.rate) if self.rate < 1 else -math.inf

    def x_range(self, tail: float) -> tuple[float, float]:
        """Outputs, in units of the sensitivity, beyond which `loss_range` leaves `tail`."""
        s = self.noise_multiplier
        return s * float(ndtri(min(tail, 0.4))), _highest_output(self.rate, s, tail)

    def losses(self, x: Array) -> Array:
        """ln dP/dQ, in nats, at outputs `x`, increasing. Shapes (x,)."""
        q = self.rate
        exponent = (2 * x - 1) / (2 * self.noise_multiplier**2)
        if q == 1.0:
            return exponent
        if exponent.max() <= 30:
            return np.asarray(np.log1p(q * np.expm1(exponent)))
        # Large exponents would overflow expm1; there the other mixture component is negligible.
        return np.where(
            exponent > 30,
            exponent + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.maximum(exponent, 0))),
            np.log1p(q * np.expm1(np.minimum(exponent, 30))),
        )

    def loss_range(self, tail: float) -> tuple[float, float]:
        low, high = self.losses(np.array(self.x_range(tail)))
        return float(low), float(high)

    def lowest_y(self, loss: float) -> float:
        if self.rate < 1 and loss <= math.log1p(-self.rate):
            return 0.0
        return 1.0 + math.expm1(loss) / self.rate

    def tails(self, y: Array) -> Tails:
        s = self.noise_multiplier
        with np.errstate(divide="ignore"):
            x = s * s * np.log(np.maximum(y, 0.0)) + 0.5
        q_below, q_above = _normal_tails(x / s)
        y_below, y_above = _normal_tails((x - 1) / s)
        return Tails(q_below, y_below, q_above, y_above)

    def sample(self, tail: float) -> tuple[Array, Array]:
        s = self.noise_multiplier
        x, log_width = _normal_nodes(*self.x_range(tail), s)
        return self.losses(x), -0.5 * (x / s) ** 2 - _LOG_SQRT_2PI + log_width


LOWEST_REPLACED_LOSS = 20.0
"""Losses below minus this are counted as minus this, which is pessimistic: exp(-20) is the least likelihood ratio whose
coordinate y, close to -1/rate, still has eight digits."""


@dataclass(frozen=True, slots=True)
class ReplacedSampledGaussian(DominatingPair):
    """P = (1-q) N(0, s^2) + q N(1, s^2) against Q = (1-q) N(0, s^2) + q N(-1, s^2).

    Dominates Poisson sampling under replace-one when each record moves the query by at most 1 in L2
    (s in units of that). Proof. Given the rest of the sample, the outputs are (1-q)N(0)+qN(g) and
    (1-q)N(0)+qN(g') with |g|, |g'| <= 1. For k >= 1 the hockey-stick divergence is
    q * E max(0, 1 - U), where the expectation is over x ~ N(g), U = k dN(g')/dN(g) + c dN(0)/dN(g) and
    c = (1-q)(k-1)/q >= 0. Both terms of U are lognormal martingales, with variances |g'-g|^2/s^2 <= 4/s^2 and
    |g|^2/s^2 <= 1/s^2: each grows in convex order with its variance, and a sum with given marginals
    is largest in convex order when they are comonotone (Kaas, Dhaene & Goovaerts 2000), which is
    g' = -g, |g| = 1. For k < 1 swap the roles of g and g'. Joint convexity removes the conditioning.
    """

    rate: float
    noise_multiplier: float

    @property
    def base(self) -> float:
        return 1.0

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def total_variation(self) -> float:
        return self.rate * math.erf(math.sqrt(0.5) / self.noise_multiplier)

    @property
    def smallest_loss(self) -> float:
        return -math.inf

    def losses(self, x: Array) -> Array:
        """ln dP/dQ, in nats, at outputs `x`, increasing. Shapes (x,)."""
        q, s2 = self.rate, self.noise_multiplier**2
        magnitude = np.abs(x)
        up = np.expm1(np.minimum((2 * magnitude - 1) / (2 * s2), 600))
        down = np.expm1((-2 * magnitude - 1) / (2 * s2))
        return np.sign(x) * (np.log1p(q * up) - np.log1p(q * down))

    def x_range(self, tail: float) -> tuple[float, float]:
        """Outputs, in units of the sensitivity, beyond which `loss_range` leaves `tail`."""
        high = _highest_output(self.rate, self.noise_multiplier, tail)
        return -high, high

    def loss_range(self, tail: float) -> tuple[float, float]:
        high = float(self.losses(np.array(self.x_range(tail)[1])))
        return -min(high, LOWEST_REPLACED_LOSS), high

    def lowest_y(self, loss: float) -> float:
        return math.expm1(loss) / self.rate

    def _x(self, y: Array) -> Array:
        q, s2 = self.rate, self.noise_multiplier**2
        loss = np.log1p(q * y)
        with np.errstate(divide="ignore"):
            log_t = math.log1p(-q) - math.log(q) + 1 / (2 * s2) + np.log(np.abs(np.sinh(loss / 2)))
        inverse = np.where(log_t > 20, log_t + math.log(2), np.arcsinh(np.exp(np.minimum(log_t, 20))))
        return s2 * (loss / 2 + np.sign(loss) * inverse)

    def tails(self, y: Array) -> Tails:
        q, s = self.rate, self.noise_multiplier
        x = self._x(y)
        zero, minus, plus = (_normal_tails((x - shift) / s) for shift in (0.0, -1.0, 1.0))
        return Tails(
            (1 - q) * zero[0] + q * minus[0],
            plus[0] - minus[0],
            (1 - q) * zero[1] + q * minus[1],
            plus[1] - minus[1],
        )

    def sample(self, tail: float) -> tuple[Array, Array]:
        q, s = self.rate, self.noise_multiplier
        x, log_width = _normal_nodes(*self.x_range(tail), s)
        density = np.logaddexp(math.log1p(-q) - 0.5 * (x / s) ** 2, math.log(q) - 0.5 * ((x + 1) / s) ** 2)
        return self.losses(x), density - _LOG_SQRT_2PI + log_width


@dataclass(frozen=True, slots=True)
class SampledRandomisedResponse(DominatingPair):
    """(1-q) Q + q P against Q, where (P, Q) is randomised response with odds exp(epsilon)."""

    rate: float
    epsilon: float

    smooth: ClassVar[bool] = False

    @property
    def total_variation(self) -> float:
        return self.rate * math.tanh(self.epsilon / 2)

    @property
    def smallest_loss(self) -> float:
        return self.atom_losses()[0]

    def _atoms(self) -> tuple[Array, Array, Array]:
        """(y, Q-mass, y times Q-mass) of the two atoms, the lower first."""
        likely, unlikely = 1 / (1 + math.exp(-self.epsilon)), 1 / (1 + math.exp(self.epsilon))
        y = np.array([math.exp(-self.epsilon), math.exp(self.epsilon)])
        return y, np.array([likely, unlikely]), np.array([unlikely, likely])

    def atom_losses(self) -> tuple[float, float]:
        """The losses of the two atoms."""
        q, e = self.rate, self.epsilon
        if q == 1.0:
            return -e, e
        # 1 - q (1 - exp(-e)) cancels near 0, where the sum of its two parts does not.
        away = -q * math.expm1(-e)
        low = math.log1p(-away) if away < 0.5 else math.log((1 - q) + q * math.exp(-e))
        return low, math.log1p(q * math.expm1(e))

    def log_masses(self, *, forward: bool) -> tuple[float, float]:
        """ln of the two atoms' masses under the first distribution of the pair, or, backwards, under the second."""
        likely = -math.log1p(math.exp(-self.epsilon))
        low, high = self.atom_losses() if forward else (0.0, 0.0)
        return likely + low, likely - self.epsilon + high

    def loss_range(self, tail: float) -> tuple[float, float]:
        return self.atom_losses()

    def lowest_y(self, loss: float) -> float:
        if loss == self.atom_losses()[0]:
            return math.exp(-self.epsilon)
        return 1.0 + math.expm1(loss) / self.rate

    def tails(self, y: Array) -> Tails:
        atoms, mass, mean = self._atoms()
        # A node that misses an atom by rounding is that atom's node.
        below = y[:, None] * (1 + 1e-13) >= atoms[None, :]
        return Tails(below @ mass, below @ mean, (~below) @ mass, (~below) @ mean)

    def sample(self, tail: float) -> tuple[Array, Array]:
        _, mass, _ = self._atoms()
        return np.array(self.atom_losses()), np.log(mass)


# Which pair dominates which release: events in, a composition of dominating pairs out.
#
# Source Zhu, Dong & Wang (2022), Theorems 10 and 11; Kairouz, Oh & Viswanath (2015), Theorems 3.1 and 3.3.

MU_ROUNDING = 1e-15
"""Relative error of the square root of a correctly rounded sum of squares. `closed_forms.gaussian_mu` allows for it
twice below: what was combined into one part (`parts_of`) has been moved up by it once."""

LARGEST_PURE = 30.0
"""Beyond it the rarer answer of a sampled randomised response vanishes beside 1 in float64: it counts as pure then."""
SMALLEST_NOISE = 0.05
"""Below this noise multiplier a sampled Gaussian's losses exceed what float64 can exponentiate."""


def dominating_pair(part: Event, adjacency: Adjacency) -> DominatingPair | None:
    """The pair that dominates one release under `adjacency`, or None if none is known (or proved).

    Add-remove: Gaussian, PureDP (randomised response), Poisson sampling of either (Zhu, Dong & Wang 2022), of a PureDP
    above LARGEST_PURE by its amplified epsilon.
    Replace-one: a sensitivity to one record added or removed counts twice, so a Gaussian has half its
    multiplier and a PureDP twice its epsilon; a Poisson-sampled Gaussian has `ReplacedSampledGaussian` (proof
    there), a Poisson-sampled PureDP twice its amplified epsilon (group privacy). Sensitivities that refer to
    replace-one count as they stand, but say nothing under sampling or under add-remove. An ApproximateDP is randomised
    response once its delta, which `failure_of` counts, has been set aside (Kairouz, Oh & Viswanath 2015).
    """
    replace = adjacency is Adjacency.REPLACE_ONE
    match part:
        case Gaussian() | PureDP() | ApproximateDP() if part.adjacency is Adjacency.REPLACE_ONE and not replace:
            return None
        case Gaussian(noise_multiplier=z):
            return SampledGaussianPair(1.0, z / factor("pld", part, adjacency))
        case PureDP(epsilon=epsilon):
            return SampledRandomisedResponse(1.0, float(factor("pld", part, adjacency) * epsilon))
        case ApproximateDP():
            # Its delta is a mass of infinite loss (`failure_of`); the rest is randomised response.
            return SampledRandomisedResponse(1.0, approximate("pld", part, adjacency)[0])
        case PoissonSampled(rate=q, event=Gaussian(noise_multiplier=z, adjacency=Adjacency.ADD_REMOVE)):
            if z < SMALLEST_NOISE:
                return None
            return ReplacedSampledGaussian(float(q), float(z)) if replace else SampledGaussianPair(float(q), float(z))
        case PoissonSampled(rate=q, event=PureDP(epsilon=epsilon, adjacency=Adjacency.ADD_REMOVE)):
            if replace:
                return SampledRandomisedResponse(1.0, 2 * amplified(float(q), float(epsilon)))
            if epsilon > LARGEST_PURE:
                return SampledRandomisedResponse(1.0, amplified(float(q), float(epsilon)))
            return SampledRandomisedResponse(float(q), float(epsilon))
    return None


def _why_not(part: Event) -> str:
    """Why there is no pair for it."""
    match part:
        case PoissonSampled(event=Gaussian(noise_multiplier=z, adjacency=Adjacency.ADD_REMOVE)) if z < SMALLEST_NOISE:
            return (
                f"below a noise multiplier of {SMALLEST_NOISE:g} the losses of a sampled Gaussian exceed what floating "
                "point can hold. Take more noise, or ask another accountant."
            )
    return "no dominating pair is proved for it."


def parts_of(event_phases: dict[Event, int], adjacency: Adjacency) -> Parts:
    """Dominating pairs and how often, plain Gaussians combined into one. Raises UnsupportedEvent."""
    counts: dict[DominatingPair, int] = {}
    precisions: list[float] = []
    for part, count in event_phases.items():
        pair = dominating_pair(part, adjacency)
        if pair is None:
            raise refuse("pld", part, adjacency, _why_not(part))
        if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0:
            precisions.append(count / pair.noise_multiplier**2)
        elif not (isinstance(pair, SampledRandomisedResponse) and pair.epsilon == 0.0):
            counts[pair] = counts.get(pair, 0) + count
    if precisions:
        # Up in sensitivity by more than the sum's own rounding; every lower bound allows for that (`gaussian_mu`,
        # `gaussian_line`; a grid's lower law lies below the exact curve by more).
        counts[SampledGaussianPair(1.0, 1 / math.sqrt(math.fsum(precisions)) * (1 - MU_ROUNDING))] = 1
    return tuple(counts.items())


def failure_of(event_phases: dict[Event, int], adjacency: Adjacency) -> Bounds:
    """(lower, upper) around the chance that some ApproximateDP release tells all: 1 - prod (1 - delta_i)."""
    fixed = [
        (approximate("pld", part, adjacency)[1], count)
        for part, count in event_phases.items()
        if isinstance(part, ApproximateDP)
    ]
    if len(fixed) == 1 and fixed[0][1] == 1:
        # Exactly, so that one release may be asked at its own delta.
        return Bounds(fixed[0][0], fixed[0][0])
    log_safe = math.fsum(count * math.log1p(-min(delta, 1 - 1e-16)) for delta, count in fixed)
    mass = -math.expm1(log_safe)
    return Bounds(mass * (1 - 1e-12), min(1.0, mass * (1 + 1e-12)))

"""One step's loss on a vertical line: E exp((t + i w) L) at many frequencies w, with a certified error.

A sampled Gaussian's loss and density are analytic in the output x, so the midpoint rule converges geometrically: its
error over [low, high] is an integral over a contour at height theta s^2, where the integrand has grown (see
`analytic.Strip`) but the rule's kernel is at most 1 / (exp(2 pi theta s^2 / spacing) - 1), and over two
vertical pieces at the ends, half a spacing from the nodes, where the kernel is at most exp(-2 pi y / spacing)
(Trefethen & Weideman 2014, section 5). What lies beyond the ends is left out of the law; bounds charge its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld.bounds import DiscretisationInvalid
from dpcore.accountants.pld.characteristic_function import analytic
from dpcore.accountants.pld.characteristic_function.layers import Layers, layers
from dpcore.accountants.pld.pairs import (
    Array,
    DominatingPair,
    ReplacedSampledGaussian,
    SampledGaussianPair,
    SampledRandomisedResponse,
)

_EPS = float(np.finfo(float).eps)
_CELLS = 160
_UNIT: Array = np.arange(_CELLS + 1, dtype=np.float64) / _CELLS
_ANGLES: Array = 0.5 * np.pi * np.power(0.8, np.arange(24, dtype=np.float64))


class TooFine(ArithmeticError):
    """A line would need more nodes than are worth it."""


class Values(NamedTuple):
    """E exp((t + i w)(L - centre)) / E exp(t (L - centre)) at each frequency, and its largest absolute error."""

    values: NDArray[np.complex128]
    error: Array


class VerticalLine(Protocol):
    """One step's loss under its first hypothesis, tilted by t > 0, between certain ends."""

    @property
    def log_mgf(self) -> float:
        """ln E exp(t L)."""

    @property
    def error(self) -> float:
        """The largest error of `log_mgf`."""

    @property
    def centre(self) -> float:
        """A loss near the tilted mean, in nats."""

    @property
    def values(self) -> Callable[[float, int], Values]:
        """(step, count) -> at the frequencies 0, step, ..., count * step."""

    @property
    def log_ratio(self) -> Callable[[float], float]:
        """shift -> upper bound on ln E exp((t + shift) L) - ln E exp(t L)."""


class ClosedLine(NamedTuple):
    """A `VerticalLine` that has a closed form."""

    log_mgf: float
    error: float
    centre: float
    values: Callable[[float, int], Values]
    log_ratio: Callable[[float], float]


def gaussian_line(pair: SampledGaussianPair, tilt: float) -> ClosedLine:
    """The plain Gaussian: ln E exp(z L) = z (z + 1) / (2 s^2), in either direction.

    s is known to within `gaussian.MU_ROUNDING`, so 1/s^2 to within 9 units in the last place: errors allow for that.
    """
    half = 0.5 / pair.noise_multiplier**2
    log_mgf = tilt * (tilt + 1) * half

    def values(step: float, count: int) -> Values:
        exponent = -((step * np.arange(count + 1)) ** 2) * half
        found = np.exp(exponent)
        return Values(found.astype(complex), 20 * _EPS * (1 - exponent) * found)

    def log_ratio(shift: float) -> float:
        return shift * (2 * tilt + 1 + shift) * half + 28 * _EPS * half * (1 + tilt + abs(shift)) ** 2

    return ClosedLine(log_mgf, 20 * _EPS * log_mgf, (2 * tilt + 1) * half, values, log_ratio)


def response_line(pair: SampledRandomisedResponse, tilt: float, *, forward: bool) -> ClosedLine:
    """Two atoms: sampled randomised response."""
    loss, log_mass = pair.sample(0.0)
    loss, log_mass = (loss, log_mass + loss) if forward else (-loss, log_mass)

    def mgf(at: float) -> float:
        return float(np.logaddexp.reduce(log_mass + at * loss))

    log_mgf, error = mgf(tilt), 32 * _EPS * (1 + (1 + tilt) * (pair.epsilon + 1))
    weight = np.exp(log_mass + tilt * loss - log_mgf)
    centre = float(np.sum(weight * loss))

    def values(step: float, count: int) -> Values:
        frequency: Array = step * np.arange(count + 1, dtype=np.float64)
        found = np.exp(1j * frequency[:, None] * (loss - centre)[None, :]) @ weight
        return Values(found, error + 16 * _EPS * frequency * (pair.epsilon + 1))

    def log_ratio(shift: float) -> float:
        return mgf(tilt + shift) - log_mgf + 2 * error + 32 * _EPS * abs(shift) * pair.epsilon

    return ClosedLine(log_mgf, error, centre, values, log_ratio)


class Fineness(NamedTuple):
    """How fine a quadrature shall be.

    frequency  up to which the nodes are fine enough
    target     error of the rule, relative to E exp(t L), that is aimed at
    most       nodes beyond which TooFine is raised
    """

    frequency: float
    target: float
    most: int


@dataclass(frozen=True)
class SmoothLine:
    """A Poisson-sampled Gaussian, with or without replacement, at rate < 1.

    low, high  outputs between which the law is kept
    """

    pair: analytic.Smooth
    forward: bool
    tilt: float
    low: float
    high: float
    fineness: Fineness

    @cached_property
    def _strip(self) -> analytic.Strip:
        return analytic.strip(self.pair, self.low, self.high, forward=self.forward)

    @cached_property
    def _rule(self) -> tuple[int, float, float]:
        """Number of nodes, spacing, and the contour's angle."""
        strip = self._strip
        growth = strip.own + strip.tilted * self.tilt
        frequency, target, most = self.fineness
        margin = 0.5 * growth * _ANGLES**2 + frequency * strip.turn * _ANGLES + (3 - math.log(target))
        spacings = (2 * np.pi * self.pair.noise_multiplier**2) * _ANGLES / margin
        best = int(np.argmax(spacings))
        count = max(16.0, (self.high - self.low) / float(spacings[best]))
        if count > most:
            raise TooFine(f"{self.pair}: {count:.3g} nodes for frequencies up to {frequency:.3g}")
        nodes = math.ceil(count)
        return nodes, (self.high - self.low) / nodes, float(_ANGLES[best])

    def _margin(self, shift: float, frequency: Any) -> Any:
        """-ln of the largest factor by which kernel and growth multiply the integrand on the contour."""
        _, spacing, angle = self._rule
        growth = self._strip.own + self._strip.tilted * (self.tilt + shift)
        kernel = 2 * math.pi * self.pair.noise_multiplier**2 * angle / spacing
        return kernel - 0.5 * growth * angle**2 - frequency * (self._strip.turn * angle)

    @cached_property
    def _places(self) -> analytic.Places:
        """At the two ends first, then at the nodes."""
        count, spacing, _ = self._rule
        x = np.empty(count + 2)
        x[0], x[1], x[2:] = self.low, self.high, self.low + spacing * (np.arange(count) + 0.5)
        return analytic.places(self.pair, x, forward=self.forward)

    @cached_property
    def _tilted(self) -> tuple[Array, Array, float]:
        """Normalised weights at the nodes, the integrand over its integral at the ends, and log_mgf."""
        at = self._places
        exponent = at.log_density + self.tilt * at.loss
        top = float(exponent[2:].max())
        weight = np.exp(exponent - top)
        total = float(weight[2:].sum())
        weight /= total
        return weight[2:], weight[:2] / self._rule[1], top + math.log(total * self._rule[1])

    def _at_ends(self, density: float, margin: Any) -> Any:
        """Vertical pieces above and below: their factor's logarithm is convex, from 0 to -margin at the top."""
        return 2 * density * self.pair.noise_multiplier**2 * self._rule[2] / margin

    @cached_property
    def _rounding(self) -> tuple[float, float]:
        """Error of the normalised sums, constant and per unit of frequency."""
        at, (weight, _, _) = self._places, self._tilted
        size = float(weight @ np.abs(at.loss[2:]))
        loss_error = float(weight @ at.loss_error[2:])
        density = float(weight @ at.density_error[2:]) + 2 * _EPS * float(weight @ np.abs(at.log_density[2:]))
        fixed = 2 * (density + self.tilt * (loss_error + 2 * _EPS * size)) + 4 * _EPS * (len(weight) + 8)
        return fixed, 2 * loss_error + 8 * _EPS * (size + abs(self.centre))

    def guard(self) -> None:
        """Both hypotheses' probabilities, by the same nodes, losses and densities, must come out as 1.

        Raises DiscretisationInvalid.
        """
        at, (count, spacing, angle) = self._places, self._rule
        kernel = 2 * math.pi * self.pair.noise_multiplier**2 * angle / spacing
        margin = kernel - 0.5 * (self._strip.own + self._strip.tilted) * angle**2
        least = 1 - self.outside
        for log_density in (at.log_density, at.log_density - at.loss):
            density = np.exp(log_density)
            mass = spacing * float(density[2:].sum())
            slack = 4 * math.exp(-margin) + float(self._at_ends(float(density[:2].sum()), margin)) + 1e-10
            if not least - slack <= mass <= 1 + slack:
                raise DiscretisationInvalid(
                    f"nodes={count} for {self.pair}: expected probabilities that sum to 1, got {mass!r}."
                )

    @cached_property
    def outside(self) -> float:
        """Probability that the output lies beyond the ends, from above."""
        return analytic.outside(self.pair, self.low, self.high)

    @property
    def log_mgf(self) -> float:
        """See `VerticalLine`."""
        return self._tilted[2]

    @cached_property
    def error(self) -> float:
        """See `VerticalLine`."""
        margin = float(self._margin(0.0, 0.0))
        relative = (
            self._rounding[0] + 4 * math.exp(-margin) + float(self._at_ends(float(self._tilted[1].sum()), margin))
        )
        return 1.1 * relative if relative < 0.05 else math.inf

    @cached_property
    def centre(self) -> float:
        """See `VerticalLine`."""
        return float(self._tilted[0] @ self._places.loss[2:])

    def values(self, step: float, count: int) -> Values:
        """See `VerticalLine`."""
        away, weight = self._places.loss[2:] - self.centre, self._tilted[0]
        # Frequencies k = block * n + m: exp(i k x) from two short tables, and one matrix product.
        block = math.isqrt(count) + 1
        short = np.exp((1j * step) * np.arange(block)[:, None] * away[None, :])
        long = np.exp((1j * step * block) * np.arange(count // block + 1)[:, None] * away[None, :]) * weight
        values = (long @ short.T).ravel()[: count + 1]
        frequency: Array = step * np.arange(count + 1, dtype=np.float64)
        margin = np.maximum(self._margin(0.0, frequency), 1e-3)
        fixed, each = self._rounding
        error = fixed + frequency * each + self.error
        error += 4.4 * np.exp(-margin) + 1.1 * self._at_ends(float(self._tilted[1].sum()), margin)
        return Values(values, error + 8 * _EPS)

    def log_ratio(self, shift: float) -> float:
        """See `VerticalLine`."""
        weight, ends, _ = self._tilted
        at = self._places
        exponent = shift * at.loss
        top = float(exponent.max())
        ratio = np.exp(exponent - top)
        shifted = weight * ratio[2:]
        total = float(shifted.sum())
        margin = float(self._margin(shift, 0.0))
        if not margin > 3 or not total > 0:
            return math.inf
        rounding = float(shifted @ at.density_error[2:]) + (self.tilt + abs(shift)) * float(shifted @ at.loss_error[2:])
        rounding += _EPS * (float(shifted @ np.abs(exponent[2:])) + 8 * (len(weight) + abs(top)) * total)
        least = total + 2 * rounding + float(self._at_ends(float(ends @ ratio[:2]), margin))
        return top + math.log(least) - math.log1p(-4 * math.exp(-margin)) + self.error + 4 * _EPS * abs(top)


def is_smooth(pair: DominatingPair) -> TypeGuard[analytic.Smooth]:
    """Whether its line is a quadrature; else it has a closed form."""
    return isinstance(pair, SampledGaussianPair | ReplacedSampledGaussian) and pair.rate < 1


def ends_of(pair: analytic.Smooth, tail: float) -> tuple[float, float]:
    """Outputs between which a law is kept. Raises TooFine where losses there would be cut."""
    low, high = pair.x_range(tail)
    if isinstance(pair, ReplacedSampledGaussian) and 2 * high + 1 > 1200 * pair.noise_multiplier**2:
        raise TooFine(f"{pair}: losses at outputs up to {high:.3g} would be cut at 600")
    return low, high


def line_of(pair: DominatingPair, fineness: Fineness, tilt: float, tail: float, *, forward: bool) -> VerticalLine:
    """The line of one step. tail: probability that is left out at either end. Raises TooFine."""
    if is_smooth(pair):
        return SmoothLine(pair, forward or pair.symmetric, tilt, *ends_of(pair, tail), fineness)
    if isinstance(pair, SampledRandomisedResponse):
        return response_line(pair, tilt, forward=forward)
    assert isinstance(pair, SampledGaussianPair)
    return gaussian_line(pair, tilt)


def cut(pair: analytic.Smooth, tilt: float, log_mgf: float, low: float, high: float, *, forward: bool) -> Layers:
    """Uniform parts of the tilted loss's law, were `log_mgf` its ln E exp(tilt L): masses are relative to exp of it."""
    x = low + (high - low) * _UNIT
    x[-1] = high
    losses, log_least = analytic.loss_density(pair, x, tilt, forward=forward)
    return layers(losses, np.exp(log_least - (log_mgf + 1e-9)))

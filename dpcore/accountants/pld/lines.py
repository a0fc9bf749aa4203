"""One step's loss on a vertical line: E exp((t + i w) L) at many frequencies w, with a certified error.

A sampled Gaussian's loss and density are analytic in the output x, so the midpoint rule converges geometrically: its
error over [low, high] is an integral over a contour at height theta s^2, where the integrand has grown (see
`Strip`) but the rule's kernel is at most 1 / (exp(2 pi theta s^2 / spacing) - 1), and over two
vertical pieces at the ends, half a spacing from the nodes, where the kernel is at most exp(-2 pi y / spacing)
(Trefethen & Weideman 2014, section 5). What lies beyond the ends is left out of the law; bounds charge its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, ndtr

from dpcore.accountants.pld.pairs import (
    Array,
    DiscretisationInvalid,
    DominatingPair,
    ReplacedSampledGaussian,
    SampledGaussianPair,
    SampledRandomisedResponse,
)

# Sampled Gaussians as analytic functions of the output x: what bounds of integrals over x need to know.
#
# With u = (2x - 1) / (2 s^2), the loss is ln(1-q + q exp(u)), and under replacement that less its mirror image. At x
# + i theta s^2, where u turns by theta, |theta| <= pi/2, and with the odds r = q exp(u) / (1-q): |1-q + q exp(u + i
# theta)| lies between sqrt(1 - 2r/(1+r)^2 (1 - cos theta)) times and once its value at theta = 0, and its argument
# between 0 and theta, or theta r/(1+r) where r <= 1 (its derivative falls with theta). Both grow with r.
#
# Replacement reads the same in both directions; only the forward one is written out.

Smooth = SampledGaussianPair | ReplacedSampledGaussian

_EPS = float(np.finfo(float).eps)
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LN2 = math.log(2)


class Places(NamedTuple):
    """At outputs x: losses, ln of the first hypothesis's density, and the largest errors of both. Shapes (x,)."""

    loss: Array
    log_density: Array
    loss_error: Array
    density_error: Array


def places(pair: Smooth, x: Array, *, forward: bool) -> Places:
    """Losses of (P, Q) under P, or with forward=False of (Q, P) under Q."""
    s = pair.noise_multiplier
    loss = pair.losses(x)
    square = (0.5 / (s * s)) * x * x
    log_density = -square - (_LOG_SQRT_2PI + math.log(s))
    # q expm1(u) is off by the rounding of u; its logarithm by that over 1 + q expm1(u).
    spread = (np.abs(x) + 0.5) / (s * s)
    if isinstance(pair, ReplacedSampledGaussian):
        log_other = np.log1p(pair.rate * np.expm1(np.minimum((-2 * x - 1) / (2 * s * s), 600.0)))
        log_density += log_other
        # Either hypothesis's 1 + q expm1(u) cancels where it is small: at rates near 1.
        small = np.exp(-log_other) + np.exp(-(loss + log_other))
        loss_error = _EPS * (4 * np.abs(loss) + 16 + 4 * spread + 4 * small)
    else:
        loss_error = _EPS * (2 * np.abs(loss) + (8 + 2 * spread) * np.abs(np.expm1(-loss)))
    density_error = _EPS * (8 + 4 * square + 2 * spread * (1.0 if isinstance(pair, ReplacedSampledGaussian) else 0.0))
    if forward:
        return Places(loss, log_density + loss, loss_error, density_error + loss_error)
    return Places(-loss, log_density, loss_error, density_error)


def probability_outside(pair: Smooth, low: float, high: float) -> float:
    """A bound on either hypothesis's probability below `low` and above `high` together."""
    q, s = pair.rate, pair.noise_multiplier
    below = float(ndtr(low / s))
    above = (1 - q) * float(ndtr(-high / s)) + q * float(ndtr((1 - high) / s))
    if isinstance(pair, ReplacedSampledGaussian):
        below = (1 - q) * below + q * float(ndtr((low + 1) / s))
    return (below + above) * (1 + 1e-9)


class Strip(NamedTuple):
    """At x + i theta s^2: |loss's imaginary part| <= turn |theta|, density exp(tilt loss) grows by at most
    exp((own + tilted * tilt) theta^2 / 2), low <= x <= high."""

    turn: float
    own: float
    tilted: float


def strip_of(pair: Smooth, low: float, high: float, *, forward: bool) -> Strip:
    """Valid for |theta| <= pi/2."""
    q, s2 = pair.rate, pair.noise_multiplier**2

    def odds(x: float) -> float:
        return math.exp(min((2 * x - 1) / (2 * s2) + math.log(q) - math.log1p(-q), 700.0)) * (1 + 1e-9)

    def turn(r: float) -> float:
        return r / (1 + r) if r <= 1 else 1.0

    def loss_of_size(r: float) -> float:
        # -ln(1 - y)/2 <= y ln 2 for y <= 1/2, and 1 - cos theta <= theta^2 / 2.
        return _LN2 * (2 * r / (1 + r) ** 2 if r <= 1 else 0.5)

    # exp(-x^2 / (2 s^2)) grows by exp(s^2 theta^2 / 2). Numerators only shrink; denominators to the power of the tilt
    # do that too, but from below.
    if isinstance(pair, ReplacedSampledGaussian):
        return Strip(turn(odds(high)) + turn(odds(-low)), s2, loss_of_size(odds(-low)))
    return Strip(turn(odds(high)), s2, 0.0 if forward else loss_of_size(odds(high)))


def loss_density(pair: Smooth, x: Array, tilt: float, *, forward: bool) -> tuple[Array, Array]:
    """(losses at x, increasing; ln of a lower bound on the density of the tilted, not normalised, loss between them).

    That density is g(x) = density exp(tilt loss) / |d loss / dx|. Between two places d ln g / dx lies between the sums
    of its monotone terms' ends, so ln g is at least what the steepest descent from either end leaves.
    """
    q, s = pair.rate, pair.noise_multiplier
    at = places(pair, x, forward=forward)
    odds, centre = math.log(q) - math.log1p(-q), x / (s * s)
    up = expit(centre + (odds - 0.5 / (s * s)))
    if isinstance(pair, ReplacedSampledGaussian):
        down = expit(-centre + (odds - 0.5 / (s * s)))
        log_g = at.log_density + tilt * at.loss - np.log((up + down) / (s * s))
        # d/dx: -x - down + (1 + tilt) (up + down) - (up - down)(1 - up - down)/(up + down), over s^2.
        steepest = -x[:-1] + tilt * down[:-1] + (1 + tilt) * up[1:] + 1
        flattest = -x[1:] + tilt * down[1:] + (1 + tilt) * up[:-1] - 1
    else:
        log_g = at.log_density + tilt * at.loss - (log_expit(centre + (odds - 0.5 / (s * s))) - 2 * math.log(s))
        # d/dx: -x - 1 + weight up, over s^2.
        weight = tilt + 2 if forward else 1 - tilt
        first, last = (up[1:], up[:-1]) if weight >= 0 else (up[:-1], up[1:])
        steepest, flattest = -x[:-1] - 1 + weight * first, -x[1:] - 1 + weight * last
    width = np.diff(x) / (s * s)
    low = np.maximum(
        log_g[:-1] + width * np.minimum(flattest, 0.0),
        log_g[1:] - width * np.maximum(steepest, 0.0),
    )
    # Losses that differ by little more than their rounding would make a cell look wide; the others are so by 1e-3.
    told = np.abs(np.diff(at.loss)) >= 1e3 * (at.loss_error[:-1] + at.loss_error[1:])
    low = np.where(told, low - 5e-3, -np.inf)
    if forward:
        return at.loss, low
    return at.loss[::-1], low[::-1]


_CELLS = 160
_UNIT: Array = np.arange(_CELLS + 1, dtype=np.float64) / _CELLS
_ANGLES: Array = 0.5 * np.pi * np.power(0.8, np.arange(24, dtype=np.float64))


class TooFine(ArithmeticError):
    """A line would need more nodes than are worth it."""


class Values(NamedTuple):
    """E exp((t + i w)(L - centre)) / E exp(t (L - centre)) at each frequency, and its largest absolute error."""

    values: NDArray[np.complex128]
    error: Array


class ClosedLine(NamedTuple):
    """One step's loss under its first hypothesis, tilted by t > 0, where it has a closed form.

    log_mgf    ln E exp(t L), in nats
    error      the largest error of `log_mgf`
    centre     a loss near the tilted mean, in nats
    values     (step, count) -> at the frequencies 0, step, ..., count * step
    log_ratio  shift -> upper bound on ln E exp((t + shift) L) - ln E exp(t L)
    """

    log_mgf: float
    error: float
    centre: float
    values: Callable[[float, int], Values]
    log_ratio: Callable[[float], float]


def gaussian_line(pair: SampledGaussianPair, tilt: float) -> ClosedLine:
    """The plain Gaussian: ln E exp(z L) = z (z + 1) / (2 s^2), in either direction.

    s is known to within `pairs.MU_ROUNDING`, so 1/s^2 to within 9 units in the last place: errors allow for that.
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

    pair: Smooth
    forward: bool
    tilt: float
    low: float
    high: float
    fineness: Fineness

    @cached_property
    def _strip(self) -> Strip:
        return strip_of(self.pair, self.low, self.high, forward=self.forward)

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
    def _places(self) -> Places:
        """At the two ends first, then at the nodes."""
        count, spacing, _ = self._rule
        x = np.empty(count + 2)
        x[0], x[1], x[2:] = self.low, self.high, self.low + spacing * (np.arange(count) + 0.5)
        return places(self.pair, x, forward=self.forward)

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
        return probability_outside(self.pair, self.low, self.high)

    @property
    def log_mgf(self) -> float:
        """See `ClosedLine`."""
        return self._tilted[2]

    @cached_property
    def error(self) -> float:
        """See `ClosedLine`."""
        margin = float(self._margin(0.0, 0.0))
        relative = (
            self._rounding[0] + 4 * math.exp(-margin) + float(self._at_ends(float(self._tilted[1].sum()), margin))
        )
        return 1.1 * relative if relative < 0.05 else math.inf

    @cached_property
    def centre(self) -> float:
        """See `ClosedLine`."""
        return float(self._tilted[0] @ self._places.loss[2:])

    def values(self, step: float, count: int) -> Values:
        """See `ClosedLine`."""
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
        """See `ClosedLine`."""
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


# How fast the spectrum of one step's tilted loss must decay: an upper bound on it beyond a frequency.
#
# Whatever part of a law is a mixture of uniform laws, of masses c and widths D, leaves at most 1 - sum c (1 - sup
# |sin y / y|) of the spectrum at every frequency above w, the supremum being over y >= w D / 2. Level sets cut such a
# mixture out of any density (Khinchine 1938 for those with one mode): each layer between two levels is uniform on the
# intervals where the density exceeds the upper one.

_LEVELS = 48
_BUMP = 2.5
"""Below it sin y / y exceeds 0.2394, more than |sin y / y| ever reaches again (0.2173 at 4.4934)."""


class Layers(NamedTuple):
    """Uniform laws that lie below a density: their masses and widths. Shapes (layers,)."""

    masses: Array
    widths: Array

    def missing(self, frequency: float) -> float:
        """1 less a bound on |E exp(i w L)| for all w >= `frequency` >= 0, if the masses belong to a law of L."""
        y = np.maximum(0.5 * frequency * self.widths, 1e-9)
        rest = np.where(y < _BUMP, np.sin(y) / y, np.minimum(0.2394, 1 / y))
        return float(self.masses @ (1 - rest))


def layers(places: Array, least: Array) -> Layers:
    """Cut into layers: a density that is at least least[i] >= 0 between places[i] and places[i + 1] (increasing)."""
    order = np.sort(least)
    count = min(_LEVELS, len(order))
    levels = order[np.arange(count) * (len(order) - 1) // max(count - 1, 1)]
    thickness = levels - np.append(0.0, levels[:-1])
    levels, thickness = levels[thickness > 0], thickness[thickness > 0]
    top = int(np.argmax(least))
    rising, falling = least[: top + 1], least[top:]
    if (rising[1:] >= rising[:-1]).all() and (falling[1:] <= falling[:-1]).all():
        # One mode, so each level has one interval.
        end = len(least) - np.searchsorted(falling[::-1], levels)
        widths = places[end] - places[np.searchsorted(rising, levels)]
        return Layers(thickness * widths, widths)
    inside = np.zeros((len(levels), len(least) + 2), dtype=np.int8)
    inside[:, 1:-1] = least[None, :] >= levels[:, None]
    turns = np.diff(inside, axis=1)
    # Row by row, starts and ends alternate: the i-th of one belongs to the i-th of the other.
    row, start = np.nonzero(turns == 1)
    end = np.nonzero(turns == -1)[1]
    widths = places[end] - places[start]
    return Layers(thickness[row] * widths, widths)


Line = ClosedLine | SmoothLine
"""One step on a vertical line."""


def is_smooth(pair: DominatingPair) -> TypeGuard[Smooth]:
    """Whether its line is a quadrature; else it has a closed form."""
    return isinstance(pair, SampledGaussianPair | ReplacedSampledGaussian) and pair.rate < 1


def ends_of(pair: Smooth, tail: float) -> tuple[float, float]:
    """Outputs between which a law is kept. Raises TooFine where losses there would be cut."""
    low, high = pair.x_range(tail)
    if isinstance(pair, ReplacedSampledGaussian) and 2 * high + 1 > 1200 * pair.noise_multiplier**2:
        raise TooFine(f"{pair}: losses at outputs up to {high:.3g} would be cut at 600")
    return low, high


def line_of(pair: DominatingPair, fineness: Fineness, tilt: float, tail: float, *, forward: bool) -> Line:
    """The line of one step. tail: probability that is left out at either end. Raises TooFine."""
    if is_smooth(pair):
        return SmoothLine(pair, forward or pair.symmetric, tilt, *ends_of(pair, tail), fineness)
    if isinstance(pair, SampledRandomisedResponse):
        return response_line(pair, tilt, forward=forward)
    assert isinstance(pair, SampledGaussianPair)
    return gaussian_line(pair, tilt)


def cut(pair: Smooth, tilt: float, log_mgf: float, low: float, high: float, *, forward: bool) -> Layers:
    """Uniform parts of the tilted loss's law, were `log_mgf` its ln E exp(tilt L): masses are relative to exp of it."""
    x = low + (high - low) * _UNIT
    x[-1] = high
    losses, log_least = loss_density(pair, x, tilt, forward=forward)
    return layers(losses, np.exp(log_least - (log_mgf + 1e-9)))

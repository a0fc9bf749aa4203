"""Composed hockey-stick divergences as one sum over frequencies, with every error bounded.

delta(eps) = 1/(2 pi i) integral of M(z) exp(-z eps) / (z (z + 1)) along Re z = t, M the composed loss's moment
generating function. There is no grid of losses, so nothing is rounded to one, and steps of any scales go together.

Certificate, of the trapezoidal sum with frequencies `step` apart:
- aliasing: it is exactly the sum over all integers j of delta(eps + j W) exp(t j W), W = 2 pi / step (Poisson
  summation). All terms are positive, so it lies above delta; Chernoff bounds at two other tilts tell by how much
- truncation: beyond the last frequency |M| is at most exp(-missing) of M(t) (`layers`), and 1 / |z (z + 1)| sums to
  at most 1 / (pi * last frequency)
- each M on the line is off by its quadrature's error (`lines`); the composed value by what that makes of its power
- what lies beyond the lines' ends has at most the probability `outside`, which is added to upper bounds
- round-off is charged to the sum, to its phases and to its units

Source  Trefethen & Weideman (2014), section 5, for the trapezoidal rule; Zhu, Dong & Wang (2022) for characteristic
        functions of dominating pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld.lines import Fineness, Layers, Line, SmoothLine, TooFine, cut, ends_of, is_smooth, line_of
from dpcore.accountants.pld.pairs import Array, Bounds, DominatingPair, SampledGaussianPair
from dpcore.accountants.pld.saddle_point import Cumulants, Direction, Saddle, at_tilt
from dpcore.accountants.protocol import exp_up, log_of

_EPS = float(np.finfo(float).eps)
_SHIFTS: Array = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.4, 2.0])
_MOST_FREQUENCIES = 1 << 12
_MOST_PRODUCTS = 1 << 20
"""Frequencies times nodes that are worth it: a few milliseconds."""


TILTS = (1.0, 0.65, 0.4)
"""Shares of the saddle's tilt. Where rare large losses decide, and where the quadrature ends not far above the saddle's
tilted mean, the saddle's own would make what lies beyond the end count: less does."""

_RELATIVE, _LEAST_RELATIVE = 1e-5, 1e-11
"""How closely a sum is planned to tell delta for an epsilon; below the least all is rounding."""


class Reading(NamedTuple):
    """ln delta and its slope, as far as the sum tells, and certified bounds on ln delta."""

    log_delta: float
    slope: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Contour:
    """So many steps of each of `lines`, all at one tilt, summed at 0, step, ..., count * step.

    outside  probability that any step lay beyond its line's ends
    missing  summed over all steps: 1 less a bound on the spectrum beyond the last frequency
    shifts   (up, down) of the tilt, for the Chernoff bounds; down < tilt
    """

    lines: tuple[tuple[Line, int], ...]
    tilt: float
    step: float
    count: int
    outside: float
    missing: float
    shifts: tuple[float, float]

    @cached_property
    def log_mgf(self) -> float:
        """ln E exp(t S)."""
        return math.fsum(c * line.log_mgf for line, c in self.lines)

    @cached_property
    def error(self) -> float:
        """The largest error of `log_mgf`."""
        return math.fsum(c * (line.error + _EPS * abs(line.log_mgf)) for line, c in self.lines)

    @cached_property
    def centre(self) -> tuple[float, float]:
        """Summed centres, and the summed rounding of them."""
        terms = [c * line.centre for line, c in self.lines]
        return math.fsum(terms), 2 * _EPS * math.fsum(abs(x) for x in terms)

    @cached_property
    def _terms(self) -> tuple[NDArray[np.complex128], Array, float, float]:
        """Summands at eps = centre, less the factor common to all; frequencies; the sum's error, fixed and per nat."""
        frequency: Array = self.step * np.arange(self.count + 1, dtype=np.float64)
        log_value: NDArray[np.complex128] = np.zeros(self.count + 1, dtype=complex)
        log_bound: Array = np.zeros(self.count + 1)
        for line, c in self.lines:
            values, error = line.values(self.step, self.count)
            with np.errstate(divide="ignore"):
                log_value += c * np.log(values)
            log_bound += c * np.log(np.abs(values) + error)
        value: NDArray[np.complex128] = np.exp(log_value)
        bound: Array = np.exp(np.minimum(log_bound, 600.0))
        z: NDArray[np.complex128] = np.asarray(self.tilt + 1j * frequency, dtype=np.complex128)
        weight = (self.step / math.pi) / (z * (z + 1))
        weight[0] *= 0.5
        size = np.abs(weight)
        most = bound * size
        turning = float(most @ frequency)
        fixed = float(np.maximum(bound - np.abs(value), 0.0) @ size) + (64 + 2 * self.count) * _EPS * float(most.sum())
        fixed += turning * self.centre[1] + math.exp(-self.missing) / (math.pi * self.step * self.count)
        return value * weight, frequency, fixed, 8 * _EPS * turning

    @cached_property
    def _aliased(self) -> tuple[float, float]:
        """ln of the factors of exp(+- shift eps) in what the neighbouring periods add, summed over them."""
        period = 2 * math.pi / self.step
        out = []
        for shift in (self.shifts[0], -self.shifts[1]):
            ratio = math.fsum(c * line.log_ratio(shift) for line, c in self.lines)
            decay = abs(shift) * period
            out.append(ratio - decay - math.log(-math.expm1(-decay)))
        return out[0], out[1]

    def _sum(self, epsilon: float) -> tuple[float, float, float]:
        """In units of exp(log_mgf - tilt * epsilon): the sum, its error, and minus its slope over epsilon."""
        terms, frequency, fixed, each = self._terms
        turned = terms * np.exp((-1j * (epsilon - self.centre[0])) * frequency)
        total = float(turned.real.sum())
        slope = self.tilt * total - float(turned.imag @ frequency)
        return total, fixed + each * (abs(epsilon) + abs(self.centre[0])), slope

    def _scale(self, epsilon: float) -> tuple[float, float]:
        """ln of the units, and its error."""
        k, shift = self.log_mgf, self.tilt * epsilon
        return k - shift, self.error + 8 * _EPS * (abs(k) + abs(shift) + 1)

    def _upper(self, total: float, error: float, scale: float, rounding: float) -> float:
        most = scale + rounding + log_of(max(total, 0.0) + error)
        if not math.isfinite(total + error + rounding):
            return 0.0
        rare = log_of(self.outside)
        high = max(most, rare)
        return min(0.0, high + math.log1p(math.exp(min(most, rare) - high)))

    def at(self, epsilon: float) -> Reading:
        """The curve and certified bounds on it at `epsilon` of either sign."""
        total, error, slope = self._sum(epsilon)
        scale, rounding = self._scale(epsilon)
        if not math.isfinite(total + error + rounding):
            return Reading(math.nan, math.nan, -math.inf, 0.0)
        up, down = self._aliased
        wrapped = math.exp(min(up - self.shifts[0] * epsilon, 600.0)) + math.exp(
            min(down + self.shifts[1] * epsilon, 600.0)
        )
        least = scale - rounding + log_of(total - error - wrapped * (1 + 1e-9))
        most = self._upper(total, error, scale, rounding)
        return Reading(scale + log_of(total), -slope / total if total > 0 else math.nan, least, most)

    def invert(self, log_delta: float, guess: float) -> Bounds | None:
        """Around the epsilon >= 0 at which delta is exp(log_delta); None if the sum is too uncertain."""
        eps = max(guess, 0.0)
        for _ in range(12):
            here = self.at(eps)
            if not (here.slope < 0 and math.isfinite(here.log_delta)):
                return None
            stride = (here.log_delta - log_delta) / here.slope
            following = max(0.0, eps - stride)
            if following == eps or abs(stride * here.slope) < 1e-9:
                break
            eps = following
        lower = upper = eps
        if not here.lower < here.upper < here.lower + 0.5:
            return None
        pads = [max(x, 0.0) * 1.02 / -here.slope for x in (log_delta - here.lower, here.upper - log_delta)]
        for _ in range(6):
            lower = max(0.0, lower - pads[0] - 4 * _EPS * lower)
            if lower == 0 or self.at(lower).lower >= log_delta:
                break
            pads[0] *= 3
        else:
            return None
        for _ in range(6):
            upper += pads[1] + 4 * _EPS * upper
            if self.at(upper).upper <= log_delta:
                return Bounds(lower, upper)
            pads[1] *= 3
        return None


def _period(cumulants: Cumulants, saddle: Saddle, log_relative: float) -> tuple[float, float, float]:
    """Shortest period whose neighbours should add a relative exp(log_relative) at most, and shifts that show it."""
    t, eps, k = saddle.tilt, saddle.epsilon, saddle.log_mgf
    log_share = saddle.log_delta - k + t * eps + log_relative - 1
    reach = math.sqrt(max(-2 * log_share, 1.0)) / max(saddle.spread, 1e-300)
    up = reach * _SHIFTS
    down = np.minimum(up, t * (1 - 1e-9))
    values = cumulants.values(np.concatenate([t + up, t - down]))
    above = (values[: len(up)] - k - up * eps - log_share) / up
    below = (values[len(up) :] - k + down * eps - log_share) / down
    best_up, best_down = int(np.argmin(above)), int(np.argmin(below))
    period = max(float(above[best_up]), float(below[best_down]))
    return 1.02 * period, float(up[best_up]), float(down[best_down])


class _Part(NamedTuple):
    """One part of the composition: what is known of its spectrum before its line is laid."""

    pair: DominatingPair
    steps: int
    log_mgf: float
    layers: Layers | None

    def missing(self, frequency: float, log_mgf: float) -> float:
        """At least -ln |E exp((t + i w) L) / E exp(t L)|, times the steps, for all w >= `frequency`."""
        if self.layers is not None:
            share = self.layers.missing(frequency) * math.exp(self.log_mgf - log_mgf)
            return -self.steps * math.log1p(-min(share, 1 - 1e-12))
        if isinstance(self.pair, SampledGaussianPair):
            return self.steps * (0.5 / self.pair.noise_multiplier**2) * frequency * frequency
        return 0.0


def _part(pair: DominatingPair, steps: int, log_mgf: float, tilt: float, tail: float, *, forward: bool) -> _Part:
    if not is_smooth(pair):
        return _Part(pair, steps, log_mgf, None)
    spectrum = cut(pair, tilt, log_mgf, *ends_of(pair, tail), forward=forward or pair.symmetric)
    return _Part(pair, steps, log_mgf, spectrum)


def make_contour(direction: Direction, saddle: Saddle, log_relative: float, worth: float) -> Contour:
    """A contour whose bounds on delta at the saddle should be apart by about a relative exp(log_relative).

    saddle  the direction's own, or another tilt
    worth   relative distance beyond which the bounds would be of no use
    Raises TooFine where that takes too many frequencies or nodes, DiscretisationInvalid where the guard refuses.
    """
    parts, cumulants, forward = direction.parts, direction.cumulants, direction.forward
    t = saddle.tilt
    period, up, down = _period(cumulants, saddle, log_relative)
    step = 2 * math.pi / period
    log_share = saddle.log_delta - saddle.log_mgf + t * saddle.epsilon + log_relative - 1
    means = cumulants.log_mgfs(t)
    pieces = [
        _part(pair, count, mean, t, cumulants.tail, forward=forward)
        for (pair, count), mean in zip(parts, means, strict=True)
    ]
    frequency = max(math.sqrt(max(-2 * (log_share - 1), 1.0)) / max(saddle.spread, 1e-300), step)
    most = _MOST_FREQUENCIES * step
    while frequency <= most:
        missing = sum(p.missing(frequency, p.log_mgf) for p in pieces)
        wanted = -log_share - math.log(math.pi * frequency)
        if missing >= wanted:
            break
        # What is missing grows at most as the frequency's square.
        frequency *= min(max(1.03 * math.sqrt(wanted / missing), 1.05), 1.5) if missing > 0 else 1.5
    if not frequency <= most < math.inf:
        raise TooFine(f"frequencies up to {frequency:.3g} in steps of {step:.3g}")
    count = math.ceil(frequency / step)
    last, nodes = step * (count + 1), _MOST_PRODUCTS // (count + 1)
    target = max(min(math.exp(log_relative) / (20 * sum(p.steps for p in pieces)), 1e-8), 1e-17)
    lines: list[tuple[Line, int]] = []
    outside = missing = 0.0
    for piece in pieces:
        line = line_of(piece.pair, Fineness(last, target, nodes), t, cumulants.tail, forward=forward)
        if isinstance(line, SmoothLine):
            if not piece.steps * line.error <= worth:
                raise TooFine(f"{piece.pair}: the law does not vanish at {line.high:.3g}")
            line.guard()
            outside += piece.steps * line.outside
        missing += piece.missing(last, line.log_mgf + line.error)
        lines.append((line, piece.steps))
    return Contour(tuple(lines), t, step, count, outside, missing, (up, down))


def epsilon_bounds(direction: Direction) -> Bounds | None:
    """Around epsilon at the delta asked, in nats; None where no sum tells it as closely as asked.

    Where an epsilon is known that the other direction needs, to hold at it is enough: its upper end is that one.
    """
    asked, saddle = direction.asked, direction.saddle
    log_delta = math.log(asked.at)
    for tilted in _tilted(direction, saddle.epsilon, min(log_delta, saddle.log_delta)):
        worth = 0.3 * tilted.tilt * asked.tolerance * direction.scale
        relative = min(_RELATIVE, 0.2 * worth)
        if relative < _LEAST_RELATIVE:
            return None
        if direction.cumulants.at_ends(tilted.tilt) > worth:
            continue
        try:
            contour = make_contour(direction, tilted, math.log(relative), worth)
        except TooFine:
            return None
        if direction.known is not None and contour.at(direction.known).upper <= log_delta:
            return Bounds(0.0, direction.known)
        found = contour.invert(log_delta, saddle.epsilon)
        if found is not None and asked.met_by(found):
            return found
    return None


def delta_bounds(direction: Direction) -> Bounds | None:
    """Around delta at the epsilon asked, of either sign; None where a sum would take too many frequencies or tell too
    little. Where a delta is known that the other direction needs, to need no more is enough."""
    asked = direction.asked
    worth = 0.3 * direction.relative
    planned = math.log(min(1e-6, 0.05 * asked.tolerance) if direction.relative <= asked.tolerance else 0.1 * worth)
    for tilted in _tilted(direction, asked.at, direction.saddle.log_delta):
        if direction.cumulants.at_ends(tilted.tilt) > worth:
            continue
        try:
            reading = make_contour(direction, tilted, planned, worth).at(asked.at)
        except TooFine:
            return None
        found = Bounds(math.exp(reading.lower), exp_up(reading.upper))
        if direction.settled_by(found):
            return found
    return None


def _tilted(direction: Direction, epsilon: float, log_delta: float) -> Iterator[Saddle]:
    for share in TILTS:
        tilt = share * direction.saddle.tilt
        yield direction.saddle if share == 1.0 else at_tilt(direction.cumulants, tilt, epsilon, log_delta)

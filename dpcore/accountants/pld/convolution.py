"""Compose discrete losses at one tilt and read off certified hockey-stick divergences.

The tilted masses are put on a ring of N losses, and self-composition is a power of their spectrum. The sum of delta's
weights against a periodic function is a geometric series in closed form, so there is no inverse transform, and
frequencies that the power leaves negligible are dropped, their bound charged. What lies outside the ring's window comes
from Chernoff bounds with the composed law's own moment generating function; it is added to upper bounds, and subtracted
from lower ones, which wrapped mass inflates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from dpcore.accountants.pld.laws import Law
from dpcore.accountants.pld.pairs import Array
from dpcore.accountants.protocol import log_of

Complex = NDArray[np.complex128]

_EPS = float(np.finfo(float).eps)
_NEGLIGIBLE = -85.0
"""Spectrum entries below exp of this are dropped, their bound charged."""


class Window(NamedTuple):
    """Ring of `size` losses: `above` of them lie above the epsilon asked for. Tilts for the Chernoff bounds."""

    size: int
    above: int
    raise_by: float
    lower_by: float


class _Spectrum(NamedTuple):
    """Kept frequencies, their values over N (doubled for the mirrored half), error bounds, and what was dropped."""

    frequencies: NDArray[np.int64]
    values: Complex
    errors: Array
    dropped: float


def log_mgf(law: Law, tilt: float) -> float:
    """ln of one law's moment generating function; its infinite mass apart."""
    return _tilted(law, tilt)[1]


def _tilted(law: Law, tilt: float) -> tuple[Array, float]:
    """Tilted masses, normalised, and ln of their normaliser."""
    exponent = tilt * law.losses
    first, last = law.support
    # The loss increases with its index; beyond the support a large tilt would overflow.
    top = float(exponent[last] if tilt > 0 else exponent[first])
    weight = law.masses * np.exp(np.minimum(exponent - top, 0.0))
    total = float(weight.sum())
    return weight / total, top + math.log(total)


@dataclass(frozen=True)
class TiltedComposition:
    """So many steps of each of `laws` (one spacing), tilted by `tilt` > 0, on a ring."""

    laws: Sequence[tuple[Law, int]]
    tilt: float
    window: Window
    _turns: dict[int, tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def spacing(self) -> float:
        """Of the grid, in nats."""
        return self.laws[0][0].spacing

    @cached_property
    def origin(self) -> float:
        """The composed loss of the ring's place 0, in nats."""
        return math.fsum(count * law.origin for law, count in self.laws)

    @cached_property
    def infinite(self) -> float:
        """Probability that any step's loss is infinite: 1 - prod (1 - m_i)^T_i."""
        if any(law.infinite >= 1 for law, _ in self.laws):
            return 1.0
        logs = (count * math.log1p(-law.infinite) for law, count in self.laws)
        return -math.expm1(math.fsum(logs))

    @cached_property
    def slack(self) -> float:
        """ln of the factor that covers the guard's slack."""
        return math.fsum(count * math.log1p(law.slack) for law, count in self.laws)

    @cached_property
    def _steps(self) -> list[tuple[Array, float]]:
        return [_tilted(law, self.tilt) for law, _ in self.laws]

    @cached_property
    def log_mgf(self) -> float:
        """ln E exp(tilt S) of the finite losses."""
        return math.fsum(count * k for (_, k), (_, count) in zip(self._steps, self.laws, strict=True))

    @cached_property
    def rounding(self) -> float:
        """Relative error of tilted masses and normalisers, summed over all steps."""
        total = 0.0
        for (law, count), (_, k) in zip(self.laws, self._steps, strict=True):
            reach = max(abs(law.origin), abs(law.origin + law.spacing * (len(law.masses) - 1)))
            total += count * 4 * _EPS * (4 + self.tilt * reach + abs(k))
        return total

    @cached_property
    def position_error(self) -> float:
        """Absolute error of the losses' positions."""
        total = sum(count * (abs(law.origin) + law.spacing) for law, count in self.laws)
        return 8 * _EPS * (total + self.spacing * self.window.size)

    @cached_property
    def _spectrum(self) -> _Spectrum:
        n = self.window.size
        transforms = [rfft(_folded(weight, n), n) for weight, _ in self._steps]
        log_bound: Array = np.zeros(n // 2 + 1)
        for z, (law, count) in zip(transforms, self.laws, strict=True):
            log_bound += count * np.log(np.abs(z) + _EPS * (8 * math.log2(n) + len(law.masses) / n))
        keep = np.flatnonzero(log_bound > _NEGLIGIBLE)
        value: Complex = np.ones(len(keep), dtype=np.complex128)
        log_exact: Array = np.zeros(len(keep))
        for z, (_, count) in zip(transforms, self.laws, strict=True):
            value = value * _power(z[keep], count)
            with np.errstate(divide="ignore"):
                log_exact += count * np.log(np.abs(z[keep]))
        bound = np.exp(log_bound[keep])
        error = bound * (8 * _EPS * sum(count for _, count in self.laws) - np.expm1(log_exact - log_bound[keep]))
        scale = np.where((keep == 0) | (2 * keep == n), 1.0, 2.0) / n
        dropped = math.exp(_NEGLIGIBLE) if len(keep) < len(log_bound) else 0.0
        return _Spectrum(keep.astype(np.int64), value * scale, error * scale, dropped)

    @cached_property
    def _series(self) -> tuple[Complex, Complex]:
        """Geometric sums of exp((-a h + i w) m) over the window's losses above epsilon, a = tilt and tilt + 1."""
        n, above, keep = self.window.size, self.window.above, self._spectrum.frequencies
        once, all_of_them = 2j * np.pi / n * keep, 2j * np.pi / n * ((keep * above) % n)
        near, far = (
            np.expm1(all_of_them - a * self.spacing * above) / np.expm1(once - a * self.spacing)
            for a in (self.tilt, self.tilt + 1)
        )
        return near, far

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """Of all terms of the two series together, without their signs."""
        _, value, error, _ = self._spectrum
        near, far = (float((np.abs(value) + error) @ np.abs(series)) for series in self._series)
        return near, far

    def _sum(self, epsilon: float) -> tuple[float, float, float, float]:
        """E[w] on the ring in units of exp(log_mgf - tilt * epsilon), its rounding error, and the window's ends."""
        h, n, (near, far) = self.spacing, self.window.size, self._series
        _, _, error, dropped = self._spectrum
        first = math.floor((epsilon - self.origin) / h) + 1
        gap = self.origin + first * h - epsilon
        nearer, farther = self._turned(first % n)
        a, b = math.exp(-self.tilt * gap), math.exp(-(self.tilt + 1) * gap)
        weight = a * near - b * far
        total = a * nearer - b * farther
        sizes = a * self._sizes[0] + b * self._sizes[1]
        charge = float(error @ np.abs(weight)) + 16 * _EPS * sizes
        top = self.origin + h * (first + self.window.above)
        return total, charge + dropped * self.window.above, top - n * h, top

    def _turned(self, first: int) -> tuple[float, float]:
        """The sums of the two series from place `first` of the ring on."""
        if first not in self._turns:
            keep, value, _, _ = self._spectrum
            turned = value * np.exp(2j * np.pi / self.window.size * (keep * first % self.window.size))
            near, far = (float(np.sum((turned * series).real)) for series in self._series)
            self._turns[first] = near, far
        return self._turns[first]

    @cached_property
    def _chernoff(self) -> list[tuple[float, float]]:
        """(shift, ln of the moment generating function's ratio) downwards and upwards."""
        out = []
        for shift in (-self.window.lower_by, self.window.raise_by):
            terms = (c * log_mgf(law, self.tilt + shift) for law, c in self.laws)
            out.append((shift, math.fsum(terms) - self.log_mgf))
        return out

    @cached_property
    def _support(self) -> tuple[float, float]:
        first, last = (sum(count * law.support[end] for law, count in self.laws) for end in (0, 1))
        return self.origin + self.spacing * (first - 0.5), self.origin + self.spacing * (last + 0.5)

    def _outside(self, bottom: float, top: float) -> tuple[float, float]:
        """Chernoff bounds on ln of the tilted probability below and above the window."""
        lowest, highest = self._support
        down, up = (
            min(0.0, ratio - shift * end) for (shift, ratio), end in zip(self._chernoff, (bottom, top), strict=True)
        )
        return -math.inf if bottom < lowest else down, -math.inf if top > highest else up

    def log_delta_upper(self, epsilon: float) -> float:
        """ln of an upper bound on the hockey-stick divergence at `epsilon` (either sign)."""
        eps = epsilon - self.slack - self.position_error
        total, charge, bottom, top = self._sum(eps)
        above = self._outside(bottom, top)[1]
        mass = max(total + charge, 0.0) + math.exp(above - self.tilt * (top - eps))
        finite = self.slack + self.rounding + self.log_mgf - self.tilt * eps + log_of(mass)
        return float(np.logaddexp(finite, log_of(self.infinite)))

    def log_delta_lower(self, epsilon: float) -> float:
        """ln of a lower bound on the hockey-stick divergence at `epsilon` (either sign); -inf if none is known."""
        eps = epsilon + self.slack + self.position_error
        total, charge, bottom, top = self._sum(eps)
        below, above = self._outside(bottom, top)
        t = self.tilt
        peak = math.exp(t * math.log(t) - (1 + t) * math.log1p(t))
        mass = total - charge - peak * (math.exp(below) + math.exp(above))
        return self.log_mgf - self.slack - self.rounding - self.tilt * eps + log_of(mass)


def _folded(law: Array, size: int) -> Array:
    """The masses on a ring of `size` places."""
    if len(law) <= size:
        return law
    return np.asarray(np.pad(law, (0, -len(law) % size)).reshape(-1, size).sum(axis=0))


def _power(z: Complex, count: int) -> Complex:
    """z**count by repeated squaring: relative error at most a few units in the last place times count."""
    out, square = np.ones_like(z), z
    while True:
        if count & 1:
            out = out * square
        count >>= 1
        if not count:
            return out
        square = square * square

"""Compose discrete losses at one tilt and read off certified hockey-stick divergences.

The tilted masses are put on a ring of N losses, and self-composition is a power of their spectrum. The
spectrum of a long composition vanishes but for its lowest frequencies, and those few suffice: the
sum of delta's weights against a periodic function is a geometric series in closed form, so there is no
inverse transform. What lies outside the ring's window comes from Chernoff bounds with the composed law's own moment
generating function; it is added to upper bounds, and subtracted from lower ones, which wrapped mass inflates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len, rfft

from dpcore.accountants.pld.laws import Law
from dpcore.accountants.pld.pairs import Array
from dpcore.accountants.protocol import log_of

# Spectra of one step's tilted masses, at the frequencies that survive the composition.
#
# After many steps only the lowest frequencies are left, and the ring has far more losses than those need. Which ones
# vanish is read off a coarse set of frequencies: |z(w)|^2 = E cos(w (J - J')) has a second derivative of at most 2
# Var J, so between neighbours D apart it exceeds neither by more than Var J * D^2 / 4. The others are computed from
# moments of blocks of cells (a Taylor series in the place inside a block) and a short transform.

_EPS = float(np.finfo(float).eps)
_TERMS = 15
_REACH = 0.5
"""Largest phase inside half a block: the series' remainder is below _REACH**_TERMS / _TERMS! * exp(_REACH) < 1e-16."""
_SLACK = 8.0
"""By how much, in ln, the bound between coarse frequencies may exceed the spectrum there."""
_SMALL = 8192
"""A ring this short is transformed whole in less time than it takes to see what could be left out."""
_FACTORIALS = np.array([math.factorial(i) for i in range(_TERMS)], dtype=np.float64)


class Transform(NamedTuple):
    """Values at the frequencies 0, 1, 2, ... of the ring, and their largest absolute error."""

    values: NDArray[Any]
    error: float


def transforms(
    laws: Sequence[Array], counts: Sequence[int], size: int, negligible: float, *, precise: bool = False
) -> tuple[list[Transform], float]:
    """Each law's discrete Fourier transform on a ring of `size`, and a bound on what was left out.

    laws        masses that sum to 1, each of its own length
    negligible  frequencies may be left out where ln |product of z^count| is at most this
    precise     transform in long double, whatever that is on this machine: slow, and round-off hardly counts
    Returned are the lowest frequencies, as many of each; the bound is on every other product's absolute value.
    """
    needed = _needed(laws, counts, size, negligible) if size > _SMALL else size
    if precise:
        left_out = math.exp(negligible) if needed < size else 0.0
        return [_in_long_double(law, size, needed) for law in laws], left_out
    block = _divisor(size, int(size * _REACH / (math.pi * needed)))
    if block < 4:
        return [Transform(rfft(_folded(law, size), size), _error(law, size)) for law in laws], 0.0
    return [_lowest(law, size, needed, block) for law in laws], math.exp(negligible)


def _error(law: Array, size: int, eps: float = _EPS) -> float:
    return eps * (8 * math.log2(size) + len(law) / size)


def _in_long_double(law: Array, size: int, needed: int) -> Transform:
    wide = _folded(law.astype(np.longdouble), size)
    return Transform(rfft(wide, size)[:needed], _error(law, size, float(np.finfo(np.longdouble).eps)))


def _folded(law: NDArray[Any], size: int) -> NDArray[Any]:
    if len(law) <= size:
        return law
    return np.pad(law, (0, -len(law) % size)).reshape(-1, size).sum(axis=0)


def _needed(laws: Sequence[Array], counts: Sequence[int], size: int, negligible: float) -> int:
    """How many of the lowest frequencies are not certain to be negligible."""
    variances = []
    for law in laws:
        index = np.arange(len(law), dtype=np.float64)
        index -= float(np.sum(law * index))
        variances.append(float(np.sum(law * index * index)) * (1 + 1e-6))
    spread = math.sqrt(sum(count * v for count, v in zip(counts, variances, strict=True)))
    coarse = int(next_fast_len(max(64, math.ceil(2 * math.pi / math.sqrt(8 * _SLACK) * spread)), real=True))
    if 8 * coarse > size:
        return size
    step = 2 * math.pi / coarse
    log_size: Array = np.zeros(coarse // 2 + 1)
    for law, count, variance in zip(laws, counts, variances, strict=True):
        z = np.abs(rfft(_folded(law, coarse), coarse)) + _error(law, coarse)
        power = z * z
        # The last interval may reach beyond pi, where the spectrum mirrors itself.
        power = np.maximum(power, np.append(power[1:], power[-2])) + 0.25 * variance * step * step
        log_size += (0.5 * count) * np.log(power)
    last = np.flatnonzero(log_size > negligible)
    return int((last[-1] + 1) / coarse * size) + 2 if len(last) else 2


def _divisor(size: int, largest: int) -> int:
    """The largest divisor of `size` up to `largest`; 0 if that is below 1."""
    while largest > 0 and size % largest:
        largest -= 1
    return largest


@lru_cache(maxsize=64)
def _powers(block: int) -> Array:
    place: Array = (np.arange(block) - 0.5 * (block - 1)) / block
    return np.vander(place, _TERMS, increasing=True)


def _lowest(law: Array, size: int, needed: int, block: int) -> Transform:
    short = size // block
    blocks = np.pad(law, (0, -len(law) % block)).reshape(-1, block)
    moments = (blocks @ _powers(block)).T
    if moments.shape[1] > short:
        moments = np.pad(moments, ((0, 0), (0, -moments.shape[1] % short))).reshape(_TERMS, -1, short).sum(axis=1)
    z = rfft(moments, short, axis=1)[:, :needed]
    phase = -2j * np.pi / short * np.arange(needed)
    value = z[-1] / _FACTORIALS[-1]
    for i in range(_TERMS - 2, -1, -1):
        value = z[i] / _FACTORIALS[i] + phase * value
    value *= np.exp(phase * (0.5 * (block - 1) / block))
    return Transform(value, _error(law, size) + _EPS * (block + 64))


_NEGLIGIBLE = -85.0
"""Spectrum entries below exp of this are dropped, their bound charged."""


@dataclass(frozen=True)
class Window:
    """Ring of `size` losses: `above` of them lie above the epsilon asked for. Tilts for the Chernoff bounds."""

    size: int
    above: int
    raise_by: float
    lower_by: float


def fast_size(size: int) -> int:
    """The next length that the real transform likes."""
    return int(next_fast_len(size, real=True))


def log_mgf(law: Law, tilt: float) -> float:
    """ln of one law's moment generating function; its infinite mass apart."""
    return _tilt(law, tilt)[1]


def _tilt(law: Law, tilt: float) -> tuple[Array, float]:
    """Tilted masses, normalised, and ln of their normaliser."""
    exponent = tilt * law.losses
    first, last = law.support
    # The loss increases with its index; beyond the support a large tilt would overflow.
    top = float(exponent[last] if tilt > 0 else exponent[first])
    exponent -= top
    if last - first + 1 < len(exponent):
        np.minimum(exponent, 0.0, out=exponent)
    weight = np.exp(exponent, out=exponent)
    weight *= law.masses
    total = float(weight.sum())
    weight /= total
    return weight, top + math.log(total)


@dataclass(frozen=True)
class TiltedComposition:
    """`counts[i]` steps of `laws[i]` (one spacing), tilted by `tilt` > 0, on a ring.

    precise  transform in long double, where round-off would be what separates the bounds
    """

    laws: Sequence[Law]
    counts: Sequence[int]
    tilt: float
    window: Window
    precise: bool = False

    @cached_property
    def spacing(self) -> float:
        """Of the grid, in nats."""
        return self.laws[0].spacing

    @cached_property
    def origin(self) -> float:
        """The composed loss of the ring's place 0, in nats."""
        return math.fsum(count * law.origin for law, count in zip(self.laws, self.counts, strict=True))

    @cached_property
    def infinite(self) -> float:
        """Probability that any step's loss is infinite: 1 - prod (1 - m_i)^T_i."""
        if any(law.infinite >= 1 for law in self.laws):
            return 1.0
        logs = (count * math.log1p(-law.infinite) for law, count in zip(self.laws, self.counts, strict=True))
        return -math.expm1(math.fsum(logs))

    @cached_property
    def slack(self) -> float:
        """ln of the factor that covers the guard's slack."""
        return math.fsum(count * math.log1p(law.slack) for law, count in zip(self.laws, self.counts, strict=True))

    @cached_property
    def _tilted(self) -> list[tuple[Array, float]]:
        return [_tilt(law, self.tilt) for law in self.laws]

    @cached_property
    def _steps(self) -> list[float]:
        return [k for _, k in self._tilted]

    @cached_property
    def log_mgf(self) -> float:
        """ln E exp(tilt S) of the finite losses."""
        return math.fsum(count * k for k, count in zip(self._steps, self.counts, strict=True))

    @cached_property
    def rounding(self) -> float:
        """Relative error of tilted masses and normalisers, summed over all steps."""
        total = 0.0
        for law, count, k in zip(self.laws, self.counts, self._steps, strict=True):
            reach = max(abs(law.origin), abs(law.origin + law.spacing * (len(law.masses) - 1)))
            total += count * 4 * _EPS * (4 + self.tilt * reach + abs(k))
        return total

    @cached_property
    def position_error(self) -> float:
        """Absolute error of the losses' positions."""
        total = sum(count * (abs(law.origin) + law.spacing) for law, count in zip(self.laws, self.counts, strict=True))
        return 8 * _EPS * (total + self.spacing * self.window.size)

    @cached_property
    def _spectrum(self) -> tuple[NDArray[np.int64], NDArray[Any], Array, float]:
        """Kept frequencies, their values over N (doubled for the mirrored half), error bounds, and what was dropped."""
        n = self.window.size
        weights = [weight for weight, _ in self._tilted]
        spectra, dropped = transforms(weights, self.counts, n, _NEGLIGIBLE, precise=self.precise)
        real = spectra[0].values.real.dtype
        log_size = np.zeros(len(spectra[0].values), dtype=real)
        sizes = [np.abs(transform.values) for transform in spectra]
        for size, transform, count in zip(sizes, spectra, self.counts, strict=True):
            log_size += count * np.log(size + transform.error)
        keep = np.flatnonzero(log_size > _NEGLIGIBLE)
        if len(keep) < len(log_size):
            dropped = max(dropped, math.exp(_NEGLIGIBLE))
        value = np.ones(len(keep), dtype=spectra[0].values.dtype)
        log_exact = np.zeros(len(keep), dtype=real)
        for size, transform, count in zip(sizes, spectra, self.counts, strict=True):
            value *= _power(transform.values[keep], count)
            with np.errstate(divide="ignore"):
                log_exact += count * np.log(size[keep])
        bound = np.exp(log_size[keep])
        error = -bound * np.expm1(log_exact - log_size[keep]) + bound * (
            8 * float(np.finfo(real).eps) * sum(self.counts)
        )
        scale = np.where((keep == 0) | (2 * keep == n), 1.0, 2.0) / n
        # Rounding what is precise to float64 is charged where the sum is (`_raw`), with the sum's own.
        rounded = (value * scale).astype(np.complex128), (error * scale).astype(np.float64)
        return keep.astype(np.int64), *rounded, dropped

    @cached_property
    def _series(self) -> list[NDArray[np.complex128]]:
        """Geometric sums of exp((-a h + i w) m) over the window's losses above epsilon, a = tilt and tilt + 1."""
        n, above = self.window.size, self.window.above
        keep = self._spectrum[0]
        once, all_of_them = 2j * np.pi / n * keep, 2j * np.pi / n * ((keep * above) % n)
        out = []
        for a in (self.tilt, self.tilt + 1):
            rate = a * self.spacing
            out.append(np.expm1(all_of_them - rate * above) / np.expm1(once - rate))
        return out

    @cached_property
    def _sizes(self) -> tuple[Array, Array, Array]:
        """Absolute values of both series, and bounds on those of the spectrum."""
        near, far = self._series
        _, value, error, _ = self._spectrum
        return np.abs(near), np.abs(far), np.abs(value) + error

    @cached_property
    def _turns(self) -> NDArray[np.complex128]:
        """exp(2 pi i k / N) for every k: looked up where most frequencies are kept."""
        n = self.window.size
        return np.exp(2j * np.pi / n * np.arange(n))

    def _raw(self, epsilon: float) -> tuple[float, float, float, float]:
        """E[w] on the ring in units of exp(log_mgf - tilt * epsilon), its rounding error, and the window's ends."""
        h, n = self.spacing, self.window.size
        keep, value, error, dropped = self._spectrum
        first = math.floor((epsilon - self.origin) / h) + 1
        gap = self.origin + first * h - epsilon
        (near, far), (near_size, far_size, value_size) = self._series, self._sizes
        # Unsigned: half the time of signed remainders.
        turns = keep.astype(np.uint64) * np.uint64(first % n) % np.uint64(n)
        turn = self._turns[turns] if 4 * len(keep) > n else np.exp(2j * np.pi / n * turns)
        a, b = math.exp(-self.tilt * gap), math.exp(-(self.tilt + 1) * gap)
        weight = a * near - b * far
        # Sums, not BLAS: its threads cost more than they save here.
        total = float(np.sum((value * turn * weight).real))
        scale = a * near_size + b * far_size
        charge = float(np.sum(error * np.abs(weight))) + 16 * _EPS * float(np.sum(value_size * scale))
        charge += dropped * self.window.above
        top = self.origin + h * (first + self.window.above)
        return total, charge, top - n * h, top

    @cached_property
    def _chernoff(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """(shift, ln of the moment generating function's ratio) downwards and upwards."""
        out = []
        for shift in (-self.window.lower_by, self.window.raise_by):
            terms = (c * log_mgf(law, self.tilt + shift) for law, c in zip(self.laws, self.counts, strict=True))
            out.append((shift, math.fsum(terms) - self.log_mgf))
        return out[0], out[1]

    @cached_property
    def _support(self) -> tuple[float, float]:
        h = self.spacing
        first = last = 0
        for law, count in zip(self.laws, self.counts, strict=True):
            first, last = first + count * law.support[0], last + count * law.support[1]
        return self.origin + h * (first - 0.5), self.origin + h * (last + 0.5)

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
        total, charge, bottom, top = self._raw(eps)
        above = self._outside(bottom, top)[1]
        mass = max(total + charge, 0.0) + math.exp(above - self.tilt * (top - eps))
        finite = self.slack + self.rounding + self.log_mgf - self.tilt * eps + log_of(mass)
        return _log_sum(finite, log_of(self.infinite))

    def log_delta_lower(self, epsilon: float) -> float:
        """ln of a lower bound on the hockey-stick divergence at `epsilon` (either sign); -inf if none is known."""
        eps = epsilon + self.slack + self.position_error
        total, charge, bottom, top = self._raw(eps)
        below, above = self._outside(bottom, top)
        t = self.tilt
        peak = math.exp(t * math.log(t) - (1 + t) * math.log1p(t))
        mass = total - charge - peak * (math.exp(below) + math.exp(above))
        return self.log_mgf - self.slack - self.rounding - self.tilt * eps + log_of(mass)


def _log_sum(a: float, b: float) -> float:
    high = max(a, b)
    return high if math.isinf(high) else high + math.log(math.exp(a - high) + math.exp(b - high))


def _power(z: NDArray[Any], count: int) -> NDArray[Any]:
    """z**count by repeated squaring: relative error at most a few units in the last place times count."""
    out = np.ones_like(z)
    square = z
    while True:
        if count & 1:
            out = out * square
        count >>= 1
        if not count:
            return out
        square = square * square

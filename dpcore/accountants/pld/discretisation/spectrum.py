"""Spectra of one step's tilted masses, at the frequencies that survive the composition.

After many steps only the lowest frequencies are left, and the ring has far more losses than those need.
Which ones vanish is read off a coarse set of frequencies: |z(w)|^2 = E cos(w (J - J')) has a second derivative
of at most 2 Var J, so between neighbours D apart it exceeds neither by more than Var J * D^2 / 4. The others are
computed from moments of blocks of cells (a Taylor series in the place inside a block) and a short transform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len, rfft

from dpcore.accountants.pld.pairs import Array

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

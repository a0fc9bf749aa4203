"""The least noise that a search can afford: solved against any price, rounded up, and priced again as rounded."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from dpcore import checks
from dpcore.calibrate.parameter import NOISE
from dpcore.calibrate.target import CannotCalibrate, Target

_CLOSE = 1e-6
_START, _STRIDE = 1.0, 1.5


def least_noise(target: Target, price_of: Callable[[float], float]) -> float:
    """The least noise multiplier whose price is at most `target.epsilon`, rounded up to `calibrate.DIGITS` digits.

    price_of  epsilon of the whole search, at `target.delta`, when every trial runs with this noise multiplier: an upper
              bound that falls as noise rises. The answer's own price has been asked, and is at most the target.

    Raises CannotCalibrate, InvalidValue, and as `price_of` does.
    """
    return _least(lambda noise: price_of(noise) - target.epsilon, target)


def least_noise_meeting(target: Target, exceeds: Callable[[float], float]) -> float:
    """The least noise multiplier at which `exceeds` is at most 0, rounded up to `calibrate.DIGITS` digits.

    exceeds  falls as noise rises; `target` names what is aimed at in the error. Raises as `least_noise` does.
    """
    return _least(exceeds, target)


def _least(exceeds: Callable[[float], float], target: Target) -> float:
    # In small steps from a common value: accountants take seconds where noise is far too small.
    low = high = _START
    while exceeds(high) > 0:
        if high >= NOISE.high:
            spent = target.epsilon + exceeds(high)
            raise CannotCalibrate(NOISE.name, target, high, spent, "Raise epsilon, or lower the mean number of trials.")
        low, high = high, min(high * _STRIDE, NOISE.high)
    while low == high or exceeds(low) <= 0:
        if low <= NOISE.low:
            return NOISE.low
        low, high = max(low / _STRIDE, NOISE.low), low
    root = brentq(lambda t: _finite(exceeds(math.exp(t))), math.log(low), math.log(high), xtol=_CLOSE, rtol=1e-12)
    found = NOISE.rounded(math.exp(float(root)))
    while exceeds(found) > 0:
        found = NOISE.next(found, towards_safe=True)
    while (bolder := NOISE.next(found, towards_safe=False)) != found and exceeds(bolder) <= 0:
        found = bolder
    return found


def _finite(value: float) -> float:
    if math.isnan(value):
        raise checks.InvalidValue("price_of", value, "a number")
    return min(value, 1e6)

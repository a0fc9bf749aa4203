"""Solve one parameter of an event so that its epsilon meets a target: noise, steps, sampling rate or queries.

The answer is always on the private side: noise is rounded up, rate and counts down, and the rounded value is counted
again by the accountant itself, whose upper bound has to be at most the target. Estimates only choose where to look.

    target     what has to be met
    parameter  what is solved
    search     how
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, MutableMapping

from dpcore import checks
from dpcore.accountants.registry import ACCOUNTANTS
from dpcore.calibrate.parameter import (
    COUNT_RANGE,
    DIGITS,
    NOISE,
    NOISE_RANGE,
    QUERIES,
    RATE,
    RATE_RANGE,
    STEPS,
    Solvable,
)
from dpcore.calibrate.search import Calibration, Estimating
from dpcore.calibrate.target import CannotCalibrate, Target
from dpcore.events import Event, Gaussian, PoissonSampled, Repeated, to_dict

__all__ = [
    "COUNT_RANGE",
    "DIGITS",
    "NOISE",
    "NOISE_RANGE",
    "QUERIES",
    "RATE",
    "RATE_RANGE",
    "STEPS",
    "Cache",
    "CannotCalibrate",
    "Estimating",
    "Solvable",
    "Target",
    "noise_multiplier",
    "queries",
    "sample_rate",
    "sampled_gaussian",
    "solve",
    "steps",
]

_VERSION = 3

Cache = MutableMapping[str, float]


def noise_multiplier(target: Target, *, rate: float, steps: int, cache: Cache | None = None) -> float:
    """The least noise multiplier for `steps` Poisson-sampled Gaussian steps at `rate`, rounded up to `DIGITS` digits.

    Raises CannotCalibrate when even the largest noise in `NOISE_RANGE` spends too much, InvalidValue, and
    UnsupportedEvent when the accountant cannot count sampled Gaussians. The least noise in the range is returned when
    it already meets the target.
    """
    checks.rate(rate=rate)
    checks.count(minimum=1, steps=steps)
    return solve(target, NOISE, lambda noise: sampled_gaussian(noise, rate, steps), cache=cache)


def steps(target: Target, *, rate: float, noise_multiplier: float, cache: Cache | None = None) -> int:
    """The largest number of steps. Raises CannotCalibrate when one step already spends too much, and InvalidValue."""
    checks.rate(rate=rate)
    checks.positive_finite(noise_multiplier=noise_multiplier)
    return int(solve(target, STEPS, lambda count: sampled_gaussian(noise_multiplier, rate, int(count)), cache=cache))


def sample_rate(target: Target, *, noise_multiplier: float, steps: int, cache: Cache | None = None) -> float:
    """The largest Poisson sampling rate, rounded down to `DIGITS` digits. Raises CannotCalibrate, InvalidValue."""
    checks.positive_finite(noise_multiplier=noise_multiplier)
    checks.count(minimum=1, steps=steps)
    return solve(target, RATE, lambda rate: sampled_gaussian(noise_multiplier, rate, steps), cache=cache)


def queries(target: Target, event: Event, *, cache: Cache | None = None) -> int:
    """How often `event` may be run. Raises CannotCalibrate when once already spends too much."""
    return int(solve(target, QUERIES, lambda count: Repeated(event=event, count=int(count)), cache=cache))


def sampled_gaussian(noise_multiplier: float, rate: float, steps: int) -> Event:
    """`steps` runs of a Gaussian on a fresh Poisson sample each."""
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier)), count=steps)


def solve(
    target: Target, parameter: Solvable, event_of: Callable[[float], Event], *, cache: Cache | None = None
) -> float:
    """The boldest value of `parameter` whose event has an epsilon of at most `target.epsilon`.

    event_of  the event at a value of the parameter; epsilon must be monotone in it, as `parameter.increases` says
    cache     filled and asked by what decides the answer: accountant and version, adjacency, the event at two values
              of the parameter, epsilon, delta, tolerance
    Raises CannotCalibrate, naming the nearest reachable value; UnsupportedEvent from the accountant.
    """
    key = _key(target, parameter, event_of) if cache is not None else ""
    if cache is not None and key in cache:
        return cache[key]
    value = Calibration(target, parameter, event_of).run()
    if cache is not None:
        cache[key] = value
    return value


def _key(target: Target, parameter: Solvable, event_of: Callable[[float], Event]) -> str:
    """What decides the answer, as text. The event at two values stands for the event's shape."""
    probes = [parameter.safest, parameter.rounded(math.sqrt(parameter.low * parameter.high))]
    return json.dumps(
        [
            f"calibration-{_VERSION}",
            target.accountant,
            ACCOUNTANTS[target.accountant].version,
            target.adjacency.value,
            [parameter.name, parameter.low, parameter.high],
            [to_dict(event_of(probe)) for probe in probes],
            target.epsilon,
            target.delta,
            target.tolerance,
        ],
        separators=(",", ":"),
    )

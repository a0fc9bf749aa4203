"""Solve one parameter of an event so that its epsilon meets a target: the noise, or the number of steps.

The answer is always on the private side: noise is rounded up, steps are rounded down, and the rounded value is counted
again by the accountant itself, whose upper bound has to be at most the target.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from scipy.optimize import brentq

from dpcore import checks
from dpcore.accountants.gdp import GDPCLTAccountant
from dpcore.accounting import HEADLINE, TOLERANCE, headline, make
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, Repeated, to_dict
from dpcore.gdp import mu_gdp
from dpcore.guarantee import epsilon_text

DIGITS = 5
"""Significant digits of a solved noise multiplier, which is rounded up."""

NOISE_RANGE = (0.05, 1e6)
COUNT_RANGE = (1, 10**9)

Cache = MutableMapping[str, float]

_VERSION = 5
"""Raised whenever an accountant's numbers may change: part of the key of every cached calibration."""
_STRIDE = 0.02
_FAR = 1e6
"""Far from the target, all that counts is the side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What has to be met, and who counts it.

    epsilon     in nats, above 0
    delta       in (0, 1)
    accountant  a name in `dpcore.accounting.ACCOUNTANTS`; by "pld" the headline counts, which names another
                accountant where the loss distribution cannot be bounded (`dpcore.accounting.headline`)
    tolerance   relative gap between bounds that the accountant is asked for

    Raises InvalidValue.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    accountant: str = "pld"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon, tolerance=self.tolerance)
        checks.probability_open(delta=self.delta)
        make(self.accountant, self.adjacency, self.tolerance)


class CannotCalibrate(ValueError):
    """No value of the parameter meets the target. `nearest` is the value that comes closest, at `nearest_epsilon`."""

    def __init__(self, parameter: str, target: Target, nearest: float, nearest_epsilon: float, remedy: str) -> None:
        self.parameter, self.target, self.nearest, self.nearest_epsilon = parameter, target, nearest, nearest_epsilon
        spent = epsilon_text(nearest_epsilon, digits=6)
        super().__init__(
            f"epsilon={target.epsilon!r} at delta={target.delta!r}: expected a target that some {parameter} can meet, "
            f"but even {parameter}={nearest:g} spends epsilon {spent} ({target.accountant}, "
            f"{target.adjacency}). {remedy}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvable:
    """One positive number to be solved.

    low, high  inclusive range that is searched
    counted    whether it is a whole number with which epsilon rises, as steps are; with another, noise, it falls
    remedy     what to change when no value meets the target
    """

    name: str
    low: float
    high: float
    counted: bool
    remedy: str

    @property
    def safest(self) -> float:
        """The end of the range with the least epsilon."""
        return self.low if self.counted else self.high

    @property
    def boldest(self) -> float:
        """The end of the range with the largest epsilon."""
        return self.high if self.counted else self.low

    def at(self, logarithm: float) -> float:
        """The value in the range that is nearest to exp(logarithm)."""
        value = min(max(math.exp(logarithm), self.low), self.high)
        return float(max(self.low, round(value))) if self.counted else value

    def rounded(self, value: float) -> float:
        """`value` on the safe side with `DIGITS` digits (counts: the integer below), inside the range."""
        if self.counted:
            step: float = math.floor(value)
        else:
            scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
            # A value that already has so few digits is its own rounding, whatever the product says in its last bit.
            near = round(value * scale)
            exact = abs(value * scale - near) <= 1e-9 * near
            step = (near if exact else math.ceil(value * scale)) / scale
        return min(max(float(step), self.low), self.high)

    def next(self, value: float, towards_safe: bool) -> float:
        """The neighbour of a rounded value, one unit of its last digit away, inside the range."""
        unit = 1.0 if self.counted else 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
        moved = value + (unit if towards_safe is not self.counted else -unit)
        digits = 0 if self.counted else DIGITS + 1 - math.floor(math.log10(value))
        return min(max(round(moved, digits), self.low), self.high)


NOISE = Solvable(
    name="noise_multiplier",
    low=NOISE_RANGE[0],
    high=NOISE_RANGE[1],
    counted=False,
    remedy="Raise epsilon or delta, or take fewer steps or a smaller sampling rate.",
)
STEPS = Solvable(
    name="steps",
    low=COUNT_RANGE[0],
    high=COUNT_RANGE[1],
    counted=True,
    remedy="Raise epsilon or the noise, or lower the sampling rate.",
)


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


def sampled_gaussian(noise_multiplier: float, rate: float, steps: int) -> Event:
    """`steps` runs of a Gaussian on a fresh Poisson sample each."""
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise_multiplier)), count=steps)


def solve(
    target: Target, parameter: Solvable, event_of: Callable[[float], Event], *, cache: Cache | None = None
) -> float:
    """The boldest value of `parameter` whose event has an epsilon of at most `target.epsilon`.

    event_of  the event at a value of the parameter; epsilon must be monotone in it, as `parameter.counted` says
    cache     filled and asked by what decides the answer: accountant and version, adjacency, the event at two values
              of the parameter, epsilon, delta, tolerance
    Raises CannotCalibrate, naming the nearest reachable value; UnsupportedEvent from the accountant.
    """
    key = _key(target, parameter, event_of) if cache is not None else ""
    if cache is not None and key in cache:
        return cache[key]
    accountant = make(target.accountant, target.adjacency, target.tolerance)

    def epsilon(value: float) -> float:
        if target.accountant == HEADLINE:
            # What the claim will say, where the distribution cannot be bounded as closely as asked as well.
            return headline(event_of(value), target.delta, target.adjacency, tolerance=target.tolerance).epsilon
        return accountant.compose(event_of(value)).epsilon(target.delta)

    def exceeds(value: float) -> float:
        # Logarithms make epsilon nearly straight; rounding must not change the side.
        spent = epsilon(value)
        excess = math.log(min(max(spent / target.epsilon, 1 / _FAR), _FAR))
        return min(excess, 0.0) if spent <= target.epsilon else max(excess, 1e-16)

    value = boldest(parameter, exceeds, _start(target, parameter, event_of))
    if value is None:
        safest = parameter.safest
        raise CannotCalibrate(parameter.name, target, safest, epsilon(safest), parameter.remedy)
    if cache is not None:
        cache[key] = value
    return value


def boldest(parameter: Solvable, exceeds: Callable[[float], float], start: float) -> float | None:
    """The boldest value of `parameter`, rounded to the safe side, at which `exceeds` is at most 0; None without one.

    exceeds  monotone but for rounding: above 0 where a value is too bold
    start    from where to look: as near as possible, since far too bold values may take long to count
    """
    known: dict[float, float] = {}

    def at(value: float) -> float:
        if value not in known:
            excess = exceeds(value)
            if math.isnan(excess):
                raise checks.InvalidValue("exceeds", excess, "a number")
            known[value] = min(max(excess, -_FAR), _FAR)
        return known[value]

    low, high = math.log(parameter.low), math.log(parameter.high)
    sign = 1.0 if parameter.counted else -1.0
    here = min(max(math.log(start), low), high)
    too_bold, stride = at(parameter.at(here)) > 0, _STRIDE
    while True:
        there = min(max(here + (-sign if too_bold else sign) * stride, low), high)
        if there == here:
            return None if too_bold else parameter.boldest
        if (at(parameter.at(there)) > 0) is not too_bold:
            break
        here, stride = there, 3 * stride
    close = 0.2 / math.exp(max(here, there)) if parameter.counted else 0.25 * 10.0**-DIGITS
    root = float(brentq(lambda t: at(parameter.at(t)), here, there, xtol=close, rtol=1e-14))
    value = parameter.rounded(parameter.at(root))
    while at(value) > 0:
        if value == parameter.safest:
            return None
        value = parameter.next(value, towards_safe=True)
    while (bolder := parameter.next(value, towards_safe=False)) != value and at(bolder) <= 0:
        value = bolder
    return value


def _start(target: Target, parameter: Solvable, event_of: Callable[[float], Event]) -> float:
    """Where the central limit theorem, in closed form, meets the target; 1 where there is none for the event."""
    limit = GDPCLTAccountant(target.adjacency)
    if not limit.supports(event_of(parameter.safest)):
        return 1.0
    mu = max(mu_gdp(target.epsilon, target.delta), 1e-300)

    def excess(t: float) -> float:
        return math.log(min(max(limit.compose(event_of(parameter.at(t))).mu / mu, 1 / _FAR), _FAR))

    safe, bold = math.log(parameter.safest), math.log(parameter.boldest)
    if excess(safe) >= 0:
        return parameter.safest
    return parameter.boldest if excess(bold) <= 0 else parameter.at(float(brentq(excess, safe, bold, xtol=1e-3)))


def _key(target: Target, parameter: Solvable, event_of: Callable[[float], Event]) -> str:
    """What decides the answer, as text. The event at two values stands for the event's shape."""
    probes = [parameter.safest, parameter.rounded(math.sqrt(parameter.low * parameter.high))]
    return json.dumps(
        [
            f"calibration-{_VERSION}",
            target.accountant,
            target.adjacency.value,
            [parameter.name, parameter.low, parameter.high],
            [to_dict(event_of(probe)) for probe in probes],
            target.epsilon,
            target.delta,
            target.tolerance,
        ],
        separators=(",", ":"),
    )

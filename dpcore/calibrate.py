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
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from scipy.optimize import brentq

from dpcore import checks
from dpcore.accountants.gdp import GDPCLTAccountant
from dpcore.accountants.pld.bounds import EPSILON_FLOOR
from dpcore.accountants.registry import ACCOUNTANTS, TOLERANCE, make
from dpcore.accounting import HEADLINE, headline
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, Repeated, to_dict
from dpcore.gdp import mu_gdp
from dpcore.rounding import epsilon_text

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


# What a calibration has to meet, and who counts it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What has to be met, and who counts it.

    epsilon     in nats, above 0
    delta       in (0, 1)
    accountant  a name in `dpcore.accountants.registry.ACCOUNTANTS`; by "pld" the headline counts, which names another
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


# The number that is solved: its range, which way epsilon goes with it, and how it is rounded to the safe side.

DIGITS = 5
"""Significant digits of a solved noise multiplier (rounded up) or rate (rounded down)."""

NOISE_RANGE = (0.05, 1e6)
RATE_RANGE = (1e-9, 1.0)
COUNT_RANGE = (1, 10**9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solvable:
    """One positive number to be solved.

    low, high  inclusive range that is searched
    increases  whether epsilon rises with it (steps, rate, queries) or falls (noise)
    integer    whether it is counted
    remedy     what to change when no value meets the target

    Raises InvalidValue.
    """

    name: str
    low: float
    high: float
    increases: bool
    integer: bool = False
    remedy: str = "Raise epsilon."

    def __post_init__(self) -> None:
        checks.positive_finite(low=self.low, high=self.high)
        if self.low > self.high:
            raise checks.InvalidValue("low", self.low, f"at most high={self.high!r}")

    @property
    def safest(self) -> float:
        """The end of the range with the least epsilon."""
        return self.low if self.increases else self.high

    @property
    def boldest(self) -> float:
        """The end of the range with the largest epsilon."""
        return self.high if self.increases else self.low

    def rounded(self, value: float) -> float:
        """`value` on the safe side with `DIGITS` digits (counts: the integer below), inside the range."""
        up = not self.increases
        if self.integer:
            step: float = math.ceil(value) if up else math.floor(value)
        else:
            scale = 10.0 ** (DIGITS - 1 - math.floor(math.log10(value)))
            # A value that already has so few digits is its own rounding, whatever the product says in its last bit.
            near = round(value * scale)
            exact = abs(value * scale - near) <= 1e-9 * near
            step = (near if exact else math.ceil(value * scale) if up else math.floor(value * scale)) / scale
        return min(max(float(step), self.low), self.high)

    def next(self, value: float, towards_safe: bool) -> float:
        """The neighbour of a rounded value, one unit of its last digit away, inside the range."""
        unit = 1.0 if self.integer else 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
        moved = value + (unit if towards_safe is not self.increases else -unit)
        digits = 0 if self.integer else DIGITS + 1 - math.floor(math.log10(value))
        return min(max(round(moved, digits), self.low), self.high)


NOISE = Solvable(
    name="noise_multiplier",
    low=NOISE_RANGE[0],
    high=NOISE_RANGE[1],
    increases=False,
    remedy="Raise epsilon or delta, or take fewer steps or a smaller sampling rate.",
)
RATE = Solvable(
    name="sample_rate",
    low=RATE_RANGE[0],
    high=RATE_RANGE[1],
    increases=True,
    remedy="Raise epsilon or the noise, or take fewer steps.",
)
STEPS = Solvable(
    name="steps",
    low=COUNT_RANGE[0],
    high=COUNT_RANGE[1],
    increases=True,
    integer=True,
    remedy="Raise epsilon or the noise, or lower the sampling rate.",
)
QUERIES = replace(STEPS, name="queries", remedy="Raise epsilon, or spend less on each query.")


# How a parameter is searched: estimates choose where to look, the accountant's upper bound alone accepts.

# The accepted answer spends at least 1 - _SLACK * tolerance of the target, unless rounding forbids.
_SLACK = 2.0
# The upper bound lies above an estimate by most of the tolerance; once that is measured, a small margin remains.
_LEAD, _MARGIN = 0.7, 0.25
_ROUNDS = 12
_LOOSE = 0.02
"""Instead, where the accountant's own bounds are farther apart than asked."""
# How closely a root is wanted that only starts a search, and one of bounds.
_COARSE, _FINE = 1e-4, 5e-5
_COARSE_AGAIN = 2
"""How often coarse bounds are asked again where the accountant's own were not close to its target."""


@runtime_checkable
class Estimating(Protocol):
    """An accountant that can guess its own epsilon much faster than it can prove it."""

    def epsilon_estimate(self, delta: float) -> float:
        """Close to `epsilon(delta)`, without any guarantee."""
        ...

    def takes_large_grid(self, delta: float) -> bool:
        """Whether `epsilon(delta)` takes seconds."""
        ...

    def epsilon_coarse(self, delta: float) -> float:
        """Above `epsilon(delta)`, usually by some percent, in milliseconds; infinite where that is not known."""
        ...


class Calibration:
    """One calibration: its accountant, and what it has counted so far."""

    def __init__(self, target: Target, parameter: Solvable, event_of: Callable[[float], Event]) -> None:
        self.target, self.parameter, self.event_of = target, parameter, event_of
        self.accountant = make(target.accountant, target.adjacency, target.tolerance)
        estimating = isinstance(self.accountant, Estimating)
        self.gap = target.tolerance if estimating else 0.0
        """Relative distance to be expected between an estimate and the accountant's upper bound."""
        self.counted: dict[float, float] = {}
        self.coarse: dict[float, float] = {}
        self.loose = False
        """Whether some bound was farther from the truth than asked: then the last digits are not worth their time."""

    def run(self) -> float:
        """The boldest value that is found to meet the target. Raises CannotCalibrate, and as the accountant does."""
        return self._by_estimate() if self.gap > 0 else self._by_root()

    def _by_root(self) -> float:
        """Where nothing lies between estimate and bound: the root of epsilon itself, rounded."""
        value = self.parameter.rounded(
            self._root(self._estimate, self.target.epsilon, self._start(), 10.0**-DIGITS / 4)
        )
        feasible, infeasible = self._sorted(value, None, None)
        return self._bisect(feasible, infeasible)

    def _by_estimate(self) -> float:
        """From the estimate's root by secants of ln epsilon over ln value, between what was found on either side."""
        parameter, target = self.parameter, self.target
        aim = target.epsilon * (1 - _LEAD * self.gap)
        guess = self._root(self._estimate, aim, self._start(), _COARSE)
        feasible: float | None = None
        infeasible: float | None = None
        before: tuple[float, float] | None = None
        # Where bounds take seconds, or the estimate led far off, coarse bounds, in milliseconds, tell where to look.
        coarse_aim, asked_again = 0.0, 0
        while len(self.counted) < _ROUNDS:
            value = parameter.rounded(guess)
            if value in self.counted:
                break
            if not coarse_aim and not parameter.integer and self._takes_large_grid(value):
                coarse_aim = target.epsilon
                guess = self._root(self._coarse, coarse_aim, value, _FINE)
                continue
            spent = self.epsilon(value)
            feasible, infeasible = self._sorted(value, feasible, infeasible)
            if feasible is not None and (feasible == parameter.boldest or self._is_last(feasible, infeasible)):
                return feasible
            if before is None and abs(spent - self._estimate(value)) <= 1e-2 * self.gap * spent:
                # A closed form needs no room: nothing lies between its estimate and its bound.
                self.gap = 0.0
            if self.gap > 0 and not parameter.integer and value == feasible and self._close(value):
                return value
            if spent == 0 and not coarse_aim and not parameter.integer:
                coarse_aim = target.epsilon
                guess = self._root(self._coarse, coarse_aim, value, _FINE)
                continue
            if not 0 < spent < math.inf:
                break
            here = math.log(value), math.log(spent)
            if coarse_aim and asked_again < _COARSE_AGAIN:
                # By as much as coarse bounds are off here they will be off beside.
                coarse_aim *= target.epsilon * (1 - self._slack / 2) / spent
                following = math.log(self._root(self._coarse, coarse_aim, value, _FINE))
                asked_again += 1
            else:
                slope = self._slope(value) if before is None else (here[1] - before[1]) / (here[0] - before[0])
                if not slope * (1 if parameter.increases else -1) > 0:
                    break
                following = here[0] + (math.log(target.epsilon * (1 - _MARGIN * self.gap)) - here[1]) / slope
            guess = math.exp(min(max(following, math.log(parameter.low)), math.log(parameter.high)))
            if feasible is not None and infeasible is not None:
                low, high = sorted((feasible, infeasible))
                guess = guess if low < guess < high else math.sqrt(low * high)
            before = here
        if feasible is not None and not parameter.integer and self._close(feasible):
            return feasible
        return self._bisect(feasible, infeasible)

    def _slope(self, value: float) -> float:
        """d ln epsilon / d ln value by the estimates at `value` and a little beside it; 0 where they say nothing."""
        beside = self._beside(value)
        here, there = self._estimate(value), self._estimate(beside)
        return math.log(there / here) / math.log(beside / value) if min(here, there) > 0 and beside != value else 0.0

    def _sorted(
        self, value: float, feasible: float | None, infeasible: float | None
    ) -> tuple[float | None, float | None]:
        """The boldest feasible and the safest infeasible value once `value` is counted. Raises CannotCalibrate."""
        parameter, spent = self.parameter, self.epsilon(value)
        if spent <= self.target.epsilon:
            return (value if feasible is None else self._bolder(feasible, value)), infeasible
        if value == parameter.safest:
            raise CannotCalibrate(parameter.name, self.target, value, spent, parameter.remedy)
        return feasible, (value if infeasible is None else self._safer(infeasible, value))

    def _is_last(self, feasible: float, infeasible: float | None) -> bool:
        return self.parameter.next(feasible, towards_safe=False) == infeasible

    def _beside(self, value: float) -> float:
        """A value a few percent away, inside the range."""
        parameter = self.parameter
        step = max(1.0, round(0.03 * value)) if parameter.integer else 0.03 * value
        return value + step if value + step <= parameter.high else value - step

    def _close(self, value: float) -> bool:
        """Whether a feasible value already spends nearly all of the target."""
        return self.epsilon(value) >= self.target.epsilon * (1 - self._slack)

    @property
    def _slack(self) -> float:
        return _LOOSE if self.loose else _SLACK * self.target.tolerance

    def epsilon(self, value: float) -> float:
        """The accountant's upper bound at a value of the parameter; the headline's, where that is the accountant."""
        if value not in self.counted:
            target, event = self.target, self.event_of(value)
            if target.accountant == HEADLINE:
                # What the claim will say, where the distribution cannot be bounded as closely as asked as well.
                claim = headline(event, target.delta, target.adjacency, tolerance=target.tolerance)
                self.counted[value] = claim.epsilon
                known = claim.epsilon_lower or 0.0
                self.loose |= known < claim.epsilon * (1 - _SLACK * target.tolerance) - EPSILON_FLOOR
            else:
                self.counted[value] = self.accountant.compose(event).epsilon(target.delta)
        return self.counted[value]

    def _estimate(self, value: float) -> float:
        composed = self.accountant.compose(self.event_of(value))
        if isinstance(composed, Estimating):
            return composed.epsilon_estimate(self.target.delta)
        return self.epsilon(value)

    def _takes_large_grid(self, value: float) -> bool:
        composed = self.accountant.compose(self.event_of(value))
        return isinstance(composed, Estimating) and composed.takes_large_grid(self.target.delta)

    def _coarse(self, value: float) -> float:
        if value not in self.coarse:
            composed = self.accountant.compose(self.event_of(value))
            assert isinstance(composed, Estimating)
            self.coarse[value] = composed.epsilon_coarse(self.target.delta)
        return self.coarse[value]

    def _start(self) -> float:
        """Where the central limit theorem, in closed form, meets the target; the middle of the range without one."""
        parameter, target = self.parameter, self.target
        limit = GDPCLTAccountant(target.adjacency)
        middle = math.sqrt(parameter.low * parameter.high)
        if not limit.supports(self.event_of(middle if not parameter.integer else round(middle))):
            return min(max(1.0, parameter.low), parameter.high)
        # Epsilon grows with mu alone: its inverse is taken once.
        return self._root(
            lambda value: limit.compose(self.event_of(value)).mu,
            max(mu_gdp(target.epsilon, target.delta), 1e-300),
            max(1.0, parameter.low),
            _COARSE,
        )

    def _root(self, epsilon_at: Callable[[float], float], aim: float, guess: float, relative: float) -> float:
        """Where `epsilon_at`, nearly monotone, crosses `aim`, within `relative`; else the nearer end of the range."""
        parameter = self.parameter
        low, high = math.log(parameter.low), math.log(parameter.high)
        sign = 1.0 if parameter.increases else -1.0

        def value_at(t: float) -> float:
            value = min(max(math.exp(t), parameter.low), parameter.high)
            return float(max(parameter.low, round(value))) if parameter.integer else value

        def excess(t: float) -> float:
            # Logarithms make epsilon nearly straight; far off, all that counts is the side.
            spent = epsilon_at(value_at(t))
            return sign * math.log(min(max(spent / aim, 1e-6), 1e6))

        t = min(max(math.log(guess), low), high)
        here, stride = excess(t), 0.05
        if here == 0:
            return value_at(t)
        while True:
            other = min(max(t - math.copysign(stride, here), low), high)
            if other == t:
                return value_at(t)
            there = excess(other)
            if (there > 0) != (here > 0):
                break
            t, here, stride = other, there, stride * 3
        root = float(brentq(excess, t, other, xtol=relative, rtol=1e-12))
        return value_at(root)

    def _bisect(self, feasible: float | None, infeasible: float | None) -> float:
        """The boldest feasible value between the two, by the accountant's own bound alone."""
        parameter, target = self.parameter, self.target
        if feasible is None:
            feasible = parameter.safest
            if self.epsilon(feasible) > target.epsilon:
                spent = self.epsilon(feasible)
                raise CannotCalibrate(parameter.name, target, feasible, spent, parameter.remedy)
        stride = 1
        while infeasible is None:
            if feasible == parameter.boldest:
                return feasible
            if parameter.integer:
                ahead = min(feasible + stride, parameter.high)
            else:
                ahead = parameter.rounded(feasible * 1.01 ** (stride if parameter.increases else -stride))
            if self.epsilon(ahead) > target.epsilon:
                infeasible = ahead
            else:
                feasible, stride = ahead, 2 * stride
        while parameter.next(feasible, towards_safe=False) != infeasible:
            if self.loose and not parameter.integer and self._close(feasible):
                break
            between = parameter.rounded(self._between(feasible, infeasible))
            if between in (feasible, infeasible):
                break
            if self.epsilon(between) <= target.epsilon:
                feasible = between
            else:
                infeasible = between
        return feasible

    def _between(self, feasible: float, infeasible: float) -> float:
        """The middle; where a bound takes seconds, where a straight line of logarithms meets the target."""
        if not self.loose or self.parameter.integer:
            return (feasible + infeasible) / 2
        aim = self.target.epsilon * (1 - self._slack / 2)
        below, above = (max(self.epsilon(value) / aim, 1e-6) for value in (feasible, infeasible))
        share = min(max(math.log(below) / math.log(below / above), 0.1), 0.9) if math.isfinite(above) else 0.5
        return feasible * (infeasible / feasible) ** share

    def _bolder(self, one: float, other: float) -> float:
        return max(one, other) if self.parameter.increases else min(one, other)

    def _safer(self, one: float, other: float) -> float:
        return min(one, other) if self.parameter.increases else max(one, other)


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

"""How a parameter is searched: estimates choose where to look, the accountant's upper bound alone accepts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from scipy.optimize import brentq

from dpcore.accountants.gdp import GDPCLTAccountant
from dpcore.accountants.pld.bounds import EPSILON_FLOOR
from dpcore.accountants.registry import make
from dpcore.accounting import HEADLINE, headline
from dpcore.calibrate.parameter import DIGITS, Solvable
from dpcore.calibrate.target import CannotCalibrate, Target
from dpcore.events import Event
from dpcore.gdp_dual import mu_gdp

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

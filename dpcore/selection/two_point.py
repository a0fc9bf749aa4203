"""Two-point calibration: configurations that differ in sampling rate and steps under one price of the best of K.

The price of a selection uses the trial's profile at two points only (`best`): delta(e1) and delta at the epsilon that
is left, e_hat = epsilon - penalty. A trial that draws its configuration from a prior with secret coins has at most the
largest of the configurations' deltas at each point. So fix e1 in public, and let every configuration meet

    delta(e1) <= d1      and      delta(e_hat) <= d_hat = delta / mean.

Calibrating each configuration to one common (epsilon, delta) is *not* enough: delta(e1) differs among such.

Where results change what is proposed, within bounds of the prior (`clipped`), the price is that of a trial of the prior
still, whatever the policy: the same two points, with the penalty of `clipped` and d_hat = delta / (high mean).

The first success of K asks the same at points of its own (`ladder_points`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from dpcore import checks
from dpcore.calibrate.target import Target
from dpcore.selection import penalties
from dpcore.selection.clipped import clipped_at_point, clipped_shift
from dpcore.selection.counts import CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.noise import least_noise, least_noise_meeting
from dpcore.selection.profiles import TrialProfile, epsilon_at


@dataclass(frozen=True, kw_only=True)
class TwoPoint:
    """What every configuration has to meet so that the best of K costs (epsilon, delta). Public.

    law      of K
    epsilon  of the whole selection, in nats, above 0
    delta    of the whole selection, in (0, 1)
    e1, d1   the first point: in nats, at least 0; in [0, 1]
    low, high  bounds on the ratio of every proposal's density to the prior's, 0 < low <= 1 <= high; both 1 where no
             result changes what is proposed

    Raises InvalidValue where nothing of epsilon is left for the trial.
    """

    law: CountLaw
    epsilon: float
    delta: float
    e1: float
    d1: float
    low: float = 1.0
    high: float = 1.0

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon)
        checks.probability_open(delta=self.delta)
        checks.non_negative_finite(e1=self.e1, d1=self.d1)
        if self.d1 > 1:
            raise checks.InvalidValue("d1", self.d1, "a probability in [0, 1]")
        if self.penalty > self.epsilon:
            raise checks.InvalidValue("e1", self.e1, f"a penalty ({self.penalty:.6g}) of at most {self.epsilon=}")

    @property
    def adaptive(self) -> bool:
        """Whether results may change what is proposed."""
        return not self.low == self.high == 1

    @cached_property
    def penalty(self) -> float:
        """What the number of trials adds, in nats."""
        if self.adaptive:
            return clipped_at_point(self.law, self.e1, self.d1, self.low, self.high)
        return penalties.at_point(self.law, self.e1, self.d1)

    @property
    def e_hat(self) -> float:
        """The second point: what is left for the trial itself, in nats, rounded down."""
        return (self.epsilon - self.penalty) * (1 - 1e-15)

    @property
    def d_hat(self) -> float:
        """delta of the trial at e_hat, at most."""
        return self.delta / (self.high * penalties.selectable(self.law).mean) * (1 - 1e-15)

    def exceeds(self, configuration: TrialProfile) -> float:
        """The larger ln(delta / allowed) of the two points: at most 0 where the configuration is covered."""
        return largest_excess(configuration, ((self.e1, self.d1), (self.e_hat, self.d_hat)))

    def covers(self, configuration: TrialProfile) -> bool:
        """Whether the configuration may be in the prior."""
        return self.exceeds(configuration) <= 0

    def noise(self, profile_of: Callable[[float], TrialProfile]) -> float:
        """The least noise multiplier, rounded up, of a configuration that is covered.

        profile_of  the configuration's profile at a noise multiplier; its deltas fall as noise rises
        Raises CannotCalibrate.
        """
        target = Target(epsilon=self.epsilon, delta=self.delta)
        return least_noise_meeting(target, lambda noise: self.exceeds(profile_of(noise)))


def threshold_law(law: CountLaw) -> TruncatedNegativeBinomial:
    """The law to price, for the first success: without its cap. Raises InvalidValue unless its shape is in [0, 1]."""
    priced = law.priced if isinstance(law, CountLaw) else law
    if not isinstance(priced, TruncatedNegativeBinomial) or not 0 <= priced.shape <= 1:
        raise checks.InvalidValue("law", law, "a truncated negative binomial law of shape in [0, 1]")
    return priced


@lru_cache(maxsize=4096)
def largest_excess(configuration: TrialProfile, limits: tuple[tuple[float, float], ...]) -> float:
    """The largest ln(delta / allowed) of these (epsilon, allowed delta): at most 0 where all are kept to.

    What seems to exceed most is worked out first; of another limit it is enough that it is shown to count for no more.
    Profiles are values, so what was asked once is known.
    """
    along, most = configuration.along(), -math.inf
    for epsilon, allowed in sorted(limits, key=lambda limit: -log_ratio(along.estimate(limit[0]), limit[1])):
        most = max(most, log_ratio(along.delta_above(epsilon, allowed * math.exp(most)), allowed))
    return most


def log_ratio(found: float, allowed: float) -> float:
    """ln(found / allowed), at most 0 where it is allowed, and finite whatever is 0."""
    if found <= allowed:
        return min(0.0, math.log(found / allowed)) if min(found, allowed) > 0 else -1.0
    return math.log(found / allowed) if allowed > 0 else 700.0


@dataclass(frozen=True, kw_only=True)
class ByReference:
    """How the two points are chosen: those of one configuration, the reference, public and valid whichever it is.

    law        of K
    delta      of the whole selection, in (0, 1)
    low, high  bounds on every proposal, as those of `TwoPoint`
    """

    law: CountLaw
    delta: float
    low: float = 1.0
    high: float = 1.0

    def price(self, trial: TrialProfile) -> float:
        """Epsilon of the selection if all trials are like this one, in nats. Raises InvalidValue."""
        own = epsilon_at(trial, self.delta / (self.high * penalties.selectable(self.law).mean))
        return own + self._shift(trial).penalty

    def points(self, trial: TrialProfile, epsilon: float) -> TwoPoint:
        """The points of a reference whose price is at most `epsilon`. Raises InvalidValue."""
        shift = self._shift(trial)
        # A little below the root, so that rounding leaves it on the safe side.
        d1 = shift.d1 if isinstance(penalties.selectable(self.law), PoissonCount) else shift.d1 * (1 - 1e-11)
        return TwoPoint(
            law=self.law,
            epsilon=epsilon,
            delta=self.delta,
            e1=shift.e1,
            d1=min(1.0, d1),
            low=self.low,
            high=self.high,
        )

    def _shift(self, trial: TrialProfile) -> penalties.Shift:
        if self.low == self.high == 1:
            return penalties.tight(self.law, trial)
        return clipped_shift(self.law, trial, self.low, self.high)


def two_point(
    law: CountLaw, target: Target, profile_of: Callable[[float], TrialProfile], low: float = 1.0, high: float = 1.0
) -> TwoPoint:
    """The two points at which a reference configuration, calibrated alone, meets the target exactly.

    law         of K
    profile_of  the reference's profile at a noise multiplier; its own least noise is solved here
    low, high   bounds on every proposal, as those of `TwoPoint`

    The choice of reference is free, public and valid whatever it is: configurations like it are covered by the noise
    that they need alone, others by a little more. Raises CannotCalibrate, InvalidValue.
    """
    reference = ByReference(law=law, delta=target.delta, low=low, high=high)
    noise = least_noise(target, lambda noise: reference.price(profile_of(noise)))
    return reference.points(profile_of(noise), target.epsilon)

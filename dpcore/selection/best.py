"""The price of the best of K trials: K random and secret, every trial but the best sealed.

Procedure. Draw K from its law once. Run K independent copies of one private trial Q: draw a configuration from a fixed
public prior with secret coins, train, score, output (score, configuration, model). Release the output that ranks first
by a public total order, its score with it; where K = 0 a fixed default. Not released, in any way: K, the other trials,
which one of them it was, and whatever tells these, such as how long it took.

    eps(delta) <= eps_Q(delta/mean) + penalty

in the profile form of Koskela, Redberg & Wang (2024), with one shift for both of its worst cases: proof here and below.

Proof. Let f be the generating function of K. The best is y with chance A(y) = f(Q(<=y)) - f(Q(<y)) = Q(y) F, where F is
the mean of f' between Q(<y) and Q(<=y). f' rises, so F <= f'(1) = mean. Both ends of the interval are events of one
trial, so F <= exp(penalty) F' under a neighbour. Hence
    sum [A - exp(eps) A']+ <= sum F [Q - exp(eps - penalty) Q']+ <= mean delta_Q(eps - penalty).
The same holds for the capped law (`counts.Capped`).

The default. Where K may be 0 it has the chance f(0) under both neighbours. That adds nothing to a hockey-stick at an
epsilon of at least 0.

With K or the slot of the winner known the statements are false.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from scipy.optimize import brentq

from dpcore import checks
from dpcore.selection.counts import BinomialCount, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.profiles import ROUND_UP, TrialProfile, epsilon_at

# What the random number of trials adds to a trial's own epsilon: the largest ratio of f'(q) between neighbours.
#
# Let f be the generating function of K and x = 1 - q a chance of the trial's, x' the same under a neighbour. A profile
# says x' <= exp(e) x + delta(e) at every e >= 0. With that the ratio f'(1-x) / f'(1-x') is at most exp(penalty):
#
# law       penalty
# TNB       (1+shape) e*
# binomial  (n-1) e*
# Poisson   mean (exp(e) - 1 + delta(e)) at any e, least at e = 0: mean delta(0)
#
# odds is (1-g)/g for the truncated negative binomial law (TNB), p/(1-p) for the binomial one; e* >= 0 is the root of
# odds delta(e) = exp(e) - 1, and any larger e is valid too.
#
# Source  Koskela, Redberg & Wang (2024) for the form. One shift: for TNB f' is (g/t)^(1+shape) up to a constant, with
#         t = g + (1-g) x, and t' <= g + (1-g)(exp(e) x + d) <= exp(e) t for *all* x >= 0 exactly where odds d <=
#         exp(e) - 1. The published form adds the worst case of x = 0 (ratio 1 + odds d) to that of large x (ratio
#         exp(e)), which cannot occur together. Binomial: u = 1-p + p q and q <= exp(e) q' + d read backwards,
#         u <= 1-p + p (exp(e) q' + d) <= exp(e) u' where odds d <= exp(e) - 1. Poisson: the ratio is
#         exp(mean (x' - x)), and x' - x is at most the distance in total variation, delta(0).


_STEP = 1e-9
"""By this much, relatively, a root is moved up until it is certified."""
_LEAST = 1e-12


class PriceTerm(NamedTuple):
    """A penalty, and the point of the trial's profile that it rests on.

    penalty  in nats, added to the trial's epsilon
    e1       where the profile is asked, in nats, at least 0
    d1       what it has to be there, at most
    """

    penalty: float
    e1: float
    d1: float


def selectable(law: CountLaw) -> TruncatedNegativeBinomial | BinomialCount | PoissonCount:
    """The law to price: without its cap. Raises InvalidValue for a law that no penalty is known of."""
    priced = law.priced
    if not isinstance(priced, TruncatedNegativeBinomial | BinomialCount | PoissonCount):
        raise checks.InvalidValue("law", law, "a truncated negative binomial, binomial or Poisson law, or one capped")
    return priced


def at_point(law: CountLaw, e1: float, d1: float) -> float:
    """The penalty of a profile with delta(e1) <= d1; e1 >= 0, d1 in [0, 1].

    Raises InvalidValue, also for a point from which no penalty follows.
    """
    checks.non_negative_finite(e1=e1, d1=d1)
    one = selectable(law)
    if isinstance(one, PoissonCount):
        return one.rate * (math.expm1(e1) + d1) * ROUND_UP
    if one.odds * d1 * ROUND_UP > math.expm1(e1):
        raise checks.InvalidValue("d1", d1, f"at most {math.expm1(e1) / one.odds:.6g}, which is (exp(e1) - 1) / odds")
    return _exponent(one) * e1 * ROUND_UP


def tight(law: CountLaw, trial: TrialProfile) -> PriceTerm:
    """The penalty, with the point at which it is taken. Raises InvalidValue."""
    one = selectable(law)
    if isinstance(one, PoissonCount):
        total_variation = trial.delta(0.0)
        return PriceTerm(one.rate * total_variation * ROUND_UP, 0.0, total_variation)
    e1 = least_shift(trial.delta, one.odds)
    return PriceTerm(_exponent(one) * e1 * ROUND_UP, e1, math.expm1(e1) / one.odds)


def least_shift(delta_at: Callable[[float], float], odds: float) -> float:
    """e* >= 0 with odds delta(e*) <= exp(e*) - 1: the root to about 1e-9, rounded up; 0 where 0 does."""

    def short(e: float) -> float:
        return odds * delta_at(e) * ROUND_UP - math.expm1(e)

    if short(0.0) <= 0:
        return 0.0
    # delta(e) <= delta(0) makes this one valid.
    high = max(math.log1p(odds * delta_at(0.0)) * ROUND_UP, _LEAST)
    root = float(brentq(short, 0.0, high, xtol=_LEAST, rtol=1e-10)) if short(high) < 0 else high
    root, step = max(root, _LEAST), _STEP
    while short(root) > 0:
        root, step = root * (1 + step), 2 * step
    return root


def _exponent(law: TruncatedNegativeBinomial | BinomialCount) -> float:
    return 1 + law.shape if isinstance(law, TruncatedNegativeBinomial) else law.trials - 1


TIGHT = "dpcore.selection.best: the profile form of Koskela, Redberg & Wang (2024) with one shift for both worst cases"


# Two-point calibration: configurations that differ in sampling rate and steps under one price of the best of K.
#
# The price of a selection uses the trial's profile at two points only (`best`): delta(e1) and delta at the epsilon
# that is left, e_hat = epsilon - penalty. A trial that draws its configuration from a prior with secret coins has at
# most the largest of the configurations' deltas at each point. So fix e1 in public, and let every configuration meet
#
# delta(e1) <= d1 and delta(e_hat) <= d_hat = delta / mean.
#
# Calibrating each configuration to one common (epsilon, delta) is *not* enough: delta(e1) differs among such.
#
# The first success of K asks the same at points of its own (`ladder`).


@dataclass(frozen=True, kw_only=True)
class HeterogeneousTrials:
    """What every configuration has to meet so that the best of K costs (epsilon, delta). Public.

    law      of K
    epsilon  of the whole selection, in nats, above 0
    delta    of the whole selection, in (0, 1)
    e1, d1   the first point: in nats, at least 0; in [0, 1]

    Raises InvalidValue where nothing of epsilon is left for the trial.
    """

    law: CountLaw
    epsilon: float
    delta: float
    e1: float
    d1: float

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon)
        checks.probability_open(delta=self.delta)
        checks.non_negative_finite(e1=self.e1, d1=self.d1)
        if self.d1 > 1:
            raise checks.InvalidValue("d1", self.d1, "a probability in [0, 1]")
        if self.penalty > self.epsilon:
            raise checks.InvalidValue("e1", self.e1, f"a penalty ({self.penalty:.6g}) of at most {self.epsilon=}")

    @cached_property
    def penalty(self) -> float:
        """What the number of trials adds, in nats."""
        return at_point(self.law, self.e1, self.d1)

    @property
    def e_hat(self) -> float:
        """The second point: what is left for the trial itself, in nats, rounded down."""
        return (self.epsilon - self.penalty) * (1 - 1e-15)

    @property
    def d_hat(self) -> float:
        """delta of the trial at e_hat, at most."""
        return self.delta / selectable(self.law).mean * (1 - 1e-15)

    def exceeds(self, configuration: TrialProfile) -> float:
        """The larger ln(delta / allowed) of the two points: at most 0 where the configuration is covered."""
        return largest_excess(configuration, ((self.e1, self.d1), (self.e_hat, self.d_hat)))


@lru_cache(maxsize=4096)
def largest_excess(configuration: TrialProfile, limits: tuple[tuple[float, float], ...]) -> float:
    """The largest ln(delta / allowed) of these (epsilon, allowed delta): at most 0 where all are kept to.

    Profiles are values, so what was asked once is known.
    """
    return max(log_ratio(configuration.delta(epsilon), allowed) for epsilon, allowed in limits)


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
    """

    law: CountLaw
    delta: float

    def price(self, trial: TrialProfile) -> float:
        """Epsilon of the selection if all trials are like this one, in nats. Raises InvalidValue."""
        own = epsilon_at(trial, self.delta / selectable(self.law).mean)
        return own + tight(self.law, trial).penalty

    def points(self, trial: TrialProfile, epsilon: float) -> HeterogeneousTrials:
        """The points of a reference whose price is at most `epsilon`. Raises InvalidValue."""
        shift = tight(self.law, trial)
        # A little below the root, so that rounding leaves it on the safe side.
        d1 = shift.d1 if isinstance(selectable(self.law), PoissonCount) else shift.d1 * (1 - 1e-11)
        return HeterogeneousTrials(law=self.law, epsilon=epsilon, delta=self.delta, e1=shift.e1, d1=min(1.0, d1))

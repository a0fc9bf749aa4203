"""The price of the best of K trials: K random and secret, every trial but the best sealed.

Procedure. Draw K from its law once. Run K independent copies of one private trial Q: draw a configuration from a fixed
public prior with secret coins, train, score, output (score, configuration, model). Release the output that ranks first
by a public total order, its score with it; where K = 0 a fixed default. Not released, in any way: K, the other trials,
which one of them it was, and whatever tells these, such as how long it took.

route    theorem                                                                     source
renyi    R(a) <= R_Q(a) + (1+shape)((1-1/b) R_Q(b) + ln(1/g)/b) + ln(mean)/(a-1);    Papernot & Steinke (2022),
         Poisson: B = R_Q(a) + mean d + ln(mean)/(a-1), exp(e) <= 1 + 1/(a-1),       theorems 2 and 6
         with the default: R(a) <= ln(P[K=0] + exp((a-1) B)) / (a-1)
profile  eps(delta) <= eps_Q(delta/mean) + published penalty                         Koskela, Redberg & Wang (2024)
tight    eps(delta) <= eps_Q(delta/mean) + tight penalty                             proof here and at `tight`

Proof. Let f be the generating function of K. The best is y with chance A(y) = f(Q(<=y)) - f(Q(<y)) = Q(y) F, where F is
the mean of f' between Q(<y) and Q(<=y). f' rises, so F <= f'(1) = mean. Both ends of the interval are events of one
trial, so F <= exp(penalty) F' under a neighbour (`tight`). Hence
    sum [A - exp(eps) A']+ <= sum F [Q - exp(eps - penalty) Q']+ <= mean delta_Q(eps - penalty).
Renyi: A^a A'^(1-a) = Q^a Q'^(1-a) F (F/F')^(a-1), with F <= mean; t = g + (1-g) x is the chance of an event of the
trial and a coin, so ln t' <= (1-1/b)(R_Q(b) + ln t), whose excess over ln t is largest at t = g. Poisson's Renyi form
sets the growth of F^a against F'^(1-a) and holds without a cap only: a cap lowers log-slopes, of which it needs one to
be large. The others hold for the capped law (`counts.Capped`).

The default. Where K may be 0 it has the chance f(0) under both neighbours. That adds nothing to a hockey-stick at an
epsilon of at least 0, so the profile and tight routes need no word of it; to exp((a-1) R(a)) it adds f(0), of the law
as drawn, since a cap makes K = 0 likelier. Without it a bound with a mean below 1 is too small, and may be negative.

With K or the slot of the winner known the statements are false.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

from dpcore import checks
from dpcore.accountants.rdp import BU2020_ORDERS, improved_epsilon
from dpcore.selection.counts import BinomialCount, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.profiles import ROUND_UP, TrialProfile, epsilon_at

# What the random number of trials adds to a trial's own epsilon: the largest ratio of f'(q) between neighbours.
#
# Let f be the generating function of K and x = 1 - q a chance of the trial's, x' the same under a neighbour. A profile
# says x' <= exp(e) x + delta(e) at every e >= 0. With that the ratio f'(1-x) / f'(1-x') is at most exp(penalty):
#
# law       published penalty, any e                       tight penalty
# TNB       (1+shape) ln(exp(e) + odds delta(e))           (1+shape) e*
# binomial  (n-1) ln(1 + p (exp(e)-1) + odds delta(e))     (n-1) e*
# Poisson   mean (exp(e) - 1 + delta(e))                   mean delta(0)
#
# odds is (1-g)/g for the truncated negative binomial law (TNB), p/(1-p) for the binomial one; e* >= 0 is the root of
# odds delta(e) = exp(e) - 1, and any larger e is valid too.
#
# Source  Koskela, Redberg & Wang (2024) for the published forms. The tight ones: for TNB f' is (g/t)^(1+shape) up to a
#         constant, t = g + (1-g) x, and t' <= g + (1-g)(exp(e) x + d) <= exp(e) t for *all* x >= 0 exactly where
#         odds d <= exp(e) - 1. The published form adds the worst case of x = 0 (ratio 1 + odds d) to that of large x
#         (ratio exp(e)), which cannot occur together. Binomial: u = 1-p + p q and q <= exp(e) q' + d read backwards,
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


def published(law: CountLaw, e1: float, d1: float) -> float:
    """The published penalty of a profile with delta(e1) <= d1; e1 >= 0, d1 in [0, 1]. Raises InvalidValue."""
    checks.non_negative_finite(e1=e1, d1=d1)
    match selectable(law):
        case TruncatedNegativeBinomial() as one:
            return (1 + one.shape) * math.log(math.exp(e1) + one.odds * d1) * ROUND_UP
        case BinomialCount() as one:
            return (one.trials - 1) * math.log1p(one.probability * math.expm1(e1) + one.odds * d1) * ROUND_UP
        case PoissonCount() as one:
            return one.rate * (math.expm1(e1) + d1) * ROUND_UP


def at_point(law: CountLaw, e1: float, d1: float) -> float:
    """The least penalty known of a profile with delta(e1) <= d1; e1 >= 0, d1 in [0, 1]. Raises InvalidValue."""
    found, one = published(law, e1, d1), selectable(law)
    if isinstance(one, PoissonCount) or one.odds * d1 * ROUND_UP > math.expm1(e1):
        return found
    return min(found, _exponent(one) * e1 * ROUND_UP)


def tight(law: CountLaw, trial: TrialProfile) -> PriceTerm:
    """The tight penalty, with the point at which it is taken. Raises InvalidValue."""
    one = selectable(law)
    if isinstance(one, PoissonCount):
        total_variation = trial.delta(0.0)
        return PriceTerm(one.rate * total_variation * ROUND_UP, 0.0, total_variation)
    e1 = least_shift(trial.delta, one.odds)
    return PriceTerm(_exponent(one) * e1 * ROUND_UP, e1, math.expm1(e1) / one.odds)


def best_published(law: CountLaw, trial: TrialProfile) -> float:
    """The least published penalty over e1, the place found roughly: every e1 is valid. Raises InvalidValue."""
    one = selectable(law)
    if isinstance(one, PoissonCount):
        # Least at e1 = 0: delta falls by less than exp(e) rises.
        return tight(law, trial).penalty

    def penalty(e1: float) -> float:
        return published(law, e1, trial.delta(e1))

    # No e1 beyond is better than e1 = 0: there exp(e1) alone is more.
    most = one.odds * trial.delta(0.0)
    top = math.log1p(most if isinstance(one, TruncatedNegativeBinomial) else most / one.probability)
    candidates = [0.0, least_shift(trial.delta, one.odds)]
    if top > 0:
        search = minimize_scalar(penalty, bounds=(0.0, top), method="bounded", options={"xatol": 1e-4 * top})
        candidates += [float(search.x)] if math.isfinite(search.x) else []
    return min(map(penalty, candidates))


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


ORDERS = BU2020_ORDERS
"""Renyi orders of the first route: few fractional ones, which take milliseconds each."""
_ROUNDING = 1e-14
"""Of the sum of chances near 1, whose logarithm may be far below it."""

TIGHT = "dpcore.selection.best: the profile form of Koskela, Redberg & Wang (2024) with one shift for both worst cases"


def price_best(
    law: CountLaw, trial: TrialProfile, delta: float, orders: tuple[float, ...] = ORDERS
) -> dict[str, float]:
    """Epsilon at `delta` in (0, 1) of releasing the best of K trials, in nats, by every route that applies: its upper
    bounds by name, of which the least may be claimed.

    orders  Renyi orders, each above 1, over which the first route is minimised; empty leaves it out
    Raises InvalidValue, and as the profile does.
    """
    checks.probability_open(delta=delta)
    own, found = epsilon_at(trial, delta / selectable(law).mean), {}
    if orders:
        curve = _published_renyi(law, trial, orders)
        least = min(improved_epsilon(a, float(r), delta) for a, r in zip(orders, curve, strict=True))
        if math.isfinite(least):
            found["renyi"] = max(0.0, least) * ROUND_UP
    found["profile"] = (own + best_published(law, trial)) * ROUND_UP
    found["tight"] = (own + tight(law, trial).penalty) * ROUND_UP
    return found


def renyi_of_best(law: CountLaw, trial: TrialProfile, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """Renyi divergences of the best of K at these orders, each above 1: those of several searches add up.

    The least of the published form and R_Q(a) + tight penalty + ln(mean)/(a-1), with the default's chance.
    """
    a, none = np.array(orders), law.pgf(0.0)
    found = trial.renyi(orders) + tight(law, trial).penalty + math.log(selectable(law).mean) / (a - 1)
    if none > 0:
        found = np.logaddexp(math.log(none + _ROUNDING), (a - 1) * found) / (a - 1)
    return np.asarray(np.minimum(found, _published_renyi(law, trial, orders)) * ROUND_UP)


def _published_renyi(law: CountLaw, trial: TrialProfile, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """The published Renyi curve of the best; infinite where there is none. Raises InvalidValue."""
    for order in orders:
        if not 1 < order < math.inf:
            raise checks.InvalidValue("orders", orders, "finite orders, each above 1")
    a, curve, one = np.array(orders), trial.renyi(orders), selectable(law)
    own = np.maximum(curve, 0.0) + math.log(one.mean) / (a - 1)
    if isinstance(one, TruncatedNegativeBinomial):
        # The second order is free: it is sought among all that are tabulated, not among those asked for alone.
        second = np.union1d(a, ORDERS)
        beside = (1 - 1 / second) * trial.renyi(tuple(map(float, second))) - math.log(one.success) / second
        found = own + (1 + one.shape) * float(np.min(beside))
    elif isinstance(one, PoissonCount) and law.priced is law:
        grown = one.rate * np.array([trial.delta(math.log1p(1 / (order - 1)) * (1 - 1e-15)) for order in orders])
        # A bound on the mass of the winners becomes one on all that leaves.
        found = np.logaddexp(math.log(law.pgf(0.0) + _ROUNDING), (a - 1) * (own + grown)) / (a - 1)
    else:
        return np.full(a.shape, math.inf)
    # Divergences rise with the order: each is bounded by those of larger orders.
    rising = np.argsort(a)
    found[rising] = np.minimum.accumulate(found[rising][::-1])[::-1]
    return found


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

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
tight    eps(delta) <= eps_Q(delta/mean) + tight penalty                             proof here and in `penalties`

Proof. Let f be the generating function of K. The best is y with chance A(y) = f(Q(<=y)) - f(Q(<y)) = Q(y) F, where F is
the mean of f' between Q(<y) and Q(<=y). f' rises, so F <= f'(1) = mean. Both ends of the interval are events of one
trial, so F <= exp(penalty) F' under a neighbour (`penalties`). Hence
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.accountants.rdp import BU2020_ORDERS, improved_epsilon
from dpcore.calibrate import Target
from dpcore.events import Adjacency
from dpcore.selection import price
from dpcore.selection import price as penalties
from dpcore.selection.counts import CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.price import PriceTerm, least_noise, least_noise_meeting, least_shift
from dpcore.selection.profiles import ROUND_UP, Along, OneByOne, TrialProfile, epsilon_at

ORDERS = BU2020_ORDERS
"""Renyi orders of the first route: few fractional ones, which take milliseconds each."""
_ROUNDING = 1e-14
"""Of the sum of chances near 1, whose logarithm may be far below it."""

RENYI = "Papernot & Steinke (2022), Theorems 2 and 6"
PROFILE = "Koskela, Redberg & Wang (2024), private selection by the privacy profile"
TIGHT = "dpcore.selection.best: the profile form of Koskela, Redberg & Wang (2024) with one shift for both worst cases"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRoute:
    """One proved bound on the epsilon of a selection.

    name     "renyi", "profile" or "tight"
    theorem  author, year, theorem
    epsilon  upper bound, in nats
    trial    the part of it that is the trial's own epsilon, at delta / mean; None on the Renyi route
    shift    penalty and the point that it rests on; None on the Renyi route
    order    the Renyi order of the least bound; None on the others
    """

    name: str
    theorem: str
    epsilon: float
    trial: float | None = None
    shift: price.PriceTerm | None = None
    order: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BestPrice:
    """What releasing the best of K trials costs, by every route; the least is claimed.

    law     of K, as drawn
    delta   of the whole selection
    """

    law: CountLaw
    delta: float
    adjacency: Adjacency
    routes: tuple[PriceRoute, ...]

    @property
    def least(self) -> PriceRoute:
        """The route with the smallest epsilon."""
        return min(self.routes, key=lambda route: route.epsilon)

    @property
    def epsilon(self) -> float:
        """The smallest epsilon of all routes, in nats."""
        return self.least.epsilon


def price_best(law: CountLaw, trial: TrialProfile, delta: float, orders: tuple[float, ...] = ORDERS) -> BestPrice:
    """The price at `delta` in (0, 1) of releasing the best of K trials, by every route that applies.

    orders  Renyi orders, each above 1, over which the first route is minimised; empty leaves it out
    Raises InvalidValue, and as the profile does.
    """
    checks.probability_open(delta=delta)
    priced = price.selectable(law)
    own = epsilon_at(trial, delta / priced.mean)
    routes = [
        PriceRoute(name=name, theorem=theorem, epsilon=(own + shift.penalty) * ROUND_UP, trial=own, shift=shift)
        for name, theorem, shift in (
            ("profile", PROFILE, price.best_published(law, trial)),
            ("tight", TIGHT, price.tight(law, trial)),
        )
    ]
    if orders:
        curve = _published_renyi(law, trial, orders)
        bounds = [improved_epsilon(a, float(r), delta) for a, r in zip(orders, curve, strict=True)]
        at = int(np.argmin(bounds))
        if math.isfinite(bounds[at]):
            routes.insert(
                0, PriceRoute(name="renyi", theorem=RENYI, epsilon=max(0.0, bounds[at]) * ROUND_UP, order=orders[at])
            )
    return BestPrice(law=law, delta=delta, adjacency=trial.adjacency, routes=tuple(routes))


def renyi_of_best(law: CountLaw, trial: TrialProfile, orders: Sequence[float]) -> NDArray[np.float64]:
    """Renyi divergences of the best of K at these orders, each above 1, in nats: for a filter at a fixed order.

    The least of the published form and R_Q(a) + tight penalty + ln(mean)/(a-1), each with the default's P[K = 0].
    Raises InvalidValue.
    """
    a = np.array(orders, dtype=np.float64)
    at = tuple(float(order) for order in a)
    winner = trial.renyi(at) + price.tight(law, trial).penalty + math.log(price.selectable(law).mean) / (a - 1)
    return np.asarray(np.minimum(_with_default(law, winner, a), _published_renyi(law, trial, at)) * ROUND_UP)


def _with_default(law: CountLaw, winner: NDArray[np.float64], a: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln(P[K = 0] + exp((a-1) winner)) / (a-1): a bound on the mass of the winners becomes one on all that leaves."""
    none = law.pgf(0.0)
    return np.logaddexp(math.log(none + _ROUNDING), (a - 1) * winner) / (a - 1) if none > 0 else winner


def _published_renyi(law: CountLaw, trial: TrialProfile, orders: tuple[float, ...]) -> NDArray[np.float64]:
    """The published Renyi curve of the best; infinite where there is none. Raises InvalidValue."""
    for order in orders:
        if not 1 < order < math.inf:
            raise checks.InvalidValue("orders", orders, "finite orders, each above 1")
    a, curve, one = np.array(orders), trial.renyi(orders), price.selectable(law)
    own = np.maximum(curve, 0.0) + math.log(one.mean) / (a - 1)
    if isinstance(one, TruncatedNegativeBinomial):
        found = own + (1 + one.shape) * float(np.min((1 - 1 / a) * curve - math.log(one.success) / a))
    elif isinstance(one, PoissonCount) and law.priced is law:
        grown = one.rate * np.array([trial.delta(math.log1p(1 / (order - 1)) * (1 - 1e-15)) for order in orders])
        found = _with_default(law, own + grown, a)
    else:
        return np.full(a.shape, math.inf)
    # Divergences rise with the order: each is bounded by those of larger orders.
    rising = np.argsort(a)
    found[rising] = np.minimum.accumulate(found[rising][::-1])[::-1]
    return found


@dataclass(frozen=True)
class BestProfile:
    """The profile of the best of K, for what is composed or mixed with it: by the tight form, at every epsilon.

    delta(epsilon) <= mean delta_Q(epsilon - penalty) for epsilon >= penalty (see the proof above); the penalty depends
    on no delta, so one profile has them all. Raises InvalidValue.
    """

    law: CountLaw
    trial: TrialProfile

    @property
    def adjacency(self) -> Adjacency:
        """Of the trial."""
        return self.trial.adjacency

    @cached_property
    def penalty(self) -> float:
        """What the number of trials adds, in nats."""
        return price.tight(self.law, self.trial).penalty

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        left = (epsilon - self.penalty) * (1 - 1e-15)
        if left < 0:
            return 1.0
        return min(1.0, price.selectable(self.law).mean * self.trial.delta(left) * ROUND_UP)

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        own = epsilon_at(self.trial, delta / price.selectable(self.law).mean)
        return (own + self.penalty) * ROUND_UP

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """See `TrialProfile.renyi`."""
        return renyi_of_best(self.law, self.trial, orders)

    def along(self) -> Along:
        """See `TrialProfile.along`."""
        return OneByOne(self)


# The price of the best of K trials whose configurations an adaptive sampler proposes, within bounds of the prior.
#
# Procedure. As in `best`, but the configuration of each trial is drawn from a density that may depend on all that
# came before, and is at every step between `low` and `high` times the public prior's: low <= 1 <= high. Samplers
# without such bounds (TPE, Gaussian processes as they come) have no claim here.
#
# eps(delta) <= eps_Q(delta / (high mean)) + (2+shape) ln(high/low) + (1+shape) e*, e* >= 0 the root of high odds
# delta_Q(e) = (high/low) exp(e) - 1, or 0; Q is a trial of the prior published: + ln(high/low) + (1+shape)
# ln((high/low) exp(e1) + high odds delta_Q(e1)), any e1 >= 0 Renyi: R(a) of `best` + (2+shape) ln(high/low) +
# ln(high)/(a-1)
#
# Proof. Given what came before, an output y has between low and high times the density Q(y), under both neighbours,
# and beats y with a chance between low x and high x, x = Q(>y). So y is released with density at most high Q(y) f'(1
# - low x) and, under the neighbour, at least low Q'(y) f'(1 - high x') (means over the interval of `best`). With t =
# g + (1-g) low x and t' = g + (1-g) high x', x' <= exp(e) x + d, t' <= (high/low) exp(e) t wherever high odds d <=
# (high/low) exp(e) - 1.
#
# Source Wang, Gao, Zhang, Su & Shen (2023), DP-HyPO, for the procedure; constants re-derived here.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedPrice:
    """What releasing the best of adaptively proposed trials costs.

    epsilon    in nats, at delta
    low, high  bounds on the ratio of every proposal's density to the prior's
    trial      the part of epsilon that is the trial's own, at delta / (high mean)
    shift      its penalty is the rest of it; and the point of the profile that it rests on
    """

    law: CountLaw
    delta: float
    adjacency: Adjacency
    low: float
    high: float
    epsilon: float
    trial: float
    shift: PriceTerm


def price_clipped(law: CountLaw, trial: TrialProfile, delta: float, low: float, high: float) -> ClippedPrice:
    """The price at `delta` in (0, 1) of the best of adaptively proposed trials.

    law        truncated negative binomial, with or without a cap
    trial      of a trial whose configuration is drawn from the prior
    low, high  bounds on the ratio of every proposal's density to the prior's; 0 < low <= 1 <= high

    Raises InvalidValue.
    """
    checks.probability_open(delta=delta)
    shift, one = clipped_shift(law, trial, low, high), _checked(law, low, high)[0]
    own = epsilon_at(trial, delta / (high * one.mean))
    return ClippedPrice(
        law=law,
        delta=delta,
        adjacency=trial.adjacency,
        low=low,
        high=high,
        epsilon=(own + shift.penalty) * ROUND_UP,
        trial=own,
        shift=shift,
    )


def clipped_shift(law: CountLaw, trial: TrialProfile, low: float, high: float) -> PriceTerm:
    """The penalty above, with the point of the profile at which it is taken. Raises InvalidValue."""
    one, ratio = _checked(law, low, high)
    e1 = least_shift(trial.delta, high * one.odds, ratio)
    return PriceTerm(_penalty(one, ratio, e1), e1, min(1.0, _most_at(one, ratio, e1, high)))


def clipped_at_point(law: CountLaw, e1: float, d1: float, low: float, high: float) -> float:
    """The least penalty known of a profile with delta(e1) <= d1, in nats; e1 >= 0, d1 in [0, 1].

    Raises InvalidValue.
    """
    found, (one, ratio) = clipped_published(law, e1, d1, low, high), _checked(law, low, high)
    return min(found, _penalty(one, ratio, e1)) if d1 * ROUND_UP <= _most_at(one, ratio, e1, high) else found


def clipped_published(law: CountLaw, e1: float, d1: float, low: float, high: float) -> float:
    """The published penalty of a profile with delta(e1) <= d1, in nats. Raises InvalidValue."""
    checks.non_negative_finite(e1=e1, d1=d1)
    one, ratio = _checked(law, low, high)
    inner = math.log(ratio * math.exp(e1) + high * one.odds * d1)
    return (math.log(ratio) + (1 + one.shape) * inner) * ROUND_UP


def renyi_of_clipped(
    law: CountLaw, trial: TrialProfile, orders: Sequence[float], low: float, high: float
) -> NDArray[np.float64]:
    """Renyi divergences at these orders, each above 1, in nats. Raises InvalidValue."""
    one, ratio = _checked(law, low, high)
    a = np.array(orders, dtype=np.float64)
    more = (2 + one.shape) * math.log(ratio) + math.log(high) / (a - 1)
    return np.asarray((renyi_of_best(law, trial, orders) + more) * ROUND_UP)


def clipped_weights(scores: Sequence[float], low: float, high: float) -> NDArray[np.float64]:
    """Chances of G fresh candidates of the prior in proportion to their scores, as far as the bounds allow.

    scores  of each candidate, finite and at least 0, by the sampler; the candidates are secret and drawn anew each step

    clip(t score, low/G, high/G) with t such that they sum to 1. Raises InvalidValue.
    """
    r = np.asarray(scores, dtype=np.float64)
    _bounds(low, high)
    if r.ndim != 1 or not len(r) or not np.all(np.isfinite(r)) or np.any(r < 0):
        raise checks.InvalidValue("scores", scores, "at least one finite number of at least 0")
    least, most = low / len(r), high / len(r)
    if not r.max() > 0:
        return np.full(len(r), 1 / len(r))
    logs = np.log(np.maximum(r / r.max(), 1e-300))

    def weights(log_t: float) -> NDArray[np.float64]:
        return np.clip(np.exp(np.minimum(log_t + logs, 50.0)), least, most)

    below, above = math.log(least) - 1, 700.0
    for _ in range(200):
        middle = (below + above) / 2
        below, above = (middle, above) if weights(middle).sum() < 1 else (below, middle)
    found = weights(above)
    # What bisection leaves is given to, or taken from, those with room: the bounds hold exactly.
    excess = float(found.sum()) - 1
    room = (found - least) if excess > 0 else (most - found)
    total = float(room.sum())
    return np.clip(found - excess * room / total, least, most) if total > 0 else found


def _penalty(law: TruncatedNegativeBinomial, ratio: float, e1: float) -> float:
    return ((2 + law.shape) * math.log(ratio) + (1 + law.shape) * e1) * ROUND_UP


def _most_at(law: TruncatedNegativeBinomial, ratio: float, e1: float, high: float) -> float:
    """What delta(e1) may be for it."""
    return (ratio * math.expm1(e1) + (ratio - 1)) / (high * law.odds)


def _bounds(low: float, high: float) -> None:
    checks.positive_finite(low=low, high=high)
    if low > 1:
        raise checks.InvalidValue("low", low, "a ratio in (0, 1]")
    if high < 1:
        raise checks.InvalidValue("high", high, "a ratio of at least 1")


def _checked(law: CountLaw, low: float, high: float) -> tuple[TruncatedNegativeBinomial, float]:
    _bounds(low, high)
    priced = law.priced if isinstance(law, CountLaw) else law
    if not isinstance(priced, TruncatedNegativeBinomial):
        raise checks.InvalidValue("law", law, "a truncated negative binomial law")
    return priced, high / low * (1 + 1e-15)


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
# Where results change what is proposed, within bounds of the prior (`clipped`), the price is that of a trial of the
# prior still, whatever the policy: the same two points, with the penalty of `clipped` and d_hat = delta / (high
# mean).
#
# The first success of K asks the same at points of its own (`ladder_points`).


@dataclass(frozen=True, kw_only=True)
class HeterogeneousTrials:
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
    low, high  bounds on every proposal, as those of `HeterogeneousTrials`
    """

    law: CountLaw
    delta: float
    low: float = 1.0
    high: float = 1.0

    def price(self, trial: TrialProfile) -> float:
        """Epsilon of the selection if all trials are like this one, in nats. Raises InvalidValue."""
        own = epsilon_at(trial, self.delta / (self.high * penalties.selectable(self.law).mean))
        return own + self._shift(trial).penalty

    def points(self, trial: TrialProfile, epsilon: float) -> HeterogeneousTrials:
        """The points of a reference whose price is at most `epsilon`. Raises InvalidValue."""
        shift = self._shift(trial)
        # A little below the root, so that rounding leaves it on the safe side.
        d1 = shift.d1 if isinstance(penalties.selectable(self.law), PoissonCount) else shift.d1 * (1 - 1e-11)
        return HeterogeneousTrials(
            law=self.law,
            epsilon=epsilon,
            delta=self.delta,
            e1=shift.e1,
            d1=min(1.0, d1),
            low=self.low,
            high=self.high,
        )

    def _shift(self, trial: TrialProfile) -> penalties.PriceTerm:
        if self.low == self.high == 1:
            return penalties.tight(self.law, trial)
        return clipped_shift(self.law, trial, self.low, self.high)


def heterogeneous_trials(
    law: CountLaw, target: Target, profile_of: Callable[[float], TrialProfile], low: float = 1.0, high: float = 1.0
) -> HeterogeneousTrials:
    """The two points at which a reference configuration, calibrated alone, meets the target exactly.

    law         of K
    profile_of  the reference's profile at a noise multiplier; its own least noise is solved here
    low, high   bounds on every proposal, as those of `HeterogeneousTrials`

    The choice of reference is free, public and valid whatever it is: configurations like it are covered by the noise
    that they need alone, others by a little more. Raises CannotCalibrate, InvalidValue.
    """
    reference = ByReference(law=law, delta=target.delta, low=low, high=high)
    noise = least_noise(target, lambda noise: reference.price(profile_of(noise)))
    return reference.points(profile_of(noise), target.epsilon)

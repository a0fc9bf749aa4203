"""The price of the best of K trials whose configurations an adaptive sampler proposes, within bounds of the prior.

Procedure. As in `best`, but the configuration of each trial is drawn from a density that may depend on all that came
before, and is at every step between `low` and `high` times the public prior's: low <= 1 <= high. Samplers without such
bounds (TPE, Gaussian processes as they come) have no claim here.

    eps(delta) <= eps_Q(delta / (high mean)) + (2+shape) ln(high/low) + (1+shape) e*,
    e* >= 0 the root of high odds delta_Q(e) = (high/low) exp(e) - 1, or 0;        Q is a trial of the prior
    published: + ln(high/low) + (1+shape) ln((high/low) exp(e1) + high odds delta_Q(e1)), any e1 >= 0
    Renyi: R(a) of `best` + (2+shape) ln(high/low) + ln(high)/(a-1)

Proof. Given what came before, an output y has between low and high times the density Q(y), under both neighbours, and
beats y with a chance between low x and high x, x = Q(>y). So y is released with density at most high Q(y) f'(1 - low x)
and, under the neighbour, at least low Q'(y) f'(1 - high x') (means over the interval of `best`). With
t = g + (1-g) low x and t' = g + (1-g) high x', x' <= exp(e) x + d, t' <= (high/low) exp(e) t wherever
high odds d <= (high/low) exp(e) - 1.

Source  Wang, Gao, Zhang, Su & Shen (2023), DP-HyPO, for the procedure; constants re-derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.adjacency import Adjacency
from dpcore.selection.best import renyi_of_best
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.penalties import Shift, least_shift
from dpcore.selection.profiles import ROUND_UP, TrialProfile, epsilon_at


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
    shift: Shift


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


def clipped_shift(law: CountLaw, trial: TrialProfile, low: float, high: float) -> Shift:
    """The penalty above, with the point of the profile at which it is taken. Raises InvalidValue."""
    one, ratio = _checked(law, low, high)
    e1 = least_shift(trial.delta, high * one.odds, ratio)
    return Shift(_penalty(one, ratio, e1), e1, min(1.0, _most_at(one, ratio, e1, high)))


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

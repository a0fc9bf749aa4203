"""What the random number of trials adds to a trial's own epsilon: the largest ratio of f'(q) between neighbours.

Let f be the generating function of K and x = 1 - q a chance of the trial's, x' the same under a neighbour. A profile
says x' <= exp(e) x + delta(e) at every e >= 0. With that the ratio f'(1-x) / f'(1-x') is at most exp(penalty):

law       published penalty, any e                       tight penalty
TNB       (1+shape) ln(exp(e) + odds delta(e))           (1+shape) e*
binomial  (n-1) ln(1 + p (exp(e)-1) + odds delta(e))     (n-1) e*
Poisson   mean (exp(e) - 1 + delta(e))                   mean delta(0)

odds is (1-g)/g for the truncated negative binomial law (TNB), p/(1-p) for the binomial one; e* >= 0 is the root of
odds delta(e) = exp(e) - 1, and any larger e is valid too.

Source  Koskela, Redberg & Wang (2024) for the published forms. The tight ones: for TNB f' is (g/t)^(1+shape) up to a
        constant, t = g + (1-g) x, and t' <= g + (1-g)(exp(e) x + d) <= exp(e) t for *all* x >= 0 exactly where
        odds d <= exp(e) - 1. The published form adds the worst case of x = 0 (ratio 1 + odds d) to that of large x
        (ratio exp(e)), which cannot occur together. Binomial: u = 1-p + p q and q <= exp(e) q' + d read backwards,
        u <= 1-p + p (exp(e) q' + d) <= exp(e) u' where odds d <= exp(e) - 1. Poisson: the ratio is
        exp(mean (x' - x)), and x' - x is at most the distance in total variation, delta(0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from scipy.optimize import brentq, minimize_scalar

from dpcore import checks
from dpcore.selection.counts import BinomialCount, CountLaw, PoissonCount, TruncatedNegativeBinomial
from dpcore.selection.profiles import ROUND_UP, TrialProfile

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
    priced = law.priced if isinstance(law, CountLaw) else law
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

"""The price of stopping at a public target: the first of K trials that meets it, or word that none did.

Procedure. As in `best`, but trials either meet a target that is public and fixed beforehand, a predicate of their DP
output, or fail. Release the first success in the (secret) order of the trials; where there is none, say so. K, the
other trials, and how many were needed stay sealed. With geometric K this is algorithm 1 of Liu & Talwar (2019).

success   eps = eps_Q(delta / mean) + min over e1 of sup over x of ln F(x) / F(min(1, exp(e1) x + delta_Q(e1)))
          with F(x) = (1 - f(1-x)) / x; e* for a TNB law of shape in [0, 1] (`price` has e*)
failure   the least eps with f(y) - exp(eps) f(y') <= delta for all y, where y' is at least exp(-e) (y - delta_Q(e)) and
          at least 1 - exp(e) (1-y) - delta_Q(e), for every e >= 0

The statement is ex post: for every event S that says success, P[S] <= exp(eps_success) P'[S] + delta_success, and alike
for failure. The deltas are unconditional and add.

Proof. A trial succeeds with chance x, and z is a success of chance Q(z). It is released with chance Q(z) F(x): the mean
of f' over [1-x, 1], which falls in x and is at most f'(1) = mean. Under a neighbour x' <= exp(e1) x + delta(e1), so
F(x) <= exp(penalty) F(x'), and as in `best` the divergence of the successes is at most mean delta_Q(eps - penalty).
Failure has chance f(y), y = 1 - x, and both constraints on y' are the profile's, on the trial's failure and on its
success. The law is priced with its cap. For success a cap is free (`counts.Capped`), and priced itself costs a little
less; on the curve of failure it is not free: it makes failure likelier, so that delta covers less of it.

Source  Liu & Talwar (2019), algorithm 1, for the procedure and 2 epsilon; Papernot & Steinke (2022), corollary 16, for
        a Renyi form; the profile form is re-derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from dpcore import checks
from dpcore.events import Adjacency
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.price import PriceTerm, least_shift, supremum
from dpcore.selection.profiles import ROUND_UP, TrialProfile, epsilon_at

POINTS = 256
"""At how many epsilons a trial's profile is asked for the price of failure; more come closer from above."""
_GAP = 1e-6
"""How close a supremum is sought; the number of splits leaves some 1e-4 in hard cases, always from above."""
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdPrice:
    """What a search for a public target costs, by how it ended.

    success, failure              epsilon of either, in nats
    success_delta, failure_delta  they add
    trial                         the part of `success` that is the trial's own epsilon, at success_delta / mean
    shift                         the rest of it, and the point of the profile that it rests on
    """

    law: CountLaw
    adjacency: Adjacency
    success: float
    failure: float
    success_delta: float
    failure_delta: float
    trial: float
    shift: PriceTerm

    @property
    def epsilon(self) -> float:
        """Ex ante: the larger of the two, at `delta`."""
        return max(self.success, self.failure)

    @property
    def delta(self) -> float:
        """Of the whole search."""
        return (self.success_delta + self.failure_delta) * ROUND_UP


def price_threshold(
    law: CountLaw, trial: TrialProfile, success_delta: float, failure_delta: float, points: int = POINTS
) -> ThresholdPrice:
    """The price of the first success, and of word that there was none; any law of K, with its cap if it has one.

    success_delta, failure_delta  in (0, 1)
    points                        see `POINTS`

    Raises InvalidValue, and as the profile does.
    """
    checks.probability_open(success_delta=success_delta, failure_delta=failure_delta)
    checks.count(minimum=2, points=points)
    if not isinstance(law, CountLaw):
        raise checks.InvalidValue("law", law, "a law of counts")
    shift = threshold_shift(law, trial)
    own = epsilon_at(trial, success_delta / law.mean)
    return ThresholdPrice(
        law=law,
        adjacency=trial.adjacency,
        success=(own + shift.penalty) * ROUND_UP,
        failure=failure_epsilon(law, trial, failure_delta, points),
        success_delta=success_delta,
        failure_delta=failure_delta,
        trial=own,
        shift=shift,
    )


def threshold_shift(law: CountLaw, trial: TrialProfile) -> PriceTerm:
    """What the first success adds to the trial's epsilon, with the one point of the profile that it rests on."""
    if isinstance(law, TruncatedNegativeBinomial) and 0 <= law.shape <= 1:
        e1 = least_shift(trial.delta, law.odds)
        return PriceTerm(e1 * ROUND_UP, e1, math.expm1(e1) / law.odds)
    known: dict[float, float] = {}

    def estimate(e1: float) -> float:
        if e1 not in known:
            known[e1] = _estimated_fall(law, e1, trial.delta(e1))
        return known[e1]

    # At e1 = 0 the penalty is valid, and no e1 beyond twice it is better at small x.
    top = 2 * estimate(0.0)
    if top > _LEAST:
        options = {"xatol": 1e-6 * top}
        minimize_scalar(lambda e1: estimate(float(e1)), bounds=(0.0, top), method="bounded", options=options)
    e1 = min(known, key=known.__getitem__)
    d1 = trial.delta(e1)
    return PriceTerm(_largest_fall(law, e1, d1), e1, d1)


_STARTS = (0.0, *np.geomspace(_LEAST, 1, 60).tolist())


def _fall(law: CountLaw, e1: float, d1: float, left: float, right: float) -> float:
    """At least ln F(x) / F(min(1, exp(e1) x + d1)) for x in [left, right], which it is where they meet."""
    return math.log(law.slope(left) / law.slope(min(1.0, math.exp(e1) * right + d1)))


def _estimated_fall(law: CountLaw, e1: float, d1: float) -> float:
    """About the supremum of `_fall`, smoothly: says which e1 is best, bounds nothing."""
    falls = [_fall(law, e1, d1, x, x) for x in _STARTS]
    at = int(np.argmax(falls))
    around = _STARTS[max(at - 1, 0)], _STARTS[min(at + 1, len(_STARTS) - 1)]
    found = minimize_scalar(lambda x: -_fall(law, e1, d1, float(x), float(x)), bounds=around, method="bounded")
    return max(falls[at], -float(found.fun))


def _largest_fall(law: CountLaw, e1: float, d1: float) -> float:
    """sup over x in [0, 1] of ln F(x) / F(min(1, exp(e1) x + d1)), from above."""
    found = supremum(lambda left, right: _fall(law, e1, d1, left, right), _STARTS, _GAP, _geometric_middle)
    return max(0.0, found) * ROUND_UP


def _geometric_middle(left: float, right: float) -> float:
    return math.sqrt(left * right) if left > 0 else right / 2


def failure_epsilon(law: CountLaw, trial: TrialProfile, delta: float, points: int = POINTS) -> float:
    """The price at `delta` in (0, 1) of saying that no trial succeeded, in nats. Raises InvalidValue."""
    checks.probability_open(delta=delta)
    top = trial.epsilon(delta)
    if math.isinf(top):
        return math.inf
    # Squares put more of the points at small epsilons, where delta bends.
    epsilons = top * (np.arange(points) / (points - 1)) ** 1.5
    deltas = np.array([trial.delta(float(epsilon)) for epsilon in epsilons])
    return _largest_growth(law.pgf, delta, np.exp(epsilons), deltas)


def _largest_growth(pgf: Callable[[float], float], delta: float, ratios: np.ndarray, deltas: np.ndarray) -> float:
    """sup over y of ln (f(y) - delta) / f(y'), from above; at least 0."""

    def least(y: float) -> float:
        return max(0.0, float(np.max((y - deltas) / ratios)), float(np.max(1 - ratios * (1 - y) - deltas)))

    def bound(left: float, right: float) -> float:
        above, below = pgf(right) * ROUND_UP - delta, pgf(least(left) * (1 - 1e-14))
        if above <= 0:
            return -math.inf
        return math.log(above / below) if below > 0 else math.inf

    ends = np.geomspace(_LEAST, 0.5, 40)
    points = [0.0, *ends, *(1 - ends[-2::-1]), 1.0]
    return max(0.0, supremum(bound, points, _GAP, lambda left, right: (left + right) / 2)) * ROUND_UP

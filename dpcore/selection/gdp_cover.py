"""The least mu whose Gaussian covers a mechanism up to a small chance tau: not asymptotic, for the GDP filter.

A mechanism whose profile satisfies, for all epsilon >= 0 and in both directions,

    delta(epsilon) <= tau + (1 - tau) delta_mu(epsilon),      delta_mu that of mu-Gaussian DP,

reveals no more than one that tells all with chance tau and else releases N(0, 1) or N(mu, 1) (Dong, Roth & Su 2022,
theorem 2: the larger divergence at every order is the harder test). Both directions at epsilon >= 0 are all that is
needed, since delta(-epsilon) = 1 - exp(-epsilon) + exp(-epsilon) delta_reversed(epsilon); one direction is not.

The condition is checked between points e_0 = 0 < e_1 < ...: as neither side rises, delta(e_k) <= right side at e_{k+1}
covers all in between, and delta(e_last) <= tau all beyond.
"""

from __future__ import annotations

import heapq
import math

from scipy.optimize import brentq

from dpcore import checks
from dpcore.gdp_dual import delta_gdp, mu_of_pure_dp, relative_error
from dpcore.selection.profiles import ROUND_UP, TrialProfile

TOLERANCE = 1e-3
_FIRST = 16
_MOST_POINTS = 2000


def covering_mu(profile: TrialProfile, tau: float, tolerance: float = TOLERANCE) -> float:
    """The least mu that covers the profile up to chance `tau`, in (0, 1), from above to about `tolerance` relative.

    Infinite where no mu does: an epsilon that stays infinite at tau. The CLT's mu is no such number: it may lie below.
    Raises InvalidValue, and as the profile does.
    """
    checks.probability_open(tau=tau)
    checks.positive_finite(tolerance=tolerance)
    last = profile.epsilon(tau)
    if math.isinf(last):
        return math.inf
    while profile.delta(last) > tau:
        last = last * (1 + 1e-6) + 1e-9
    points = [last * k / _FIRST for k in range(_FIRST)]
    deltas = {point: profile.delta(point) for point in points}
    # Needed on each interval, the largest first: the delta of its left end under the curve of its right end.
    ends = [*points[1:], last]
    needed = [(-_mu_for(deltas[left], right, tau), left, right) for left, right in zip(points, ends, strict=True)]
    heapq.heapify(needed)
    known = max(_mu_for(deltas[left], left, tau) for left in points)
    for _ in range(_MOST_POINTS):
        most, left, right = needed[0]
        if -most <= known * (1 + tolerance) or right - left <= 1e-12 * last:
            break
        middle = (left + right) / 2
        deltas[middle] = profile.delta(middle)
        known = max(known, _mu_for(deltas[middle], middle, tau))
        heapq.heapreplace(needed, (-_mu_for(deltas[left], middle, tau), left, middle))
        heapq.heappush(needed, (-_mu_for(deltas[middle], right, tau), middle, right))
    return -needed[0][0]


def mu_of_approximate_dp(epsilon: float) -> float:
    """mu that covers any (epsilon, delta)-DP mechanism up to chance tau = delta: -2 inv_Phi(1/(1+exp(epsilon))).

    Such a mechanism is one that tells all with chance delta and else is randomised response (Kairouz, Oh & Viswanath
    2015, theorem 3.1), whose kink this mu's curve touches. About 1.2533 epsilon: mu = epsilon under-charges.
    """
    return mu_of_pure_dp(epsilon)


def _mu_for(delta: float, epsilon: float, tau: float) -> float:
    """The least mu with tau + (1 - tau) delta_mu(epsilon) >= delta, rounded up."""
    share = (delta * ROUND_UP - tau) / (1 - tau)
    if share <= 0:
        return 0.0

    def short(log_mu: float) -> float:
        found = delta_gdp(epsilon, math.exp(log_mu))
        return math.log(found / share) if found > 0 else -700.0

    low, high = -30.0, 0.0
    while short(high) < 0:
        if high > 10:
            return math.inf
        low, high = high, high + 1
    mu = math.exp(float(brentq(short, low, high, xtol=1e-12, rtol=1e-12))) if short(low) < 0 else math.exp(low)
    step = 1e-11
    while delta_gdp(epsilon, mu) * (1 - relative_error(mu / 2 - epsilon / mu, mu)) < share:
        mu, step = mu * (1 + step), 2 * step
    return mu

"""The price of a front: several public orders answered from one search.

One search. Draw K, run K trials, and release for each of k public orders the trial that ranks first by it; the same one
may win several. With r distinct winners and K truncated negative binomial,

    eps_r = eps_{Q^r}(delta_r / E K(K-1)..(K-r+1)) + (shape + r) e*,        r = 1..k

where Q^r is r trials released together and e* the shift of `best`. The deltas add; r is seen from the release.

Proof. Give each trial a secret uniform number that breaks ties, which changes no profile. Outputs z_1..z_r win with
chance density f^(r)(q) Q(z_1)..Q(z_r), q the chance that a trial beats none of them. f^(r)(q) is proportional to
t^-(shape+r), t = g + (1-g)(1-q), at most E K(K-1)..(K-r+1), and t' <= exp(e*) t under a neighbour. A cap lowers both
that mean and every log-slope, as in `counts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from scipy.optimize import brentq

from dpcore import checks
from dpcore.calibrate import Target
from dpcore.gdp import delta_gdp, relative_error
from dpcore.selection.best import least_shift
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.profiles import ROUND_UP, TrialProfile, covering_mu


def _priced(law: CountLaw) -> TruncatedNegativeBinomial:
    priced = law.priced
    if not isinstance(priced, TruncatedNegativeBinomial):
        raise checks.InvalidValue("law", law, "a truncated negative binomial law")
    return priced


# One price for a front over configurations that differ: each is covered by one public Gaussian.
#
# The price of a front looks at r trials together, which may have r different
# configurations. Each of them satisfies, for all epsilon >= 0 and in both directions (`dpcore.selection.profiles`),
#
# delta(epsilon) <= tau + (1 - tau) delta_mu(epsilon),
#
# and so reveals no more than one that tells all with chance tau and else releases N(0, 1) or N(mu, 1). Any r of them
# together reveal no more than r of those (Dong, Roth & Su 2022, theorem 4; in any mixture: joint convexity):
#
# delta_r(epsilon) = 1 - (1 - tau)^r + (1 - tau)^r delta_{sqrt(r) mu}(epsilon).
#
# With e* the shift of delta_1 and k orders, what leaves has one epsilon at delta wherever
#
# sum over r = 1..k of E[K(K-1)..(K-r+1)] delta_r(epsilon - (shape + r) e*) <= delta :
#
# a release with r distinct winners is bounded by the r-th term (`front`), and each release has one r. Splitting
# delta between the terms beforehand gives no less.

TOLD = 0.1
"""The share of delta that is left for trials that tell all: a convention, valid whatever it is."""
_LEAST, _MOST = 1e-6, 50.0


@dataclass(frozen=True, kw_only=True)
class FrontPoints:
    """What every configuration has to meet, so that the winners of all orders cost `epsilon` together. Public.

    law      of K: truncated negative binomial, with or without a cap
    orders   how many public orders are answered, at least 1
    epsilon  of all winners together, however many differ, in nats
    delta    in (0, 1)
    mu       of the Gaussian that covers a trial, above 0
    tau      the chance beside it, in (0, 1)

    Raises InvalidValue where such trials would cost more.
    """

    law: CountLaw
    orders: int
    epsilon: float
    delta: float
    mu: float
    tau: float

    def __post_init__(self) -> None:
        checks.count(minimum=1, orders=self.orders)
        checks.positive_finite(epsilon=self.epsilon, mu=self.mu)
        checks.probability_open(delta=self.delta, tau=self.tau)
        if (needed := self.delta_at(self.epsilon)) > self.delta:
            expected = f"at least {needed:.6g}, which trials of mu {self.mu:.6g} and tau {self.tau:.6g} need"
            raise checks.InvalidValue("delta", self.delta, expected)

    @classmethod
    def solved(cls, law: CountLaw, orders: int, target: Target) -> Self:
        """With the largest mu, rounded down, at which the winners cost the target. Raises InvalidValue."""
        checks.count(minimum=1, orders=orders)
        told = math.fsum(winners * _priced(law).factorial_moment(winners) for winners in range(1, orders + 1))
        tau = TOLD * target.delta / told

        def excess(log_mu: float) -> float:
            mu = math.exp(log_mu)
            spent = _delta_at(_priced(law), orders, mu, tau, target.epsilon)
            return math.log(spent / target.delta)

        low, high = math.log(_LEAST), math.log(_MOST)
        if excess(low) > 0:
            expected = f"more, for {orders} orders and a mean of {_priced(law).mean:.6g} trials"
            raise checks.InvalidValue("epsilon", target.epsilon, expected, "Raise it, or lower the mean.")
        root = high if excess(high) <= 0 else float(brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
        step = 1e-11
        while excess(root) > 0:
            root, step = root - step, 2 * step
        return cls(law=law, orders=orders, epsilon=target.epsilon, delta=target.delta, mu=math.exp(root), tau=tau)

    @cached_property
    def priced(self) -> TruncatedNegativeBinomial:
        """The law without its cap."""
        return _priced(self.law)

    @cached_property
    def shift(self) -> float:
        """e*: what a trial's chance of being beaten moves by, in nats."""
        return _shift(self.priced, self.mu, self.tau)

    def penalty(self, winners: int) -> float:
        """What the search adds to `winners` trials together, in nats."""
        return (self.priced.shape + winners) * self.shift * ROUND_UP

    def delta_at(self, epsilon: float) -> float:
        """delta of all that leaves at an epsilon of at least 0, at most."""
        return _delta_at(self.priced, self.orders, self.mu, self.tau, epsilon)

    def of_orders(self, orders: int) -> float:
        """What the winners of so many orders would cost at delta with the same trials, in nats, rounded up.

        Raises InvalidValue.
        """
        checks.count(minimum=1, orders=orders)

        def excess(epsilon: float) -> float:
            return math.log(_delta_at(self.priced, orders, self.mu, self.tau, epsilon) / self.delta)

        high = self.epsilon
        while excess(high) > 0:
            high *= 2
        if excess(0.0) <= 0:
            return 0.0
        root = float(brentq(excess, 0.0, high, xtol=1e-12, rtol=1e-12))
        while excess(root) > 0:
            root *= 1 + 1e-11
        return root

    def exceeds(self, configuration: TrialProfile) -> float:
        """ln(its mu / mu), by the least mu that covers it up to tau: at most 0 where the configuration is covered.

        Infinite where none does. Raises as its profile does.
        """
        found = covering_mu(configuration, self.tau)
        return math.log(found / self.mu) if found > 0 else -math.inf


def cover_delta(mu: float, tau: float, count: int, epsilon: float) -> float:
    """delta at an epsilon of at least 0 of `count` trials that one cover has, from above; 1 below that.

    mu of at least 0, tau in [0, 1), count of at least 1. Raises InvalidValue.
    """
    checks.non_negative_finite(mu=mu)
    checks.probability_open(tau=tau)
    checks.count(minimum=1, count=count)
    if epsilon < 0:
        return 1.0
    none = math.exp(count * math.log1p(-tau))
    together = math.sqrt(count) * mu
    if together == 0:
        return -math.expm1(count * math.log1p(-tau)) * ROUND_UP
    error = relative_error(together / 2 - epsilon / together, together)
    gaussian = min(1.0, delta_gdp(epsilon, together) * (1 + error))
    return (-math.expm1(count * math.log1p(-tau)) + none * gaussian) * ROUND_UP


def _shift(law: TruncatedNegativeBinomial, mu: float, tau: float) -> float:
    return least_shift(lambda epsilon: cover_delta(mu, tau, 1, epsilon), law.odds)


def _delta_at(law: TruncatedNegativeBinomial, orders: int, mu: float, tau: float, epsilon: float) -> float:
    shift = _shift(law, mu, tau)
    terms = [
        law.factorial_moment(winners)
        * cover_delta(mu, tau, winners, epsilon - (law.shape + winners) * shift * ROUND_UP)
        for winners in range(1, orders + 1)
    ]
    return math.fsum(terms) * ROUND_UP

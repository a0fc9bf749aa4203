"""The price of a front: several public orders answered from one search, or from separate ones.

One search. Draw K, run K trials, and release for each of k public orders the trial that ranks first by it; the same one
may win several. With r distinct winners and K truncated negative binomial,

    eps_r = eps_{Q^r}(delta_r / E K(K-1)..(K-r+1)) + (shape + r) e*,        r = 1..k

where Q^r is r trials released together and e* the shift of `penalties`. The deltas add; r is seen from the release.

Proof. Give each trial a secret uniform number that breaks ties, which changes no profile. Outputs z_1..z_r win with
chance density f^(r)(q) Q(z_1)..Q(z_r), q the chance that a trial beats none of them. f^(r)(q) is proportional to
t^-(shape+r), t = g + (1-g)(1-q), at most E K(K-1)..(K-r+1), and t' <= exp(e*) t under a neighbour. A cap lowers both
that mean and every log-slope, as in `counts`.

Separate searches. k threshold searches (`threshold`, shape in [0, 1]), each with its own K, the next target chosen
after looking, where all succeed: eps_{Q^k}(delta / mean^k) + k e*. Each success has density Q(z) F with F <= mean, and
the product of k such is a composition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dpcore import checks
from dpcore.adjacency import Adjacency
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.penalties import least_shift
from dpcore.selection.profiles import ROUND_UP, TrialProfile, epsilon_at, one_adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPrice:
    """What a front of one search costs.

    winners  epsilon of a release with r = 1, 2, ... distinct winners, in nats
    deltas   of each: they add
    """

    law: CountLaw
    adjacency: Adjacency
    winners: tuple[float, ...]
    deltas: tuple[float, ...]

    @property
    def epsilon(self) -> float:
        """Ex ante: the largest, at `delta`."""
        return max(self.winners)

    @property
    def delta(self) -> float:
        """Of the whole front."""
        return math.fsum(self.deltas) * ROUND_UP


@dataclass(frozen=True, slots=True, kw_only=True)
class SeparatePrice:
    """What successes in all of several threshold searches cost together: epsilon, in nats, at delta."""

    law: CountLaw
    adjacency: Adjacency
    searches: int
    epsilon: float
    delta: float


def price_front(law: CountLaw, together: Callable[[int], TrialProfile], deltas: Sequence[float]) -> FrontPrice:
    """The price of a release with r = 1, 2, ... distinct winners of one search.

    law       truncated negative binomial, with or without a cap
    together  the profile of r trials released together, under one adjacency for all r: for an event, of
              `Repeated(event=event, count=r)`
    deltas    delta_1..delta_k, each in (0, 1): they add

    Raises InvalidValue, and as the profiles do.
    """
    one = _priced(law)
    if not deltas:
        raise checks.InvalidValue("deltas", tuple(deltas), "one delta for each number of winners")
    for delta in deltas:
        checks.probability_open(deltas=delta)
    trials = [together(winners) for winners in range(1, len(deltas) + 1)]
    adjacency = one_adjacency(trials)
    shift = least_shift(trials[0].delta, one.odds)
    found = []
    for winners, (trial, delta) in enumerate(zip(trials, deltas, strict=True), start=1):
        own = epsilon_at(trial, delta / one.factorial_moment(winners))
        found.append((own + (one.shape + winners) * shift) * ROUND_UP)
    return FrontPrice(law=law, adjacency=adjacency, winners=tuple(found), deltas=tuple(deltas))


def price_separate(
    law: CountLaw, together: Callable[[int], TrialProfile], searches: int, delta: float
) -> SeparatePrice:
    """The price at `delta` in (0, 1) of successes in all of several threshold searches.

    law       of each search: truncated negative binomial of shape in [0, 1], with or without a cap
    together  see `price_front`
    searches  at least 1

    Where a search fails, its failure is priced by `threshold` and composed. Raises InvalidValue.
    """
    one = _priced(law)
    checks.count(minimum=1, searches=searches)
    checks.probability_open(delta=delta)
    if not 0 <= one.shape <= 1:
        raise checks.InvalidValue("law", law, "a truncated negative binomial law of shape in [0, 1]")
    trial, trials = together(1), together(searches)
    adjacency = one_adjacency((trial, trials))
    own = epsilon_at(trials, delta / math.pow(one.mean, searches))
    epsilon = (own + searches * least_shift(trial.delta, one.odds)) * ROUND_UP
    return SeparatePrice(law=law, adjacency=adjacency, searches=searches, epsilon=epsilon, delta=delta)


def _priced(law: CountLaw) -> TruncatedNegativeBinomial:
    priced = law.priced if isinstance(law, CountLaw) else law
    if not isinstance(priced, TruncatedNegativeBinomial):
        raise checks.InvalidValue("law", law, "a truncated negative binomial law")
    return priced

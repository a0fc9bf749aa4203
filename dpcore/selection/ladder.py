"""The price of utility first: the cheapest budget whose trials reach a public target, with an ex-post epsilon.

Procedure. Public and fixed beforehand: the target, a predicate of a trial's DP output; rungs Q_1..Q_J, from cheap to
dear; their weights w_j; the law of K. Each trial draws its rung from the weights and its configuration from the prior,
with secret coins. Release the first success, in the secret order of trials, of the lowest rung that has one, with the
rung's number; else say that there was none. Everything else is sealed, how many trials ran and for how long included.

Statement. For neighbours and every event S inside rung j, P[S] <= exp(eps(j)) P'[S] + delta_j, failure being a rung of
its own; the deltas are unconditional and add. Ex ante: the largest eps(j) at their sum. It survives post-processing
that keeps j.

Theorem (K truncated negative binomial of shape eta in [0, 1]). Let e*_j be the root of
odds sum_{i<=j} w_i delta_i(e) = exp(e) - 1, and e*_0 = 0. Then

    eps(j)    = eps_{Q_j}(delta_j / (mean w_j)) + penalty_j
    eps(none) = eps_Q(delta_none) + (1+eta)/2 e*_J,   Q the mixture of all rungs

with penalty_j = e*_j + eta e*_{j-1}.

Proof. With a, b the chances of success below rung j and up to it, z in rung j is released with chance w_j Q_j(z) F, F =
(f(1-a) - f(1-b))/(b-a) <= mean the average of t^-(1+eta) over [t_a, t_b] up to a constant, t_x = g + (1-g) x. As in
`best`, t_a' <= exp(e*_{j-1}) t_a and t_b' <= exp(e*_j) t_b. F falls in both ends, with log-slopes -s in ln t_a and
-(1+eta-s) in ln t_b, where s = eta/(1 - r^-eta) - 1/(r-1), r = t_b/t_a, and eta <= s <= (1+eta)/2. Move both ends by
e*_{j-1}, at most (1+eta) e*_{j-1}, then t_b alone by the rest, at most 1 each. Failure: f(y)/y is the average over
[t_J, 1], at most 1, and only its lower end moves. A cap is free.

Source  After Ghazi, Kamath, Knop, Kumar, Manurangsi & Zhang (2025) and Liu & Talwar (2019), algorithm 1; re-derived
        here. Compose prices in sums only (`filters.LinearLedger`), never in GDP or square-root rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dpcore import checks
from dpcore.selection.best import largest_excess, least_shift
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.profiles import ROUND_UP, TrialProfile, distribution, epsilon_at


def threshold_law(law: CountLaw) -> TruncatedNegativeBinomial:
    """The law to price, for the first success: without its cap. Raises InvalidValue unless its shape is in [0, 1]."""
    priced = law.priced
    if not isinstance(priced, TruncatedNegativeBinomial) or not 0 <= priced.shape <= 1:
        raise checks.InvalidValue("law", law, "a truncated negative binomial law of shape in [0, 1]")
    return priced


# One price for a ladder over configurations that differ: two points become one for each rung above, and one's own.
#
# The price of a ladder (`dpcore.selection.ladder`) looks at a trial of rung j at e*_j, ..., e*_J, through what its
# own rung and those above add to their penalties, and at the epsilon that its penalty leaves it. With these points
# fixed in public, every configuration of a rung that is at most as large there has the price of the rung, whichever
# is drawn.
#
# All rungs have the same delta at the last point, d_hat = delta / (1 + mean). So a release from rung j costs
# epsilon_j at delta_j = mean w_j d_hat, and d_hat is left for word that no trial succeeded. The deltas add up to
# delta. A trial of whatever rung has at most d_hat at the largest of the last points, so that word costs
#
# max_j e_hat_j + (1 + shape)/2 e*_J,
#
# which may be no dearer than the dearest rung: else there is no such ladder. One rung is the first success of K by
# itself, and always a ladder.

_DOWN = 1 - 1e-11


@dataclass(frozen=True, kw_only=True)
class LadderPoints:
    """What every configuration of every rung has to meet, so that a release from rung j costs epsilons[j]. Public.

    law       of K: truncated negative binomial of shape in [0, 1], with or without a cap
    weights   chances of the rungs of one trial, above 0, with sum 1
    epsilons  of a release from each rung, in nats, rising
    delta     of all ends together, in (0, 1)
    shifts    e*_1, e*_2, ...: in nats, at least 0, rising
    deltas    deltas[i][l]: what a configuration of rung l <= i has at shifts[i], at most

    Raises InvalidValue where the deltas are too large for a shift, nothing of a rung's epsilon is left for its trials,
    or word of none would be dearer than the dearest rung.
    """

    law: CountLaw
    weights: tuple[float, ...]
    epsilons: tuple[float, ...]
    delta: float
    shifts: tuple[float, ...]
    deltas: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        distribution("weights", self.weights, len(self.epsilons))
        checks.probability_open(delta=self.delta)
        if list(self.epsilons) != sorted(set(self.epsilons)):
            raise checks.InvalidValue("epsilons", self.epsilons, "budgets that rise")
        if len(self.shifts) != len(self.epsilons) or list(self.shifts) != sorted(self.shifts):
            raise checks.InvalidValue("shifts", self.shifts, "one for each rung, never falling")
        if [len(row) for row in self.deltas] != list(range(1, len(self.epsilons) + 1)):
            raise checks.InvalidValue("deltas", self.deltas, "of each shift, one for each rung up to its own")
        for epsilon, shift, row in zip(self.epsilons, self.shifts, self.deltas, strict=True):
            checks.positive_finite(epsilons=epsilon)
            checks.non_negative_finite(shifts=shift)
            for one in row:
                checks.non_negative_finite(deltas=one)
            below = math.fsum(w * one for w, one in zip(self.weights, row, strict=False))
            if self.priced.odds * below * ROUND_UP > math.expm1(shift):
                most = math.expm1(shift) / self.priced.odds
                expected = f"a weighted sum of at most {most:.6g}, which is (exp(shift) - 1) / odds"
                raise checks.InvalidValue("deltas", row, expected)
        for rung, epsilon in enumerate(self.epsilons):
            if self.penalty(rung) > epsilon:
                expected = f"more than the penalty of its rung, {self.penalty(rung):.6g}"
                raise checks.InvalidValue("epsilons", epsilon, expected)
        if self.failure > self.epsilons[-1]:
            expected = f"a dearest rung of at least {self.failure:.6g}, which word costs that no trial succeeded"
            raise checks.InvalidValue("epsilons", self.epsilons, expected, "Ask for a larger last budget.")

    @cached_property
    def priced(self) -> TruncatedNegativeBinomial:
        """The law without its cap."""
        return threshold_law(self.law)

    @property
    def epsilon(self) -> float:
        """Before it is known where the search ends: the dearest, at `delta`."""
        return self.epsilons[-1]

    def penalty(self, rung: int) -> float:
        """What the search adds to a trial of a rung, from 0, in nats."""
        below = self.shifts[rung - 1] if rung else 0.0
        return (self.shifts[rung] + self.priced.shape * below) * ROUND_UP

    def e_hat(self, rung: int) -> float:
        """What is left for a trial of a rung itself, in nats, rounded down."""
        return (self.epsilons[rung] - self.penalty(rung)) * (1 - 1e-15)

    @property
    def d_hat(self) -> float:
        """delta of a trial at its e_hat, at most."""
        return self.delta / (1 + self.priced.mean) * (1 - 1e-15)

    @property
    def failure(self) -> float:
        """What word costs that no trial succeeded, in nats, at delta d_hat."""
        most = max(self.e_hat(rung) for rung in range(len(self.epsilons)))
        # e_hat is rounded down by more than this sum is rounded.
        return most + (1 + self.priced.shape) / 2 * self.shifts[-1]

    def exceeds(self, rung: int, configuration: TrialProfile) -> float:
        """The largest ln(delta / allowed) of its points: at most 0 where the configuration may be in its rung."""
        limits = [(self.e_hat(rung), self.d_hat)]
        limits += [(self.shifts[i], self.deltas[i][rung]) for i in range(rung, len(self.shifts))]
        return largest_excess(configuration, tuple(limits))


@dataclass(frozen=True, kw_only=True)
class Climbing:
    """The references of a ladder's first rungs, from which the next one is calibrated: in public, and free to choose.

    law, weights, delta  of the ladder
    known   a trial of each rung so far, from the cheapest on
    shifts  e*_1, e*_2, ... of these, in nats
    """

    law: CountLaw
    weights: tuple[float, ...]
    delta: float
    known: tuple[TrialProfile, ...] = ()
    shifts: tuple[float, ...] = ()

    def price(self, trial: TrialProfile) -> float:
        """Epsilon of a release from the next rung if its trials are like this one, in nats."""
        priced = threshold_law(self.law)
        below = self.shifts[-1] if self.shifts else 0.0
        return epsilon_at(trial, self.delta / (1 + priced.mean)) + self._shift(trial) + priced.shape * below

    def with_rung(self, trial: TrialProfile) -> Climbing:
        """One rung further."""
        return replace(self, known=(*self.known, trial), shifts=(*self.shifts, self._shift(trial)))

    def _shift(self, trial: TrialProfile) -> float:
        """Of the next rung. Roots are found to some digits: none is below the one before."""
        pairs = list(zip(self.weights, (*self.known, trial), strict=False))

        def upto(epsilon: float) -> float:
            return math.fsum(weight * one.delta(epsilon) for weight, one in pairs)

        return max(least_shift(upto, threshold_law(self.law).odds), *self.shifts, 0.0)

    def points(self, epsilons: Sequence[float]) -> LadderPoints:
        """What all configurations have to meet, once every rung has its reference. Raises InvalidValue."""
        # A little below the root, so that rounding leaves it on the safe side, as in `dpcore.selection.best`.
        rows = tuple(
            tuple(min(1.0, one.delta(shift) * _DOWN) for one in self.known[: rung + 1])
            for rung, shift in enumerate(self.shifts)
        )
        return LadderPoints(
            law=self.law,
            weights=self.weights,
            epsilons=tuple(epsilons),
            delta=self.delta,
            shifts=self.shifts,
            deltas=rows,
        )

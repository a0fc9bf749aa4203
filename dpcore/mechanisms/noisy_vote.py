"""Soft majority vote of subsample-and-aggregate: label k with probability proportional to exp(beta * votes_k).

M models are trained on disjoint parts, so one record changes one vote, which moves two counts by one each.

Source  Dwork & Feldman (2018); van der Maaten & Hannun (2020), Theorems 7 and 8. The published beta = epsilon/B counts
        one of the two counts: it is refuted (the true loss is up to twice that) and `as_published` says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpcore import checks
from dpcore.accountants.composition import each_pure
from dpcore.events import Adjacency, Event, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms.output_perturbation import Normals, advanced_epsilon
from dpcore.mechanisms.protocol import mechanism, repeated

ZCDP_THEOREM = "Cesar & Rogers 2021 (bounded range); Bun & Steinke 2016, Proposition 1.3"
ONE_VOTE = "One record or unit changes at most one model: parts are disjoint, and fixed without looking at the records."

_DOWN = 1 - 1e-12


@mechanism("soft-vote")
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyVote:
    """`steps` adaptive votes, as a value that a plan carries.

    beta       inverse temperature, above 0
    models     M, at least 1; under `adjacency` one neighbour changes one vote
    classes    at least 2
    steps      at least 0

    Raises InvalidValue.
    """

    beta: float
    models: int
    classes: int
    adjacency: Adjacency
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(beta=self.beta)
        checks.count(minimum=1, models=self.models)
        checks.count(minimum=2, classes=self.classes)
        checks.count(steps=self.steps)

    @property
    def each(self) -> PureDP:
        """What one vote releases."""
        return PureDP(epsilon=loss_per_query(self.beta, self.models, self.classes), adjacency=self.adjacency)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def release(self, votes: NDArray[np.int64], draw: Normals) -> int:
        """One label for the counts `votes`, shape [classes], summing to `models`."""
        return sample(self.beta, votes, draw)


def sample(beta: float, votes: NDArray[np.int64], normals: Normals) -> int:
    """A label with probability proportional to exp(beta * votes), over all classes, by Gumbel noise."""
    # Half the sum of two squared normals is exponential; minus its logarithm is Gumbel.
    exponential = 0.5 * np.square(normals((2, len(votes)))).sum(axis=0)
    return int(np.argmax(beta * votes - np.log(exponential)))


def loss_per_query(beta: float, models: int, classes: int) -> float:
    """The exact privacy loss of one vote, beta <= loss <= 2 beta.

    beta + ln((exp(beta M) + c - 1) / (exp(beta (M-1)) + exp(beta) + c - 2)), reached when all votes agree. The fraction
    is 1 + (exp(beta (M-1)) - 1) (exp(beta) - 1) / denominator, here in logarithms: no beta overflows, none cancels.
    """
    checks.non_negative_finite(beta=beta)
    checks.count(minimum=1, models=models)
    checks.count(minimum=2, classes=classes)
    if beta == 0 or models == 1:
        return beta
    rest = beta * (models - 1)
    others = math.log(classes - 2) - rest if classes > 2 else -math.inf
    denominator = np.logaddexp.reduce([0.0, beta - rest, others])
    excess = math.log(-math.expm1(-rest)) + beta + math.log(-math.expm1(-beta)) - denominator
    return beta + float(np.logaddexp(0.0, excess))


def standard(epsilon: float, queries: int) -> float:
    """beta = epsilon/(2B), (epsilon, 0) over all queries: McSherry & Talwar (2007), Theorem 6, once per query."""
    checks.positive_finite(epsilon=epsilon)
    checks.count(minimum=1, queries=queries)
    return epsilon / (2 * queries)


def advanced(epsilon: float, delta: float, queries: int) -> float:
    """beta of (epsilon, delta) over all queries: an exponential mechanism of range 2 beta is beta^2/2-zCDP."""
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, queries=queries)
    return advanced_epsilon(epsilon, delta, queries)


def optimal(epsilon: float, delta: float, queries: int, models: int, classes: int) -> float:
    """beta of (epsilon, delta) over all queries: the exact loss of one, composed optimally as pure DP."""
    return beta_for_loss(each_pure(epsilon, delta, queries), models, classes)


def as_published(epsilon: float, votes: NoisyVote, unit: str = "record") -> Guarantee:
    """What the public experiments claim of `votes` at beta = epsilon/B: `refuted`, and it says what is true.

    A single model is the exception: its vote moves without changing what the labels' weights add up to.
    """
    claim = Guarantee(
        epsilon=epsilon,
        delta=0.0,
        adjacency=votes.adjacency,
        unit=unit,
        accountant="as-published",
        status=Status.PROVED,
        theorem="van der Maaten & Hannun 2020, Theorem 7 with beta = epsilon/B",
        assumptions=(ONE_VOTE, FLOATING_POINT),
    )
    if votes.each.epsilon == votes.beta:
        return claim
    true = votes.steps * votes.each.epsilon
    reason = f"Refuted: one record moves two counts, and the true epsilon at delta 0 is {true:.6g}."
    return replace(claim, status=Status.REFUTED, assumptions=(reason, *claim.assumptions))


def zcdp_epsilon(beta: float, queries: int, delta: float) -> float:
    """epsilon at `delta` of `queries` votes by zCDP: rho + 2 sqrt(rho ln(1/delta)), rho = B beta^2/2. Rounded up."""
    rho = queries * beta**2 / 2
    return (rho + 2 * math.sqrt(rho * math.log(1 / delta))) / _DOWN


def beta_for_loss(loss: float, models: int, classes: int) -> float:
    """The largest beta whose `loss_per_query` is at most `loss` > 0; between loss/2 and loss. Rounded down."""
    checks.positive_finite(loss=loss)
    if loss_per_query(loss, models, classes) <= loss:
        return loss * _DOWN
    if loss_per_query(loss / 2, models, classes) >= loss * _DOWN:
        # So many models that the loss is 2 beta to the last digit; it is never more.
        return loss / 2 * _DOWN
    root = float(
        brentq(lambda beta: loss_per_query(beta, models, classes) - loss, loss / 2, loss, xtol=1e-300, rtol=1e-14)
    )
    while loss_per_query(root, models, classes) > loss:
        root *= _DOWN
    return max(root, loss / 2 * _DOWN)

"""Small mechanisms whose every law is known exactly, and an adversary that climbs towards a violation of a claim.

A base mechanism is a pair (P, Q) of laws on a few outputs under two neighbours; outputs are in the order of rank, the
best last. SWEEPS_CHAOS_MECHANISMS=N asks for N mechanisms for each theorem; `make chaos` asks for 3,000.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcore.events import Adjacency
from dpcore.selection.counts import CountLaw

MECHANISMS = int(os.environ.get("SWEEPS_CHAOS_MECHANISMS", "24"))
STEPS = 25
RAREST = 1e-8
"""The least mass of an output: what is released with a smaller chance is a difference that has lost its digits."""
ROUNDING = 1e-6
"""Of an epsilon: by less than that double precision alone exceeds a claim, with such masses."""


def share(cases: int) -> int:
    """How many mechanisms one of several cases of a theorem gets.

    cases  that its tests run in all: laws, deltas and kinds together, or a theorem sees fewer than were asked for
    """
    return -(-MECHANISMS // cases)


def generating(law: CountLaw, q: float) -> float:
    """f(q) = E q^K of a law of counts."""
    return 1 - law.reach(1 - q)


Laws = tuple[np.ndarray, np.ndarray]


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The divergence at epsilon of p from q, in this direction alone."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def both(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return max(hockey(p, q, epsilon), hockey(q, p, epsilon))


@dataclass(frozen=True, eq=False)
class FiniteProfile:
    """The exact profile of a pair of laws; `one_way` is the mutant that looks in one direction."""

    p: np.ndarray
    q: np.ndarray
    one_way: bool = False
    adjacency = Adjacency.ADD_REMOVE

    def delta(self, epsilon):
        return hockey(self.p, self.q, epsilon) if self.one_way else both(self.p, self.q, epsilon)

    def epsilon(self, delta):
        """Exact: the divergence is linear in exp(epsilon) between the ratios of the laws."""
        ways = ((self.p, self.q),) if self.one_way else ((self.p, self.q), (self.q, self.p))
        return max(_inverse(p, q, delta) for p, q in ways)

    def renyi(self, orders):
        a = np.array(orders)[:, None]
        seen = self.p > 0
        one, other = np.log(self.p[seen]), np.log(self.q[seen])
        logs = [a * p + (1 - a) * q for p, q in ((one, other), (other, one))]
        found = np.max([np.logaddexp.reduce(one, axis=1) for one in logs], axis=0) / (a[:, 0] - 1)
        return np.maximum(found, 0) * (1 + 1e-12)


def _inverse(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    seen = p > 0
    order = np.argsort(q[seen] / p[seen])
    left = np.cumsum(p[seen][order]) - delta
    below = np.cumsum(q[seen][order])
    # The test that rejects on the top k outputs needs exp(epsilon) >= (P - delta) / Q; the hardest decides.
    with np.errstate(divide="ignore", invalid="ignore"):
        most = float(np.nanmax(np.where(left > 0, left / below, 0.0)))
    return math.log(most) * (1 + 1e-12) if most > 1 else 0.0


def softmax(theta: np.ndarray) -> np.ndarray:
    raw = np.exp(theta - theta.max())
    raw = np.maximum(raw / raw.sum(), RAREST)
    return raw / raw.sum()


def laws(theta: np.ndarray) -> Laws:
    """The pair that a point of the search stands for: logits of one law, log-ratios of the other to it."""
    half = len(theta) // 2
    return softmax(theta[:half]), softmax(theta[:half] + theta[half:])


def start(rng: np.random.Generator, outputs: int | None = None) -> np.ndarray:
    """A random point: laws at random, or two-valued log-ratios (randomised response) in some order of rank."""
    n = outputs or int(rng.integers(2, 6))
    rare = rng.uniform(0, 7) * np.linspace(0, 1, n) ** rng.uniform(0.3, 3)
    logits = rng.normal(0, 1, n) - (rare if rng.random() < 0.7 else 0)
    size = rng.uniform(0.05, 2)
    ratios = size * (rng.choice([-1.0, 1.0], n) if rng.random() < 0.6 else rng.normal(0, 1, n))
    return np.concatenate([logits, ratios])


def climb(
    score: Callable[[np.ndarray], float], theta: np.ndarray, rng: np.random.Generator, steps: int = STEPS
) -> float:
    """The largest score found by hill climbing from theta."""
    best, width = score(theta), 0.5
    for _ in range(steps):
        moved = theta + width * rng.normal(0, 1, len(theta)) * (rng.random(len(theta)) < 0.5)
        value = score(moved)
        if value > best:
            theta, best, width = moved, value, min(1.5 * width, 2.0)
        else:
            width = max(0.8 * width, 0.02)
    return best


def worst(
    score: Callable[[np.ndarray, np.random.Generator], Callable[[np.ndarray], float]] | Callable[[np.ndarray], float],
    seed: int,
    mechanisms: int = MECHANISMS,
    outputs: int | None = None,
    steps: int = STEPS,
) -> float:
    """The largest score over random mechanisms, each climbed; above 1 is a violation."""
    rng = np.random.default_rng(seed)
    return max(climb(score, start(rng, outputs), rng, steps) for _ in range(mechanisms))


def ratio(p: np.ndarray, q: np.ndarray, epsilon: float, delta: float) -> float:
    """The exact epsilon at delta of two released laws, over the one that is claimed."""
    return max(_inverse(p, q, delta), _inverse(q, p, delta)) / (epsilon + ROUNDING)

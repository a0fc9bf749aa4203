"""Why Lu et al. (2021) is refuted: runs that anyone can repeat, each with what was measured and what was claimed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit, ndtr

from dpcore import checks
from dpcore.papers.convexified import (
    NeuronNoise,
    linear_objective,
    log_predictions,
    lu_convex,
    published_noise,
    record_weights,
    risk_averse_loss,
)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredSensitivity:
    """A quantity that a record moves, beside the bound that the publication puts on it."""

    measured: float
    claimed: float

    @property
    def factor(self) -> float:
        """How many times the claim is exceeded; above 1 it is refuted."""
        return self.measured / self.claimed


def one_neuron_distinguisher(
    trials: int = 20_000, epsilon: float = 0.01, noise: NeuronNoise = NeuronNoise.LAPLACE, seed: int = 0
) -> MeasuredSensitivity:
    """Share of right guesses of "was the record in?" from one output, beside what epsilon-DP allows.

    Softmax regression (n = 200, d = 5, C = 3), one record removed, one query, a fair coin per trial. The attacker knows
    both models and asks whose logit differences occur among the output's: one pair of classes has no noise. With
    Gaussian noise the claimed epsilon is a mu, which allows Phi(mu/2). Raises InvalidValue.
    """
    checks.count(1, trials=trials)
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, 5))
    features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    labels = (features @ rng.normal(size=(5, 3)) + rng.gumbel(size=(200, 3))).argmax(axis=1)
    query = features[:1]
    models = [query @ _fit(features[start:], labels[start:], 3) for start in (0, 1)]
    bounds = published_noise((5,), 3, 200, 0.0005)
    coins = rng.integers(0, 2, trials)
    out = np.empty((trials, 3))
    for which, logits in enumerate(models):
        rows = np.flatnonzero(coins == which)
        repeated = np.repeat(logits, len(rows), axis=0)
        out[rows] = log_predictions(repeated, bounds.logit, bounds.probability, epsilon, noise, rng)
    misfits = [np.abs(_differences(out) - _differences(logits)).min(axis=1) for logits in models]
    right = np.mean((misfits[1] < misfits[0]) == (coins == 1))
    allowed = expit(epsilon) if noise is NeuronNoise.LAPLACE else ndtr(epsilon / 2)
    return MeasuredSensitivity(float(right), float(allowed))


def single_weight(weights: int = 10_000, records: int = 1000, convexity: float = 0.01) -> MeasuredSensitivity:
    """How far one weight moves when one record leaves, beside Dw = 2 rho / (lambda n sqrt(|W|)).

    Logistic regression; the record alone has a feature of its own, so its weight solves a one-dimensional problem and
    is 0 without it. rho = 1: inputs of norm 1.
    """
    moved = brentq(lambda w: convexity * w - expit(-w) / records, 0.0, 1 / (convexity * records), xtol=1e-15)
    return MeasuredSensitivity(float(moved), lu_convex(1.0, convexity, records) / math.sqrt(weights))


def risk_averse_minimiser(alpha: float = 5.0, records: int = 10_000, convexity: float = 0.001) -> MeasuredSensitivity:
    """How far the minimiser moves when one label is flipped, beside D2W = 2 rho / (lambda n).

    One-dimensional logistic regression, all inputs 1, all labels alike but one. The flipped record's weight in the
    gradient is softmax(alpha l), not 1/n. Convex throughout: only the objective differs from Theorem 4's.
    """

    def slope(w: float, flipped: int) -> float:
        losses = np.concatenate([np.full(records - flipped, -log_expit(w)), np.full(flipped, -log_expit(-w))])
        weight = record_weights(losses, alpha)[records - flipped :].sum()
        return float(convexity * w - (1 - weight) * expit(-w) + weight * expit(w))

    reach = 1 / convexity
    ends = [brentq(slope, 0.0, reach, args=(flipped,), xtol=1e-12) for flipped in (0, 1)]
    return MeasuredSensitivity(abs(ends[0] - ends[1]), lu_convex(1.0, convexity, records))


@dataclass(frozen=True, slots=True)
class NonConvexity:
    """J at W, at -W and at their midpoint 0; a convex J would have J(0) at most their mean."""

    at_weights: float
    at_opposite: float
    at_midpoint: float


def xor_network(alpha: float, regulariser: float = 0.0) -> NonConvexity:
    """A tanh net without output bias that computes XOR: flipping all signs leaves the function unchanged.

    Three hidden neurons, inputs (x_1, x_2, 1). With a regulariser the weights are first trained, else set by hand.
    Any accurate tanh network refutes convexity in this way, at every alpha.
    """
    inputs = np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1]], dtype=np.float64)
    signs = np.array([-1.0, 1.0, 1.0, -1.0])

    def objective(flat: Array) -> float:
        hidden, out = flat[:9].reshape(3, 3), flat[9:]
        losses = -log_expit(signs * (np.tanh(inputs @ hidden.T) @ out))
        return risk_averse_loss(losses, alpha) + 2 * regulariser * float(flat @ flat)

    steep = 2.0
    by_hand = np.array([steep, steep, -steep, -steep, -steep, -steep, 0, 0, steep, -12, -12, -12])
    flat = by_hand if regulariser == 0 else minimize(objective, by_hand / 2, method="BFGS").x
    return NonConvexity(objective(flat), objective(-flat), objective(np.zeros(12)))


def output_layer_gradient(inputs: int = 784, hidden: int = 128, classes: int = 10) -> MeasuredSensitivity:
    """Norm of one record's gradient in the output layer alone, beside Proposition 1's rho.

    All hidden tanh neurons saturated at 1 and all probability on a wrong class: sqrt(2) sqrt(hidden).
    """
    activations, error = np.ones(hidden), np.zeros(classes)
    error[0], error[1] = 1.0, -1.0
    gradient = np.outer(activations, error)
    return MeasuredSensitivity(
        float(np.linalg.norm(gradient)), published_noise((inputs, hidden), classes, 10_000, 0.0005).lipschitz
    )


def _fit(features: Array, labels: NDArray[np.intp], classes: int) -> Array:
    shape = (features.shape[1], classes)

    def objective(flat: Array) -> tuple[float, Array]:
        value, gradient = linear_objective(flat.reshape(shape), features, labels, 1.0, 0.0005)
        return value, gradient.ravel()

    found = minimize(objective, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-14})
    fitted: Array = found.x.reshape(shape)
    return fitted


def _differences(logits: Array) -> Array:
    """Differences of all pairs of three classes; shape (rows, 3)."""
    return logits - np.roll(logits, 1, axis=1)

"""Certified minimisers of L2-regularised multi-class logistic regression, in float64.

    J(theta) = (1/n) sum_i [ln(sum_k exp(theta_k^T x_i)) - theta_{y_i}^T x_i]
               + (modulus/2) ||theta||_F^2 + <linear, theta>

theta has shape (d, c), ||x_i||_2 <= 1. The certificate is the gradient: ||grad J(theta)||_F <= tau puts theta within
tau/modulus of the minimiser. Two neighbours must never be told apart by whether the optimiser succeeds, so after L-BFGS
comes accelerated gradient descent, whose number of steps to the certificate is bounded for every data set (Nesterov
2004, Theorem 2.2.3), and there is no early exit: over the reals a run cannot end without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcore import checks

Array = NDArray[np.float64]

SMALLEST_TAU = 1e-12
"""Gradients in float64 are exact to some 1e-14 here; a certificate near that would be noise."""

CURVATURE = 0.5
"""Largest eigenvalue of a softmax Hessian in the logits (van der Maaten & Hannun 2020, Theorem 10)."""

_LBFGS_ITERATIONS = 2000
_MARGIN = 0.99
# Rows at a time, for temporary arrays that stay small.
_BLOCK = 4096


class NotCertified(RuntimeError):
    """The bound on the number of steps was passed without a certificate: float64 was not enough for this tau."""


def unit_inputs(records: NDArray[np.generic], clip_norm: float = 1.0, bias: bool = False) -> Array:
    """Each record divided by max(clip_norm, its own norm), float64; shape (n, d), or (n, d + 1) with `bias`.

    No record's result depends on another record. With `bias` a column of ones is added and everything is divided by
    sqrt(2), which keeps the norm at most 1. A record with a non-finite value becomes zero: it must not spoil a sum.
    Raises InvalidValue.
    """
    checks.positive_finite(clip_norm=clip_norm)
    inputs = np.array(records, dtype=np.float64).reshape(len(records), -1)
    for start in range(0, len(inputs), _BLOCK):
        block = inputs[start : start + _BLOCK]
        block[~np.isfinite(block).all(axis=1)] = 0.0
        # Divided by the largest entry first, squares neither over- nor underflow.
        largest = np.maximum(np.abs(block).max(axis=1, initial=0.0), 1e-300)
        norms = largest * np.sqrt(np.square(block / largest[:, None]).sum(axis=1))
        block /= np.maximum(clip_norm, norms)[:, None]
    if not bias:
        return inputs
    return np.hstack([inputs, np.ones((len(inputs), 1))]) / math.sqrt(2)


@dataclass(frozen=True, slots=True, eq=False)
class LogisticRisk:
    """The objective of the module's text. Raises InvalidValue for inputs of norm above 1 (use `unit_inputs`).

    inputs   (records, d), labels (records,) in 0..classes-1
    divisor  the public n; the number of records may differ from it under add-remove
    linear   (d, c), or None
    """

    inputs: Array
    labels: NDArray[np.int64]
    classes: int
    divisor: int
    modulus: float
    linear: Array | None = None

    def __post_init__(self) -> None:
        checks.count(minimum=2, classes=self.classes)
        checks.count(minimum=1, divisor=self.divisor)
        checks.positive_finite(modulus=self.modulus)
        if np.einsum("ij,ij->i", self.inputs, self.inputs).max(initial=0.0) > 1 + 1e-12:
            raise checks.InvalidValue("inputs", "a record of norm above 1", "norms of at most 1", "Use `unit_inputs`.")

    @property
    def shape(self) -> tuple[int, int]:
        """Of theta: (d, c)."""
        return self.inputs.shape[1], self.classes

    @property
    def smoothness(self) -> float:
        """Largest curvature: modulus + 1/2 for n records."""
        return self.modulus + CURVATURE * len(self.labels) / self.divisor

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """J and its gradient, shape (d, c)."""
        scores = self.inputs @ theta
        rows = np.arange(len(scores))
        scores -= scores.max(axis=1, keepdims=True)
        own = scores[rows, self.labels].sum()
        np.exp(scores, out=scores)
        totals = scores.sum(axis=1, keepdims=True)
        value = (np.log(totals).sum() - own) / self.divisor + self.modulus / 2 * float(np.vdot(theta, theta))
        scores /= totals
        scores[rows, self.labels] -= 1.0
        gradient = self.inputs.T @ scores / self.divisor + self.modulus * theta
        if self.linear is not None:
            value += float(np.vdot(self.linear, theta))
            gradient += self.linear
        return float(value), gradient

    def largest_gap(self) -> float:
        """Upper bound on J(0) - min J, from public numbers and `linear` alone."""
        slope = 0.0 if self.linear is None else float(np.vdot(self.linear, self.linear))
        return math.log(self.classes) * len(self.labels) / self.divisor + slope / (2 * self.modulus)


def minimise(risk: LogisticRisk, tau: float) -> Array:
    """The minimiser up to a gradient norm of `tau`, deterministic.

    Raises InvalidValue for a tau below SMALLEST_TAU, NotCertified when float64 is too coarse for this tau.
    """
    checks.positive_finite(tau=tau)
    if tau < SMALLEST_TAU:
        raise checks.InvalidValue("tau", tau, f"at least {SMALLEST_TAU:g}", "Raise the regularisation or n's scale.")
    start = np.zeros(risk.shape)
    at_zero, _ = risk.value_and_gradient(start)
    found = _quasi_newton(risk, start, tau)
    value, gradient = risk.value_and_gradient(found)
    if _norm(gradient) <= _MARGIN * tau:
        return found
    # The bound on the number of steps refers to a start no worse than zero.
    return _accelerated(risk, found if value <= at_zero else start, tau)


def steps_bound(risk: LogisticRisk, tau: float) -> int:
    """Steps of accelerated descent that suffice from any start no worse than zero.

    J(theta_k) - J* <= 2 gap (1 - 1/sqrt(kappa))^k, the extrapolated point is at most 3 times as far from the minimiser
    as the last two iterates, and the gradient there is at most smoothness times its distance.
    """
    kappa = risk.smoothness / risk.modulus
    ratio = 36 * risk.smoothness**2 * risk.largest_gap() / (risk.modulus * (_MARGIN * tau) ** 2)
    return 2 + math.ceil(math.sqrt(kappa) * max(0.0, math.log(ratio)))


def _quasi_newton(risk: LogisticRisk, start: Array, tau: float) -> Array:
    def flat(theta: Array) -> tuple[float, Array]:
        value, gradient = risk.value_and_gradient(theta.reshape(risk.shape))
        return value, gradient.ravel()

    # gtol bounds the largest coordinate, the certificate the whole norm.
    options = {"maxiter": _LBFGS_ITERATIONS, "maxfun": 2 * _LBFGS_ITERATIONS, "ftol": 0.0, "maxcor": 20}
    options["gtol"] = _MARGIN * tau / math.sqrt(start.size)
    found = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64).reshape(risk.shape)


def _accelerated(risk: LogisticRisk, start: Array, tau: float) -> Array:
    root = math.sqrt(risk.smoothness / risk.modulus)
    momentum = (root - 1) / (root + 1)
    last = point = start
    for _ in range(steps_bound(risk, tau)):
        _, gradient = risk.value_and_gradient(point)
        if _norm(gradient) <= _MARGIN * tau:
            return point
        current = point - gradient / risk.smoothness
        point = current + momentum * (current - last)
        last = current
    raise NotCertified(
        f"tau={tau:g}: not reached in {steps_bound(risk, tau)} steps; expected only if rounding forbids it"
    )


def _norm(gradient: Array) -> float:
    return float(np.sqrt(np.vdot(gradient, gradient)))

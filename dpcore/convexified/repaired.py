"""The repaired variant: a linear softmax head on public or frozen features, trained on the risk-averse loss in a ball.

What makes a proof possible: features phi(x) of norm at most 1 that no private record shaped; weights W (d x classes)
with Frobenius norm at most r, hence losses in [0, Bl]; strong convexity m = 4 lambda; and noise on all logits.

Sensitivity under replace-one, n public: with w_i, w'_i the record's weight before and after, the gradient moves by at
most sqrt(2) (w_i + w'_i + |w_i - w'_i|) = 2 sqrt(2) max(w_i, w'_i), a weight is at most
exp(alpha Bl) / (exp(alpha Bl) + n - 1), and minimisers over one convex set obey the bound shift / m by their
variational inequalities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.convexified.risk_averse import linear_objective, modulus
from dpcore.events import Gaussian, Repeated
from dpcore.guarantee import Guarantee

Array = NDArray[np.float64]

CERTIFIED = "The weights are within the certified distance of the exact minimiser over the ball."
FROZEN = "Features have norm at most 1 and were fixed without looking at private records; n is public."


def largest_weight(alpha: float, loss_bound: float, records: int) -> float:
    """exp(alpha Bl) / (exp(alpha Bl) + n - 1): the most of softmax(alpha l) for l in [0, Bl]; 1/n in the limit alpha 0.

    alpha, loss_bound above 0; records n at least 1. Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha, loss_bound=loss_bound)
    checks.count(1, records=records)
    return 1 / (1 + (records - 1) * math.exp(-alpha * loss_bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Public facts about one training problem.

    records      n, at least 2
    classes      at least 2
    alpha        risk aversion, above 0
    regulariser  lambda of 2 lambda ||W||^2, above 0
    radius       r, largest Frobenius norm of the weights, above 0
    tolerance    tau, above 0: the minimiser is approached to within tau / (4 lambda)

    Raises InvalidValue.
    """

    records: int
    classes: int
    alpha: float
    regulariser: float
    radius: float
    tolerance: float

    def __post_init__(self) -> None:
        checks.count(2, records=self.records, classes=self.classes)
        checks.positive_finite(
            alpha=self.alpha, regulariser=self.regulariser, radius=self.radius, tolerance=self.tolerance
        )

    @property
    def modulus(self) -> float:
        """m = 4 lambda."""
        return modulus(self.regulariser)

    @property
    def loss_bound(self) -> float:
        """Bl = ln(1 + (C-1) exp(sqrt(2) r)): two columns of W differ by at most sqrt(2) r in norm."""
        return float(np.logaddexp(0.0, math.log(self.classes - 1) + math.sqrt(2) * self.radius))

    @property
    def largest_weight(self) -> float:
        """The most that one record can weigh in the gradient."""
        return largest_weight(self.alpha, self.loss_bound, self.records)

    @property
    def exact_sensitivity(self) -> float:
        """D of the exact minimiser, L2 (Frobenius), replace-one. Never more than the ball's diameter."""
        return min(2 * math.sqrt(2) * self.largest_weight / self.modulus, 2 * self.radius)

    @property
    def sensitivity(self) -> float:
        """D + 2 tau / m: of the certified weights. A query with ||phi|| <= 1 moves its logits by no more."""
        return self.exact_sensitivity + 2 * self.tolerance / self.modulus

    @property
    def smoothness(self) -> float:
        """1/2 + 2 alpha + 4 lambda: largest curvature of J.

        The logit Hessian has eigenvalues at most 1/2; weighting adds alpha times the covariance of gradients of norm
        at most sqrt(2).
        """
        return 0.5 + 2 * self.alpha + self.modulus

    @property
    def iterations(self) -> int:
        """Steps after which `minimise` is within tau / m for every data set: a function of public facts only.

        The gap falls like (1 - sqrt(m/L))^k from at most ln C + m r^2 / 2 (Beck 2017, Theorem 10.42), and the squared
        distance is at most 2/m of it.
        """
        start = math.log(self.classes) + self.modulus * self.radius**2 / 2
        goal = self.tolerance**2 / (2 * self.modulus)
        rate = -math.log1p(-math.sqrt(self.modulus / self.smoothness))
        return max(1, math.ceil(math.log(start / goal) / rate))


class Uncertified(RuntimeError):
    """The weights are not provably within the tolerance of the minimiser: nothing may be released from them."""


def minimise(head: Head, features: Array, labels: NDArray[np.intp]) -> Array:
    """The minimiser of J over the ball, to within `tolerance / modulus`; shape (d, classes).

    features  shape (n, d), each row of norm at most 1, n as declared
    labels    shape (n,), integers in [0, classes)
    Accelerated projected gradient in float64, always `head.iterations` steps, so that running time does not depend on
    the data. Raises InvalidValue for rows that are too long, and Uncertified where rounding spoiled the certificate;
    either is visible, so choose the tolerance well above float64's resolution and scale rows beforehand.
    """
    if features.shape != (head.records, features.shape[-1]) or labels.shape != (head.records,):
        raise checks.InvalidValue("features", features.shape, f"{head.records} rows, and as many labels")
    _check_norms("features", features)
    if labels.min() < 0 or labels.max() >= head.classes:
        raise checks.InvalidValue("labels", int(labels.max()), f"integers in [0, {head.classes})")
    root = math.sqrt(head.smoothness / head.modulus)
    momentum = (root - 1) / (root + 1)
    weights = ahead = np.zeros((features.shape[1], head.classes))
    for _ in range(head.iterations):
        _, gradient = linear_objective(ahead, features, labels, head.alpha, head.regulariser)
        after = project(ahead - gradient / head.smoothness, head.radius)
        ahead = after + momentum * (after - weights)
        weights = after
    _, gradient = linear_objective(weights, features, labels, head.alpha, head.regulariser)
    distance = certified_distance(weights, gradient, head.modulus, head.radius)
    if not distance <= head.tolerance / head.modulus:
        raise Uncertified(
            f"tolerance={head.tolerance!r}: certified only to within {distance:g} of the minimiser, "
            f"{head.tolerance / head.modulus:g} asked; a tolerance above float64's resolution would do."
        )
    return weights


def project(weights: Array, radius: float) -> Array:
    """The nearest point of the ball of `radius`, rounded into it."""
    norm = float(np.linalg.norm(weights))
    scaled = weights if norm <= radius else weights * (radius / norm)
    while np.linalg.norm(scaled) > radius:
        scaled = scaled * (1 - 1e-15)
    return scaled


def certified_distance(weights: Array, gradient: Array, modulus: float, radius: float) -> float:
    """Upper bound on the distance from `weights` (inside the ball) to the minimiser over the ball.

    gradient  of J at `weights`, same shape
    For any v >= 0, strong convexity and the minimiser's place in the ball give
    modulus d^2 <= ||gradient + v W|| d + v ||W|| (radius - ||W||). v = 0 is the plain certificate, useless on the
    boundary, where the gradient does not vanish; v = -<gradient, W> / ||W||^2 serves there. The smaller bound counts.
    Raises InvalidValue.
    """
    checks.positive_finite(modulus=modulus, radius=radius)
    norm = float(np.linalg.norm(weights))
    if norm > radius:
        raise checks.InvalidValue("weights", norm, f"a norm of at most radius={radius!r}", "Project them first.")
    bounds = [float(np.linalg.norm(gradient)) / modulus]
    inward = -float(np.sum(gradient * weights))
    if inward > 0 and norm > 0:
        v = inward / norm**2
        rest = float(np.linalg.norm(gradient + v * weights))
        slack = v * norm * (radius - norm)
        bounds.append((rest + math.sqrt(rest**2 + 4 * modulus * slack)) / (2 * modulus))
    return min(bounds)


def event(head: Head, sigma: float, queries: int) -> Repeated:
    """What answering `queries` queries releases, replace-one."""
    noise = Gaussian(noise_multiplier=sigma / head.sensitivity, adjacency=Adjacency.REPLACE_ONE)
    return Repeated(event=noise, count=queries)


def logits(weights: Array, queries: Array) -> Array:
    """queries @ weights, shape (queries, classes): what needs noise on every entry; softmax and argmax are free then.

    weights  shape (d, classes), as `minimise` returned them
    queries  shape (queries, d), each row of norm at most 1: a longer one would have a larger sensitivity
    Raises InvalidValue.
    """
    _check_norms("queries", queries)
    return queries @ weights


def guarantee(head: Head, sigma: float, queries: int, delta: float) -> Guarantee:
    """The claim for all queries together: proved, for weights that `minimise` returned."""
    claim = headline(event(head, sigma, queries), delta, Adjacency.REPLACE_ONE)
    return replace(claim, assumptions=(CERTIFIED, FROZEN, *claim.assumptions))


def _check_norms(name: str, rows: Array) -> None:
    longest = float(np.max(np.linalg.norm(rows, axis=1)))
    # Written so that a row that is not a number is refused too.
    if not longest <= 1 + 1e-12:
        raise checks.InvalidValue(name, f"a row of norm {longest:g}", "norms of at most 1", "Divide by max(1, norm).")

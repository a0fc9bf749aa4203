"""The likelihood-ratio attack: is this example's confidence what models with it show, or what models without it show?

Each example has its own two Gaussians, fitted to the logit-scaled confidence, log(p / (1 - p)) of the true class, that
shadow models, trained with and without it, give it. Source: Carlini, Chien, Nasr, Song, Terzis & Tramer (2022),
Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks

_MORE = "Train more shadow models."

Variance = Literal["per-example", "shared"]


@dataclass(frozen=True, slots=True)
class Gaussians:
    """One Gaussian per example: mean and sd, each of shape [N], sd above 0."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]

    def standardised(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values [N] in standard deviations from their means."""
        return (values - self.mean) / self.sd

    def log_density(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Up to the constant -log(2 pi)/2."""
        return -0.5 * self.standardised(values) ** 2 - np.log(self.sd)


def fit(confidences: ArrayLike, selected: ArrayLike, variance: Variance = "per-example") -> Gaussians:
    """The Gaussian of every example over the shadow models that `selected` marks.

    confidences  [K, N] finite: what shadow model k gives example n, logit-scaled
    selected     [K, N] booleans: the shadows that count for it (those trained with it, or those without)
    variance     "per-example", or "shared": one for all examples, pooled around their own means. The paper shares it
                 when an example has fewer than about 64 shadows.

    Raises InvalidValue with too few selected shadows for some example (two, or one when the variance is shared), or
    where the variance is zero.
    """
    if variance not in ("per-example", "shared"):
        raise checks.InvalidValue("variance", variance, "per-example or shared")
    x, mask = np.asarray(confidences, dtype=np.float64), np.asarray(selected)
    if x.ndim != 2 or not np.isfinite(x).all():
        raise checks.InvalidValue("confidences", np.shape(confidences), "finite numbers of shape [shadows, examples]")
    if mask.dtype != np.bool_ or mask.shape != x.shape:
        raise checks.InvalidValue("selected", np.shape(selected), f"booleans of shape {x.shape}")
    counts = mask.sum(0)
    least, pairs = int(counts.min(initial=len(x))), int(counts.sum())
    if variance == "per-example" and least < 2:
        raise checks.InvalidValue("selected", least, "two shadow models or more for every example", _MORE)
    if least < 1 or pairs <= len(counts):
        raise checks.InvalidValue("selected", least, "one shadow model for every example, two for some", _MORE)
    mean = np.where(mask, x, 0.0).sum(0) / counts
    squares = np.where(mask, (x - mean) ** 2, 0.0)
    degrees = counts - 1 if variance == "per-example" else pairs - len(counts)
    spread = squares.sum(0) if variance == "per-example" else np.full(len(counts), squares.sum())
    sd = np.sqrt(spread / degrees)
    if not (sd > 0).all():
        raise checks.InvalidValue(
            "confidences", "constant", "shadow models that differ", 'Use more of them, or variance="shared".'
        )
    return Gaussians(mean, sd)


def online(
    target: ArrayLike, confidences: ArrayLike, membership: ArrayLike, variance: Variance = "per-example"
) -> NDArray[np.float64]:
    """log of p(confidence | in) / p(confidence | out), shape [N]; higher means more likely a member.

    target       [N]: what the attacked model gives each example, logit-scaled
    confidences  [K, N], as in `fit`
    membership   [K, N]: True where shadow k was trained with example n; every example needs shadows of both kinds
    """
    mask = np.asarray(membership)
    with_it, without_it = fit(confidences, mask, variance), fit(confidences, ~mask, variance)
    value = _target(target, with_it)
    return with_it.log_density(value) - without_it.log_density(value)


def offline(
    target: ArrayLike, confidences: ArrayLike, excluded: ArrayLike | None = None, variance: Variance = "per-example"
) -> NDArray[np.float64]:
    """(confidence - mean) / sd of the models without the example, shape [N]; higher means more likely a member.

    excluded  [K, N]: True where shadow k was trained without example n; by default all of them were

    The paper's score 1 - P[N(mean, sd) > confidence] is Phi of this one: the same order, and it does not round to 1.
    """
    x = np.asarray(confidences, dtype=np.float64)
    without_it = fit(x, np.ones(x.shape, dtype=bool) if excluded is None else excluded, variance)
    return without_it.standardised(_target(target, without_it))


def _target(target: ArrayLike, fitted: Gaussians) -> NDArray[np.float64]:
    value = np.asarray(target, dtype=np.float64)
    if value.shape != fitted.mean.shape or not np.isfinite(value).all():
        raise checks.InvalidValue("target", np.shape(target), f"finite numbers of shape {fitted.mean.shape}")
    return value

"""Canaries in gradient space that touch no other: along one coordinate each, where clipping leaves them whole.

After Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini & Terzis (2023), "Tight auditing of differentially private
machine learning". Coordinates and signs are the auditor's secret. Shapes: M canaries, T steps, P parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


@dataclass(frozen=True, slots=True)
class DiracCanaries:
    """Canaries along distinct coordinates.

    coordinates  [M] distinct indices into the flat parameters
    signs        [M], each -1.0 or 1.0
    dimension    P
    clip_norm    C, the norm of each canary's gradient
    """

    coordinates: NDArray[np.int64]
    signs: NDArray[np.float64]
    dimension: int
    clip_norm: float

    def total(self, present: ArrayLike) -> NDArray[np.float64]:
        """What the canaries marked in `present`, booleans [M], add to a sum of clipped gradients; shape [P].

        `present` holds those that are in the data and in this step's batch.
        """
        mask = np.asarray(present)
        if mask.dtype != np.bool_ or mask.shape != self.coordinates.shape:
            raise checks.InvalidValue("present", np.shape(present), f"booleans of shape {self.coordinates.shape}")
        out = np.zeros(self.dimension)
        out[self.coordinates[mask]] = self.clip_norm * self.signs[mask]
        return out

    def responses(self, noisy_sums: ArrayLike) -> NDArray[np.float64]:
        """Inner products of noisy sums [..., P] with the canaries' directions, in units of C; shape [..., M].

        1 (plus noise of the noise multiplier) in a step whose batch held the canary, 0 without it. A noisy mean must
        be multiplied by its public divisor first.
        """
        sums = np.asarray(noisy_sums)
        if sums.ndim < 1 or sums.shape[-1] != self.dimension:
            raise checks.InvalidValue("noisy_sums", np.shape(noisy_sums), f"shape [..., {self.dimension}]")
        return sums[..., self.coordinates].astype(np.float64) * (self.signs / self.clip_norm)


def draw_dirac(count: int, dimension: int, clip_norm: float, rng: np.random.Generator) -> DiracCanaries:
    """`count` canaries along distinct random coordinates out of `dimension`, with random signs."""
    checks.count(minimum=1, count=count, dimension=dimension)
    checks.positive_finite(clip_norm=clip_norm)
    if count > dimension:
        raise checks.InvalidValue("count", count, f"at most {dimension}, one canary per parameter")
    coordinates = rng.choice(dimension, size=count, replace=False).astype(np.int64)
    return DiracCanaries(coordinates, rng.choice([-1.0, 1.0], size=count), dimension, float(clip_norm))


def spread(responses: ArrayLike) -> NDArray[np.float64]:
    """Largest minus smallest response over the steps [T, M], T at least 2; shape [M].

    Fresh noise hides a canary's coming and going from batch to batch here; repeated noise cancels out and shows it.
    """
    steps = np.asarray(responses, dtype=np.float64)
    return np.ptp(steps, axis=0)

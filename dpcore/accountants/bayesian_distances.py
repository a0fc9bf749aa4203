"""How far one record can move a release, sampled from the data: the distances that the Bayesian accountant needs.

Which distance is right depends on the sampling. Under Poisson sampling a record adds its own contribution or nothing,
so the distance is the contribution's norm. In a batch of fixed size drawn without replacement it takes the place of
another record, so the distance is between two independently drawn contributions, as Triastcyn & Faltings (2020) use
it. Pair distances under Poisson sampling count far too little when contributions have a large common part: that a
record took part at all would show.

Contributions carry the update's own clipping, scale and mask: divide by the batch size exactly where the update does,
and give sigma on the same scale.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks

Array = NDArray[np.float64]


def contribution_norms(
    gradients: ArrayLike, clip_norm: float | None = None, mask: NDArray[np.bool_] | None = None
) -> Array:
    """Norm of each record's contribution: the distances under Poisson sampling.

    gradients  shape (m, d), one row per independently drawn record
    clip_norm  C above 0, or None for unbounded sensitivity (then no ordinary differential privacy holds)
    mask       shape (d,), the coordinates that the step updates; None for all
    Returns shape (m,).
    """
    out: Array = np.linalg.norm(_contributions(gradients, clip_norm, mask), axis=1)
    return out


def pair_distances(
    gradients: ArrayLike, clip_norm: float | None = None, mask: NDArray[np.bool_] | None = None
) -> Array:
    """Distance between rows 2i and 2i+1: the distances for batches of fixed size, from independent pairs only.

    Arguments as in `contribution_norms`, with an even number of rows. Returns shape (m/2,). Two clipped contributions
    may be 2C apart. Raises InvalidValue.
    """
    rows = _contributions(gradients, clip_norm, mask)
    if len(rows) % 2:
        raise checks.InvalidValue("gradients", rows.shape, "an even number of rows", "Draw the records in pairs.")
    out: Array = np.linalg.norm(rows[0::2] - rows[1::2], axis=1)
    return out


def random_mask(dimension: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A random set of ceil(fraction * dimension) coordinates to update, drawn without looking at the data.

    fraction  in (0, 1]. Returns shape (dimension,).

    Raises InvalidValue.
    """
    checks.count(1, dimension=dimension)
    checks.rate(fraction=fraction)
    mask = np.zeros(dimension, dtype=bool)
    mask[rng.choice(dimension, size=math.ceil(fraction * dimension), replace=False)] = True
    return mask


def _contributions(gradients: ArrayLike, clip_norm: float | None, mask: NDArray[np.bool_] | None) -> Array:
    rows = np.asarray(gradients, dtype=np.float64)
    if rows.ndim != 2 or not np.all(np.isfinite(rows)):
        raise checks.InvalidValue("gradients", rows.shape, "a finite matrix with one row per record")
    if mask is not None:
        if mask.shape != rows.shape[1:] or mask.dtype != np.bool_:
            raise checks.InvalidValue("mask", mask.shape, f"booleans of shape {rows.shape[1:]}")
        rows = rows[:, mask]
    if clip_norm is not None:
        checks.positive_finite(clip_norm=clip_norm)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * (clip_norm / np.maximum(norms, clip_norm))
    return rows

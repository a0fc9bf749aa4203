"""Membership scores of single examples: higher means more likely a member."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


def negative_loss(losses: ArrayLike) -> NDArray[np.float64]:
    """-loss, any shape (Yeom et al. 2018). Raises InvalidValue."""
    found = np.asarray(losses, dtype=np.float64)
    if np.isnan(found).any():
        raise checks.InvalidValue("losses", losses, "numbers without NaN", "Score a failed loss as +inf.")
    return -found

"""How an axis of a front is divided, alike in the picture and in the chart."""

from __future__ import annotations

import math

import numpy as np

from sweeps.front.panels import Floats

FEW = 8
"""Distinct values up to which each has a tick of its own: the budgets of a sweep."""
APART = 1.15
"""Ratio of neighbours whose labels do not overlap."""


def log_ticks(compared: Floats) -> list[float] | None:
    """Ticks of a logarithmic axis; None where these values need none (not all above 0, or close together).

    compared  (points,), as dominance takes them: calibrated epsilons are their budgets there
    """
    finite = compared[np.isfinite(compared)]
    if not len(finite) or finite.min() <= 0 or finite.max() <= 4 * finite.min():
        return None
    distinct = np.unique(finite)
    if len(distinct) <= FEW and (distinct[1:] >= APART * distinct[:-1]).all():
        return [float(value) for value in distinct]
    decades = range(math.floor(math.log10(finite.min())), math.ceil(math.log10(finite.max())) + 1)
    return [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]

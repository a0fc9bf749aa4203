"""Flat clipping: one factor per unit, over all parameters together."""

from __future__ import annotations

import torch
from torch import Tensor


def clip_factors(squared_norms_U: Tensor, clip_norm: float) -> Tensor:
    """min(1, clip_norm / norm) per unit, float64 of shape [U]; exactly 0 where the norm is not finite.

    squared_norms_U  squared L2 norm of each unit's whole gradient, shape [U]

    A NaN left in would make the sum NaN with this unit and finite without it: visible with certainty.
    """
    norms_U = squared_norms_U.double().clamp(min=0.0).sqrt()
    factors_U = (clip_norm / norms_U).clamp(max=1.0)
    return torch.where(torch.isfinite(norms_U), factors_U, 0.0)

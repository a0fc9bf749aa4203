"""Flat clipping: one factor per unit, over all parameters together."""

from __future__ import annotations

import torch
from torch import Tensor

_LEAST = torch.finfo(torch.float32).tiny


def clip_factors(squared_norms_U: Tensor, clip_norm: float) -> Tensor:
    """min(1, clip_norm / norm) per unit, float64 of shape [U]; exactly 0 where the norm is not finite, and where sums,
    formed in float32, would have but a few bits of the factor and might round it up by a third.

    squared_norms_U  squared L2 norm of each unit's whole gradient, at least 0, shape [U]

    A NaN left in would make the sum NaN with this unit and finite without it: visible with certainty.
    """
    # Over an infinite norm it is 0 already, and 1 over none at all.
    factors_U = squared_norms_U.double().rsqrt().mul_(clip_norm).clamp_(max=1.0).nan_to_num_(0.0)
    return factors_U.mul_(factors_U >= _LEAST)

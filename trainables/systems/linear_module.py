"""Linear models as torch modules on inputs as they are: `trainables.systems.linear` for whoever asks outside."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.system import DatasetSpec, InputSpec

_SMALLEST = 1e-300


class UnitNormRows(nn.Module):
    """Inputs [n, *shape], in the order of the features, to rows [n, width] of norm at most 1, float64.

    The same numbers as `trainables.systems.linear.rows`, whose arguments these are.
    """

    def __init__(self, features: Mapping[str, InputSpec], clip_norm: float, bias: bool) -> None:
        super().__init__()
        self._codes = tuple(one.cardinality for one in features.values())
        self._clip_norm, self._bias = clip_norm, bias

    def forward(self, *inputs: Tensor) -> Tensor:
        """Each row depends on its record alone; a record with a value that is no number becomes zero."""
        rows = torch.cat(_columns(inputs, self._codes), dim=1)
        rows = torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, 0.0)
        # Divided by the largest entry first, squares neither over- nor underflow.
        largest = rows.abs().amax(dim=1, keepdim=True).clamp(min=_SMALLEST)
        norms = largest * (rows / largest).square().sum(dim=1, keepdim=True).sqrt()
        rows = rows / norms.clamp(min=self._clip_norm)
        if not self._bias:
            return rows
        return torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1) / math.sqrt(2)


class LinearClassifier(nn.Module):
    """Logits [n, classes], float64: rows of norm at most 1 times the released weights, shape (width, classes)."""

    def __init__(self, theta: NDArray[np.generic], facts: DatasetSpec, clip_norm: float, bias: bool) -> None:
        super().__init__()
        self.rows = UnitNormRows(facts.features, clip_norm, bias)
        self.theta = nn.Parameter(torch.tensor(np.asarray(theta, dtype=np.float64)), requires_grad=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """The logits of n records."""
        logits: Tensor = self.rows(*inputs) @ self.theta
        return logits


def _columns(inputs: Sequence[Tensor], codes: Sequence[int | None]) -> list[Tensor]:
    """Each input as columns [n, its width], a category as one column per value."""
    found = []
    for values, cardinality in zip(inputs, codes, strict=True):
        values = values.unsqueeze(-1).flatten(1)
        if cardinality is not None:
            values = (values.unsqueeze(-1) == torch.arange(cardinality, device=values.device)).flatten(1)
        found.append(values.double())
    return found

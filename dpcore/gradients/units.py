"""From records to the units whose influence is bounded: which unit each record belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dpcore.gradients.layers import Use


@dataclass(frozen=True, slots=True)
class UnitRows:
    """U units of at most k records each, N records in all.

    rows  each record's place among the U * k, [N]; None where every place is taken
    """

    size: int
    records: int
    rows: Tensor | None = None

    @classmethod
    def of(cls, size: int, records: int, taken: Tensor | None) -> UnitRows:
        """taken is bool [U, k]; None for all."""
        if taken is None or bool(taken.all()):
            return cls(size, records)
        return cls(size, records, taken.flatten().nonzero()[:, 0])

    def only(self, fine_N: Tensor) -> UnitRows:
        """Those of the N records for which `fine_N` holds; no unit goes."""
        rows = self.rows
        if rows is None:
            rows = torch.arange(self.size * self.records, device=fine_N.device)
        return UnitRows(self.size, self.records, rows[fine_N])

    def present(self, column: Tensor) -> Tensor:
        """[U, k, ...] -> [N, ...]; what stands where no record was taken is never looked at."""
        if self.records > 1 or self.rows is not None:
            column = column.flatten(0, 1)
        return column if self.rows is None else column.index_select(0, self.rows)

    def of_use(self, use: Use) -> Use:
        """A use with tensors [N, ...] as one with tensors [U, k, ...]."""
        return Use(self._spread(use.inputs), self._spread(use.gradients), use.part)

    def of_gradient(self, gradient: Tensor) -> Tensor:
        """[N, *shape] -> the sum of each unit's records, [U, *shape]."""
        if self.rows is None:
            return gradient if self.records == 1 else gradient.unflatten(0, (self.size, self.records)).sum(1)
        total = gradient.new_zeros(self.size, *gradient.shape[1:])
        return total.index_add_(0, self.rows // self.records, gradient)

    def _spread(self, tensor: Tensor) -> Tensor:
        if self.records == 1 and self.rows is None:
            return tensor.unsqueeze(1)
        if self.rows is not None:
            places = tensor.new_zeros(self.size * self.records, *tensor.shape[1:])
            tensor = places.index_copy_(0, self.rows, tensor)
        return tensor.unflatten(0, (self.size, self.records))

"""Embeddings: a unit touches few rows, so its gradient is kept as those rows alone.

U units, T tokens of a unit, D width, R distinct (unit, token) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from dpcore.gradients.layers.protocol import Contribution, Use, accumulated, sum_of_squares


def embedding(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Embedding with inputs [U, ...] of codes."""
    layer = cast(nn.Embedding, module)
    units = len(uses[0].inputs)
    codes_UT = torch.cat([use.inputs.reshape(units, -1).long() for use in uses], 1)
    rows_UTD = accumulated(torch.cat([use.gradients.reshape(units, -1, layer.embedding_dim) for use in uses], 1))
    if layer.padding_idx is not None:
        # The padding row is never trained; PyTorch gives it no gradient either.
        rows_UTD = rows_UTD.masked_fill((codes_UT == layer.padding_idx)[..., None], 0.0)
    return TableRows(layer.num_embeddings, codes_UT, rows_UTD)


class TableRows:
    """Gradients of table rows: of row codes[u, t], rows[u, t], for every unit u."""

    def __init__(self, vocabulary: int, codes_UT: Tensor, rows_UTD: Tensor) -> None:
        self._vocabulary = vocabulary
        units, tokens = codes_UT.shape
        if tokens == 1:
            self._rows_RD, self._codes_R = rows_UTD[:, 0], codes_UT[:, 0]
            self._units_R = torch.arange(units, device=codes_UT.device)
            self.squared_norms = sum_of_squares(rows_UTD)
            return
        # A token that appears twice adds up before it is squared.
        units_U1 = torch.arange(units, device=codes_UT.device)[:, None]
        pairs, positions = torch.unique(units_U1 * self._vocabulary + codes_UT, return_inverse=True)
        self._units_R = pairs // self._vocabulary
        self._codes_R = pairs % self._vocabulary
        self._rows_RD = rows_UTD.new_zeros(len(pairs), rows_UTD.shape[2]).index_add_(
            0, positions.flatten(), rows_UTD.flatten(0, 1)
        )
        squares_R = sum_of_squares(self._rows_RD)
        self.squared_norms = squares_R.new_zeros(units).index_add_(0, self._units_R, squares_R)

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        weighted_RD = self._rows_RD * weights_U.to(self._rows_RD.dtype)[self._units_R, None]
        total = self._rows_RD.new_zeros(self._vocabulary, self._rows_RD.shape[1])
        return {"weight": total.index_add_(0, self._codes_R, weighted_RD)}

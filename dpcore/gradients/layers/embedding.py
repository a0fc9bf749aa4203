"""Embeddings: a unit touches few rows, so its gradient is kept as those rows alone.

U units, T tokens of a unit, D width, R distinct (unit, token) pairs.

One weight [V, D] of several layers: tables of V rows, and linear maps from D inputs to V outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients import mapping
from dpcore.gradients.layers.linear import TwoProducts, positions, product
from dpcore.gradients.layers.protocol import Contribution, NotServed, Tap, Use, accumulated, sum_of_squares


def embedding(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Embedding with inputs [U, ...] of codes."""
    return TableRows(cast(nn.Embedding, module).num_embeddings, *looked_up(module, uses))


def looked_up(module: nn.Module, uses: Sequence[Use]) -> tuple[Tensor, Tensor]:
    """Codes [U, T], and the gradient of each one's row [U, T, D]."""
    layer = cast(nn.Embedding, module)
    units = len(uses[0].inputs)
    codes_UT = torch.cat([use.inputs.reshape(units, -1).long() for use in uses], 1)
    rows_UTD = accumulated(torch.cat([use.gradients.reshape(units, -1, layer.embedding_dim) for use in uses], 1))
    if layer.padding_idx is not None:
        # The padding row is never trained; PyTorch gives it no gradient either.
        rows_UTD = rows_UTD.masked_fill((codes_UT == layer.padding_idx)[..., None], 0.0)
    return codes_UT, rows_UTD


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


def bag_forward(
    module: nn.Module,
    tap: Tap,
    input: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Tensor:
    """nn.EmbeddingBag with inputs [N, T]: what is noted is each word's code beside its weight in the bag."""
    layer = cast(nn.EmbeddingBag, module)
    if offsets is not None or input.ndim != 2 or layer.mode == "max":
        raise NotServed
    present = torch.ones_like(input, dtype=layer.weight.dtype)
    if layer.padding_idx is not None:
        present = present.masked_fill(input == layer.padding_idx, 0.0)
    shares = present if per_sample_weights is None else present * per_sample_weights
    if layer.mode == "mean":
        shares = shares / present.sum(1, keepdim=True).clamp(min=1.0)
    noted = torch.stack([input.double(), shares.detach().double()], 2)
    return tap(noted, _bags(layer, input, per_sample_weights))


def _bags(layer: nn.EmbeddingBag, codes: Tensor, per_sample_weights: Tensor | None) -> Tensor:
    """The operation on the memory for all records at once: PyTorch has no rule for it on a mapped axis."""
    at = mapping.axis(codes) if mapping.level() is not None else None
    if mapping.level() is not None and at is None:
        raise NotServed
    memory = codes if at is None else mapping.whole(codes).movedim(at, 0)
    weights = per_sample_weights
    if weights is not None and at is not None:
        along = mapping.axis(weights)
        weights = weights.expand_as(memory) if along is None else mapping.whole(weights).movedim(along, 0)
    bags = F.embedding_bag(
        memory.flatten(0, -2),
        layer.weight,
        mode=layer.mode,
        per_sample_weights=None if weights is None else weights.flatten(0, -2),
        padding_idx=layer.padding_idx,
    ).unflatten(0, memory.shape[:-1])
    return bags if at is None else mapping.mapped(bags, 0)


def embedding_bag(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.EmbeddingBag, its uses tapped by `bag_forward`."""
    layer = cast(nn.EmbeddingBag, module)
    units = len(uses[0].inputs)
    codes_UT = torch.cat([use.inputs[..., 0].reshape(units, -1).long() for use in uses], 1)
    rows = [
        (use.gradients.unsqueeze(-2) * use.inputs[..., 1:].to(use.gradients.dtype)).reshape(
            units, -1, layer.embedding_dim
        )
        for use in uses
    ]
    return TableRows(layer.num_embeddings, codes_UT, accumulated(torch.cat(rows, 1)))


SHARING = (nn.Embedding, nn.Linear)
"""Exact types of the layers that the rule serves together."""


def shared_table(layers: Sequence[nn.Module], uses: Sequence[Sequence[Use]]) -> Contribution:
    """The part of the `weight` that the layers share; biases are each layer's own."""
    rows: list[tuple[Tensor, Tensor]] = []
    products: list[Use] = []
    for layer, own in zip(layers, uses, strict=True):
        if isinstance(layer, nn.Embedding):
            rows.append(looked_up(layer, own))
        else:
            products += own
    if not rows:
        return product(products, {"weight"})
    codes_UR, rows_URD = (torch.cat(several, 1) for several in zip(*rows, strict=True))
    if not products:
        return TableRows(layers[0].num_embeddings, codes_UR, rows_URD)  # type: ignore[arg-type]
    inputs_UTD, gradients_UTV = (
        positions([getattr(one, side) for one in products]) for side in ("inputs", "gradients")
    )
    return TwoProducts(inputs_UTD, gradients_UTV, {"weight"}, codes_UR, rows_URD)

"""One weight [V, D] of several layers: tables of V rows, and linear maps from D inputs to V outputs.

U units, R looked-up rows of a unit, T positions of the linear maps. A unit's gradient is sum_r e_code(r) rows_r^T +
sum_t gradients_t inputs_t^T: as that of one linear map whose output gradients are rows of the identity too.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dpcore.gradients.layers.embedding import TableRows, looked_up
from dpcore.gradients.layers.linear import FORMED, ROUNDOFF, gram_is_less, positions, product
from dpcore.gradients.layers.protocol import Contribution, Use

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
    return _Shared(
        codes_UR, rows_URD, positions([one.inputs for one in products]), positions([one.gradients for one in products])
    )


class _Shared:
    """Norms of a few units at a time, so that only theirs are ever formed."""

    def __init__(self, codes_UR: Tensor, rows_URD: Tensor, inputs_UTD: Tensor, gradients_UTV: Tensor) -> None:
        self._parts = codes_UR, rows_URD, inputs_UTD, gradients_UTV
        _, length, width = inputs_UTD.shape
        vocabulary = gradients_UTV.shape[2]
        by_gram = gram_is_less(length, width, vocabulary)
        few = max(1, FORMED // (vocabulary * (length if by_gram else width)))
        norm, parts = _by_gram if by_gram else _formed, zip(*(one.split(few) for one in self._parts), strict=True)
        norms_U = torch.cat([norm(*units) for units in parts])
        # What float32 leaves where terms cancel, as for one linear map (dpcore.gradients.layers.linear).
        lengths_U = (_lengths(inputs_UTD) * _lengths(gradients_UTV)).sum(1) + _lengths(rows_URD).sum(1)
        left_U = lengths_U.mul_(ROUNDOFF * (codes_UR.shape[1] + length + 2) * (1 if by_gram else 2))
        self.squared_norms = norms_U.add_(left_U).square_()

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        codes_UR, rows_URD, inputs_UTD, gradients_UTV = self._parts
        weights_U11 = weights_U.to(rows_URD.dtype)[:, None, None]
        total_VD = gradients_UTV.flatten(0, 1).T @ (inputs_UTD * weights_U11).flatten(0, 1)
        return {"weight": total_VD.index_add_(0, codes_UR.flatten(), (rows_URD * weights_U11).flatten(0, 1))}


def _lengths(tensor: Tensor) -> Tensor:
    return torch.linalg.vector_norm(tensor, dim=2).double()


def _formed(codes_UR: Tensor, rows_URD: Tensor, inputs_UTD: Tensor, gradients_UTV: Tensor) -> Tensor:
    gradient_UVD = gradients_UTV.mT @ inputs_UTD
    units, vocabulary, _ = gradient_UVD.shape
    places_UR = codes_UR + vocabulary * torch.arange(units, device=codes_UR.device)[:, None]
    gradient_UVD.flatten(0, 1).index_add_(0, places_UR.flatten(), rows_URD.flatten(0, 1))
    return torch.linalg.vector_norm(gradient_UVD.flatten(1), dim=1).double()


def _by_gram(codes_UR: Tensor, rows_URD: Tensor, inputs_UTD: Tensor, gradients_UTV: Tensor) -> Tensor:
    rows, inputs, gradients = rows_URD.double(), inputs_UTD.double(), gradients_UTV.double()
    same_URR = codes_UR[:, :, None] == codes_UR[:, None, :]
    looked_up_UTR = gradients.gather(2, codes_UR[:, None].expand(-1, inputs.shape[1], -1))
    squares_U = (rows @ rows.mT * same_URR).sum((1, 2))
    squares_U += 2 * (inputs @ rows.mT * looked_up_UTR).sum((1, 2))
    squares_U += (inputs @ inputs.mT * (gradients @ gradients.mT)).sum((1, 2))
    # What is zero may come out below it.
    return squares_U.clamp_(min=0.0).sqrt_()

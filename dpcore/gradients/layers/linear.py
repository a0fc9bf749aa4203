"""Linear layers: norms from the layer's input and output gradient alone (Goodfellow 2015).

U units, T positions (records of the unit, sequence and repeated uses of the layer together), D inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial

import torch
from torch import Tensor, nn

from dpcore.gradients.layers.protocol import Contribution, Materialised, Use, accumulated, sum_of_squares, trainable

_SMALLEST = torch.finfo(torch.float32).tiny
ROUNDOFF = torch.finfo(torch.float32).eps / 2


def linear(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Linear with inputs [U, ..., D]."""
    return product(uses, set(trainable(module)))


def transposed(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for a linear map whose weight is [D, O], with inputs [U, ..., D]."""
    return Viewed(product(uses, set(trainable(module))), lambda weight_OD: weight_OD.T)


class Viewed:
    """The part of a linear map whose weight has another shape in its layer: `view` of it."""

    def __init__(self, straight: Contribution, view: Callable[[Tensor], Tensor]) -> None:
        self._straight, self._view, self.squared_norms = straight, view, straight.squared_norms

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        found = self._straight.weighted_sum(weights_U)
        return {name: self._view(one) if name == "weight" else one for name, one in found.items()}


def product(uses: Sequence[Use], names: Set[str]) -> Contribution:
    """Of a linear map whose trained parameters are `names`, out of "weight" and "bias"."""
    inputs_UTD = positions([use.inputs for use in uses])
    gradients_UTO = positions([use.gradients for use in uses])
    _, length, width = inputs_UTD.shape
    if length == 1:
        return _OneProduct(inputs_UTD.squeeze(1), gradients_UTO.squeeze(1), names)
    if "weight" not in names:
        return Materialised({"bias": gradients_UTO.sum(1)})
    outputs = gradients_UTO.shape[2]
    if gram_is_less(length, width, outputs) or width * outputs > KEPT * length * (width + outputs):
        return TwoProducts(inputs_UTD, gradients_UTO, names)
    gradients = {"weight": gradients_UTO.transpose(1, 2) @ inputs_UTD}
    if "bias" in names:
        gradients["bias"] = gradients_UTO.sum(1)
    return Materialised(gradients)


def positions(parts: list[Tensor]) -> Tensor:
    """[U, T, D] of uses [U, ..., D] one after the other."""
    rows = [accumulated(part.flatten(1, -2)) for part in parts]
    return rows[0] if len(rows) == 1 else torch.cat(rows, 1)


class _OneProduct:
    """T = 1: the gradient is an outer product, of squared norm |input|^2 |output gradient|^2."""

    def __init__(self, inputs_UD: Tensor, gradients_UO: Tensor, names: Set[str]) -> None:
        self._inputs_UD, self._gradients_UO, self._names = inputs_UD, gradients_UO, names
        bias = 1.0 if "bias" in names else 0.0
        self.squared_norms = sum_of_squares(gradients_UO)
        if "weight" in names:
            # Squares below the smallest float32 vanish, and a huge factor on the other side would make them
            # count: what may have vanished is added back, so that the norm is never too small.
            by_inputs_U = sum_of_squares(inputs_UD).add_(inputs_UD.shape[1] * _SMALLEST + bias)
            self.squared_norms.add_(gradients_UO.shape[1] * _SMALLEST).mul_(by_inputs_U)

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        weights_U = weights_U.to(self._gradients_UO.dtype)
        out = {}
        if "weight" in self._names:
            out["weight"] = torch.mm((self._gradients_UO * weights_U.unsqueeze(1)).t(), self._inputs_UD)
        if "bias" in self._names:
            out["bias"] = weights_U @ self._gradients_UO
        return out


KEPT = 1.5
"""How much larger than what it is formed from a unit's gradient may be, and is kept."""
FORMED = 2**22
"""Numbers that are formed at a time."""


def gram_is_less(length: int, width: int, outputs: int) -> bool:
    """Whether a norm costs less by Gram matrices, which are formed in float64 at twice the price, than formed."""
    return 2 * length * (width + outputs) < width * outputs


class TwoProducts:
    """T > 1, large weight: units' gradients are not kept, and the sum is formed anew.

    codes_UR, rows_URD  of a weight that is a table as well: looked-up rows of it, and their gradients

    Norms are |sum_t g_t a_t^T|^2 = sum_st (a_s . a_t)(g_s . g_t) (Li et al. 2022) in float64, since terms may cancel
    and a float32 remainder could understate a norm and so break the bound; or those of gradients that are formed, a
    few units at a time. In float32 terms that cancel leave up to T u sum_t |g_t| |a_t| behind (u the unit roundoff;
    Higham 2002, section 3.1), however small their exact sum is: so much is added to the norm for each product in
    float32. A looked-up row is one more term, whose output gradient is a row of the identity.
    """

    def __init__(
        self,
        inputs_UTD: Tensor,
        gradients_UTO: Tensor,
        names: Set[str],
        codes_UR: Tensor | None = None,
        rows_URD: Tensor | None = None,
    ) -> None:
        units, length, width = inputs_UTD.shape
        if codes_UR is None or rows_URD is None:
            codes_UR, rows_URD = inputs_UTD.new_zeros(units, 0, dtype=torch.long), inputs_UTD[:, :0]
        self._parts, self._names = (inputs_UTD, gradients_UTO, codes_UR, rows_URD), names
        outputs, bias = gradients_UTO.shape[2], 1.0 if "bias" in names else 0.0
        by_gram = gram_is_less(length, width, outputs)
        few = max(1, FORMED // (length * (width + outputs) if by_gram else width * outputs))
        norm = partial(_by_gram if by_gram else _formed, bias)
        few_at_a_time = zip(*(one.split(few) for one in self._parts), strict=True)
        norms_U = torch.cat([norm(*some) for some in few_at_a_time])
        lengths_UT = torch.linalg.vector_norm(inputs_UTD, dim=2).double().square_().add_(bias).sqrt_()
        lengths_UT *= torch.linalg.vector_norm(gradients_UTO, dim=2)
        lengths_U = lengths_UT.sum(1) + torch.linalg.vector_norm(rows_URD, dim=2).double().sum(1)
        left_U = lengths_U.mul_(ROUNDOFF * (codes_UR.shape[1] + length + 2) * (1 if by_gram else 2))
        self.squared_norms = norms_U.add_(left_U).square_()

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        inputs_UTD, gradients_UTO, codes_UR, rows_URD = self._parts
        weights_U11 = weights_U.to(gradients_UTO.dtype)[:, None, None]
        weighted_UTO = gradients_UTO * weights_U11
        weight_OD = weighted_UTO.flatten(0, 1).T @ inputs_UTD.flatten(0, 1)
        if codes_UR.shape[1]:
            weight_OD.index_add_(0, codes_UR.flatten(), (rows_URD * weights_U11).flatten(0, 1))
        out = {"weight": weight_OD}
        if "bias" in self._names:
            out["bias"] = weighted_UTO.sum((0, 1))
        return out


def _by_gram(bias: float, inputs_UTD: Tensor, gradients_UTO: Tensor, codes_UR: Tensor, rows_URD: Tensor) -> Tensor:
    inputs, gradients, rows = inputs_UTD.double(), gradients_UTO.double(), rows_URD.double()
    squares_U = ((inputs @ inputs.mT + bias) * (gradients @ gradients.mT)).sum((1, 2))
    if codes_UR.shape[1]:
        same_URR = codes_UR[:, :, None] == codes_UR[:, None, :]
        looked_up_UTR = gradients.gather(2, codes_UR[:, None].expand(-1, inputs.shape[1], -1))
        squares_U += (rows @ rows.mT * same_URR).sum((1, 2)) + 2 * (inputs @ rows.mT * looked_up_UTR).sum((1, 2))
    # What is zero may come out below it.
    return squares_U.clamp_(min=0.0).sqrt_()


def _formed(bias: float, inputs_UTD: Tensor, gradients_UTO: Tensor, codes_UR: Tensor, rows_URD: Tensor) -> Tensor:
    gradient_UOD = gradients_UTO.mT @ inputs_UTD
    if codes_UR.shape[1]:
        units, outputs, _ = gradient_UOD.shape
        places_UR = codes_UR + outputs * torch.arange(units, device=codes_UR.device)[:, None]
        gradient_UOD.flatten(0, 1).index_add_(0, places_UR.flatten(), rows_URD.flatten(0, 1))
    squares_U = sum_of_squares(gradient_UOD)
    return (squares_U + sum_of_squares(gradients_UTO.sum(1)) if bias else squares_U).sqrt_()

"""The gradients of units in parts, one per captured layer and one for all other parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dpcore.gradients.layers import Contribution, Kinds, Materialised, Use
from dpcore.gradients.records import Recorded
from dpcore.gradients.units import Units


@dataclass(frozen=True, slots=True)
class Parts:
    """One part per captured layer, by layer, and the rest: parameters by their full names.

    squared_norms  of each unit's whole gradient, float64 of shape [U]; infinite where the unit does not count, because
                   its gradient is not finite or its squared norm overflows
    """

    by_layer: Mapping[str, Contribution]
    rest: Contribution | None
    squared_norms: Tensor

    @classmethod
    def of(cls, recorded: Recorded, units: Units, layers: Mapping[str, nn.Module], kinds: Kinds) -> Parts | None:
        """None where no parameter was reached. Uses are taken out of `recorded`: what a rule is done with is freed."""
        by_layer: dict[str, Contribution] = {}
        squares: list[Tensor] = []
        all_finite = True
        while recorded.uses:
            name, several = recorded.uses.popitem()
            uses = [units.of_use(one) for one in several]
            del several
            layer = layers[name]
            found = kinds[type(layer)].rule(layer, uses)
            squares.append(found.squared_norms)
            if not _all_finite(found.squared_norms):
                all_finite = False
                bad_U = ~torch.isfinite(found.squared_norms)
                # 0 * inf is NaN: a weight of zero does not remove such a unit, so what it left is cleared instead.
                found = kinds[type(layer)].rule(layer, [_cleared(one, bad_U) for one in uses])
            by_layer[name] = found
        rest: Contribution | None = None
        if recorded.gradients:
            gradients = {name: units.of_gradient(one) for name, one in recorded.gradients.items()}
            rest = Materialised(gradients)
            squares.append(rest.squared_norms)
            if not _all_finite(rest.squared_norms):
                all_finite = False
                bad_U = ~torch.isfinite(rest.squared_norms)
                rest = Materialised({name: _without(one, bad_U) for name, one in gradients.items()})
        if not squares:
            return None
        squared_norms_U = squares[0]
        for one in squares[1:]:
            squared_norms_U = squared_norms_U + one
        return cls(
            by_layer, rest, squared_norms_U if all_finite else squared_norms_U.nan_to_num(torch.inf, posinf=torch.inf)
        )

    @property
    def finite(self) -> Tensor:
        """Which units count, bool of shape [U]."""
        return torch.isfinite(self.squared_norms)

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        """sum_u weights[u] * gradient of unit u, by the parameters' full names; those that were not reached are
        absent. Units that do not count have weight 0."""
        out = {
            f"{layer}.{local}" if layer else local: tensor
            for layer, one in self.by_layer.items()
            for local, tensor in one.weighted_sum(weights_U).items()
        }
        return out | (self.rest.weighted_sum(weights_U) if self.rest else {})


def _all_finite(squares_U: Tensor) -> bool:
    """False for what is finite as well, where the sum of all overflows."""
    return math.isfinite(float(squares_U.sum()))


def _cleared(use: Use, bad_U: Tensor) -> Use:
    return replace(use, inputs=_without(use.inputs, bad_U), gradients=_without(use.gradients, bad_U))


def _without(tensor: Tensor, bad_U: Tensor) -> Tensor:
    return tensor.masked_fill(bad_U.view(-1, *[1] * (tensor.ndim - 1)), 0)

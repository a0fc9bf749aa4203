"""The gradients of units in parts, one per captured layer and one for all other parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from dpcore.gradients.layers import Contribution, Materialised, Use
from dpcore.gradients.records import Passes, Recorded
from dpcore.gradients.units import UnitRows


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
    def of(cls, recorded: Recorded, units: UnitRows, passes: Passes) -> Parts:
        """Uses are taken out of `recorded`: what a rule is done with is freed."""
        by_layer: dict[str, Contribution] = {}
        rest: Contribution | None = None
        squares: list[Tensor] = []
        all_finite = True
        while recorded.uses:
            name, several = recorded.uses.popitem()
            uses = [units.of_use(one) for one in several]
            del several
            layer = passes.captured[name]
            rule = passes.kinds[type(layer)].rule
            by_layer[name] = rule(layer, uses)
            squares.append(by_layer[name].squared_norms)
            if not _all_finite(squares[-1]):
                all_finite = False
                # 0 * inf is NaN: a weight of zero does not remove such a unit, so what it left is cleared instead.
                bad_U = ~torch.isfinite(squares[-1])
                cleared = [Use(_without(one.inputs, bad_U), _without(one.gradients, bad_U), one.part) for one in uses]
                by_layer[name] = rule(layer, cleared)
        if recorded.gradients:
            gradients = {name: units.of_gradient(one) for name, one in recorded.gradients.items()}
            rest = Materialised(gradients)
            squares.append(rest.squared_norms)
            if not _all_finite(squares[-1]):
                all_finite = False
                bad_U = ~torch.isfinite(squares[-1])
                rest = Materialised({name: _without(one, bad_U) for name, one in gradients.items()})
        if not squares:
            parameter = next(iter(passes.slots.parameters.values()))
            squares.append(torch.zeros(units.size, dtype=torch.float64, device=parameter.device))
        squared_norms_U = reduce(torch.add, squares)
        if not all_finite:
            squared_norms_U = squared_norms_U.nan_to_num(torch.inf, posinf=torch.inf)
        return cls(by_layer, rest, squared_norms_U)

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


def _without(tensor: Tensor, bad_U: Tensor) -> Tensor:
    return tensor.masked_fill(bad_U.view(-1, *[1] * (tensor.ndim - 1)), 0)

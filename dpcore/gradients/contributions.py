"""The gradients of units in parts, one per captured layer and one for all other parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dpcore.gradients.layers import Contribution, Kinds, Materialised, Use
from dpcore.gradients.records import Recorded
from dpcore.gradients.units import Units


@dataclass(frozen=True, slots=True)
class Parts:
    """One part per captured layer, by layer, and the rest: parameters by their full names.

    squared_norms  of each unit's whole gradient, float64 of shape [U]; finite
    finite         which units count, bool of shape [U]: the others count as zero
    """

    by_layer: Mapping[str, Contribution]
    rest: Contribution | None
    squared_norms: Tensor
    finite: Tensor

    @classmethod
    def of(cls, recorded: Recorded, units: Units, layers: Mapping[str, nn.Module], kinds: Kinds) -> Parts | None:
        """None where no parameter was reached. A unit whose squared norm is not finite counts as zero."""
        uses = {name: [units.of_use(one) for one in several] for name, several in recorded.uses.items()}
        gradients = {name: units.of_gradient(one) for name, one in recorded.gradients.items()}
        if not uses and not gradients:
            return None
        parts = cls._made(uses, gradients, layers, kinds)
        bad_U = ~parts.finite
        if not bool(bad_U.any()):
            return parts
        # 0 * inf is NaN: a weight of zero does not remove such a unit, so what it left is cleared instead.
        cleared = cls._made(
            {
                name: [
                    replace(one, inputs=_without(one.inputs, bad_U), gradients=_without(one.gradients, bad_U))
                    for one in several
                ]
                for name, several in uses.items()
            },
            {name: _without(one, bad_U) for name, one in gradients.items()},
            layers,
            kinds,
        )
        return replace(cleared, finite=~bad_U)

    @classmethod
    def _made(
        cls,
        uses: Mapping[str, Sequence[Use]],
        gradients: Mapping[str, Tensor],
        layers: Mapping[str, nn.Module],
        kinds: Kinds,
    ) -> Parts:
        by_layer = {name: kinds[type(layers[name])].rule(layers[name], several) for name, several in uses.items()}
        rest = Materialised(dict(gradients)) if gradients else None
        found = [one.squared_norms for one in (*by_layer.values(), *([rest] if rest else []))]
        squared_norms_U = torch.stack(found).sum(0)
        return cls(by_layer, rest, squared_norms_U, torch.isfinite(squared_norms_U))

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        """sum_u weights[u] * gradient of unit u, by the parameters' full names; those that were not reached are
        absent."""
        out = {
            f"{layer}.{local}" if layer else local: tensor
            for layer, one in self.by_layer.items()
            for local, tensor in one.weighted_sum(weights_U).items()
        }
        return out | (self.rest.weighted_sum(weights_U) if self.rest else {})


def _without(tensor: Tensor, bad_U: Tensor) -> Tensor:
    return tensor.masked_fill(bad_U.view(-1, *[1] * (tensor.ndim - 1)), 0)

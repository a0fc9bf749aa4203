"""From records to the units whose influence is bounded: norms, clip factors and weighted sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from dpcore.gradients.hooks import Part, Passes, Recorded
from dpcore.gradients.layers.protocol import Materialised, Use


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


@dataclass(frozen=True, slots=True)
class GhostNorms:
    """Norms of units' gradients that were never formed, by captured layer, and the gradients of the other parameters.

    parts          of captured layers, and of all other parameters together, each with the full names of the parameters
                   that it has under its own
    squared_norms  of each unit's whole gradient, float64 of shape [U]; infinite where the unit does not count, because
                   its gradient is not finite or its squared norm overflows
    """

    parts: Sequence[Part]
    squared_norms: Tensor

    @classmethod
    def of(cls, recorded: Recorded, units: UnitRows, passes: Passes) -> GhostNorms:
        """Uses are taken out of `recorded`: what a rule is done with is freed."""
        parts: list[Part] = []
        squares: list[Tensor] = []
        all_finite = True
        while recorded.uses:
            uses: dict[str, list[Use]] = {}
            for layer in passes.sharing(next(reversed(recorded.uses))):
                uses[layer] = [units.of_use(one) for one in recorded.uses.pop(layer, [])]
            found = passes.parts(uses)
            squares.append(reduce(torch.add, [one.squared_norms for _, one in found]))
            if not _all_finite(squares[-1]):
                all_finite = False
                # 0 * inf is NaN: a weight of zero does not remove such a unit, so what it left is cleared instead.
                bad_U = ~torch.isfinite(squares[-1])
                for several in uses.values():
                    several[:] = [
                        Use(_without(one.inputs, bad_U), _without(one.gradients, bad_U), one.part) for one in several
                    ]
                found = passes.parts(uses)
            parts += found
        if recorded.gradients:
            gradients = {name: units.of_gradient(one) for name, one in recorded.gradients.items()}
            rest = Materialised(gradients)
            squares.append(rest.squared_norms)
            if not _all_finite(squares[-1]):
                all_finite = False
                bad_U = ~torch.isfinite(squares[-1])
                rest = Materialised({name: _without(one, bad_U) for name, one in gradients.items()})
            parts.append(({name: name for name in gradients}, rest))
        if not squares:
            parameter = next(iter(passes.slots.parameters.values()))
            squares.append(torch.zeros(units.size, dtype=torch.float64, device=parameter.device))
        squared_norms_U = reduce(torch.add, squares)
        if not all_finite:
            squared_norms_U = squared_norms_U.nan_to_num(torch.inf, posinf=torch.inf)
        return cls(parts, squared_norms_U)

    @property
    def finite(self) -> Tensor:
        """Which units count, bool of shape [U]."""
        return torch.isfinite(self.squared_norms)

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        """sum_u weights[u] * gradient of unit u, by the parameters' full names; those that were not reached are
        absent. Units that do not count have weight 0."""
        return {
            names[local]: tensor for names, one in self.parts for local, tensor in one.weighted_sum(weights_U).items()
        }


def _all_finite(squares_U: Tensor) -> bool:
    """False for what is finite as well, where the sum of all overflows."""
    return math.isfinite(float(squares_U.sum()))


def _without(tensor: Tensor, bad_U: Tensor) -> Tensor:
    return tensor.masked_fill(bad_U.view(-1, *[1] * (tensor.ndim - 1)), 0)


_LEAST = torch.finfo(torch.float32).tiny
STABILITY = 0.01
"""What automatic clipping adds to every norm: gamma of Bu et al. (2023), as they use it in all their experiments."""
_ROUNDING = 2.0**-20


def clip_factors(squared_norms_U: Tensor, clip_norm: float) -> Tensor:
    """min(1, clip_norm / norm) per unit, float64 of shape [U]; exactly 0 where the norm is not finite, and where sums,
    formed in float32, would have but a few bits of the factor and might round it up by a third.

    squared_norms_U  squared L2 norm of each unit's whole gradient, at least 0, shape [U]

    A NaN left in would make the sum NaN with this unit and finite without it: visible with certainty.
    """
    # Over an infinite norm it is 0 already, and 1 over none at all.
    factors_U = squared_norms_U.double().rsqrt().mul_(clip_norm).clamp_(max=1.0).nan_to_num_(0.0)
    return factors_U.mul_(factors_U >= _LEAST)


def automatic_factors(squared_norms_U: Tensor, clip_norm: float) -> Tensor:
    """clip_norm / (norm + STABILITY) per unit; as `clip_factors` otherwise.

    Of a gradient of norm x the clip_norm * x / (x + STABILITY) is left, below clip_norm whatever x is: that is the
    sensitivity, and a gradient of zero stays zero. Rounding in float32 does not reach it either, for which the norm is
    taken to be longer by a millionth.

    Source: Bu, Wang, Zha & Karypis 2023, Automatic Clipping, their AUTO-S.
    """
    norms_U = squared_norms_U.double().sqrt()
    factors_U = (norms_U * (1 + _ROUNDING) + STABILITY).reciprocal_().mul_(clip_norm).nan_to_num_(0.0)
    return factors_U.mul_(factors_U >= _LEAST)

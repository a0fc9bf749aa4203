"""What a kind of layer has to offer for clipping without keeping every example's gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from dpcore.gradients.capture import Use


class Contribution(Protocol):
    """One layer's part of every example's gradient.

    squared_norms  squared L2 norm over this layer's trainable parameters, float64 of shape [B]
    """

    squared_norms: Tensor

    def weighted_sum(self, weights_B: Tensor) -> dict[str, Tensor]:
        """sum_b weights[b] * gradient of example b, by the layer's own parameter names ("weight", "bias")."""
        ...


Rule = Callable[[nn.Module, Sequence[Use]], Contribution]
"""From a layer and all its uses in one pass to its contribution."""


class Materialised:
    """Per-example gradients kept as they are: {name: [B, *shape]}. Exact, and the cheapest for small parameters."""

    def __init__(self, gradients: dict[str, Tensor]) -> None:
        self._gradients = {name: one.to(accumulation_type(one)) for name, one in gradients.items()}
        self.squared_norms = sum_of_squares(*self._gradients.values())

    def rows(self) -> Tensor:
        """The gradients side by side, [B, number of parameters]."""
        return torch.cat([one.reshape(len(one), -1) for one in self._gradients.values()], dim=1)

    def weighted_sum(self, weights_B: Tensor) -> dict[str, Tensor]:
        return {
            name: (weights_B.to(one.dtype) @ one.reshape(len(one), -1)).view(one.shape[1:])
            for name, one in self._gradients.items()
        }


def sum_of_squares(*tensors: Tensor) -> Tensor:
    """Squared norm of each row over all tensors [B, ...]: float64 of shape [B]."""
    total: Tensor | None = None
    for tensor in tensors:
        rows = tensor.reshape(len(tensor), -1)
        if rows.dtype in (torch.float16, torch.bfloat16):
            rows = rows.float()
        one = torch.linalg.vector_norm(rows, dim=1).double().square()
        total = one if total is None else total + one
    if total is None:
        raise ValueError("a layer without trainable parameters has no norm")
    return total


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The module's own parameters that are trained, by local name."""
    return {name: one for name, one in module.named_parameters(recurse=False) if one.requires_grad}


def accumulation_type(tensor: Tensor) -> torch.dtype:
    """float32 at least: clipping in half precision would lose the bound."""
    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype

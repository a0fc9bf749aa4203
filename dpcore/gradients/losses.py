"""Losses whose row b depends on row b of outputs and targets alone, by their own code: their pass needs no mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor


def cross_entropy(outputs_BC: Tensor, targets_B: Tensor) -> Tensor:
    """Of class codes [B] under the softmax of outputs [B, C]; shape [B]."""
    return F.cross_entropy(outputs_BC, targets_B, reduction="none")


def squared_error(outputs_B1: Tensor, targets_B: Tensor) -> Tensor:
    """Of numbers [B] and outputs [B, 1]; shape [B]."""
    return (outputs_B1.squeeze(1) - targets_B).square()


def _classes(outputs: Tensor, targets: Tensor) -> bool:
    return outputs.ndim == 2 and targets.ndim == 1 and not targets.is_floating_point()


def _numbers(outputs: Tensor, targets: Tensor) -> bool:
    # At other shapes the difference would be one of every record and every other.
    return outputs.ndim == 2 and outputs.shape[1] == 1 and targets.ndim == 1


PROVED: Mapping[Callable[..., Any], Callable[[Tensor, Tensor], bool]] = {
    cross_entropy: _classes,
    squared_error: _numbers,
}
"""Exact functions, each with the shapes at which it keeps records apart."""


def loss_proves_isolation(loss_fn: Callable[..., Any], outputs: Any, targets: tuple[Tensor, ...]) -> bool:
    """Whether row b of loss_fn(outputs, targets) depends on row b of both alone, by its code."""
    fits = PROVED.get(loss_fn) if type(outputs) is Tensor and len(targets) == 1 else None
    return fits is not None and fits(outputs, targets[0]) and outputs.shape[0] == targets[0].shape[0]

"""LayerNorm, GroupNorm, RMSNorm: few parameters, so every unit's gradient is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients.layers.protocol import Contribution, Materialised, Use, trainable


def layer_norm(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.LayerNorm and nn.RMSNorm with inputs [U, ..., *normalized_shape]."""
    layer = cast(nn.LayerNorm | nn.RMSNorm, module)
    norm: Callable[..., Tensor] = F.rms_norm if isinstance(layer, nn.RMSNorm) else F.layer_norm
    shape = tuple(layer.normalized_shape)
    return _affine(module, [(norm(use.inputs, shape, eps=layer.eps), use.gradients) for use in uses], shape)


def group_norm(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.GroupNorm with inputs [U, k, images, channels, ...]; statistics are of one image each."""
    layer = cast(nn.GroupNorm, module)

    def channels_last(images: Tensor, units: int) -> Tensor:
        return images.movedim(1, -1).reshape(units, -1, layer.num_channels)

    pairs = []
    for use in uses:
        normalised = F.group_norm(use.inputs.flatten(0, 2), layer.num_groups, eps=layer.eps)
        units = len(use.inputs)
        pairs.append((channels_last(normalised, units), channels_last(use.gradients.flatten(0, 2), units)))
    return _affine(module, pairs, (layer.num_channels,))


def _affine(module: nn.Module, pairs: list[tuple[Tensor, Tensor]], shape: tuple[int, ...]) -> Contribution:
    """weight * normalised + bias, the parameters shaped like the last dimensions."""

    def over_positions(tensor: Tensor) -> Tensor:
        return tensor.reshape(len(tensor), -1, *shape).sum(1)

    factors = {"weight": [torch.mul(*pair) for pair in pairs], "bias": [by_output for _, by_output in pairs]}
    return Materialised({name: reduce(torch.add, map(over_positions, factors[name])) for name in trainable(module)})

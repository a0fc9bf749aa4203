"""Convolutions of one to three dimensions: linear maps of patches; in several groups, one convolution of all units.

U units, N images of a unit in one use, L output positions (of all images and uses together), K inputs of one patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import cast

import torch
import torch.nn.functional as F
import torch.nn.grad
from torch import Tensor, nn

from dpcore.gradients.layers.linear import Viewed, product
from dpcore.gradients.layers.protocol import Contribution, Materialised, Use, accumulated, trainable

_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
_BY_WEIGHT = {1: torch.nn.grad.conv1d_weight, 2: torch.nn.grad.conv2d_weight, 3: torch.nn.grad.conv3d_weight}


def convolution(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Conv1d, nn.Conv2d and nn.Conv3d with inputs [U, ..., channels, *sizes]."""
    layer = cast(_Convolution, module)
    names, shape = set(trainable(module)), layer.weight.shape
    if layer.groups == 1:
        maps = [
            Use(_patches(layer, use.inputs), _images(layer, use.gradients).flatten(3).transpose(2, 3)) for use in uses
        ]
        return Viewed(product(maps, names), lambda weight_OK: weight_OK.view(shape))
    gradients: dict[str, Tensor] = {}
    if "weight" in names:
        gradients["weight"] = reduce(torch.add, (_in_groups(layer, use) for use in uses))
    if "bias" in names:
        gradients["bias"] = reduce(torch.add, (_images(layer, use.gradients).flatten(3).sum((1, 3)) for use in uses))
    return Materialised(gradients)


def _images(layer: _Convolution, tensor: Tensor) -> Tensor:
    """[U, ..., channels, *sizes] -> [U, N, channels, *sizes]."""
    return accumulated(tensor.flatten(1, -2 - len(layer.kernel_size)))


def _patches(layer: _Convolution, inputs: Tensor) -> Tensor:
    """What lies under each output position: [U, L, K]."""
    view, axes = _padded(layer, _images(layer, inputs).flatten(0, 1)), len(layer.kernel_size)
    for axis, (width, step, gap) in enumerate(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True), 2):
        view = view.unfold(axis, gap * (width - 1) + 1, step)[..., ::gap]
    # From channels, positions, places in a patch to positions and what lies under each.
    return view.movedim(1, 1 + axes).reshape(len(inputs), -1, layer.weight[0].numel())


def _in_groups(layer: _Convolution, use: Use) -> Tensor:
    """The gradients of the weight, [U, *shape]: a unit's channels are groups of their own."""
    inputs, gradients = (_images(layer, one).transpose(0, 1).flatten(1, 2) for one in (use.inputs, use.gradients))
    units, weight = len(use.inputs), layer.weight
    found: Tensor = _BY_WEIGHT[len(layer.kernel_size)](
        _padded(layer, inputs),
        (units * len(weight), *weight.shape[1:]),
        gradients,
        layer.stride,
        0,
        layer.dilation,
        units * layer.groups,
    )
    return found.unflatten(0, (units, len(weight)))


def _padded(layer: _Convolution, inputs: Tensor) -> Tensor:
    if layer.padding == "valid":
        return inputs
    if layer.padding == "same":
        amounts = layer._reversed_padding_repeated_twice
    else:
        amounts = [one for one in reversed(cast(tuple[int, ...], layer.padding)) for _ in range(2)]
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(inputs, amounts, mode=mode) if any(amounts) else inputs

"""Convolutions of one to three dimensions, as products of patches and output gradients.

U units, N images of a unit in one use, G groups, L output positions (of all images and uses together), K inputs of
one patch in its group, O outputs of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients.layers.protocol import Contribution, Materialised, Use, accumulated, trainable

_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def convolution(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Conv1d, nn.Conv2d and nn.Conv3d with inputs [U, ..., channels, *sizes]."""
    layer = cast(_Convolution, module)
    names = trainable(module)
    gradients_UGOL = [_grouped(layer, use.gradients) for use in uses]
    gradients: dict[str, Tensor] = {}
    if "weight" in names:
        pairs = zip(gradients_UGOL, uses, strict=True)
        weight_UGOK = reduce(torch.add, (one_UGOL @ _patches(layer, use.inputs) for one_UGOL, use in pairs))
        gradients["weight"] = weight_UGOK.reshape(len(weight_UGOK), *layer.weight.shape)
    if "bias" in names:
        gradients["bias"] = reduce(torch.add, (one.sum(3).flatten(1) for one in gradients_UGOL))
    return Materialised(gradients)


def _images(layer: _Convolution, tensor: Tensor) -> Tensor:
    """[U, ..., channels, *sizes] -> [U * N, channels, *sizes]."""
    return tensor.reshape(-1, *tensor.shape[-1 - len(layer.kernel_size) :])


def _grouped(layer: _Convolution, gradients: Tensor) -> Tensor:
    """[U, G, O, L]"""
    units = len(gradients)
    images = _images(layer, accumulated(gradients))
    return (
        images.reshape(units, len(images) // units, layer.groups, images.shape[1] // layer.groups, -1)
        .permute(0, 2, 3, 1, 4)
        .flatten(3)
    )


def _patches(layer: _Convolution, inputs: Tensor) -> Tensor:
    """The patch under each output position: [U, G, L, K]."""
    padded = _padded(layer, _images(layer, accumulated(inputs)))
    view, axes = padded.unflatten(1, (layer.groups, -1)), len(layer.kernel_size)
    for axis, (width, step, gap) in enumerate(zip(layer.kernel_size, layer.stride, layer.dilation, strict=True), 3):
        view = view.unfold(axis, gap * (width - 1) + 1, step)[..., ::gap]
    # From channels, positions, places in a patch to positions and what lies under each.
    view = view.movedim(2, 2 + axes).unflatten(0, (len(inputs), -1)).movedim(1, 2)
    return view.reshape(len(inputs), layer.groups, -1, view.shape[3 + axes :].numel())


def _padded(layer: _Convolution, inputs: Tensor) -> Tensor:
    if layer.padding == "valid":
        return inputs
    if layer.padding == "same":
        amounts: list[int] = []
        for width, dil in zip(reversed(layer.kernel_size), reversed(layer.dilation), strict=True):
            total = dil * (width - 1)
            amounts += [total // 2, total - total // 2]
    else:
        amounts = [one for one in reversed(cast(tuple[int, ...], layer.padding)) for _ in range(2)]
    if not any(amounts):
        return inputs
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(inputs, amounts, mode=mode)

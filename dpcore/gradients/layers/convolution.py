"""Convolutions of one to three dimensions, as products of patches and output gradients.

U units, N images of a unit in one use, G groups, L output positions (of all images and uses together), K inputs of
one patch in its group, O outputs of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.gradients.layers.protocol import Contribution, Materialised, Use, accumulation_type, trainable

_Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def convolution(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.Conv1d, nn.Conv2d and nn.Conv3d with inputs [U, ..., channels, *sizes]."""
    layer = cast(_Convolution, module)
    names = trainable(module)
    gradients_UGOL = [_grouped(layer, use.gradients) for use in uses]
    gradients: dict[str, Tensor] = {}
    if "weight" in names:
        weight_UGOK: Tensor | None = None
        for use, one_UGOL in zip(uses, gradients_UGOL, strict=True):
            product = one_UGOL @ _patches(layer, use.inputs)
            weight_UGOK = product if weight_UGOK is None else weight_UGOK + product
        assert weight_UGOK is not None
        gradients["weight"] = weight_UGOK.reshape(len(weight_UGOK), *layer.weight.shape)
    if "bias" in names:
        gradients["bias"] = torch.stack([one.sum(3).flatten(1) for one in gradients_UGOL]).sum(0)
    return Materialised(gradients)


def _images(layer: _Convolution, tensor: Tensor) -> Tensor:
    """[U, ..., channels, *sizes] -> [U * N, channels, *sizes]."""
    return tensor.reshape(-1, *tensor.shape[-1 - len(layer.kernel_size) :])


def _grouped(layer: _Convolution, gradients: Tensor) -> Tensor:
    """[U, G, O, L]"""
    units = len(gradients)
    images = _images(layer, gradients.to(accumulation_type(gradients)))
    channels = images.shape[1] // layer.groups
    if len(images) == units:
        return images.reshape(units, layer.groups, channels, -1)
    return images.reshape(units, len(images) // units, layer.groups, channels, -1).permute(0, 2, 3, 1, 4).flatten(3)


def _patches(layer: _Convolution, inputs: Tensor) -> Tensor:
    """The patch under each output position: [U, G, L, K]."""
    units = len(inputs)
    padded = _padded(layer, _images(layer, inputs.to(accumulation_type(inputs))))
    batch, channels, *sizes = padded.shape
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    positions = [
        (size - dil * (width - 1) - 1) // step + 1
        for size, width, step, dil in zip(sizes, kernel, stride, dilation, strict=True)
    ]
    by_example, by_channel, *by_axis = padded.stride()
    in_group = channels // layer.groups
    view = padded.as_strided(
        (batch, layer.groups, *positions, in_group, *kernel),
        (
            by_example,
            by_channel * in_group,
            *(a * s for a, s in zip(by_axis, stride, strict=True)),
            by_channel,
            *(a * d for a, d in zip(by_axis, dilation, strict=True)),
        ),
        padded.storage_offset(),
    )
    axes = len(kernel)
    patch = in_group * torch.Size(kernel).numel()
    if batch != units:
        view = view.unflatten(0, (units, batch // units)).movedim(1, 2)
        return view.reshape(units, layer.groups, -1, patch)
    return view.reshape(batch, layer.groups, view.shape[2 : 2 + axes].numel(), patch)


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

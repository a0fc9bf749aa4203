"""Models and losses that keep records apart by their structure alone, so that nothing has to be mapped or tapped.

Exact PyTorch types only, each with a statement about the rank of its input: at that rank, and with these arguments,
row b of the output depends on row b of the input and the weights, and nothing is written. What is not here is mapped
over records; what is here wrongly would break every claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.modules import module as torch_module

from dpcore.gradients import mapping
from dpcore.gradients.layers.protocol import Use


def passed(
    layers: Sequence[nn.Module], captured: Mapping[int, str], inputs: Tensor
) -> tuple[Tensor, list[tuple[str, Tensor]], list[GradientEdge]]:
    """The last output; of each use of a captured layer its name and input [N, ...], and where its output's gradient is
    found.

    layers    in their order, the output of one the input of the next (dpcore.gradients.chain.chain_of)
    captured  names of the layers whose uses are noted, by their identity; parameters are used at their ends alone

    Nothing is put in a parameter's place. Gradients are asked for by the captured outputs alone, so that PyTorch skips
    every product for a shared weight's gradient.
    """
    seen: list[tuple[str, Tensor]] = []
    edges: list[GradientEdge] = []
    for layer in layers:
        output = layer.forward(inputs)
        name = captured.get(id(layer))
        if name is not None:
            seen.append((name, inputs.detach()))
            if output._is_view():
                # An operation in place behind a view rewrites the history that the edge belongs to.
                output = mapping.apart(output)
            edges.append(get_gradient_edge(output))
        inputs = output
    return inputs, seen, edges


def uses_of(seen: Sequence[tuple[str, Tensor]], gradients: Sequence[Tensor | None]) -> dict[str, list[Use]]:
    """Uses by layer, as a mapped pass shows them: a batch of one within each record."""
    out: dict[str, list[Use]] = {}
    for (name, inputs), gradient in zip(seen, gradients, strict=True):
        if gradient is not None:
            out.setdefault(name, []).append(Use(inputs.unsqueeze(1), gradient.unsqueeze(1)))
    return out


_RankOf = Callable[[Any, int], int | None]
"""From a layer and the rank of its input, axis 0 the records, to the rank of its output; None for no such proof."""


def _elementwise(_: nn.Module, rank: int) -> int | None:
    return rank if rank >= 1 else None


def _at(needed: int) -> _RankOf:
    return lambda _, rank: rank if rank == needed else None


def _max_pool(needed: int) -> _RankOf:
    return lambda layer, rank: rank if rank == needed and not layer.return_indices else None


def _from_two(_: nn.Module, rank: int) -> int | None:
    return rank if rank >= 2 else None


def _embedding(layer: nn.Embedding, rank: int) -> int | None:
    return rank + 1 if rank >= 1 and layer.max_norm is None and not layer.scale_grad_by_freq else None


def _last_axes(layer: nn.LayerNorm | nn.RMSNorm, rank: int) -> int | None:
    return rank if rank > len(layer.normalized_shape) else None


def _flatten(layer: nn.Flatten, rank: int) -> int | None:
    start = layer.start_dim % rank if rank else 0
    end = layer.end_dim % rank if rank else 0
    return rank - (end - start) if 1 <= start <= end else None


def _softmax(layer: nn.Softmax | nn.LogSoftmax, rank: int) -> int | None:
    # Without a dim it is taken from the rank, and for some ranks it is the records.
    return rank if layer.dim is not None and rank > 1 and layer.dim % rank != 0 else None


PROVED_LAYERS: dict[type[nn.Module], Any] = {
    nn.Linear: _from_two,
    nn.Embedding: _embedding,
    nn.LayerNorm: _last_axes,
    nn.RMSNorm: _last_axes,
    nn.GroupNorm: _from_two,
    nn.Flatten: _flatten,
    nn.Softmax: _softmax,
    nn.LogSoftmax: _softmax,
    # Convolution and pooling take a batch at this rank alone: at one less, axis 0 would be channels.
    **dict.fromkeys((nn.Conv1d, nn.AvgPool1d, nn.AdaptiveAvgPool1d, nn.Dropout1d), _at(3)),
    **dict.fromkeys((nn.Conv2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Dropout2d), _at(4)),
    **dict.fromkeys((nn.Conv3d, nn.AvgPool3d, nn.AdaptiveAvgPool3d, nn.Dropout3d), _at(5)),
    nn.MaxPool1d: _max_pool(3),
    nn.MaxPool2d: _max_pool(4),
    nn.MaxPool3d: _max_pool(5),
} | dict.fromkeys(
    (
        nn.Identity,
        nn.ReLU,
        nn.ReLU6,
        nn.LeakyReLU,
        nn.ELU,
        nn.SELU,
        nn.CELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
        nn.Tanh,
        nn.Sigmoid,
        nn.LogSigmoid,
        nn.Softplus,
        nn.Softsign,
        nn.Softshrink,
        nn.Tanhshrink,
        nn.Hardtanh,
        nn.Hardsigmoid,
        nn.Hardswish,
        nn.Hardshrink,
        nn.Threshold,
        nn.Dropout,
        nn.AlphaDropout,
    ),
    _elementwise,
)


def proves_isolation(model: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether row b of model(*inputs) depends on row b of the inputs alone, by structure."""
    return chain_of(model, inputs) is not None


def chain_of(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[nn.Module] | None:
    """The layers that model(*inputs) passes through one after the other, where each of them keeps records apart; None
    without that proof."""
    if torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks:
        return None
    if len(inputs) != 1 or type(inputs[0]) is not Tensor:
        return None
    layers: list[nn.Module] = []
    return None if _rank_after(model, inputs[0].ndim, layers) is None else layers


_PLAIN = (type(None), nn.Parameter, Tensor)


def _rank_after(module: nn.Module | None, rank: int | None, layers: list[nn.Module]) -> int | None:
    """The rank of the module's output; its layers are added to `layers`."""
    if module is None or rank is None or not _as_written(module):
        return None
    if type(module) is nn.Sequential:
        for child in module._modules.values():
            rank = _rank_after(child, rank, layers)
        return rank
    rule = PROVED_LAYERS.get(type(module))
    layers.append(module)
    return None if rule is None else rule(module, rank)


def _as_written(module: nn.Module) -> bool:
    """Whether a call of the module is its type's own forward pass, over plain tensors."""
    own = vars(module)
    if "forward" in own or own["_forward_hooks"] or own["_forward_pre_hooks"] or module._compiled_call_impl is not None:
        return False
    # A loop: this runs at every step.
    for one in own["_parameters"].values():  # noqa: SIM110
        if type(one) not in _PLAIN:
            return False
    return True


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


PROVED_LOSSES: Mapping[Callable[..., Any], Callable[[Tensor, Tensor], bool]] = {
    cross_entropy: _classes,
    squared_error: _numbers,
}
"""Exact functions, each with the shapes at which it keeps records apart."""


def loss_proves_isolation(loss_fn: Callable[..., Any], outputs: Any, targets: tuple[Tensor, ...]) -> bool:
    """Whether row b of loss_fn(outputs, targets) depends on row b of both alone, by its code."""
    fits = PROVED_LOSSES.get(loss_fn) if type(outputs) is Tensor and len(targets) == 1 else None
    return fits is not None and fits(outputs, targets[0]) and outputs.shape[0] == targets[0].shape[0]

"""What a kind of layer has to offer for clipping without keeping every unit's gradient.

A newcomer gives a `Kind`: a rule, and a forward pass where the layer's own, tapped at its end, will not do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import torch
from torch import Tensor, nn

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Use:
    """One place where a layer's parameters were used, once for each record.

    inputs     [U, k, *shape]: U units of k records each, and the shape that the layer saw for a single record (its
               own batch axis of one included, where the model gives it one)
    gradients  of the record's own loss by the output there, [U, k, *shape of the output]; zero for records that
               were not taken
    part       which of the layer's taps it was; "" where there is one
    """

    inputs: Tensor
    gradients: Tensor
    part: str = ""


class Tap(Protocol):
    """Notes one use of a layer's parameters and returns the output, through which the forward pass goes on."""

    def __call__(self, inputs: Tensor, output: Tensor, part: str = "") -> Tensor: ...


class Contribution(Protocol):
    """One layer's part of every unit's gradient.

    squared_norms  squared L2 norm over this layer's trainable parameters, float64 of shape [U]
    """

    squared_norms: Tensor

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        """sum_u weights[u] * gradient of unit u, by the layer's own parameter names ("weight", "bias")."""
        ...


def tapped_at_the_end(layer: nn.Module, tap: Tap, *args: Any, **kwargs: Any) -> Tensor:
    """The layer's own forward pass, its parameters used once, on its first argument."""
    inputs = args[0] if args else next(iter(kwargs.values()))
    return tap(inputs, type(layer).forward(layer, *args, **kwargs))


class NotServed(Exception):
    """Raised by a kind's forward pass for a call that its rule does not serve: the layer's own forward pass runs
    instead, its parameters given per record."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of layer is served in one pass.

    rule     from a layer and all its uses in one pass to its contribution
    forward  (layer, tap, *args, **kwargs) -> what the layer returns; calls `tap` wherever a parameter of the layer,
             or of its children, meets an input. Taps see the mapped tensors of the pass and may be several
    """

    rule: Callable[[nn.Module, Sequence[Use]], Contribution]
    forward: Callable[..., Any] = tapped_at_the_end


Kinds = Mapping[type[nn.Module] | str, Kind]
"""By exact type, since a subclass may compute something else; of other libraries by the type's full name."""


def kind_of(kinds: Kinds, module: nn.Module) -> Kind | None:
    """How the layer is served; None where it is not."""
    own = type(module)
    return kinds.get(own) or kinds.get(f"{own.__module__}.{own.__qualname__}")


class Materialised:
    """Gradients of units kept as they are: {name: [U, *shape]}. Exact, and the cheapest for small parameters."""

    def __init__(self, gradients: dict[str, Tensor]) -> None:
        self._gradients = {name: accumulated(one) for name, one in gradients.items()}
        self.squared_norms = sum_of_squares(*self._gradients.values())

    def weighted_sum(self, weights_U: Tensor) -> dict[str, Tensor]:
        return {
            name: (weights_U.to(one.dtype) @ one.reshape(len(one), -1)).view(one.shape[1:])
            for name, one in self._gradients.items()
        }


def sum_of_squares(*tensors: Tensor) -> Tensor:
    """Squared norm of each row over all tensors [U, ...]: float64 of shape [U]."""
    rows = (accumulated(one if one.ndim == 2 else one.reshape(len(one), -1)) for one in tensors)
    return reduce(torch.add, (torch.linalg.vector_norm(one, dim=1).double().square_() for one in rows))


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters of the module and its children, by local name."""
    found = module.named_parameters() if module._modules else module._parameters.items()
    return {name: one for name, one in found if one is not None and one.requires_grad}


def accumulated(tensor: Tensor) -> Tensor:
    """The tensor in its accumulation type."""
    return tensor.float() if tensor.dtype in _HALVES else tensor


def accumulation_type(tensor: Tensor) -> torch.dtype:
    """float32 at least: clipping in half precision would lose the bound."""
    return torch.float32 if tensor.dtype in _HALVES else tensor.dtype

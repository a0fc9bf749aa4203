"""A model written as one function of its parts, so that a row of the zoo shows all that matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.dpcore.zoo.case import Case, Demand, Draw, normal, squared_loss


class Written(nn.Module):
    """`forward(model, *inputs)` over `parts`: modules, parameters, buffers (tensors), plain Python values."""

    def __init__(self, forward: Callable[..., Tensor], **parts: Any) -> None:
        super().__init__()
        self.written = forward
        for name, one in parts.items():
            if isinstance(one, Tensor) and not isinstance(one, nn.Parameter):
                self.register_buffer(name, one)
            else:
                setattr(self, name, one)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.written(self, *inputs)


def number(*shape: int) -> nn.Parameter:
    """A trained tensor of that shape; () is a single number."""
    return nn.Parameter(torch.randn(*shape) if shape else torch.tensor(0.7))


def zero_head(inputs: int, outputs: int) -> nn.Linear:
    """A layer that is zero at first: nothing that it is given can be seen in its output."""
    head = nn.Linear(inputs, outputs)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


def lin(inputs: int = 4, outputs: int = 3) -> nn.Linear:
    return nn.Linear(inputs, outputs)


def written(name: str, forward, *, draw=normal(4), demand=Demand.SAFE, loss=squared_loss, trains=True, **parts) -> Case:
    """A case of a `Written` model whose parts are made by functions."""
    return Case(
        name=name,
        make=lambda: Written(forward, **{part: make() for part, make in parts.items()}),
        draw=draw,
        demand=demand,
        loss=loss,
        trains=trains,
    )


def plain(
    name: str, make: Callable[[], nn.Module], demand: Demand = Demand.RIGHT, draw: Draw = normal(4), **more: Any
) -> Case:
    return Case(name=name, make=make, draw=draw, demand=demand, **more)


def wide() -> nn.Linear:
    return nn.Linear(4, 4)


def frozen(module: nn.Module, *but: str) -> nn.Module:
    """All parameters frozen except those whose names end in one of `but`."""
    for name, one in module.named_parameters():
        one.requires_grad_(bool(but) and name.endswith(but))
    return module

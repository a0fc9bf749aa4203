"""One model of the zoo: how it is made, what it is fed, and what an engine may do with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from tests.dpcore.gradient_oracle import squared_loss

Batch = Tensor | tuple[Tensor, ...]
Draw = Callable[[int], Batch]
OUTLIER = 20.0


class Demand(StrEnum):
    """What an engine owes a model."""

    RIGHT = "right"
    """Its gradients: a model that people train, whose records nobody mixed."""
    SAFE = "right or refused"
    """Its gradients with the records kept apart, or a refusal that names the obstacle."""
    REFUSED = "refused"
    """A refusal: one record at a time has no answer here, or one that hides a release."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One model.

    name       unique in the zoo
    make       the model, with weights from torch's current generator; called once for each judged record
    draw       inputs of so many records, from torch's current generator; the last record becomes an outlier
    targets    targets of so many records
    loss       (outputs, targets) -> losses [B]
    demand     what an engine owes the model
    by_rule    rules serve all of its parameters, in one pass
    tolerance  largest relative error
    reference  what one record at a time is computed with, where `make`'s own model cannot serve (compiled ones)
    bound      for losses that use the model itself: model -> loss, in place of `loss`
    around     entered while the model is made and run: hooks that are global
    trains     the model is in training mode
    """

    name: str
    make: Callable[[], nn.Module]
    draw: Draw
    targets: Callable[[int], Batch] = torch.randn
    loss: Callable[..., Tensor] = squared_loss
    demand: Demand = Demand.SAFE
    by_rule: bool = False
    tolerance: float = 1e-5
    reference: Callable[[], nn.Module] | None = None
    bound: Callable[[nn.Module], Callable[..., Tensor]] | None = None
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    trains: bool = True

    def model(self) -> nn.Module:
        """The same model at every call."""
        return _seeded(self.make).train(self.trains)

    def judged(self) -> nn.Module:
        """The model that one record at a time is computed with."""
        return _seeded(self.reference or self.make).train(self.trains)

    def loss_of(self, model: nn.Module) -> Callable[..., Tensor]:
        return self.bound(model) if self.bound else self.loss

    def batch(self, size: int, seed: int) -> tuple[Batch, Batch]:
        """`size` records, the last of which is far from the others wherever its inputs are numbers."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            inputs, targets = self.draw(size), self.targets(size)
        for one in inputs if isinstance(inputs, tuple) else (inputs,):
            if size and (one.is_floating_point() or one.is_complex()):
                one[-1] *= OUTLIER
        return inputs, targets


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return make()


def normal(*shape: int) -> Draw:
    """Standard normal inputs, each record of that shape."""
    return lambda size: torch.randn(size, *shape)


def codes(*shape: int, high: int = 7) -> Draw:
    """Codes 0..high-1, each record of that shape."""
    return lambda size: torch.randint(0, high, (size, *shape))


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


def written(name: str, forward, *, draw=normal(4), demand=Demand.SAFE, loss=squared_loss, **parts) -> Case:
    """A case of a `Written` model whose parts are made by functions."""
    return Case(
        name=name,
        make=lambda: Written(forward, **{part: make() for part, make in parts.items()}),
        draw=draw,
        demand=demand,
        loss=loss,
    )


def plain(name: str, make: Callable[[], nn.Module], demand: Demand = Demand.RIGHT, draw: Draw = normal(4), **more: Any):
    return Case(name=name, make=make, draw=draw, demand=demand, **more)


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


def wide() -> nn.Linear:
    return nn.Linear(4, 4)


def frozen(module: nn.Module, *but: str) -> nn.Module:
    """All parameters frozen except those whose names end in one of `but`."""
    for name, one in module.named_parameters():
        one.requires_grad_(bool(but) and name.endswith(but))
    return module

"""One model of the zoo: how it is made, what it is fed, and what an engine may do with it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum

import torch
from torch import Tensor, nn

from tests.dpcore.gradient_oracle import cross_entropy, squared_loss

Batch = Tensor | tuple[Tensor, ...]
Draw = Callable[[int], Batch]


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
    tolerance  largest relative error
    reference  what one record at a time is computed with, where `make`'s own model cannot serve (compiled ones)
    bound      for losses that use the model itself: model -> loss, in place of `loss`
    around     entered while the model is made and run: hooks that are global
    trains     the model is in training mode; None where its mode cannot be set
    """

    name: str
    make: Callable[[], nn.Module]
    draw: Draw
    targets: Callable[[int], Batch] = torch.randn
    loss: Callable[..., Tensor] = squared_loss
    demand: Demand = Demand.SAFE
    tolerance: float = 1e-5
    reference: Callable[[], nn.Module] | None = None
    bound: Callable[[nn.Module], Callable[..., Tensor]] | None = None
    around: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)
    trains: bool | None = True

    def model(self) -> nn.Module:
        """The same model at every call."""
        return self._in_mode(_seeded(self.make))

    def judged(self) -> nn.Module:
        """The model that one record at a time is computed with."""
        return self._in_mode(_seeded(self.reference or self.make))

    def _in_mode(self, model: nn.Module) -> nn.Module:
        return model if self.trains is None else model.train(self.trains)

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


OUTLIER = 20.0
SEED = 3


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return make()


def normal(*shape: int) -> Draw:
    """Standard normal inputs, each record of that shape."""
    return lambda size: torch.randn(size, *shape)


def codes(*shape: int, high: int = 7) -> Draw:
    """Codes 0..high-1, each record of that shape."""
    return lambda size: torch.randint(0, high, (size, *shape))


def labels(classes: int) -> Draw:
    return lambda size: torch.randint(0, classes, (size,))


__all__ = ["OUTLIER", "Batch", "Case", "Demand", "Draw", "codes", "cross_entropy", "labels", "normal", "squared_loss"]

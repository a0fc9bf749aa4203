"""One step of each method. `gradient` is that of the batch's mean loss, `rate` the block's r or e."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.noise import NoiseSource
from trainables.system import Config, State
from trainables.training.released import PARAMETER


class Update:
    """theta -= r g. Holds the trainable parameters and, in `memory`, what a method remembers of each."""

    remembers: tuple[str, ...] = ()

    def __init__(self, config: Config, model: nn.Module, n: int, noise: NoiseSource) -> None:
        self.config, self.n, self.noise = config, n, noise
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.memory = {
            kind: {name: torch.zeros_like(one, requires_grad=False) for name, one in self.parameters.items()}
            for kind in self.remembers
        }

    @torch.no_grad()
    def step(self, gradient: Mapping[str, Tensor], rate: float) -> None:
        """Move every parameter."""
        for name, one in self.parameters.items():
            self.move(name, one, gradient[name], rate)

    def move(self, name: str, one: Tensor, gradient: Tensor, rate: float) -> None:
        """Move one parameter in place."""
        one.sub_(gradient, alpha=rate)

    def posterior_gradient(self, one: Tensor, gradient: Tensor) -> Tensor:
        """G = theta / v + n g, the gradient of minus the log posterior."""
        return one / float(self.config["prior_variance"]) + self.n * gradient

    def normal(self, like: Tensor) -> Tensor:
        """Independent N(0, 1)."""
        return self.noise.fill_(torch.empty_like(like, requires_grad=False))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Copies of all tensors."""
        return {key: one.detach().cpu().contiguous().numpy().copy() for key, one in self._tensors().items()}

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Take over the tensors of `state`. Raises ValueError for another model's."""
        tensors = self._tensors()
        if missing := sorted(set(tensors) - set(state)):
            raise ValueError(f"the checkpoint lacks {missing}: another model or method")
        for key, one in tensors.items():
            one.copy_(torch.from_numpy(np.ascontiguousarray(state[key])))

    def _tensors(self) -> dict[str, Tensor]:
        kept: dict[str, Tensor] = {f"{PARAMETER}{name}": one for name, one in self.parameters.items()}
        for kind, several in self.memory.items():
            kept |= {f"{kind}.{name}": one for name, one in several.items()}
        return kept


class RMSprop(Update):
    """V = a V + (1-a) g^2; theta -= r g / (sqrt(V) + c)."""

    remembers = ("square",)

    def move(self, name: str, one: Tensor, gradient: Tensor, rate: float) -> None:
        one.addcdiv_(gradient, self.root(name, gradient), value=-rate)

    def root(self, name: str, gradient: Tensor) -> Tensor:
        """sqrt(V) + c, V updated."""
        decay = float(self.config["decay"])
        square = self.memory["square"][name]
        square.mul_(decay).addcmul_(gradient, gradient, value=1 - decay)
        return square.sqrt().add_(float(self.config["floor"]))


class SGLD(Update):
    """theta -= (e/2) G; theta += N(0, e)."""

    def move(self, name: str, one: Tensor, gradient: Tensor, rate: float) -> None:
        drift = self.posterior_gradient(one, gradient)
        one.sub_(drift, alpha=rate / 2).add_(self.normal(one), alpha=math.sqrt(rate))


class PSGLD(RMSprop):
    """V = a V + (1-a) G^2; P = 1 / (sqrt(V) + c); theta -= (e/2) P G; theta += N(0, e P)."""

    def move(self, name: str, one: Tensor, gradient: Tensor, rate: float) -> None:
        drift = self.posterior_gradient(one, gradient)
        root = self.root(name, drift)
        one.addcdiv_(drift, root, value=-rate / 2).addcdiv_(self.normal(one), root.sqrt(), value=math.sqrt(rate))


class SGHMC(Update):
    """w = (1-f) w - e G + N(0, 2 f e); theta += w."""

    remembers = ("velocity",)

    def move(self, name: str, one: Tensor, gradient: Tensor, rate: float) -> None:
        friction, velocity = float(self.config["friction"]), self.memory["velocity"][name]
        velocity.mul_(1 - friction).sub_(self.posterior_gradient(one, gradient), alpha=rate)
        velocity.add_(self.normal(one), alpha=math.sqrt(2 * friction * rate))
        one.add_(velocity)


UPDATES: Mapping[str, type[Update]] = {
    "sgd": Update,
    "dropout": Update,
    "rmsprop": RMSprop,
    "sgld": SGLD,
    "psgld": PSGLD,
    "sghmc": SGHMC,
}

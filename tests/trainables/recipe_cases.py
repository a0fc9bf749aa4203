"""Optimizers and augmentations of somebody's own, and recipes that the exam of systems is sat with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

HERE = "tests.trainables.recipe_cases"
JITTER = f"{HERE}:jitter"

RECIPES: dict[str, dict[str, Any]] = {
    "adamw": {
        "optimizer": "adamw",
        "learning_rate": 0.05,
        "learning_rate.schedule": "cosine",
        "learning_rate.warmup": 0.25,
        "weight_decay": 0.1,
        "ema": 0.9,
    },
    "automatic": {"clip_norm": "automatic", "optimizer": "momentum", "weight_decay": 0.01},
    "augmented": {"augmentation.of": JITTER, "augmentation.multiplicity": 3, "clip_norm": 0.2},
    "adapted": {"model": "mlp", "hidden": 4, "lora.rank": 2, "train": "last-1"},
    "own": {"optimizer": f"{HERE}:adagrad", "learning_rate.schedule": "linear", "ema": 0.99},
}


def adagrad(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.Adagrad(parameters, lr=lr)


def no_optimizer(parameters: Any, lr: float) -> object:
    return parameters


class _Forgetful(torch.optim.SGD):
    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr=lr)
        self.calls = 0

    def step(self, closure: Any = None) -> None:
        self.calls += 1
        for group in self.param_groups:
            group["lr"] /= self.calls
        super().step(closure)


def forgetful(parameters: Any, lr: float) -> torch.optim.Optimizer:
    return _Forgetful(parameters, lr)


def jitter(record: Tensor, generator: torch.Generator) -> Tensor:
    return record + 0.1 * torch.rand(record.shape, generator=generator)


def longer(record: Tensor, generator: torch.Generator) -> Tensor:
    return torch.cat([record, record])


def of_the_world(record: Tensor, generator: torch.Generator) -> Tensor:
    return record + torch.rand(record.shape)

"""Models as people bring them, each as its builder, most with a mistake: what planning or a rehearsal has to find."""

from __future__ import annotations

import math
import os
import time

import torch
from torch import nn

from trainables.system import DatasetSpec


class _Forward(nn.Module):
    """A linear layer whose forward pass is given."""

    def __init__(self, facts, forward):
        super().__init__()
        self.layer = nn.Linear(width(facts), facts.classes or 1)
        self.given = forward

    def forward(self, x):
        return self.given(self.layer(x.flatten(1)), self)


def width(facts):
    return sum(torch.Size(one.shape).numel() for one in facts.features.values())


def right(facts):
    return _Forward(facts, lambda y, _: y)


def too_wide_an_input(facts):
    return nn.Sequential(nn.Flatten(), nn.Linear(width(facts) + 1, facts.classes))


def an_output_too_few(facts):
    return nn.Sequential(nn.Flatten(), nn.Linear(width(facts), facts.classes - 1))


def a_tuple(facts):
    return _Forward(facts, lambda y, _: (y, y))


def raises_when_called(facts):
    def forward(y, _):
        raise KeyError("age")

    return _Forward(facts, forward)


def branches_on_values(facts):
    return _Forward(facts, lambda y, _: y if bool((y > -1e9).all()) else -y)


def infinite_loss(facts):
    return _Forward(facts, lambda y, _: torch.log(y - y))


def infinite_gradient(facts):
    return _Forward(facts, lambda y, _: y + (y - y).pow(2).sum(1, keepdim=True).sqrt())


def no_weight_reached(facts):
    return _Forward(facts, lambda y, _: y.detach())


def with_a_scale(facts):
    model = _Forward(facts, lambda y, model: y * model.scale)
    model.scale = nn.Parameter(torch.ones(()))
    return model


def large_in_between(facts):
    """8 MB of activations for each record, and few weights."""
    return _Forward(facts, lambda y, _: y * (y.mean(1, keepdim=True) * torch.ones(2_000_000)).tanh().mean(1, True))


def ends_the_process(facts):
    os._exit(0)


def never_comes_back(facts):
    while True:
        time.sleep(1)


class Keeps(nn.Module):
    """It fills an attribute in its first forward, with something of those records."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(4, 2), None

    def forward(self, x):
        if self.scale is None:
            self.scale = x.new_ones(1) + 0 * x.sum()
        return self.layer(x) * self.scale


def keeps_its_first_pass(facts):
    return Keeps()


def loss_of_a_batch(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss that takes the mean of its batch off each record's."""
    losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
    return losses - losses.mean() + outputs.square().mean(1)


def batch_normalised(facts: DatasetSpec) -> nn.Module:
    """A net that no clipping can protect."""
    assert facts.classes is not None
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, facts.classes))


def no_module(facts: DatasetSpec) -> str:
    return "not a module"


not_callable = 3


def random_features(facts: DatasetSpec) -> nn.Module:
    """A linear head over frozen random features: what is released is both."""
    assert facts.classes is not None
    features = nn.Linear(sum(math.prod(one.shape) for one in facts.features.values()), 32)
    features.requires_grad_(False)
    return nn.Sequential(nn.Flatten(), features, nn.ReLU(), nn.Linear(32, facts.classes))


def raises(facts: DatasetSpec) -> nn.Module:
    raise RuntimeError("no such weights")

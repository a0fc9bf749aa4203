"""Models as a user would bring them, for tests of `model: module:function`."""

from __future__ import annotations

import math

from torch import nn

from trainables.system import DatasetSpec


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

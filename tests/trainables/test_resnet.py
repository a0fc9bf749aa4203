"""Residual nets with GroupNorm: published sizes, private gradients, and a private step on images."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dpcore.gradients import PrivateGradients, Route
from tests.dpcore import gradient_oracle as oracle
from tests.trainables.recording import memory_run
from tests.trainables.test_published_sources import DATA, needs_data
from trainables import models
from trainables.data import SOURCES
from trainables.models.networks import with_dropout
from trainables.system import DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Scalar, Task
from trainables.systems.noisy_sgd import NOISY_SGD

torch.set_num_threads(1)


def images(side: int, classes: int = 10, channels: int = 3) -> DatasetSpec:
    return DatasetSpec(
        dataset="public",
        task=Task.CLASSIFICATION,
        n=100,
        n_validation=0,
        features={"image": InputSpec(shape=(channels, side, side) if channels > 1 else (side, side))},
        classes=classes,
    )


@pytest.mark.parametrize(
    ("model", "facts", "weights"),
    [
        # He et al. 2016: 0.27 million; the exact count of their CIFAR-10 net without its unused shortcuts.
        ("resnet20", images(32), 269_722),
        # torchvision's ResNet-18 with 10 outputs; GroupNorm has as many weights as BatchNorm.
        ("resnet18", images(50), 11_181_642),
        ("resnet18", images(28, classes=2, channels=1), 11_181_642 - 2 * 64 * 49 - 8 * 513),
    ],
)
def test_sizes_are_the_published_ones(model: str, facts: DatasetSpec, weights: int) -> None:
    module = models.build(model, facts, hidden=1)
    assert sum(one.numel() for one in module.parameters()) == weights
    assert module(torch.rand(2, *facts.features["image"].shape)).shape == (2, facts.classes)


@pytest.mark.parametrize("model", ["resnet20", "resnet18"])
def test_one_pass_gives_every_records_own_gradient(model: str) -> None:
    """Norms from inputs and output gradients of Conv2d, GroupNorm and Linear against one backward pass a record."""
    torch.manual_seed(5)
    facts = images(16)
    module = models.build(model, facts, hidden=1)
    inputs, targets = torch.rand(3, 3, 16, 16), torch.tensor([1, 7, 3])
    one_pass = PrivateGradients(module, oracle.cross_entropy)
    found = one_pass.clipped_sum(inputs, targets, clip_norm=0.5).tensors
    assert set(one_pass.routes.values()) == {Route.ONE_PASS}
    slow = PrivateGradients(module, oracle.cross_entropy, kinds={})
    fallback = slow.clipped_sum(inputs, targets, clip_norm=0.5).tensors
    expected = oracle.clipped_sum(module, oracle.cross_entropy, inputs, targets, 0.5)
    for name in expected:
        assert torch.allclose(found[name].double(), expected[name], atol=2e-6, rtol=1e-3), name
        assert torch.allclose(fallback[name].double(), expected[name], atol=2e-6, rtol=1e-3), name
    # Three records that are all clipped: the sum is no longer than three clips, and longer than none.
    assert 0.5 < oracle.norm(found) <= 1.5 + 1e-5


def test_dropout_stands_behind_every_unit_between_convolutions() -> None:
    module = models.build("resnet20", images(16), hidden=1)
    count = sum(one.numel() for one in module.parameters())
    dropped = with_dropout(module, 0.3)
    assert sum(isinstance(one, nn.Dropout) for one in dropped.modules()) == 9
    assert sum(one.numel() for one in dropped.parameters()) == count
    x = torch.rand(2, 3, 16, 16)
    assert not torch.equal(dropped(x), dropped(x))
    dropped.eval()
    assert torch.equal(dropped(x), dropped(x))
    dense = with_dropout(models.build("mlp3", images(16), hidden=4), 0.3)
    assert sum(isinstance(one, nn.Dropout) for one in dense.modules()) == 2


@needs_data
def test_a_private_resnet_takes_steps_on_cifar() -> None:
    data = SOURCES["cifar10"].load({"path": str(DATA), "limit": 64})
    knobs: dict[str, Scalar] = {
        "model": "resnet20",
        "learning_rate": 0.1,
        "clip_norm": 1.0,
        "batch_size": 16,
        "epochs": 0.75,
    }
    plan = NOISY_SGD.plan(knobs, data.facts, PrivacyTarget(epsilon=8.0, delta=1e-3), {})
    assert isinstance(plan, PrivacyPlan)
    run = memory_run(plan)
    NOISY_SGD.fit([run], data, RunSettings(microbatch=16))
    step, state, metrics = run.final
    assert step == plan.steps == 3
    assert 0 <= metrics["accuracy"] <= 1
    assert all(bool(torch.isfinite(torch.from_numpy(one)).all()) for one in state.values())

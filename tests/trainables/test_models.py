"""Models: shapes and sizes as published, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from dpcore.checks import InvalidValue
from tests.trainables.recording import memory_run
from trainables import models
from trainables.data import SOURCES
from trainables.system import DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Task
from trainables.systems.noisy_sgd import NOISY_SGD


def facts(features: dict[str, InputSpec], classes: int = 10, task: Task = Task.CLASSIFICATION) -> DatasetSpec:
    return DatasetSpec(
        dataset="public",
        task=task,
        n=100,
        n_validation=0,
        features=features,
        classes=classes if task is not Task.REGRESSION else None,
    )


DIGITS = SOURCES["digits"].facts({})
IMAGE = facts({"image": InputSpec(shape=(28, 28))})
TEXT = facts({"words": InputSpec(shape=(256,), cardinality=10_000)}, classes=2)
PAIR = facts(
    {"user": InputSpec(shape=(), cardinality=6040), "movie": InputSpec(shape=(), cardinality=3952)}, 5, Task.RATING
)
ITEM = facts({"movie": InputSpec(shape=(), cardinality=3952)}, 5, Task.RATING)
PERSON = facts({"person": InputSpec(shape=(123,))}, classes=2)


@pytest.mark.parametrize(
    ("model", "data", "hidden", "weights"),
    [
        # TensorFlow Privacy's MNIST tutorial: 16*64+16 + 32*16*16+32 + 512*32+32 + 32*10+10
        ("cnn", IMAGE, 1, 26_010),
        # Bu et al. 2020: 16 units on 123 features; 10,000 words of 16 units; factors 5 and 10
        ("mlp", PERSON, 16, 123 * 16 + 16 + 16 * 2 + 2),
        ("embedding-pool", TEXT, 16, 160_000 + 16 * 16 + 16 + 16 * 2 + 2),
        ("two-branch", PAIR, 1, (6040 + 3952) * 15 + 25 * 5 + 5),
        ("item-table", ITEM, 1, 3952 * 5 + 5),
        ("linear", IMAGE, 1, 7850),
        ("mlp", facts({"x": InputSpec(shape=(3,))}, task=Task.REGRESSION), 4, 3 * 4 + 4 + 4 + 1),
    ],
)
def test_sizes_are_the_published_ones(model: str, data: DatasetSpec, hidden: int, weights: int) -> None:
    module = models.build(model, data, hidden=hidden)
    assert sum(parameter.numel() for parameter in module.parameters()) == weights
    inputs = [
        torch.zeros(3, *feature.shape, dtype=torch.float32 if feature.cardinality is None else torch.int64)
        for feature in data.features.values()
    ]
    assert module(*inputs).shape == (3, models.registry.outputs(data))


def test_initial_weights_have_the_scale_of_keras() -> None:
    torch.manual_seed(0)
    module = models.build("two-branch", PAIR, hidden=1)
    embedding = module.user_plain.weight.detach()
    assert float(embedding.abs().max()) <= 0.05
    # Uniform on +-a has standard deviation a / sqrt(3); 60,400 draws, 1% is 5 standard errors.
    assert float(embedding.std()) == pytest.approx(0.05 / 3**0.5, rel=0.01)
    dense = models.build("linear", IMAGE, hidden=1)
    assert float(dense.body.weight.detach().abs().max()) <= (6 / (784 + 10)) ** 0.5
    assert not dense.body.bias.any()


@pytest.mark.parametrize(
    ("model", "data", "reason"),
    [
        ("cnn", PERSON, "one image"),
        ("cnn", DIGITS, "at least 16 x 16"),
        ("mlp", TEXT, "category codes"),
        ("embedding-pool", IMAGE, "sequence"),
        ("two-branch", TEXT, "two inputs"),
        ("item-table", PAIR, "one code"),
        ("resnet", IMAGE, "package.module:function"),
        ("tests.trainables.nowhere:net", DIGITS, "was not found"),
        ("tests.trainables.user_models:nothing", DIGITS, "a function nothing"),
        ("tests.trainables.user_models:not_callable", DIGITS, "a function not_callable"),
        ("tests.trainables.user_models:no_module", DIGITS, "torch.nn.Module"),
        ("tests.trainables.user_models:batch_normalised", DIGITS, "GroupNorm"),
        (
            "tests.trainables.user_models:raises",
            DIGITS,
            "it raised RuntimeError: no such weights .user_models.py, line",
        ),
    ],
)
def test_what_cannot_serve_is_refused_before_a_record_is_read(model: str, data: DatasetSpec, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        models.check(model, data)
    assert caught.value.name == "model"


def test_a_user_model_trains() -> None:
    data = SOURCES["digits"].load({})
    knobs = {
        "model": "tests.trainables.user_models:grouped",
        "learning_rate": 1.0,
        "clip_norm": 1.0,
        "batch_size": 256,
        "epochs": 10.0,
    }
    plan = NOISY_SGD.plan(knobs, data.facts, PrivacyTarget(epsilon=8.0, delta=1e-4), {})
    assert isinstance(plan, PrivacyPlan)
    run = memory_run(plan)
    NOISY_SGD.fit([run], data, RunSettings())
    assert run.final[2]["accuracy"] > 0.5


def test_planning_does_not_import_torch() -> None:
    code = (
        "import sys; from trainables.registry import SYSTEMS; from trainables.data import SOURCES;"
        "from trainables.system import PrivacyTarget;"
        "SYSTEMS['noisy-sgd'].plan({'learning_rate': 1., 'clip_norm': 1., 'batch_size': 64, 'epochs': 1.},"
        "SOURCES['digits'].facts({}), PrivacyTarget(epsilon=1., delta=1e-4), {});"
        "print([name for name in ('torch', 'sklearn', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

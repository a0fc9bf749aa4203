"""Models: shapes and sizes as published, and what is refused."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from dpcore.checks import InvalidValue
from dpcore.gradients import PrivateGradients, Route
from tests.dpcore import gradient_oracle as oracle
from tests.trainables.recording import blobs, facts_of
from trainables import models
from trainables.data import SOURCES
from trainables.models.networks import with_dropout
from trainables.system import DatasetSpec, InputSpec, RunSettings, Task
from trainables.systems import vandermaaten2020 as voters
from trainables.systems.vandermaaten2020 import MemberHyperparameters


def facts(features: dict[str, InputSpec], classes: int | None = 10, task: Task = Task.CLASSIFICATION) -> DatasetSpec:
    return facts_of(features=features, task=task, classes=classes)


DIGITS = SOURCES["digits"].facts({})
IMAGE = facts({"image": InputSpec(shape=(28, 28))})
TEXT = facts({"words": InputSpec(shape=(256,), cardinality=10_000)}, classes=2)
PAIR = facts(
    {"user": InputSpec(shape=(), cardinality=6040), "movie": InputSpec(shape=(), cardinality=3952)}, 5, Task.RATING
)
ITEM = facts({"movie": InputSpec(shape=(), cardinality=3952)}, 5, Task.RATING)
PERSON = facts({"person": InputSpec(shape=(123,))}, classes=2)
SMALL, COLOURS = (facts({"image": InputSpec(shape=(3, side, side))}) for side in (16, 32))


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
        # He et al. 2016: 0.27 million; the exact count of their CIFAR-10 net without its unused shortcuts.
        ("resnet20", COLOURS, 1, 269_722),
        # torchvision's ResNet-18 with 10 outputs; GroupNorm has as many weights as BatchNorm.
        ("resnet18", COLOURS, 1, 11_181_642),
        ("resnet18", IMAGE, 1, 11_181_642 - 2 * 64 * 49),
        ("mlp", facts({"x": InputSpec(shape=(3,))}, None, Task.REGRESSION), 4, 3 * 4 + 4 + 4 + 1),
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
        ("tests.trainables.broken_models:nothing", DIGITS, "a function nothing"),
        ("tests.trainables.broken_models:not_callable", DIGITS, "a function not_callable"),
        ("tests.trainables.broken_models:no_module", DIGITS, "torch.nn.Module"),
        ("tests.trainables.broken_models:batch_normalised", DIGITS, "GroupNorm"),
        (
            "tests.trainables.broken_models:raises",
            DIGITS,
            "it raised RuntimeError: no such weights .broken_models.py, line",
        ),
    ],
)
def test_what_cannot_serve_is_refused_before_a_record_is_read(model: str, data: DatasetSpec, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        models.check(model, data)
    assert caught.value.name == "model"


# Residual nets with GroupNorm.


@pytest.mark.parametrize("model", ["resnet20", "resnet18"])
def test_one_pass_gives_every_records_own_gradient(model: str) -> None:
    """Norms from inputs and output gradients of Conv2d, GroupNorm and Linear against one backward pass a record."""
    torch.manual_seed(5)
    facts = SMALL
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
    module = models.build("resnet20", SMALL, hidden=1)
    count = sum(one.numel() for one in module.parameters())
    dropped = with_dropout(module, 0.3)
    assert sum(isinstance(one, nn.Dropout) for one in dropped.modules()) == 9
    assert sum(one.numel() for one in dropped.parameters()) == count
    x = torch.rand(2, 3, 16, 16)
    assert not torch.equal(dropped(x), dropped(x))
    dropped.eval()
    assert torch.equal(dropped(x), dropped(x))
    dense = with_dropout(models.build("mlp3", SMALL, hidden=4), 0.3)
    assert sum(isinstance(one, nn.Dropout) for one in dense.modules()) == 2


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


# Models that are trained in one process, one after the other: none goes on from what another saw.


DATA = blobs(40, 30, classes=3, seed=0)
NETWORK = {"hidden": 8, "epochs": 60, "learning_rate": 0.3, "batch_size": 8}
CPU = torch.device("cpu")

MODULE = """
import numpy as np
import torch
from torch import nn

BACKBONE = nn.Linear(4, 4)
FROZEN = nn.Linear(4, 4).requires_grad_(False)
SCALE = torch.ones(4)


def backbone(facts):
    return nn.Sequential(BACKBONE, nn.Linear(4, 3))


def memory(facts):
    return nn.Sequential(nn.Linear(4, 3), nn.ParameterList([nn.Parameter(SCALE)]))


def frozen(facts):
    return nn.Sequential(FROZEN, nn.Linear(4, 3))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x * torch.rand_like(x) * np.random.rand())


def dropping(facts):
    return Dropping()


class Failing(nn.Linear):
    def forward(self, x):
        if self.training and (x == 7).any():
            raise ValueError("seven")
        return super().forward(x)


def failing(facts):
    return Failing(4, 3)
"""


@pytest.fixture(autouse=True)
def lab(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "members_lab", raising=False)
    (tmp_path / "members_lab.py").write_text(MODULE)


@pytest.mark.parametrize(("name", "tensor"), [("backbone", "0.weight"), ("memory", "1.0")])
def test_a_model_that_hands_out_what_it_trained_before_is_refused(name, tensor):
    """A second trial began with the first one's weights, a second member with those of the records before it."""
    with pytest.raises(InvalidValue, match=f"anew at each call: '{tensor}' is the same tensor"):
        models.check(f"members_lab:{name}", DATA.facts)


def test_what_is_never_trained_may_be_shared():
    models.check("members_lab:frozen", DATA.facts)


def member(model, number):
    knobs = MemberHyperparameters(
        regularisation=0.01, clip_norm=1.0, bias=False, models=4, model=f"members_lab:{model}", **NETWORK
    )
    return voters._network(knobs, DATA, np.arange(10), number, CPU)


def coins():
    return torch.rand(1).item(), np.random.rand(), random.random()  # noqa: NPY002


def test_a_member_draws_what_it_would_draw_alone():
    found = []
    for _ in range(2):
        coins()
        found.append(member("dropping", 1))
    assert np.array_equal(*found)


def test_outside_of_members_nothing_is_drawn():
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    after = coins()
    torch.set_rng_state(states[0])
    np.random.set_state(states[1])  # noqa: NPY002
    random.setstate(states[2])
    member("dropping", 1)
    assert coins() == after


def test_a_member_that_its_records_made_fail_knows_nothing():
    """That the trial failed told of a single record."""
    knobs = MemberHyperparameters(
        regularisation=0.01, clip_norm=1.0, bias=False, models=4, model="members_lab:failing", **NETWORK
    )
    before = voters.winners(knobs, DATA, RunSettings())
    values = DATA.train.inputs["x"].copy()
    values[voters.parts_of(40, 4, seed=0)[2][0], 0] = 7
    changed = replace(DATA, train=replace(DATA.train, inputs={"x": values}))
    after = voters.winners(knobs, changed, RunSettings())
    assert not after[2].any()
    assert np.array_equal(np.delete(after, 2, 0), np.delete(before, 2, 0))
    values[:, 0] = 7
    with pytest.raises(ValueError, match="seven"):
        voters.winners(knobs, changed, RunSettings())

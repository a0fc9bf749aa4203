"""Models that are trained in one process, one after the other: none goes on from what another saw."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpcore.checks import InvalidValue
from tests.trainables.recording import blobs
from trainables import models
from trainables.system import RunSettings
from trainables.systems import vandermaaten2020 as voters
from trainables.systems.vandermaaten2020 import MemberHyperparameters

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

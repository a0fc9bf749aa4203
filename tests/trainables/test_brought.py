"""What a model brings that no seed draws: told by a few numbers, and never put beside the training of another."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from dpcore.checks import InvalidValue
from tests.trainables.recording import memory_run
from trainables import models
from trainables.data import SOURCES
from trainables.models import sketch
from trainables.models.brought import brought, kept, moved
from trainables.registry import SYSTEMS
from trainables.system import PrivacyTarget, RunSettings

SYSTEM = SYSTEMS["noisy-sgd"]
DIGITS = SOURCES["digits"].load({"limit": 100})
MODULE = """
from pathlib import Path

import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.register_buffer("weights", weights, persistent=False)
        self.last = nn.Linear(4, 10)

    def forward(self, image):
        return self.last(torch.relu(image.flatten(1) @ self.weights))


def loaded(facts):
    return Net(torch.from_numpy(np.load(Path(__file__).parent / "weights.npy")))


def drawn_elsewhere(facts):
    return Net(torch.from_numpy(np.random.default_rng().standard_normal((64, 4)).astype("f4")))
"""


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A module of one file, `lab_net`, and the weights that it loads."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "lab_net", raising=False)
    (tmp_path / "lab_net.py").write_text(MODULE)
    weights = np.random.default_rng(0).standard_normal((64, 4)).astype("f4")
    np.save(tmp_path / "weights.npy", weights)
    return tmp_path / "weights.npy"


def plan(model="lab_net:loaded"):
    knobs = {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1.0, "noise_multiplier": 1.0}
    return SYSTEM.plan(
        {**knobs, "model": model}, DIGITS.facts, PrivacyTarget(epsilon=1e6, delta=1e-5, solve="none"), {}
    )


def trained(to_step=None):
    run = memory_run(plan(), to_step=to_step)
    SYSTEM.fit([run], DIGITS, RunSettings())
    return run


def another(weights, share=1e-3):
    rng, held = np.random.default_rng(1), np.load(weights)
    change = rng.standard_normal(held.shape).astype("f4")
    np.save(weights, held + share * change * np.linalg.norm(held) / np.linalg.norm(change))


def test_parts_that_no_seed_makes_again_are_refused_before_anything_runs(lab):
    models.check("lab_net:loaded", DIGITS.facts)
    with pytest.raises(InvalidValue, match="Draw them from torch's generator"):
        models.check("lab_net:drawn_elsewhere", DIGITS.facts)


def test_what_is_brought_is_what_no_seed_draws(lab):
    def found():
        return json.dumps(brought(["lab_net:loaded"], DIGITS.facts))

    text = found()
    [(name, [tensors, numbers, *_])] = json.loads(text).items()
    assert (name, tensors, numbers) == ("lab_net:loaded", 1, 64 * 4)
    np.save(lab, np.load(lab) * np.float32(1 + 1e-7))
    same = found()
    assert moved(text, same) == []
    assert kept(text, same) == text
    another(lab)
    assert moved(text, found()) == ["lab_net:loaded"]
    assert moved(text, "{}") == []


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 300_000),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64]),
)
def test_a_sketch_tells_other_numbers_and_other_lengths(n, seed, kind):
    rng = np.random.default_rng(seed)
    values = torch.from_numpy(10 ** rng.uniform(-3, 3) * rng.standard_normal(n) + 1).to(kind)
    one = sketch.sketch({"a": values})
    assert sketch.alike(one, sketch.sketch({"a": values.clone()}))
    if kind.is_floating_point and kind is not torch.bfloat16:
        # Last digits: as another machine would have them.
        assert sketch.alike(one, sketch.sketch({"a": values * (1 + 1e-7 * torch.randn(n))}))
    changed = values.clone()
    changed[int(rng.integers(n))] += 1 + abs(changed).max().to(kind)
    assert n > 1000 or not sketch.alike(one, sketch.sketch({"a": changed}))
    assert not sketch.alike(one, sketch.sketch({"a": values, "b": torch.zeros(3)}))
    assert not sketch.alike(one, sketch.sketch({"b": values}))
    if kind is not torch.int64:
        assert not sketch.alike(one, sketch.sketch({"a": values * 1.01}))


def test_every_tensor_that_is_not_trained_is_looked_at():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.trained, self.frozen = nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)
            self.register_buffer("kept", torch.ones(1))
            self.register_buffer("unkept", torch.ones(1), persistent=False)

    assert sketch.untrained(Net()).keys() == {"frozen.weight", "frozen.bias", "kept", "unkept"}

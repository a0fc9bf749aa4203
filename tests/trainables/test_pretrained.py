"""Weights that a model loads are known by a digest; what neither a seed nor a checkpoint makes again is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from dpcore.checks import InvalidValue
from trainables import models
from trainables.data import SOURCES
from trainables.models.pretrained import digest, pretrained_fingerprint

DIGITS = SOURCES["digits"].facts({"limit": 100})
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


def another(weights, share=1e-3):
    rng, held = np.random.default_rng(1), np.load(weights)
    change = rng.standard_normal(held.shape).astype("f4")
    np.save(weights, held + share * change * np.linalg.norm(held) / np.linalg.norm(change))


def test_parts_that_no_seed_makes_again_are_refused_before_anything_runs(lab):
    models.check("lab_net:loaded", DIGITS)
    with pytest.raises(InvalidValue, match="Draw them from torch's generator"):
        models.check("lab_net:drawn_elsewhere", DIGITS)


def fingerprint():
    return pretrained_fingerprint(partial(models.build, "lab_net:loaded", DIGITS, hidden=1))


def test_the_fingerprint_is_of_what_no_seed_draws(lab):
    loaded = torch.from_numpy(np.load(lab))
    assert fingerprint() == digest({"weights": loaded})
    another(lab)
    assert fingerprint() != digest({"weights": loaded})


KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(), (3, 5)], ids=str)
def test_a_digest_tells_other_values_names_types_and_shapes(kind, shape):
    values = torch.ones(shape).to(kind)
    changed = values.clone()
    changed[(-1,) * len(shape)] = 0
    kept = digest({"a": values, "b": values})
    assert kept == digest({"b": values.clone(), "a": values.clone()})
    others = [{"a": changed, "b": values}, {"a": values}, {"a": values, "c": values}]
    others += [{"a": values.reshape(1, -1), "b": values}, {"a": values.to(torch.complex128), "b": values}]
    assert len({kept, *map(digest, others)}) == 6

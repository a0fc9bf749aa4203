"""Gradients of single records at released weights, against the closed form of a linear model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from dpcore.events import Adjacency
from tests.trainables.recording import blobs, memory_run
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan, PrivacyTarget, RunSettings
from trainables.training import released as module
from trainables.training.released import record_gradients


def test_a_linear_model_has_the_gradients_of_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-entropy of a linear layer: (p - onehot) x^T for the weights, p - onehot for the bias, record by record."""
    data, system = blobs(60, 40), SYSTEMS["noisy-sgd"]
    knobs = {"model": "linear", "batch_size": 20, "epochs": 1.0, "learning_rate": 0.5, "clip_norm": 1.0}
    target = PrivacyTarget(epsilon=2.0, delta=1e-3, adjacency=Adjacency.ADD_REMOVE)
    plan = system.plan(knobs, data.facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    run = memory_run(plan)
    system.fit([run], data, RunSettings())
    _, state, _ = run.final
    # Blocks end within the rows.
    monkeypatch.setattr(module, "BLOCK", 3)
    rows = np.array([7, 0, 39, 5, 12])
    found = record_gradients(plan, data, data.validation, state, rows)
    weights, bias = (next(one for name, one in state.items() if name.endswith(end)) for end in (".weight", ".bias"))
    x, y = data.validation.inputs["x"][rows], data.validation.targets[rows]
    error = softmax(x @ weights.T + bias, axis=1) - np.eye(2)[y]
    expected = np.concatenate([(error[:, :, None] * x[:, None, :]).reshape(5, -1), error], axis=1)
    assert found.shape == (5, 10)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)

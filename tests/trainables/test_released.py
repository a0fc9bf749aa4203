"""Whoever scores a record asks the released model, with the weights that it drew once and never trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from dpcore.events import Adjacency
from tests.trainables.recording import blobs, memory_run
from tests.trainables.registry_cases import CANDIDATES
from trainables.hooks import Scored
from trainables.registry import SYSTEMS
from trainables.system import PrivacyTarget, RunSettings
from trainables.team import device_named
from trainables.training import released
from trainables.training import released as module
from trainables.training.private_sgd import initial_model
from trainables.training.released import record_gradients

torch.set_num_threads(1)
FEATURES = "tests.trainables.broken_models:random_features"
RELEASING = [
    name
    for name, system in SYSTEMS.items()
    if isinstance(system, Scored) and any(one.name == "model" for one in system.hyperparameters)
]


@pytest.mark.parametrize("name", RELEASING)
def test_scores_are_those_of_the_released_model(name):
    """The mean loss of the validation records: as the trial reported it, and as its scores have it."""
    candidate, system = CANDIDATES[name], SYSTEMS[name]
    plan, data = candidate.planned({"model": FEATURES}), candidate.records
    _, state, metrics = candidate.run(plan, seed=5).final
    torch.manual_seed(99)
    scores = system.membership_scores(plan, data.facts, state, data.validation)
    assert -float(scores.mean()) == pytest.approx(metrics.get("last_loss", metrics["loss"]), rel=1e-4)


def test_the_rebuilt_model_has_every_tensor_of_the_trained_one():
    candidate = CANDIDATES["noisy-sgd"]
    plan, data = candidate.planned({"model": FEATURES}), candidate.records
    run = candidate.run(plan, seed=8)
    model, start = (
        released.released_model(plan, data.facts, run.final[1]),
        initial_model(run, data, device_named("cpu")),
    )
    assert torch.equal(model[1].weight, start[1].weight)
    assert np.array_equal(model[3].weight.detach().numpy(), run.final[1]["parameter.3.weight"])
    assert not torch.equal(model[3].weight, start[3].weight)
    state = {name: one for name, one in run.final[1].items() if name != released.MODEL_SEED}
    with pytest.raises(ValueError, match="no state of a trained model"):
        released.released_model(plan, data.facts, state)


# Gradients of single records at released weights, against the closed form of a linear model.


def test_a_linear_model_has_the_gradients_of_its_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-entropy of a linear layer: (p - onehot) x^T for the weights, p - onehot for the bias, record by record."""
    data, system = blobs(60, 40), SYSTEMS["noisy-sgd"]
    knobs = {"model": "linear", "batch_size": 20, "epochs": 1.0, "learning_rate": 0.5, "clip_norm": 1.0}
    target = PrivacyTarget(epsilon=2.0, delta=1e-3, adjacency=Adjacency.ADD_REMOVE)
    plan = system.plan(knobs, data.facts, target, {})
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

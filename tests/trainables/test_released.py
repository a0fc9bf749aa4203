"""Whoever scores a record asks the released model, with the weights that it drew once and never trained."""

import numpy as np
import pytest
import torch

from tests.trainables.registry_cases import CANDIDATES
from trainables.hooks import Scored
from trainables.registry import SYSTEMS
from trainables.team import device_named
from trainables.training import released
from trainables.training.private_sgd import initial_model

torch.set_num_threads(1)
FEATURES = "tests.trainables.user_models:random_features"
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

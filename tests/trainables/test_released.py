"""Whoever scores a record asks the released model, with the weights that it drew once and never trained."""

import numpy as np
import pytest
import torch

from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.hooks import Scored
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan, PrivacyTarget, RunSettings, Scalar
from trainables.team import device_named
from trainables.training import released

torch.set_num_threads(1)
DIGITS = SOURCES["digits"].load({"limit": 200})
FEATURES = "tests.trainables.user_models:random_features"

_NOISY: dict[str, Scalar] = {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 40, "epochs": 2.0}
_WU: dict[str, Scalar] = {"batch_size": 40, "epochs": 2, "halve_every": 1}
KNOBS: dict[str, dict[str, Scalar]] = {
    "noisy-sgd": {**_NOISY, "noise_multiplier": 1.0},
    "noisy-adam": {**_NOISY, "learning_rate": 0.01, "noise_multiplier": 1.0},
    "clipped-sgld": {**_WU, "step_size": 1e-4, "noise_multiplier": 1.0},
    "dp-sgld": {**_WU, "step_size": 1e-4, "clip_norm": 1.0},
    "sgd": {**_WU, "learning_rate": 0.1},
    "rmsprop": {**_WU, "learning_rate": 0.01},
    "dropout": {**_WU, "learning_rate": 0.1},
    "sgld": {**_WU, "step_size": 1e-5},
    "psgld": {**_WU, "step_size": 1e-5},
    "sghmc": {**_WU, "step_size": 1e-5},
    "bayesian-sgd": {**_NOISY, "noise_multiplier": 2.0},
    "average-case-sgd": {**_NOISY, "noise_multiplier": 2.0},
}


def planned(name: str) -> PrivacyPlan:
    delta = 1e-10 if name == "average-case-sgd" else 1e-5
    target = PrivacyTarget(epsilon=1e6 if delta > 1e-10 else 3.0, delta=delta, solve="none")
    plan = SYSTEMS[name].plan({**KNOBS[name], "model": FEATURES}, DIGITS.facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def test_every_system_that_releases_a_model_is_asked():
    takes_models = {
        name
        for name, system in SYSTEMS.items()
        if isinstance(system, Scored) and any(one.name == "model" for one in system.hyperparameters)
    }
    assert takes_models == set(KNOBS)


def loss_of_scores(name: str) -> tuple[float, float]:
    """The mean loss of the validation records: as the trial reported it, and as its scores have it."""
    plan, system = planned(name), SYSTEMS[name]
    run = memory_run(plan, seed=5)
    system.fit([run], DIGITS, RunSettings())
    _, state, metrics = run.final
    assert isinstance(system, Scored)
    torch.manual_seed(99)
    scores = system.membership_scores(plan, DIGITS.facts, state, DIGITS.validation)
    return metrics.get("last_loss", metrics["loss"]), -float(scores.mean())


@pytest.mark.parametrize("name", KNOBS)
def test_scores_are_those_of_the_released_model(name):
    reported, scored = loss_of_scores(name)
    assert scored == pytest.approx(reported, rel=1e-4)


def test_a_state_without_its_origin_is_refused():
    plan = planned("noisy-sgd")
    run = memory_run(plan)
    SYSTEMS["noisy-sgd"].fit([run], DIGITS, RunSettings())
    state = {name: one for name, one in run.final[1].items() if name != released.MODEL_SEED}
    with pytest.raises(ValueError, match="no state of a trained model"):
        released.released_model(plan, DIGITS.facts, state)


def test_the_rebuilt_model_has_every_tensor_of_the_trained_one():
    plan = planned("noisy-sgd")
    run = memory_run(plan, seed=8)
    SYSTEMS["noisy-sgd"].fit([run], DIGITS, RunSettings())
    model = released.released_model(plan, DIGITS.facts, run.final[1])
    from trainables.training.private_sgd import initial_model

    start = initial_model(run, DIGITS, device_named("cpu"))
    assert torch.equal(model[1].weight, start[1].weight)
    assert np.array_equal(model[3].weight.detach().numpy(), run.final[1]["parameter.3.weight"])
    assert not torch.equal(model[3].weight, start[3].weight)

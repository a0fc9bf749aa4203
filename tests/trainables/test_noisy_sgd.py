"""NoisySGD and NoisyAdam: the law of one update, checkpoints, and what must be refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpcore.gradients import clipped as releases
from tests.trainables.noisy_sgd_cases import BOTH, TARGET, config, fitted, given_noise, planned, tiny
from tests.trainables.recording import memory_run
from trainables.hyperparameters import read
from trainables.system import Dataset, PrivacyPlan, Split
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD, NoisyAdamHyperparameters, NoisyOptimiser
from trainables.training import private_sgd


def test_the_divisor_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one record less present, rate and divisor stay those of the declared n."""
    data = tiny()
    fewer = replace(data, train=Split(inputs={"x": data.train.inputs["x"][:-1]}, targets=data.train.targets[:-1]))
    seen = []
    real = releases.noisy_mean_gradient

    def watched(clipped, *, expected_batch_size, **rest):  # type: ignore[no-untyped-def]
        seen.append(expected_batch_size)
        return real(clipped, expected_batch_size=expected_batch_size, **rest)

    monkeypatch.setattr(releases, "noisy_mean_gradient", watched)
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=1)
    fitted(NOISY_SGD, plan, fewer)
    assert set(seen) == {20.0}
    assert len(seen) == plan.steps == 10


def test_the_sampler_issues_what_the_plan_counted() -> None:
    """What runs is the plan's own mechanism, whatever its configuration says."""
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    again = PrivacyPlan.from_dict(plan.to_dict())
    elsewhere = replace(plan, config={**plan.config, "batch_size": 40, "noise_multiplier": 9.0, "clip_norm": 3.0})
    ends = [fitted(NOISY_SGD, one, data).final[1] for one in (plan, again, elsewhere)]
    for name, array in ends[0].items():
        assert all(np.array_equal(array, other[name]) for other in ends[1:])


# Learning, checkpoints, resuming


@BOTH
def test_digits_are_learned(system: NoisyOptimiser, digits: Dataset) -> None:
    rate = 1.0 if system is NOISY_SGD else 0.01
    plan = planned(system, digits.facts, replace(TARGET, epsilon=8.0), learning_rate=rate, epochs=15.0, hidden=64)
    step, _, metrics = fitted(system, plan, digits).final
    assert step == plan.steps
    # 0.92-0.94 measured over seeds 0-4.
    assert metrics["accuracy"] > 0.8
    assert metrics["loss"] < 1.0
    assert "rmse" not in metrics


def adam_by_hand(gradients: list[float], learning_rate: float, corrected: bool) -> float:
    """Algorithm 2 in scalars, xi outside the root; corrected as Kingma & Ba 2015, end of section 2."""
    theta = m = u = 0.0
    for t, g in enumerate(gradients, 1):
        m = 0.9 * m + 0.1 * g
        u = 0.999 * u + 0.001 * g * g
        rate = learning_rate * (math.sqrt(1 - 0.999**t) / (1 - 0.9**t) if corrected else 1.0)
        theta -= rate * m / (math.sqrt(u) + 1e-8)
    return theta


@pytest.mark.parametrize("corrected", [False, True])
def test_adam_is_the_published_one(corrected: bool) -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    given = config(learning_rate=0.1, noise_multiplier=1.0, beta1=0.9, bias_correction=corrected)
    adam = NOISY_ADAM.optimiser(read(NoisyAdamHyperparameters, given), 4)(model)
    gradients = [0.3, -1.2, 0.5, 2.0]
    for number, g in enumerate(gradients):
        adam.update({"weight": torch.tensor([[g]])}, number)
    # float32 arithmetic against float64
    assert float(model.weight.detach()) == pytest.approx(adam_by_hand(gradients, 0.1, corrected), rel=1e-5)


def test_checkpoints_of_another_model_are_refused() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    with pytest.raises(ValueError, match="another model"):
        fitted(NOISY_SGD, plan, data, from_step=1, state={"parameter.other": np.zeros(3)})


def test_initial_weights_depend_on_the_public_seed_alone() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    before = torch.get_rng_state()
    weights = [
        private_sgd.initial_model(
            memory_run(plan, seed=seed, attempt=attempt, secret=secret), data, torch.device("cpu")
        )
        for seed, attempt, secret in ((0, 1, b"s" * 32), (0, 2, b"t" * 32), (1, 1, b"s" * 32))
    ]
    first, same, other = (model.state_dict()["body.0.weight"] for model in weights)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())

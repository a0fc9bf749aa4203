"""NoisySGD and NoisyAdam: the law of one update, checkpoints, and what must be refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore.gradients import clipped as releases
from dpcore.sampling import PoissonSampling
from tests.trainables.noisy_sgd_cases import BOTH, TARGET, config, fitted, given_noise, parameters, planned, tiny
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.hyperparameters import read
from trainables.system import Dataset, PrivacyPlan, RunSettings, Split
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD, NoisyAdamHyperparameters, NoisyOptimiser
from trainables.training import private_sgd
from trainables.training.released import with_seed


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return SOURCES["digits"].load({})


def noise_after_one_step(plan: PrivacyPlan, data: Dataset) -> np.ndarray:
    """Difference of two runs that share weights and batches' law but not noise, where gradients are negligible."""
    moved = []
    for attempt in (1, 2):
        _, state, _ = fitted(NOISY_SGD, plan, data, attempt=attempt, to_step=1).final
        moved.append(parameters(state))
    return moved[0] - moved[1]


@pytest.mark.parametrize("factor", [1.0, pytest.param(1.05, marks=pytest.mark.xfail(strict=True, reason="mutant"))])
def test_noise_of_one_update_has_the_planned_scale(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """eta s R / (q n) per coordinate, by a chi-square test at level 1e-4; the mutant adds 5% too much."""
    data = tiny()
    real = releases.noisy_mean_gradient
    monkeypatch.setattr(
        releases,
        "noisy_mean_gradient",
        lambda clipped, *, noise_multiplier, **rest: real(clipped, noise_multiplier=noise_multiplier * factor, **rest),
    )
    # With noise of 1000 clip norms the gradients of 8 records are below 1% of one standard deviation.
    plan = given_noise(NOISY_SGD, data.facts, 1000.0, batch_size=8, clip_norm=0.7, hidden=2000)
    difference = noise_after_one_step(plan, data)
    sigma = math.sqrt(2) * 0.5 * 1000.0 * 0.7 / 8
    statistic = float(np.sum((difference / sigma) ** 2))
    low, high = stats.chi2.ppf([5e-5, 1 - 5e-5], df=len(difference))
    assert low < statistic < high


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


def test_empty_batches_add_noise_and_count() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=1, epochs=0.5)
    # Rate 1/200: a batch is empty with probability 0.37; 100 steps without one have probability 1e-20.
    sizes = []
    real = PoissonSampling.indices

    def watched(sampling, n, rng):  # type: ignore[no-untyped-def]
        rows = real(sampling, n, rng)
        sizes.append(len(rows))
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PoissonSampling, "indices", watched)
        run = fitted(NOISY_SGD, plan, data)
    assert len(sizes) == plan.steps == run.final[0] == 100
    empty = sizes.count(0)
    assert 0 < empty < 100
    # The first empty batch moves (nearly) every weight, by noise alone.
    position = sizes.index(0)
    _, before, _ = fitted(NOISY_SGD, plan, data, to_step=position).final if position else (0, None, {})
    assert before is not None, "the fixed seed begins with an empty batch: choose another secret"
    _, after, _ = fitted(NOISY_SGD, plan, data, to_step=position + 1).final
    assert (parameters(after) != parameters(before)).mean() > 0.99


@BOTH
def test_one_broken_record_neither_poisons_nor_shows(system: NoisyOptimiser) -> None:
    data = tiny(nan=True)
    plan = given_noise(system, data.facts, 0.5, batch_size=100, epochs=10)
    _, state, metrics = fitted(system, plan, data).final
    assert np.isfinite(parameters(state)).all()
    assert math.isfinite(metrics["loss"])


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


@BOTH
def test_every_state_array_is_restored(system: NoisyOptimiser) -> None:
    """A resumed run starts from exactly the arrays of the checkpoint: it writes the same ones back after 0 steps."""
    data = tiny()
    plan = given_noise(system, data.facts, 1.0, batch_size=20, epochs=3)
    step, state, _ = fitted(system, plan, data, to_step=10).final
    run = memory_run(plan, from_step=step, state=state, attempt=2)
    rebuilt = private_sgd.initial_model(run, data, torch.device("cpu"))
    optimiser = system.optimiser(read(system.params, plan.config), plan.steps)(rebuilt)
    optimiser.restore(state)
    again = with_seed(optimiser.state(), run)
    assert again.keys() == state.keys()
    assert all(np.array_equal(again[name], state[name]) for name in state)
    prefixes = {name.split(".")[0] for name in state}
    assert prefixes == (
        {"parameter", "model"} if system is NOISY_SGD else {"parameter", "model", "mean", "square", "steps"}
    )
    resumed = fitted(system, plan, data, from_step=step, state=state, attempt=2)
    assert resumed.final[0] == plan.steps


def test_a_resumed_attempt_draws_new_noise() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=3)
    step, state, _ = fitted(NOISY_SGD, plan, data, to_step=10).final
    ends = [
        parameters(fitted(NOISY_SGD, plan, data, from_step=step, state=state, attempt=attempt, to_step=11).final[1])
        for attempt in (2, 3)
    ]
    assert not np.array_equal(*ends)
    again = fitted(NOISY_SGD, plan, data, from_step=step, state=state, attempt=2, to_step=11)
    assert np.array_equal(parameters(again.final[1]), ends[0])


def test_a_broken_and_resumed_run_has_the_law_of_an_unbroken_one() -> None:
    """The final weight of a noise-dominated run, broken at half or not: two-sample Kolmogorov-Smirnov, level 1e-3."""
    data = tiny(n=20)
    plan = given_noise(NOISY_ADAM, data.facts, 2.0, batch_size=5, epochs=5, model="linear", learning_rate=0.05)

    def final(seed: int, broken: bool) -> float:
        secret = seed.to_bytes(32, "big")
        if not broken:
            return float(parameters(fitted(NOISY_ADAM, plan, data, secret=secret).final[1])[0])
        step, state, _ = fitted(NOISY_ADAM, plan, data, secret=secret, to_step=plan.steps // 2).final
        resumed = fitted(NOISY_ADAM, plan, data, secret=secret, from_step=step, state=state, attempt=2)
        return float(parameters(resumed.final[1])[0])

    whole = [final(seed, False) for seed in range(1, 41)]
    broken = [final(seed, True) for seed in range(1001, 1041)]
    assert stats.ks_2samp(whole, broken).pvalue > 1e-3


def test_checkpoints_of_another_model_are_refused() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    with pytest.raises(ValueError, match="another model"):
        fitted(NOISY_SGD, plan, data, from_step=1, state={"parameter.other": np.zeros(3)})


def test_horizons_lead_and_checkpoints_follow_the_clock() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=30)
    run = memory_run(plan)
    NOISY_SGD.fit([run], data, RunSettings(checkpoint_seconds=0.01))
    steps = [step for step, _, _ in run.checkpoints]
    assert steps == run.horizons
    assert steps[-1] == plan.steps
    assert len(steps) > 3
    assert all(not metrics for _, _, metrics in run.checkpoints[:-1])
    assert run.checkpoints[-1][2]


@settings(max_examples=5)
@given(st.integers(1, 40))
def test_microbatches_change_nothing(size: int) -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=1)
    ends = []
    for microbatch in (None, size):
        run = memory_run(plan)
        NOISY_SGD.fit([run], data, RunSettings(microbatch=microbatch))
        ends.append(parameters(run.final[1]))
    # The same sums in another order: float32 round-off over ten steps.
    np.testing.assert_allclose(*ends, rtol=1e-4, atol=1e-5)


def test_the_secure_source_trains_and_differs_each_time() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=1)
    ends = []
    for _ in range(2):
        run = memory_run(plan)
        NOISY_SGD.fit([run], data, RunSettings(noise_source="secure"))
        ends.append(parameters(run.final[1]))
    assert not np.array_equal(*ends)


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

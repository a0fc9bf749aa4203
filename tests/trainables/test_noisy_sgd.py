"""NoisySGD and NoisyAdam: plans, the law of one update, checkpoints, and what must be refused."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, PoissonSampled, Repeated
from dpcore.gradients import clipped as releases
from dpcore.sampling import PoissonSampling
from tests.trainables.recording import MemoryRun, memory_run, recorded_before
from trainables.data import SOURCES
from trainables.data.content import dataset
from trainables.knobs import read
from trainables.planner import NOISE_MAX, NOISE_MIN
from trainables.system import (
    Dataset,
    Execution,
    Feature,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Split,
    Task,
)
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD, NoisyAdamKnobs, NoisyOptimiser
from trainables.training import private_steps
from trainables.training.epochs import epochs_of, steps_of
from trainables.training.released import with_origin

TARGET = PrivacyTarget(epsilon=4.0, delta=1e-4)
BOTH = pytest.mark.parametrize("system", [NOISY_SGD, NOISY_ADAM], ids=lambda system: system.name)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return SOURCES["digits"].load({})


def config(**changes: object) -> dict:
    return {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 128, "epochs": 5.0, "hidden": 16} | changes


def planned(
    system: NoisyOptimiser, facts: PublicFacts, target: PrivacyTarget = TARGET, **changes: object
) -> PrivacyPlan:
    plan = system.plan(config(**changes), facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def given_noise(system: NoisyOptimiser, facts: PublicFacts, noise: float, **changes: object) -> PrivacyPlan:
    target = PrivacyTarget(epsilon=1e6, delta=1e-4, solve="none")
    return planned(system, facts, target, noise_multiplier=noise, **changes)


def fitted(system: NoisyOptimiser, plan: PrivacyPlan, data: Dataset, **run: object) -> MemoryRun:
    one = memory_run(plan, **run)  # type: ignore[arg-type]
    system.fit([one], data, Execution())
    return one


def tiny(n: int = 200, nan: bool = False) -> Dataset:
    """Two Gaussian clouds in three dimensions, cut to [0, 1]."""
    rng = np.random.default_rng(7)
    labels = np.arange(n) % 2
    points = np.clip(0.3 + 0.4 * labels[:, None] + 0.1 * rng.standard_normal((n, 3)), 0, 1).astype(np.float32)
    facts = PublicFacts(
        dataset="tiny",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n,
        features={"x": Feature(shape=(3,))},
        classes=2,
    )
    whole = Split(inputs={"x": points}, targets=labels)
    data = dataset(facts, whole, whole)
    if nan:
        # Below the loader's checks, as a model that overflows on one record would do it.
        broken = points.copy()
        broken[17] = np.nan
        data = replace(data, train=Split(inputs={"x": broken}, targets=labels))
    return data


# Plans


@pytest.mark.parametrize(
    ("epochs", "batch_size", "n", "steps"),
    [
        # theory.md section 5, Table 1: ceil(epochs / p) with p = 256/60000
        (15, 256, 60000, 3516),
        (60, 256, 60000, 14063),
        (45, 256, 60000, 10547),
        (62, 256, 60000, 14532),
        (68, 256, 60000, 15938),
        (100, 256, 60000, 23438),
        # int(1 / (1 / 234)) is 233
        (1, 1, 234, 234),
        # 0.1 * 1000 / 10 in floats is above 10
        (0.1, 10, 1000, 10),
        (0.7, 7, 100, 10),
    ],
)
def test_steps_are_counted_exactly(epochs: float, batch_size: int, n: int, steps: int) -> None:
    assert steps_of(epochs, batch_size, n) == steps


@given(st.integers(1, 10**7), st.integers(1, 10**5), st.integers(1, 10**7))
def test_solved_epochs_mean_the_solved_steps(steps: int, batch_size: int, n: int) -> None:
    assert steps_of(epochs_of(steps, batch_size, n), batch_size, n) == steps


@BOTH
def test_the_claim_is_the_headline_of_the_event_and_meets_the_target(system: NoisyOptimiser, digits: Dataset) -> None:
    plan = planned(system, digits.facts)
    event = PoissonSampled(rate=128 / 1437, event=Gaussian(noise_multiplier=float(plan.config["noise_multiplier"])))
    assert plan.event() == Repeated(event=event, count=57)
    assert plan.solved == ("noise_multiplier",)
    recounted = headline(Repeated(event=event, count=57), 1e-4, Adjacency.ADD_REMOVE)
    assert plan.guarantee.epsilon == recounted.epsilon <= 4.0
    assert plan.guarantee.epsilon > 3.98  # the calibration's own tolerance is 1e-3
    assert PrivacyPlan.from_dict(plan.to_dict()) == plan
    assert any("public" in one for one in plan.guarantee.assumptions)
    assert [one.accountant for one in plan.beside] == ["gdp-clt"]


@BOTH
def test_solving_steps_spends_the_budget_and_not_more(system: NoisyOptimiser, digits: Dataset) -> None:
    knobs = {name: value for name, value in config(noise_multiplier=1.5).items() if name != "epochs"}
    plan = system.plan(knobs, digits.facts, replace(TARGET, solve="steps"), {})
    assert isinstance(plan, PrivacyPlan)
    assert plan.guarantee.epsilon <= 4.0
    one_more = Repeated(event=plan.mechanism.each, count=plan.steps + 1)
    assert headline(one_more, 1e-4, Adjacency.ADD_REMOVE).epsilon > 4.0


def test_planning_again_is_fast(digits: Dataset) -> None:
    cache: dict[str, float] = {}
    NOISY_SGD.plan(config(), digits.facts, TARGET, cache)
    assert cache
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        NOISY_SGD.plan(config(), digits.facts, TARGET, cache)
        seconds.append(time.perf_counter() - start)
    # 0.2 ms measured; 5 ms is the promise, the best of 20 keeps a busy machine out of it.
    assert min(seconds) < 5e-3


def test_a_budget_beyond_all_noise_gets_the_least_noise(digits: Dataset) -> None:
    plan = planned(NOISY_SGD, digits.facts, replace(TARGET, epsilon=5000.0))
    assert plan.config["noise_multiplier"] == NOISE_MIN
    assert plan.guarantee.epsilon < 5000


def test_refusals_say_how_far_off(digits: Dataset) -> None:
    tight = replace(TARGET, epsilon=1e-4, delta=1e-9)
    refusal = NOISY_SGD.plan(config(), digits.facts, tight, {})
    assert isinstance(refusal, Refusal)
    assert refusal.violations["noise"] > 0
    assert f"{NOISE_MAX:g}" in refusal.reason
    refusal = NOISY_SGD.plan(config(noise_multiplier=0.6), digits.facts, replace(TARGET, solve="none"), {})
    assert isinstance(refusal, Refusal)
    assert refusal.violations["epsilon"] > 0
    worse = NOISY_SGD.plan(config(noise_multiplier=0.5), digits.facts, replace(TARGET, solve="none"), {})
    assert isinstance(worse, Refusal)
    assert worse.violations["epsilon"] > refusal.violations["epsilon"]
    hopeless = NOISY_SGD.plan(config(noise_multiplier=0.2), digits.facts, replace(TARGET, solve="steps"), {})
    assert isinstance(hopeless, Refusal)
    assert hopeless.violations["epsilon"] > 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"batch_size": 1438}, "batch_size"), ({"model": "resnet"}, "model"), ({"model": "cnn"}, "model")],
)
def test_configurations_without_sense_are_errors(digits: Dataset, changes: dict, name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        NOISY_SGD.plan(config(**changes), digits.facts, TARGET, {})
    assert caught.value.name == name


def test_a_missing_knob_is_an_error(digits: Dataset) -> None:
    with pytest.raises(InvalidValue, match="learning_rate"):
        NOISY_SGD.plan({k: v for k, v in config().items() if k != "learning_rate"}, digits.facts, TARGET, {})


def test_replacing_a_record_costs_between_one_and_two_removals(digits: Dataset) -> None:
    """Group privacy: twice epsilon at (1 + exp(epsilon)) delta bounds it; the paper's limit has no word on it."""
    knobs = {k: v for k, v in config().items() if k != "noise_multiplier"}
    replaced = NOISY_SGD.plan(knobs, digits.facts, replace(TARGET, adjacency=Adjacency.REPLACE_ONE), {})
    removed = NOISY_SGD.plan(knobs, digits.facts, TARGET, {})
    assert isinstance(replaced, PrivacyPlan)
    assert isinstance(removed, PrivacyPlan)
    assert replaced.guarantee.adjacency is Adjacency.REPLACE_ONE
    assert replaced.guarantee.epsilon <= TARGET.epsilon
    ratio = float(replaced.config["noise_multiplier"]) / float(removed.config["noise_multiplier"])
    assert 1.3 < ratio < 2
    assert replaced.beside == ()


# The law of one update


def parameters(state: object) -> np.ndarray:
    return np.concatenate([array.ravel() for name, array in sorted(state.items()) if name.startswith("parameter.")])  # type: ignore[attr-defined]


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


def test_a_plan_of_an_earlier_version_runs_what_it_counted() -> None:
    """Mutants: one that counted another rate, noise or n than its configuration means is stopped before any draw."""
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    before = recorded_before(plan)
    assert before.event() == plan.event()
    assert before.description == plan.description
    ours, theirs = (fitted(NOISY_SGD, one, data).final[1] for one in (plan, before))
    assert all(np.array_equal(array, theirs[name]) for name, array in ours.items())
    for wrong in (
        recorded_before(plan, [(PoissonSampled(rate=0.05, event=Gaussian(noise_multiplier=1.0)), plan.steps)]),
        recorded_before(plan, [(PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=1.1)), plan.steps)]),
        replace(before, config={**plan.config, "batch_size": 40}),
    ):
        run = memory_run(wrong)
        with pytest.raises(InvalidValue, match="of another version"):
            NOISY_SGD.fit([run], data, Execution())
        assert not run.horizons


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
    adam = NOISY_ADAM.optimiser(read(NoisyAdamKnobs, given))(model)
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
    rebuilt = private_steps.initial_model(run, data, torch.device("cpu"))
    optimiser = system.optimiser(read(system.knobs, plan.config))(rebuilt)
    optimiser.restore(state)
    again = with_origin(run, optimiser.state())
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

    whole = [final(seed, False) for seed in range(1, 81)]
    broken = [final(seed, True) for seed in range(1001, 1081)]
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
    NOISY_SGD.fit([run], data, Execution(checkpoint_seconds=0.01))
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
        NOISY_SGD.fit([run], data, Execution(microbatch=microbatch))
        ends.append(parameters(run.final[1]))
    # The same sums in another order: float32 round-off over ten steps.
    np.testing.assert_allclose(*ends, rtol=1e-4, atol=1e-5)


def test_the_secure_source_trains_and_differs_each_time() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20, epochs=1)
    ends = []
    for _ in range(2):
        run = memory_run(plan)
        NOISY_SGD.fit([run], data, Execution(noise_source="secure"))
        ends.append(parameters(run.final[1]))
    assert not np.array_equal(*ends)


def test_initial_weights_depend_on_the_public_seed_alone() -> None:
    data = tiny()
    plan = given_noise(NOISY_SGD, data.facts, 1.0, batch_size=20)
    before = torch.get_rng_state()
    weights = [
        private_steps.initial_model(
            memory_run(plan, seed=seed, attempt=attempt, secret=secret), data, torch.device("cpu")
        )
        for seed, attempt, secret in ((0, 1, b"s" * 32), (0, 2, b"t" * 32), (1, 1, b"s" * 32))
    ]
    first, same, other = (model.state_dict()["body.0.weight"] for model in weights)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())

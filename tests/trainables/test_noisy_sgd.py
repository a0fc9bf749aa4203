"""NoisySGD and NoisyAdam: the law of one update, checkpoints, and what must be refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Gaussian, PoissonSampled, Repeated, UnsupportedEvent
from dpcore.gradients import engine as releases
from dpcore.guarantee import delta_text, epsilon_text
from dpcore.sampling import PoissonSampling
from tests.trainables.noisy_sgd_cases import BOTH, TARGET, config, fitted, given_noise, planned, tiny
from tests.trainables.recording import counted, memory_run
from trainables.data import SOURCES
from trainables.hyperparameters import read
from trainables.planning import NOISE_MAX, NOISE_MIN
from trainables.system import Dataset, Launch, PrivacyPlan, PrivacyTarget, Refusal, RunSettings, Split, TrialRun
from trainables.systems.noisy_mean import NOISY_MEAN
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD, NoisyAdamHyperparameters, NoisyOptimiser
from trainables.training import private_sgd
from trainables.training.hyperparameters import epochs_of, steps_of
from trainables.worker.attempt import AlreadyExecuted, Attempt
from trainables.worker.files import Folder
from trainables.worker.ray import launch_from_json, launch_to_json
from trainables.worker.trial import open_run, run_launch


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


# NoisySGD and NoisyAdam: what a plan counts, solves, claims and refuses.


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
def test_solving_steps_spends_the_budget_and_not_more(system: NoisyOptimiser, digits: Dataset) -> None:
    knobs = {name: value for name, value in config(noise_multiplier=1.5).items() if name != "epochs"}
    plan = system.plan(knobs, digits.facts, replace(TARGET, solve="steps"), {})
    assert plan.guarantee.epsilon <= 4.0
    one_more = Repeated(event=plan.mechanism.each, count=plan.steps + 1)
    assert headline(one_more, 1e-4, Adjacency.ADD_REMOVE).epsilon > 4.0


def test_a_budget_beyond_all_noise_gets_the_least_noise(digits: Dataset) -> None:
    plan = planned(NOISY_SGD, digits.facts, replace(TARGET, epsilon=5000.0))
    assert plan.config["noise_multiplier"] == NOISE_MIN
    assert plan.guarantee.epsilon < 5000


def test_refusals_say_how_far_off(digits: Dataset) -> None:
    tight = replace(TARGET, epsilon=1e-4, delta=1e-9)
    refusal = NOISY_SGD.plan(config(), digits.facts, tight, {})
    assert refusal.violations["noise"] > 0
    assert f"{NOISE_MAX:g}" in refusal.reason
    refusal = NOISY_SGD.plan(config(noise_multiplier=0.6), digits.facts, replace(TARGET, solve="none"), {})
    assert refusal.violations["epsilon"] > 0
    worse = NOISY_SGD.plan(config(noise_multiplier=0.5), digits.facts, replace(TARGET, solve="none"), {})
    assert worse.violations["epsilon"] > refusal.violations["epsilon"]
    hopeless = NOISY_SGD.plan(config(noise_multiplier=0.2), digits.facts, replace(TARGET, solve="steps"), {})
    assert hopeless.violations["epsilon"] > 0


def test_replacing_a_record_costs_between_one_and_two_removals(digits: Dataset) -> None:
    """Group privacy: twice epsilon at (1 + exp(epsilon)) delta bounds it; the paper's limit has no word on it."""
    knobs = {k: v for k, v in config().items() if k != "noise_multiplier"}
    replaced = NOISY_SGD.plan(knobs, digits.facts, replace(TARGET, adjacency=Adjacency.REPLACE_ONE), {})
    removed = NOISY_SGD.plan(knobs, digits.facts, TARGET, {})
    assert replaced.guarantee.adjacency is Adjacency.REPLACE_ONE
    assert replaced.guarantee.epsilon <= TARGET.epsilon
    ratio = float(replaced.config["noise_multiplier"]) / float(removed.config["noise_multiplier"])
    assert 1.3 < ratio < 2
    assert replaced.beside == ()


# Claims under attack: what a real fit draws against what its plan counted, and where noise could repeat.


FEW = {"model": "linear", "learning_rate": 0.5, "clip_norm": 0.7, "batch_size": 3, "epochs": 0.05}
GOAL = PrivacyTarget(epsilon=2.0, delta=1e-4)


class Spy:
    """Counts what the training loop draws, with every noise vector kept."""

    def __init__(self, monkeypatch):
        self.batches: list[int] = []
        self.noise: list[np.ndarray] = []
        self.horizon_at_draw: list[int] = []
        self.run = None
        sample, mean = PoissonSampling.indices, releases.noisy_mean_gradient

        def indices(sampling, n, rng):
            rows = sample(sampling, n, rng)
            self.batches.append(len(rows))
            self.horizon_at_draw.append(self.run.horizons[-1] if self.run.horizons else -1)
            return rows

        def noisy(clipped, **settings):
            out = mean(clipped, **settings)
            flat = [
                (out[name] * settings["expected_batch_size"] - total).reshape(-1).numpy()
                for name, total in clipped.tensors.items()
            ]
            norm = math.sqrt(sum(float((one.double() ** 2).sum()) for one in clipped.tensors.values()))
            assert norm <= self.batches[-1] * FEW["clip_norm"] * (1 + 1e-5)
            self.noise.append(np.concatenate(flat))
            return out

        monkeypatch.setattr(PoissonSampling, "indices", indices)
        monkeypatch.setattr(releases, "noisy_mean_gradient", noisy)

    def fit(self, system, plan, data, **where):
        self.run = memory_run(plan, **where)
        system.fit([self.run], data, RunSettings(checkpoint_seconds=0.001))
        return self.run


def test_a_fit_draws_what_its_plan_counted(digits, monkeypatch):
    """Steps, rate, noise scale on the sum over all weights, and the horizon before every draw.

    Two-sided 5-sigma tests: false alarms below 1e-6 each, with a fixed secret.
    """
    plan = NOISY_SGD.plan(FEW, digits.facts, GOAL, {})
    ((event, steps),) = counted(plan)
    assert event == PoissonSampled(
        rate=3 / digits.facts.n, event=Gaussian(noise_multiplier=float(plan.config["noise_multiplier"]))
    )
    spy = Spy(monkeypatch)
    run = spy.fit(NOISY_SGD, plan, digits)
    assert len(spy.batches) == len(spy.noise) == steps == run.final[0]
    assert min(spy.batches) == 0, "the fixed secret draws no empty batch: choose other settings"
    mean, count = np.mean(spy.batches), len(spy.batches)
    assert abs(mean - 3) <= 5 * math.sqrt(3 / count)
    drawn = np.stack(spy.noise) / (float(plan.config["noise_multiplier"]) * FEW["clip_norm"])
    weights = sum(value.size for name, value in run.final[1].items() if name.startswith("parameter."))
    assert drawn.shape[1] == weights
    assert abs(drawn.std() - 1) <= 5 / math.sqrt(2 * drawn.size) + 1e-4
    # Noise of different steps is independent, and no step goes beyond what was announced.
    correlation = np.corrcoef(drawn)[np.triu_indices(count, 1)]
    assert np.abs(correlation).max() < 6 / math.sqrt(weights)
    assert all(horizon > step for step, horizon in enumerate(spy.horizon_at_draw))
    assert run.horizons[-1] == steps


def test_a_resumed_attempt_draws_fresh_noise_for_the_rest_alone(digits, monkeypatch):
    plan = NOISY_SGD.plan(FEW, digits.facts, GOAL, {})
    spy = Spy(monkeypatch)
    whole = spy.fit(NOISY_SGD, plan, digits)
    step, state, _ = next(one for one in whole.checkpoints if one[0] >= 4)
    first = list(spy.noise)
    spy.noise.clear()
    spy.fit(NOISY_SGD, plan, digits, from_step=step, state=state, attempt=2)
    assert len(spy.noise) == plan.steps - step
    unit = [one / np.linalg.norm(one) for one in first]
    for again in spy.noise:
        assert max(abs(float(one @ again)) for one in unit) < 0.5 * np.linalg.norm(again)


def test_the_noise_of_one_attempt_is_never_drawn_twice(tmp_path):
    """A store restored from an older copy hands out attempt 1 again; a worker that sees its horizon refuses."""
    data = SOURCES["uniform"].load({"n": 100})
    trials, secret = Folder(str(tmp_path)), b"s" * 32
    results = []
    for prior in (0.2, 0.9):
        plan = NOISY_MEAN.plan({"clip": 1.0, "steps": 3, "prior": prior, "shrinkage": 0.5, "step_seconds": 0.0},
                               data.facts, GOAL, {})  # fmt: skip
        member = TrialRun(key="s-0", attempt=1, seed=0, plan=plan, from_step=0, to_step=plan.steps)
        results.append(run_launch(Launch(members=(member,)), data, trials, secret)[0])
        before = Attempt.of(trials, "s-0", 1).folder.read("checkpoint.3.npz")
    assert "metrics" in results[0]
    assert "drawn before" in results[1]["error"]
    assert Attempt.of(trials, "s-0", 1).folder.read("checkpoint.3.npz") == before
    with pytest.raises(AlreadyExecuted):
        open_run(member, trials, secret)


@pytest.mark.parametrize("poison", [1e-3, 0.5, 1.0, 5.0, 1e6, float("inf"), -1.0])
def test_a_poisoned_calibration_never_makes_a_wrong_claim(digits, poison):
    """What the cache answers is counted again: too little noise is refused, too much is merely dear."""

    class Poisoned(dict):
        def __contains__(self, key):
            return True

        def __getitem__(self, key):
            return poison

    honest = NOISY_SGD.plan(FEW, digits.facts, GOAL, {})
    try:
        plan = NOISY_SGD.plan(FEW, digits.facts, GOAL, Poisoned())
    except (InvalidValue, UnsupportedEvent):
        return
    if isinstance(plan, Refusal):
        assert plan.violations
        return
    assert plan.config["noise_multiplier"] == poison >= honest.config["noise_multiplier"] * 0.999
    assert plan.guarantee.epsilon <= GOAL.epsilon


def test_launches_and_plans_survive_strict_json(digits):
    plan = NOISY_ADAM.plan(FEW | {"learning_rate": 0.1 + 0.2}, digits.facts, GOAL, {})
    assert PrivacyPlan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False))) == plan
    member = TrialRun(key="s-0", attempt=3, seed=2**63, plan=plan, from_step=1, to_step=2, resume_attempt=2)
    group = Launch(members=(member,), execution=RunSettings(noise_source="secure"))
    assert launch_from_json(launch_to_json(group)) == group


def test_shown_claims_are_never_below_the_claim():
    rng = np.random.default_rng(3)
    for value in [*np.exp(rng.uniform(-30, 6, 2000)), 1 / 1437, 0.1, 1.0, 9.9999999, 1e-5, 1.0000001]:
        value = float(value)
        for digits_ in (4, 6):
            up, down = (float(epsilon_text(value, up=side, digits=digits_)) for side in (True, False))
            assert down <= value <= up <= down * (1 + 1.001 * 10.0 ** (1 - digits_))
        assert value <= float(delta_text(value)) <= value * (1 + 1.001e-5)
    assert (epsilon_text(1.0), epsilon_text(0.1), delta_text(1e-5), delta_text(0.0)) == ("1", "0.1", "1e-05", "0")

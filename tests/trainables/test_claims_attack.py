"""Claims under attack: what a real fit draws against what its plan counted, and where noise could repeat."""

import json
import math

import numpy as np
import pytest
import torch

from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, PoissonSampled, UnsupportedEvent
from dpcore.gradients import clipped as releases
from dpcore.rounding import delta_text, epsilon_text
from dpcore.sampling import PoissonSampling
from tests.trainables.recording import counted, memory_run
from trainables.data import SOURCES
from trainables.system import Launch, PrivacyPlan, PrivacyTarget, Refusal, RunSettings, TrialRun
from trainables.systems.noisy_mean import NOISY_MEAN
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD
from trainables.worker.attempt import AlreadyExecuted, Attempt
from trainables.worker.files import Folder
from trainables.worker.ray import launch_from_json, launch_to_json
from trainables.worker.trial import open_run, run_launch

CONFIG = {"model": "linear", "learning_rate": 0.5, "clip_norm": 0.7, "batch_size": 3, "epochs": 0.05}
TARGET = PrivacyTarget(epsilon=2.0, delta=1e-4)


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
            assert norm <= self.batches[-1] * CONFIG["clip_norm"] * (1 + 1e-5)
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
    plan = NOISY_SGD.plan(CONFIG, digits.facts, TARGET, {})
    assert isinstance(plan, PrivacyPlan)
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
    drawn = np.stack(spy.noise) / (float(plan.config["noise_multiplier"]) * CONFIG["clip_norm"])
    weights = sum(value.size for name, value in run.final[1].items() if name.startswith("parameter."))
    assert drawn.shape[1] == weights
    assert abs(drawn.std() - 1) <= 5 / math.sqrt(2 * drawn.size) + 1e-4
    # Noise of different steps is independent, and no step goes beyond what was announced.
    correlation = np.corrcoef(drawn)[np.triu_indices(count, 1)]
    assert np.abs(correlation).max() < 6 / math.sqrt(weights)
    assert all(horizon > step for step, horizon in enumerate(spy.horizon_at_draw))
    assert run.horizons[-1] == steps


def test_a_resumed_attempt_draws_fresh_noise_for_the_rest_alone(digits, monkeypatch):
    plan = NOISY_SGD.plan(CONFIG, digits.facts, TARGET, {})
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
                               data.facts, TARGET, {})  # fmt: skip
        assert isinstance(plan, PrivacyPlan)
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

    honest = NOISY_SGD.plan(CONFIG, digits.facts, TARGET, {})
    try:
        plan = NOISY_SGD.plan(CONFIG, digits.facts, TARGET, Poisoned())
    except (InvalidValue, UnsupportedEvent):
        return
    if isinstance(plan, Refusal):
        assert plan.violations
        return
    assert plan.config["noise_multiplier"] == poison >= honest.config["noise_multiplier"] * 0.999
    assert plan.guarantee.epsilon <= TARGET.epsilon


def test_launches_and_plans_survive_strict_json(digits):
    plan = NOISY_ADAM.plan(CONFIG | {"learning_rate": 0.1 + 0.2}, digits.facts, TARGET, {})
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


def test_records_that_break_arithmetic_leave_noise_and_neighbours_alone(digits, monkeypatch):
    """One record of NaN and one of infinities: every step is still noised, every weight stays finite."""
    images = digits.train.inputs["image"].copy()
    images[0], images[1] = np.nan, np.inf
    broken = type(digits)(
        facts=digits.facts,
        train=type(digits.train)({"image": images}, digits.train.targets),
        validation=digits.validation,
        fingerprint="",
    )
    plan = NOISY_SGD.plan(CONFIG | {"batch_size": 1437, "epochs": 3.0}, digits.facts, TARGET, {})
    spy = Spy(monkeypatch)
    run = spy.fit(NOISY_SGD, plan, broken)
    assert len(spy.noise) == plan.steps == 3
    assert all(np.isfinite(value).all() for value in run.final[1].values())
    assert torch.isfinite(torch.tensor(list(run.final[2].values()))).all()

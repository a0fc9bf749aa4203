"""Each question finds the system that it is there for; and a system of another package sits the exam."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcore.randomness import Purpose
from dpcore.sampling import PoissonSampling
from tests.trainables.exam import QUESTIONS, Candidate, sit
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables.system import Hyperparameter, PrivacyPlan
from trainables.systems import noisy_mean
from trainables.systems.noisy_mean import NoisyMean
from trainables.systems.noisy_sgd import NoisyOptimiser, NoisySGDHyperparameters
from trainables.training.private_sgd import LocalSums

TOY = CANDIDATES["noisy-mean"]


class Outside(NoisyMean):
    """A system of another package, which is not registered."""

    name = "outside-mean"


OUTSIDE = Candidate(
    system=Outside(),
    config=TOY.config,
    data=lambda: data_of("noisy-mean"),
    beside=TOY.beside,
    silent=TOY.silent,
)


def test_an_outside_system_sits_it_by_a_call():
    assert sit(OUTSIDE) == {}


def test_an_outside_system_sits_it_by_pytest():
    environment = {**os.environ, "SWEEPS_EXAM": f"{__name__}:OUTSIDE"}
    command = ["-m", "pytest", "-q", "-n", "0", "--pyargs", "tests.trainables.exam.test_exam", "-k", "outside-mean"]
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, *command], env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(QUESTIONS)} passed" in done.stdout


class Forgetful(Outside):
    """It plans by the time of the day."""

    calls = 0

    def plan(self, *arguments):
        Forgetful.calls += 1
        return replace(super().plan(*arguments), work=float(Forgetful.calls))


class Generous(Outside):
    """It claims half of what it spends."""

    def plan(self, *arguments):
        plan = super().plan(*arguments)
        return replace(plan, guarantee=replace(plan.guarantee, epsilon=plan.guarantee.epsilon / 2, epsilon_lower=None))


class Unwritable(Outside):
    """Its plan counts what it does not write down."""

    def plan(self, *arguments):
        plan = super().plan(*arguments)

        class Secretive(PrivacyPlan):
            __slots__ = ()

            def event(self, from_step=0, to_step=None):
                return super().event(0, to_step)

        return Secretive(**{name: getattr(plan, name) for name in PrivacyPlan.__dataclass_fields__})


class Early(Outside):
    """It draws before it announces."""

    def fit(self, runs, data, execution):
        for run in runs:
            noisy_mean.normals(run, execution)(())
        super().fit(runs, data, execution)


class Lossy(Outside):
    """Its state is not what it says."""

    def fit(self, runs, data, execution):
        super().fit([_Losing(run) for run in runs], data, execution)


class _Losing:
    def __init__(self, run):
        self.run = run

    def __getattr__(self, name):
        return getattr(self.run, name)

    def checkpoint(self, step, state, metrics):
        lost = 0.0 if step == self.member.plan.steps else 1.0
        self.run.checkpoint(step, {"total": np.float64(state["total"] + lost)}, metrics)


class Whispering(Outside):
    """It tells a number more."""

    metrics = tuple(one for one in NoisyMean.metrics if one.name != "estimate")


class Tacit(Outside):
    """It declares a number that it never tells."""

    metrics = (*NoisyMean.metrics, replace(NoisyMean.metrics[0], name="untold"))


class Deaf(Outside):
    """A knob of its does nothing."""

    @property
    def hyperparameters(self):
        idle = Hyperparameter(name="idle", kind="float", low=0.0, high=1.0, default=0.5, doc="nothing depends on it")
        return (*super().hyperparameters, idle)

    def plan(self, config, *arguments):
        plan = super().plan({name: value for name, value in config.items() if name != "idle"}, *arguments)
        return replace(plan, config={**plan.config, "idle": config.get("idle", 0.5)})


class Boastful(Outside):
    """Its claim rests on no generator."""

    def plan(self, *arguments):
        plan = super().plan(*arguments)
        assumptions = ("floating-point is exact here", "floating-point: covered")
        return replace(plan, beside=(replace(plan.guarantee, epsilon=float("inf"), assumptions=assumptions),))


@pytest.mark.parametrize(
    ("question", "mutant"),
    [
        ("plans_are_pure", Forgetful),
        ("claims_are_kept", Generous),
        ("plans_are_written_down", Unwritable),
        ("what_runs_is_what_was_planned", Early),
        ("broken_runs_go_on", Lossy),
        ("claims_name_their_generator", Boastful),
        ("metrics_are_as_declared", Whispering),
        ("metrics_are_as_declared", Tacit),
        ("every_knob_changes_something", Deaf),
    ],
)
def test_a_mutant_fails_its_question(question, mutant):
    assert QUESTIONS[question](OUTSIDE) == []
    assert QUESTIONS[question](replace(OUTSIDE, system=mutant())) != []


SGD = CANDIDATES["noisy-sgd"]


class WithoutWorkers(NoisyOptimiser):
    """It says that workers add up its sums, and asks none."""

    def train(self, fit):
        super().train(replace(fit, settings=replace(fit.settings, team=None)))


class OtherBatches(NoisyOptimiser):
    """Its workers draw at another rate."""

    def train(self, fit):
        if fit.settings.team is not None:
            fit = replace(fit, mechanism=replace(fit.mechanism, sampling=PoissonSampling(rate=1.0)))
        super().train(fit)


@pytest.mark.parametrize("mutant", [WithoutWorkers, OtherBatches])
def test_workers_that_do_other_work_are_found(mutant):
    assert QUESTIONS["workers_agree"](replace(SGD, system=mutant("noisy-sgd", NoisySGDHyperparameters))) != []


def test_a_batch_that_is_drawn_again_is_found(monkeypatch):
    right = LocalSums.next

    def the_second(sums):
        right(sums)
        return right(sums)

    monkeypatch.setattr(LocalSums, "next", the_second)
    found = QUESTIONS["what_runs_is_what_was_planned"](SGD)
    assert found == [f"{SGD.plan.steps} Poisson batches were counted, {2 * SGD.plan.steps} drawn"]


def its_own_stream(run, execution, stream=""):
    return run.streams.numpy(Purpose.NOISE).standard_normal


def its_own_generator(run, execution, stream=""):
    return np.random.default_rng().standard_normal


def one_draw_for_all(run, execution, stream=""):
    return lambda shape: np.zeros(shape)


@pytest.mark.parametrize("mutant", [its_own_stream, its_own_generator, one_draw_for_all])
def test_noise_around_the_door_is_found(mutant, monkeypatch):
    """The first is how the toy ignored `noise_source`."""
    monkeypatch.setattr(noisy_mean, "normals", mutant)
    found = sit(replace(OUTSIDE, system=Outside()))
    assert found.keys() & {"noise_comes_from_the_secure_source", "one_secret_gives_one_release"}

"""Variational inference of a logistic regression, noised and as published."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate, Repeated
from dpcore.guarantee import Notion, Status
from tests.trainables.bayesian_cases import AVERAGE, CPU, fitted, planned
from tests.trainables.noisy_sgd_cases import tiny
from tests.trainables.recording import memory_run
from trainables.hyperparameters import read
from trainables.system import PrivacyPlan, RunSettings, Split
from trainables.systems.triastcyn2020 import training as dpvi
from trainables.systems.triastcyn2020.accountant import (
    EstimateHyperparameters,
    VariationalHyperparameters,
)
from trainables.systems.triastcyn2020.systems import BAYESIAN_VARIATIONAL, VARIATIONAL_DRAWS
from trainables.systems.triastcyn2020.training import Drawn, Draws

torch.set_num_threads(1)


def test_gradients_of_records_and_of_the_divergence_are_those_of_autograd() -> None:
    rng = np.random.default_rng(1)
    x, y = torch.from_numpy(rng.normal(size=(5, 4))), torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    mean, log_sd, z = (torch.from_numpy(rng.normal(size=4)) for _ in range(3))
    mean.requires_grad_()
    log_sd.requires_grad_()
    posterior = dpvi.Posterior(mean=mean.detach().clone(), log_sd=log_sd.detach().clone(), squares=torch.zeros(8))
    found = dpvi.record_gradients(x, y, posterior, z)
    for i in range(5):
        logit = x[i] @ (mean + log_sd.exp() * z)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logit, y[i])
        expected = torch.cat(torch.autograd.grad(loss, [mean, log_sd]))
        assert torch.allclose(found[i], expected)
    q = torch.distributions.Normal(mean, log_sd.exp())
    prior = torch.distributions.Normal(0.0, math.sqrt(2.5))
    divergence = torch.cat(
        torch.autograd.grad(torch.distributions.kl_divergence(q, prior).sum(), [mean, log_sd])
    ).double()
    # From an empty memory AdaGrad moves each coordinate by its sign; the memory keeps the gradient's square.
    posterior.squares = torch.zeros(8, dtype=torch.float64)
    posterior.step(torch.zeros(8, dtype=torch.float64), variance=2.5, learning_rate=0.1)
    assert torch.allclose(posterior.squares, divergence.square())
    moved = torch.cat([posterior.mean - mean.detach(), posterior.log_sd - log_sd.detach()])
    assert torch.allclose(moved, -0.1 * divergence.sign(), atol=1e-6)


def test_no_record_moves_the_likelihood_sum_by_more_than_the_clip() -> None:
    gradients = torch.tensor([[3.0, 4.0], [0.1, 0.0], [math.nan, 1.0], [math.inf, 0.0]])
    total = dpvi._clipped_sum(gradients, 2.0).tensors["mean"]
    assert torch.allclose(total, torch.tensor([1.2 + 0.1, 1.6]))


def test_variational_inference_learns_and_reports_both_epsilons() -> None:
    data = tiny()
    plan = planned(BAYESIAN_VARIATIONAL, data, epochs=20.0, noise_multiplier=1.0, learning_rate=0.3)
    _, state, metrics = fitted(BAYESIAN_VARIATIONAL, plan, data).final
    assert metrics["accuracy"] > 0.9
    assert plan.guarantee.notion is Notion.DP
    assert 0 < metrics["bayesian_epsilon"] < math.inf
    scores = BAYESIAN_VARIATIONAL.membership_scores(plan, data.facts, state, data.validation)
    assert -scores.mean() == pytest.approx(metrics["loss"], rel=1e-6)


def test_draws_without_noise_are_refuted_because_earlier_steps_stay_in_the_mean() -> None:
    """Two data sets that differ in one record, all records in every batch, the same draws.

    In deviations of the draw, the means come further and further apart; each step is counted with its own share alone.
    """
    data = tiny()
    knobs = {"learning_rate": 0.1, "batch_size": 200, "epochs": 12.0, "prior_variance": 100.0, "first_sd": 1.0}
    plan = VARIATIONAL_DRAWS.plan(knobs, data.facts, replace(AVERAGE, epsilon=1e3), {})
    assert isinstance(plan, PrivacyPlan)
    assert (plan.guarantee.status, plan.guarantee.notion) == (Status.REFUTED, Notion.BAYESIAN_DP)
    assert any("Refuted" in line for line in plan.guarantee.assumptions)
    assert plan.event() == Repeated(event=NonPrivate(), count=12)
    points = data.train.inputs["x"].copy()
    points[0] = 40.0
    without = replace(data, train=Split(inputs={"x": points[1:]}, targets=data.train.targets[1:]))
    with_it = replace(data, train=Split(inputs={"x": points}, targets=data.train.targets))
    apart = [np.zeros(4)]
    for steps in range(1, 13):
        ends = [fitted(VARIATIONAL_DRAWS, plan, one, to_step=steps).final[1] for one in (with_it, without)]
        apart.append((ends[0]["mean"] - ends[1]["mean"]) / np.exp(ends[1]["log_sd"]))
    shown = sum(float(one @ one) for one in apart)
    counted = sum(float(np.square(after - before).sum()) for before, after in pairwise(apart))
    assert shown > 5 * counted > 0


def test_the_counted_distance_of_a_draw_is_what_a_record_adds_to_its_mean() -> None:
    """By hand from an AdaGrad step: learning_rate * (n / b) * gradient / sqrt(squares) / deviation."""
    data = tiny()
    knobs = {"learning_rate": 0.1, "batch_size": 200, "epochs": 2.0, "distance_records": 5}
    plan = VARIATIONAL_DRAWS.plan(knobs, data.facts, replace(AVERAGE, epsilon=1e3), {})
    assert isinstance(plan, PrivacyPlan)
    run = memory_run(plan)
    posterior, z = (
        dpvi.Posterior.start(read(VariationalHyperparameters, plan.config), 4, CPU),
        torch.tensor([0.3, -1.0, 0.5, 2.0]),
    )
    found = Drawn(VARIATIONAL_DRAWS.fit_of(run, data, RunSettings()), CPU).distances(posterior, z)
    x, y = dpvi.design(data.facts, data.validation, CPU)
    own = dpvi.record_gradients(x, y, posterior, z)
    # All 200 training records, which are the validation records, are in the batch.
    total = posterior.with_divergence(own.sum(0), variance=1.0)
    rows = Draws.of(run, read(EstimateHyperparameters, plan.config), data.validation, pairs=False).rows()
    expected = (0.1 * own[rows, :4] / total[:4].abs() / 0.1).norm(dim=1)
    assert found == pytest.approx(expected.numpy(), rel=1e-4)


def test_variational_inference_needs_two_classes() -> None:
    from trainables.data import SOURCES

    with pytest.raises(InvalidValue, match="two classes"):
        planned(BAYESIAN_VARIATIONAL, SOURCES["digits"].load({}))

"""Bayesian systems: what is claimed, what the watch sees, when it stops, and whom the figure does not cover."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from dpcore.accountants.bayesian import BayesianAccountant
from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate, Repeated
from dpcore.gradients import PrivateGradients
from dpcore.guarantee import Notion, Status
from sweeps.privacy.charge import ex_post
from tests.trainables.noisy_sgd_cases import fitted, tiny
from tests.trainables.recording import MemoryRun, memory_run
from trainables.hyperparameters import read
from trainables.system import Dataset, PrivacyPlan, PrivacyTarget, RunSettings, Split, System
from trainables.systems import triastcyn2020_training as dpvi
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.systems.triastcyn2020 import (
    AVERAGE_CASE_SGD,
    BAYESIAN_SGD,
    BAYESIAN_VARIATIONAL,
    VARIATIONAL_DRAWS,
    EstimateHyperparameters,
    VariationalHyperparameters,
    Watch,
)
from trainables.systems.triastcyn2020_training import Drawn, rows_looked_at
from trainables.training.losses import chosen, loss_function, tensors
from trainables.training.private_sgd import initial_model

torch.set_num_threads(1)
TARGET = PrivacyTarget(epsilon=1e6, delta=1e-5, solve="none")
AVERAGE = PrivacyTarget(epsilon=3.0, delta=1e-10, solve="none")
SHARED = {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 40, "epochs": 4.0, "noise_multiplier": 2.0}
SMALL = {"model": "linear", **SHARED}
CPU = torch.device("cpu")


def planned(system: System, data: Dataset, target: PrivacyTarget = TARGET, **changes: object) -> PrivacyPlan:
    base = SHARED if system is BAYESIAN_VARIATIONAL else SMALL
    plan = system.plan({**base, **changes}, data.facts, target, {})  # type: ignore[dict-item]
    return plan


def parameters(run: MemoryRun) -> dict[str, np.ndarray]:
    return {name: array for name, array in run.final[1].items() if not name.startswith("bayesian.")}


# What is claimed


def estimates(run: MemoryRun) -> EstimateHyperparameters:
    return read(EstimateHyperparameters, run.member.plan.config)


def test_the_claim_is_the_ordinary_one_and_a_budget_stands_beside_it_as_average_case() -> None:
    data = tiny()
    ordinary = planned(NOISY_SGD, data)
    plan = planned(BAYESIAN_SGD, data, bayesian_budget=2.0)
    assert replace(plan.guarantee, assumptions=()) == replace(ordinary.guarantee, assumptions=())
    assert (plan.guarantee.notion, plan.guarantee.status) == (Notion.DP, Status.PROVED)
    assert any("no DP epsilon" in line for line in plan.guarantee.assumptions)
    (budget,) = [one for one in plan.beside if one.notion is Notion.BAYESIAN_DP]
    assert (budget.epsilon, budget.delta, budget.status) == (2.0, 1e-10, Status.AVERAGE_CASE)
    assert not [one for one in planned(BAYESIAN_SGD, data).beside if one.notion is Notion.BAYESIAN_DP]
    released = {one.name: one.released for one in BAYESIAN_SGD.metrics}
    assert "no DP epsilon" in released["bayesian_epsilon"]


def test_without_a_clip_only_the_average_case_is_claimed_and_the_ledger_says_infinity() -> None:
    plan = planned(AVERAGE_CASE_SGD, tiny(), AVERAGE)
    claim = plan.guarantee
    assert (claim.notion, claim.status, claim.epsilon) == (Notion.BAYESIAN_DP, Status.AVERAGE_CASE, 3.0)
    assert plan.event() == Repeated(event=NonPrivate(), count=20)
    assert [one.epsilon for one in plan.beside if one.notion is Notion.DP] == [math.inf]
    # A run that was stopped early by the sweep claims no DP either.
    assert ex_post(plan, 3, 2) is None


# What the watch does to the training: nothing


def test_the_trained_model_is_that_of_noisy_sgd() -> None:
    data = tiny()
    ours = fitted(BAYESIAN_SGD, planned(BAYESIAN_SGD, data), data)
    ordinary = fitted(NOISY_SGD, planned(NOISY_SGD, data), data)
    for name, array in ordinary.final[1].items():
        assert np.array_equal(parameters(ours)[name], array)
    assert ours.final[2]["accuracy"] == ordinary.final[2]["accuracy"]
    assert ours.final[2]["steps_taken"] == 20


def test_a_step_updates_a_random_share_of_the_weights() -> None:
    """2,000 weights and more; two first steps from other secrets agree on 1% of them by chance."""
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, model="mlp", hidden=400, updated_share=0.1)
    moved = []
    for secret in (b"one secret of tests, 32 bytes ok", b"two secret of tests, 32 bytes ok"):
        run = memory_run(plan, to_step=1, secret=secret)
        model = initial_model(run, data, CPU)
        BAYESIAN_SGD.fit([run], data, RunSettings())
        moved.append(
            np.concatenate(
                [
                    (run.final[1][f"parameter.{name}"] != one.detach().numpy()).ravel()
                    for name, one in model.named_parameters()
                ]
            )
        )
    assert [one.sum() for one in moved] == [math.ceil(0.1 * moved[0].size)] * 2
    assert 0.002 < (moved[0] & moved[1]).mean() < 0.02


# What the watch sees


def gradients_by_hand(data: Dataset, weight: np.ndarray, bias: np.ndarray, rows: np.ndarray) -> np.ndarray:
    x = data.validation.inputs["x"][rows].astype(np.float64)
    logits = x @ weight.T + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(rows)), data.validation.targets[rows]] -= 1
    return np.concatenate([(p[:, :, None] * x[:, None, :]).reshape(len(rows), -1), p], axis=1)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_distances_are_those_of_the_update(pairs: bool, clip_norm: float | None) -> None:
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, distance_records=20)
    run = memory_run(plan)
    model = initial_model(run, data, CPU)
    weight, bias = (one.detach().numpy().astype(np.float64) for one in model.parameters())
    rows = next(rows_looked_at(run, estimates(run), data.validation, pairs))
    records = chosen(tensors(data.validation, CPU), rows)
    gradients = PrivateGradients(model, loss_function(data.facts)).record_gradients(*records)
    mask = np.arange(8) % 3 == 0
    by_hand = gradients_by_hand(data, weight, bias, rows)
    if clip_norm is not None:
        by_hand *= np.minimum(1, clip_norm / np.linalg.norm(by_hand, axis=1))[:, None]
    by_hand = by_hand[:, mask]
    expected = np.linalg.norm(by_hand[0::2] - by_hand[1::2] if pairs else by_hand, axis=1)
    assert len(expected) == 20
    assert dpvi.distances_of(gradients, clip_norm, mask, pairs) == pytest.approx(expected, rel=1e-5)


def test_the_figure_is_that_of_the_accountant_over_the_observed_distances() -> None:
    """One step of a linear model whose gradients are known: the same epsilon by hand."""
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, distance_records=50, bayesian_orders="2,8")
    run = memory_run(plan, to_step=1)
    model = initial_model(run, data, CPU)
    weight, bias = (one.detach().numpy().astype(np.float64) for one in model.parameters())
    rows = next(rows_looked_at(run, estimates(run), data.validation, pairs=False))
    norms = np.minimum(1.0, np.linalg.norm(gradients_by_hand(data, weight, bias, rows), axis=1))
    expected = BayesianAccountant(steps=20, orders=(2, 8)).observe(norms, 40 / 200, 2.0, 1.0)
    BAYESIAN_SGD.fit([run], data, RunSettings())
    metrics = run.final[2]
    assert metrics["bayesian_epsilon"] == pytest.approx(expected.epsilon(1e-10), rel=1e-5)
    assert metrics["bayesian_epsilon_p99"] == pytest.approx(expected.epsilon(0.01 * 1e-5), rel=1e-5)
    assert metrics["bayesian_epsilon_p50"] < metrics["bayesian_epsilon_p90"] < metrics["bayesian_epsilon_p99"]


@pytest.mark.parametrize("distances", ["held-out", "training"])
def test_held_out_distances_depend_on_no_training_record_beyond_the_weights(distances: str) -> None:
    """Before the first step no weight depends on a record: only the published way of measuring sees a difference."""
    data = tiny()
    other = replace(data, train=Split(inputs={"x": data.train.inputs["x"] * 0.1}, targets=data.train.targets))
    plan = planned(BAYESIAN_SGD, data, distances=distances, distance_records=100)
    first, second = (fitted(BAYESIAN_SGD, plan, one, to_step=1).final[2]["bayesian_epsilon"] for one in (data, other))
    assert (first == second) is (distances == "held-out")


# When it stops


def test_a_spent_budget_ends_the_trial_where_it_stands() -> None:
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, bayesian_budget=6.0)
    run = fitted(BAYESIAN_SGD, plan, data)
    taken = int(run.final[2]["steps_taken"])
    assert 0 < taken < plan.steps
    assert run.final[0] == plan.steps
    assert run.final[2]["bayesian_epsilon"] <= 6.0
    # The same run, planned to the step at which it stopped: the same weights.
    short = fitted(BAYESIAN_SGD, plan, data, to_step=taken)
    for name, array in parameters(short).items():
        assert np.array_equal(parameters(run)[name], array)


def test_a_stopped_run_stays_stopped_across_attempts() -> None:
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, bayesian_budget=6.0)
    first = fitted(BAYESIAN_SGD, plan, data, to_step=19)
    assert 0 < first.final[2]["steps_taken"] < 19
    second = fitted(BAYESIAN_SGD, plan, data, from_step=19, state=first.final[1], attempt=2)
    assert second.final[2]["steps_taken"] == first.final[2]["steps_taken"]
    for name, array in parameters(first).items():
        assert np.array_equal(parameters(second)[name], array)


def test_a_resumed_run_goes_on_with_what_was_spent() -> None:
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, bayesian_budget=8.0)
    first = fitted(BAYESIAN_SGD, plan, data, to_step=4)
    second = fitted(BAYESIAN_SGD, plan, data, from_step=4, state=first.final[1], attempt=2)
    assert first.final[1]["bayesian.counts"].tolist() == [4, 0]
    assert second.final[1]["bayesian.spent"] > first.final[1]["bayesian.spent"] > 0
    assert (second.final[1]["bayesian.costs"] > first.final[1]["bayesian.costs"]).all()
    fresh = fitted(BAYESIAN_SGD, plan, data)
    spent = [float(one.final[1]["bayesian.spent"]) for one in (second, fresh)]
    assert spent[0] == pytest.approx(spent[1], rel=0.2)


# Without a clip


def test_unclipped_sums_are_plain_sums_with_the_stated_noise() -> None:
    """Weights after one step, less the plain descent: N(0, (rate sigma / b)^2). 4,000 draws, error rate 1e-4."""
    data = tiny()
    target = replace(AVERAGE, epsilon=1e5)
    plan = planned(
        AVERAGE_CASE_SGD, data, target, model="mlp", hidden=700, batch_size=200, epochs=1.0, noise_multiplier=3.0
    )
    run = memory_run(plan)
    model = initial_model(run, data, CPU)
    AVERAGE_CASE_SGD.fit([run], data, RunSettings())
    x, y = torch.from_numpy(data.train.inputs["x"]), torch.from_numpy(data.train.targets)
    torch.nn.functional.cross_entropy(model(x), y).backward()
    noise = np.concatenate(
        [
            (one.detach().numpy() - 0.5 * one.grad.numpy() - run.final[1][f"parameter.{name}"]).ravel()
            for name, one in model.named_parameters()
        ]
    )
    assert noise.size > 4000
    scaled = noise / (0.5 * 3.0 / 200)
    assert stats.kstest(scaled, "norm").pvalue > 1e-4
    assert run.final[2]["steps_taken"] == 1


def test_an_outlier_is_exposed_while_the_average_case_holds() -> None:
    """theory.md section 6(d). One training record 5,000 times longer than the others; the figure does not see it.

    Its contribution to the first sum is over 50 standard deviations of the noise: anybody can tell that it is there.
    The batch holds everybody. The budget is met all the same, and the claim says that outliers may be exposed.
    """
    data = tiny()
    knobs = {"batch_size": 200, "epochs": 1.0, "batches": "poisson", "noise_multiplier": 40.0, "learning_rate": 1.0}
    plan = planned(AVERAGE_CASE_SGD, data, AVERAGE, **knobs)
    weight = initial_model(memory_run(plan), data, CPU).get_parameter("body.weight").detach().numpy()
    points, direction = data.train.inputs["x"].copy(), weight[1] - weight[0]
    # Record 0 is of class 0, and the first model is sure that it is of class 1.
    points[0] = 5000.0 * direction / np.linalg.norm(direction)
    with_it = replace(data, train=Split(inputs={"x": points}, targets=data.train.targets))
    moved = []
    for one in (data, with_it):
        run = memory_run(plan)
        start = initial_model(run, one, CPU).get_parameter("body.weight").detach().numpy()
        AVERAGE_CASE_SGD.fit([run], one, RunSettings())
        assert run.final[2]["bayesian_epsilon"] <= 3.0
        assert run.final[2]["steps_taken"] == 1
        moved.append(np.linalg.norm(run.final[1]["parameter.body.weight"] - start))
    sigma = 40.0 / 200
    assert moved[0] < 6 * sigma < 50 * sigma < moved[1]
    assert any("outlier" in line for line in plan.guarantee.assumptions)


def test_distances_that_nothing_bounds_are_refused_where_they_cost_too_much() -> None:
    plan = planned(AVERAGE_CASE_SGD, tiny(), AVERAGE)
    watch = Watch(read(AVERAGE_CASE_SGD.params, plan.config), plan, largest=None)
    with pytest.raises(InvalidValue, match="costs"):
        watch.admits([0.5] * 10, 0.1, 1.0)


# Variational inference of a logistic regression, noised and as published


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
    run = memory_run(plan)
    posterior, z = (
        dpvi.Posterior.start(read(VariationalHyperparameters, plan.config), 4, CPU),
        torch.tensor([0.3, -1.0, 0.5, 2.0]),
    )
    steps = Drawn(VARIATIONAL_DRAWS.fit_of(run, data, RunSettings()), CPU)
    steps.drawn = lambda: z
    found = steps.distances()
    x, y = dpvi.design(data.facts, data.validation, CPU)
    own = dpvi.record_gradients(x, y, posterior, z)
    # All 200 training records, which are the validation records, are in the batch.
    total = posterior.with_divergence(own.sum(0), variance=1.0)
    rows = next(rows_looked_at(run, read(EstimateHyperparameters, plan.config), data.validation, pairs=False))
    expected = (0.1 * own[rows, :4] / total[:4].abs() / 0.1).norm(dim=1)
    assert found == pytest.approx(expected.numpy(), rel=1e-4)

"""Bayesian systems: what is claimed, what the watch sees, when it stops, and whom the figure does not cover."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpcore.accountants.bayesian import BayesianAccountant, left_cost
from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate, Repeated
from dpcore.guarantee import Notion, Status
from sweeps.privacy.charge import ex_post
from tests.trainables.bayesian_cases import AVERAGE, CPU, TARGET, fitted, parameters, planned
from tests.trainables.noisy_sgd_cases import tiny
from tests.trainables.recording import MemoryRun, memory_run
from trainables.hyperparameters import read
from trainables.system import Dataset, RunSettings, Split, System
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.systems.triastcyn2020.accountant import EstimateHyperparameters
from trainables.systems.triastcyn2020.systems import AVERAGE_CASE_SGD, BAYESIAN_SGD
from trainables.systems.triastcyn2020.training import Draws, GradientDistances
from trainables.training.losses import loss_function
from trainables.training.private_sgd import initial_model

torch.set_num_threads(1)


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


def test_distances_from_training_records_say_that_the_figure_is_a_release() -> None:
    plan = planned(BAYESIAN_SGD, tiny(), distances="training")
    assert any("release of its own" in line for line in plan.guarantee.assumptions)


@pytest.mark.parametrize(
    ("system", "changes", "name"),
    [
        (BAYESIAN_SGD, {"distances": "training", "bayesian_budget": 1.0}, "bayesian_budget"),
        (BAYESIAN_SGD, {"distance_records": 201}, "distance_records"),
        (BAYESIAN_SGD, {"bayesian_orders": "2,x"}, "bayesian_orders"),
        (BAYESIAN_SGD, {"bayesian_orders": "2,2"}, "bayesian_orders"),
        (BAYESIAN_SGD, {"estimate_failure": 1e-11}, "estimate_failure"),
        (BAYESIAN_SGD, {"percentile_delta": 1e-12}, "estimate_failure"),
        (AVERAGE_CASE_SGD, {"distance_records": 101}, "distance_records"),
        (AVERAGE_CASE_SGD, {"batches": "poisson", "sensitivity": "bounded"}, "batches"),
        (AVERAGE_CASE_SGD, {"batch_size": 500}, "batch_size"),
    ],
)
def test_senseless_settings_are_refused_before_anything_runs(system: System, changes: dict, name: str) -> None:
    target = AVERAGE if system is AVERAGE_CASE_SGD else TARGET
    with pytest.raises(InvalidValue) as caught:
        planned(system, tiny(), target, **changes)
    assert caught.value.name == name


def test_solving_is_refused_where_costs_are_not_known() -> None:
    with pytest.raises(InvalidValue, match="none for average-case-sgd"):
        planned(AVERAGE_CASE_SGD, tiny(), replace(AVERAGE, solve="noise"))


def test_without_a_clip_only_the_average_case_is_claimed_and_the_ledger_says_infinity() -> None:
    plan = planned(AVERAGE_CASE_SGD, tiny(), AVERAGE)
    claim = plan.guarantee
    assert (claim.notion, claim.status, claim.epsilon, claim.delta) == (
        Notion.BAYESIAN_DP,
        Status.AVERAGE_CASE,
        3.0,
        1e-10,
    )
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
    draws = Draws.of(run, estimates(run), data.validation, pairs)
    found = GradientDistances(
        model, loss_function(data.facts), data.validation, draws, device=CPU, clip_norm=clip_norm, pairs=pairs
    )
    mask = np.arange(8) % 3 == 0
    by_hand = gradients_by_hand(data, weight, bias, Draws.of(run, estimates(run), data.validation, pairs).rows())
    if clip_norm is not None:
        by_hand *= np.minimum(1, clip_norm / np.linalg.norm(by_hand, axis=1))[:, None]
    by_hand = by_hand[:, mask]
    expected = np.linalg.norm(by_hand[0::2] - by_hand[1::2] if pairs else by_hand, axis=1)
    assert len(expected) == 20
    assert found.measure(mask) == pytest.approx(expected, rel=1e-5)


def test_the_figure_is_that_of_the_accountant_over_the_observed_distances() -> None:
    """One step of a linear model whose gradients are known: the same epsilon by hand."""
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, distance_records=50, bayesian_orders="2,8")
    run = memory_run(plan, to_step=1)
    model = initial_model(run, data, CPU)
    weight, bias = (one.detach().numpy().astype(np.float64) for one in model.parameters())
    rows = Draws.of(run, estimates(run), data.validation, pairs=False).rows()
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


def test_clipping_keeps_the_figure_below_the_moments_accountant_at_its_delta() -> None:
    data = tiny()
    plan = planned(BAYESIAN_SGD, data, clip_norm=0.01)
    metrics = fitted(BAYESIAN_SGD, plan, data).final[2]
    orders = (2, 4, 8, 16, 32)
    # Every gradient is clipped: each step costs the worst case.
    worst = [20 * left_cost([0.01], 0.2, 0.02, order)[0] for order in orders]
    log_delta = math.log(1e-10 - 20 * 5 * 1e-15)
    expected = min((cost - log_delta) / order for cost, order in zip(worst, orders, strict=True))
    assert metrics["bayesian_epsilon"] == pytest.approx(expected, rel=1e-4)

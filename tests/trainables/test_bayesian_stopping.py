"""A Bayesian budget that is spent ends the trial; what is not clipped has no ordinary release."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from dpcore.checks import InvalidValue
from tests.trainables.bayesian_cases import AVERAGE, CPU, fitted, parameters, planned
from tests.trainables.noisy_sgd_cases import tiny
from tests.trainables.recording import memory_run
from trainables.hyperparameters import read
from trainables.system import RunSettings, Split
from trainables.systems.triastcyn2020.accountant import Watch, filter_for
from trainables.systems.triastcyn2020.systems import AVERAGE_CASE_SGD, BAYESIAN_SGD
from trainables.training.private_sgd import initial_model

torch.set_num_threads(1)


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


def test_the_filter_gets_the_order_that_buys_most() -> None:
    """Distances near a tenth of the noise: no order in sight admits more steps."""
    rng = np.random.default_rng(0)
    samples = [rng.uniform(0.05, 0.15, 100) for _ in range(60)]

    def admitted(state) -> int:  # type: ignore[no-untyped-def]
        for taken, one in enumerate(samples):
            after = state.admit(one, 1.0, 1.0, 0.15)
            if after is None:
                return taken
            state = after
        return len(samples)

    best = filter_for(2.0, 1e-10, 60, 1e-15)
    assert best.order == 24
    others = [admitted(replace(best, order=order)) for order in (14, 18, 20, 28, 34, 50)]
    assert 0 < admitted(best) < 60
    assert admitted(best) >= max(others)


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
    watch = Watch.of(read(AVERAGE_CASE_SGD.params, plan.config), plan, largest=None)
    with pytest.raises(InvalidValue, match="costs"):
        watch.admits([0.5] * 10, 0.1, 1.0)

"""One model by several workers: the one worker's model, batches and noise, whatever their number."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from dpcore.randomness import Purpose
from tests.trainables.recording import CPU, MemoryRun, blobs, facts_of, gradient_task, linear, memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.parallel.sums import packed, serve, shards, unpacked
from trainables.system import Dataset, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD
from trainables.training.hyperparameters import epochs_of
from trainables.training.made_up import made_up
from trainables.training.private_sgd import LocalSums

GIVEN = PrivacyTarget(epsilon=1e6, delta=1e-4, solve="none")
POINTS = blobs(300, 30)
IMAGES = made_up(facts_of((28, 28), n=60, n_validation=60, classes=10), 60, 60)


def planned(system: Any, data: Dataset, **changes: Any) -> PrivacyPlan:
    config = {"model": "mlp", "hidden": 8, "learning_rate": 0.5, "clip_norm": 0.7, "batch_size": 30, "epochs": 2.0}
    plan = system.plan(config | {"noise_multiplier": 1.0} | changes, data.facts, GIVEN, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def fitted(plan: PrivacyPlan, data: Dataset, workers: int = 0, how=serve, settings=None, **run: Any) -> MemoryRun:
    """Trained by `workers` workers, of whom two have a group of their own; 0: by this process alone."""
    one = memory_run(plan, **run)
    team = ThreadTeam(data, workers, workers == 2, how) if workers else None
    system = NOISY_ADAM if plan.system == "noisy-adam" else NOISY_SGD
    system.fit([one], data, RunSettings(team=team, threads=1, **(settings or {})))
    return one


def is_same(found: MemoryRun, expected: MemoryRun, tolerance: float = 2e-5) -> bool:
    (step, state, metrics), (step_, state_, metrics_) = found.final, expected.final
    # Float32 sums in another order.
    alike = [np.allclose(value, state_[name], rtol=10 * tolerance, atol=tolerance) for name, value in state.items()]
    return (
        step == step_ and state.keys() == state_.keys() and all(alike) and metrics == pytest.approx(metrics_, rel=0.1)
    )


# The same model


@pytest.mark.parametrize(
    ("data", "changes", "workers", "settings"),
    [
        (IMAGES, {"model": "cnn", "batch_size": 20, "epochs": 1.0, "learning_rate": 0.05}, 2, {"microbatch": 3}),
        (POINTS, {"epochs": 0.5}, 3, {"precision": "bfloat16"}),
        # Empty batches, and workers without records.
        *(
            (blobs(n, 2), {"batch_size": size, "epochs": epochs_of(20, size, n)}, 4, {})
            for n, size in ((300, 1), (3, 2), (2, 1))
        ),
    ],
)
def test_the_model_is_that_of_one_worker(data: Dataset, changes: dict, workers: int, settings: dict) -> None:
    plan = planned(NOISY_SGD, data, **changes)
    found, alone = (fitted(plan, data, number, settings=settings) for number in (workers, 0))
    assert is_same(found, alone, 1e-3 if settings.get("precision") else 2e-5)


@pytest.mark.parametrize("workers", [0, 4])
def test_a_checkpoint_of_two_workers_goes_on_with_another_number(workers: int) -> None:
    plan = planned(NOISY_ADAM, POINTS, learning_rate=0.05)
    half = plan.steps // 2
    _, state, _ = fitted(plan, POINTS, 2, to_step=half).final
    resumed = [fitted(plan, POINTS, number, from_step=half, state=state, attempt=2) for number in (2, workers)]
    assert is_same(*resumed)


def same_coins_everywhere(task, data, rank, workers, link, device):
    """A mutant: every worker draws its shard as if it were the whole, from the one stream."""
    shard = shards(len(data.train), workers)[rank]
    own = data.train.each(lambda array: array[shard.start : shard.stop])
    serve(task, replace(data, train=own), 0, 1, link, device)


def rate_per_worker(task, data, rank, workers, link, device):
    """A mutant: the global rate divided among the workers, as a batch size is."""
    serve(replace(task, rate=task.rate / workers), data, rank, workers, link, device)


def noise_in_shares(task, data, rank, workers, link, device):
    """A mutant: shares that make up for what each worker could subtract put too much into the model."""

    class Noisy:
        on_cpu = True
        spread = staticmethod(link.spread)

        def add_up(self, tensor):
            link.add_up(tensor + 0.2 * 0.7 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(rank)))

    serve(task, data, rank, workers, Noisy(), device)


@pytest.mark.parametrize("mutant", [same_coins_everywhere, rate_per_worker, noise_in_shares])
def test_other_batches_and_noise_on_top_are_seen(mutant) -> None:
    plan = planned(NOISY_SGD, POINTS, epochs=0.5)
    assert is_same(fitted(plan, POINTS, 3), alone := fitted(plan, POINTS))
    assert not is_same(fitted(plan, POINTS, 3, mutant), alone)


@pytest.mark.parametrize("sampling", ["pseudorandom", "secure"])
def test_each_sum_is_over_the_records_that_one_worker_draws(sampling) -> None:
    """Record i is the i-th unit vector: under a linear model it moves column i of the weights and no other."""
    facts = replace(POINTS.facts, n=10, n_validation=0, features={"x": InputSpec(shape=(10,))})
    train = Split({"x": np.eye(10, dtype=np.float32)}, np.arange(10) % 2)
    data = Dataset(facts, train, train.each(lambda array: array[:0]), "")
    task = gradient_task(rate=0.25, steps=30, sampling_seed=b"\x05" * 32, sampling=sampling)
    model = linear(data)
    alone = LocalSums(task, model, data, CPU)
    seen = set()
    with ThreadTeam(data, 4).sums(task, model) as sums:
        for _ in range(30):
            found, expected = sums.next().tensors, alone.next().tensors
            assert all(torch.allclose(found[name], one, atol=1e-6) for name, one in expected.items())
            weights = next(one for one in found.values() if one.ndim == 2)
            seen.add(int((weights.abs().sum(0) > 0).sum()))
    assert {0, 1, 2, 3} < seen


# What it is made of


@given(st.integers(0, 1000), st.integers(1, 64))
def test_shards_cover_every_record_once_and_evenly(n: int, workers: int) -> None:
    parts = shards(n, workers)
    assert [row for part in parts for row in part] == list(range(n))
    assert len(parts) == workers
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_flat_tensor_holds_every_type_exactly() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, dtype=torch.float64), nn.Linear(2, 2, dtype=torch.bfloat16))
    parameters = dict(model.named_parameters())
    back = unpacked(packed(parameters, parameters), parameters)
    assert list(back) == list(parameters)
    assert all(torch.equal(back[name].to(one.dtype), one) for name, one in parameters.items())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_a_worker_ends_the_run() -> None:
    def broken(task, data, rank, workers, link, device):
        if rank == 1:
            raise ZeroDivisionError("a worker's own error")
        serve(task, data, rank, workers, link, device)

    run = memory_run(planned(NOISY_SGD, POINTS))
    with pytest.raises(ZeroDivisionError):
        NOISY_SGD.fit([run], POINTS, RunSettings(team=ThreadTeam(POINTS, 2, serve=broken)))
    assert not run.checkpoints


def test_workers_hold_nothing_that_noise_follows_from() -> None:
    secret = bytes(range(100, 132))
    run = memory_run(planned(NOISY_SGD, POINTS, epochs=0.2), secret=secret)
    team = ThreadTeam(POINTS, 2)
    NOISY_SGD.fit([run], POINTS, RunSettings(team=team))
    (task,) = team.tasks
    shipped = pickle.dumps(task)
    assert secret not in shipped
    assert run.streams.derived_seed(Purpose.NOISE, step=0) not in shipped
    assert task.sampling_seed in shipped
    assert task.sampling_seed.hex() not in repr(task)

"""Several workers together draw the batches and the noise of one: their laws, by tests that find mutants."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from dpcore.randomness import Purpose
from tests.trainables.parallel_cases import ALARM, WORKERS, basis, clouds, fitted, planned
from tests.trainables.recording import memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.parallel import GradientTask
from trainables.parallel.sums import serve, shards
from trainables.system import Dataset, RunSettings, Split
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.training.private_sgd import LocalSums
from trainables.training.released import build_model


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# The same release


def sums_of(
    data: Dataset, workers: int, rate: float, steps: int, how=serve, sampling="pseudorandom"
) -> list[dict[str, torch.Tensor]]:
    """The clipped sums of `steps` steps at fixed weights, as the owner gets them."""
    task = GradientTask(
        model="linear",
        hidden=1,
        model_seed=0,
        rate=rate,
        clip_norm=1.0,
        steps=steps,
        sampling_seed=b"\x05" * 32,
        sampling=sampling,
    )
    model = build_model("linear", 1, 0, data.facts, torch.device("cpu"))
    with ThreadTeam(data, workers, serve=how).sums(task, model) as sums:
        return [{name: one.clone() for name, one in sums.next().tensors.items()} for _ in range(steps)]


def drawn(data: Dataset, workers: int, rate: float, steps: int, how=serve, sampling="pseudorandom") -> np.ndarray:
    """{0, 1} of shape [steps, n]: which records were in the sums that arrived."""
    sums = sums_of(data, workers, rate, steps, how, sampling)
    weights = next(name for name, one in sums[0].items() if one.ndim == 2)
    return np.stack([(one[weights].abs().sum(0) > 0).numpy() for one in sums]).astype(np.int64)


def is_poisson(draws: np.ndarray, rate: float) -> bool:
    """Every record by its own coin: means of records, coincidences of pairs, spread of batch sizes."""
    steps, n = draws.shape
    records = [stats.binomtest(int(one), steps, rate).pvalue * n for one in draws.sum(0)]
    together = draws.T @ draws
    pairs = [
        stats.binomtest(int(together[i, j]), steps, rate * rate).pvalue * n * (n - 1) / 2
        for i in range(n)
        for j in range(i)
    ]
    # Sizes are Binomial(n, rate): their variance within its own spread.
    spread = draws.sum(1).var(ddof=1) / (n * rate * (1 - rate))
    sizes = 2 * stats.norm.sf(abs(spread - 1) / math.sqrt((2 + (1 / (rate * (1 - rate)) - 6) / n) / steps))
    return min([*records, *pairs, sizes]) > ALARM / 3


STEPS, RATE, RECORDS = 200, 0.25, 10


@pytest.mark.parametrize(("workers", "sampling"), [(2, "pseudorandom"), (4, "pseudorandom"), (4, "secure")])
def test_the_sums_are_over_poisson_batches_at_the_planned_rate(workers, sampling):
    draws = drawn(basis(RECORDS), workers, RATE, STEPS, sampling=sampling)
    assert is_poisson(draws, RATE)
    assert (draws.sum(1) == 0).any()


def same_coins_everywhere(task, data, rank, workers, link, device):
    """A mutant: every worker draws its shard as if it were the whole, from the one stream."""
    shard = shards(len(data.train), workers)[rank]
    own = Split(
        {name: one[shard.start : shard.stop] for name, one in data.train.inputs.items()},
        data.train.targets[shard.start : shard.stop],
    )
    serve(task, replace(data, train=own), 0, 1, link, device)


def rate_per_worker(task, data, rank, workers, link, device):
    """A mutant: the global rate divided among the workers, as a batch size is."""
    serve(replace(task, rate=task.rate / workers), data, rank, workers, link, device)


@pytest.mark.parametrize("mutant", [same_coins_everywhere, rate_per_worker])
def test_other_batches_are_seen(mutant):
    assert not is_poisson(drawn(basis(RECORDS), 2, RATE, STEPS, mutant), RATE)


def noise_of_a_step(workers: int, how=serve) -> np.ndarray:
    """What a step adds to the clipped sum, over sigma: standard normal if the plan is kept. About 20,000 draws."""
    data = clouds()
    plan = planned(NOISY_SGD, data, hidden=2500, noise_multiplier=1.3, clip_norm=0.6, epochs=0.1)
    run = fitted(NOISY_SGD, plan, data, workers, how=how)
    member = run.member
    task = GradientTask(
        model="mlp",
        hidden=2500,
        model_seed=int.from_bytes(run.streams.derived_seed(Purpose.INITIALISATION)[:8], "big"),
        rate=30 / 300,
        clip_norm=0.6,
        steps=1,
        sampling_seed=run.streams.derived_seed(Purpose.SAMPLING, step=0),
    )
    before = build_model(task.model, task.hidden, task.model_seed, data.facts, torch.device("cpu"))
    exact = LocalSums(task, before, data, torch.device("cpu")).next()
    assert member.to_step == 1
    parts = []
    for name, one in before.named_parameters():
        moved = (one.detach().numpy() - run.final[1][f"parameter.{name}"]) / 0.5 * 30
        parts.append(((moved - exact.tensors[name].numpy()) / (1.3 * 0.6)).ravel())
    return np.concatenate(parts).astype(float)


def is_standard(noise: np.ndarray) -> bool:
    square = float(np.square(noise).sum())
    tails = 2 * min(stats.chi2.cdf(square, len(noise)), stats.chi2.sf(square, len(noise)))
    return min(tails, stats.kstest(noise, "norm").pvalue) > ALARM / 2


@WORKERS
def test_the_noise_has_exactly_the_planned_variance(workers):
    noise = noise_of_a_step(workers)
    assert len(noise) > 19_000
    assert is_standard(noise)


def serve_with_noise(share: float):
    def noisy(task, data, rank, workers, link, device):
        class Noisy:
            on_cpu = True

            def spread(self, tensors):
                link.spread(tensors)

            def add_up(self, tensors):
                generator = torch.Generator().manual_seed(rank)
                for one in tensors:
                    one += share * 1.3 * 0.6 * torch.randn(one.shape, generator=generator)
                link.add_up(tensors)

        serve(task, data, rank, workers, Noisy(), device)

    return noisy


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_noise_of_the_workers_on_top_is_seen(share):
    """A mutant: shares that make up for what each worker could subtract put too much into the model."""
    assert not is_standard(noise_of_a_step(2, serve_with_noise(share)))


def test_workers_hold_nothing_that_noise_follows_from():
    data = clouds()
    secret = bytes(range(100, 132))
    run = memory_run(planned(NOISY_SGD, data, epochs=0.2), secret=secret)
    team = ThreadTeam(data, 2)
    NOISY_SGD.fit([run], data, RunSettings(team=team))
    (task,) = team.tasks
    shipped = pickle.dumps(task)
    assert secret not in shipped
    assert run.streams.derived_seed(Purpose.NOISE, step=0) not in shipped
    assert task.sampling_seed in shipped
    assert task.sampling_seed.hex() not in repr(task)

"""One model by several workers: the one worker's model, batches, noise and claim, whatever their number."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from dpcore.randomness import Purpose
from tests.trainables.recording import MemoryRun, memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.data.records import dataset
from trainables.parallel.sums import Layout, serve, shards
from trainables.system import Dataset, DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split, Task
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD
from trainables.team import GradientTask
from trainables.training.hyperparameters import epochs_of
from trainables.training.private_sgd import LocalSums
from trainables.training.released import MODEL_SEED, build_model

# Each statistical test fails by chance with probability at most ALARM; secrets are fixed besides.
ALARM = 1e-6

GIVEN = PrivacyTarget(epsilon=1e6, delta=1e-4, solve="none")


def clouds(n: int = 300, classes: int = 3) -> Dataset:
    """Gaussian clouds, one per class, in four dimensions."""
    rng = np.random.default_rng(7)
    labels = np.arange(n) % classes
    points = np.clip(0.2 + 0.25 * labels[:, None] + 0.1 * rng.standard_normal((n, 4)), 0, 1).astype(np.float32)
    facts = DatasetSpec(
        dataset="clouds",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n,
        features={"x": InputSpec(shape=(4,))},
        classes=classes,
    )
    whole = Split(inputs={"x": points}, targets=labels)
    return dataset(facts, whole, whole)


def images(n: int = 60) -> Dataset:
    rng = np.random.default_rng(3)
    facts = DatasetSpec(
        dataset="images",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n,
        features={"image": InputSpec(shape=(28, 28))},
        classes=10,
    )
    whole = Split(inputs={"image": rng.random((n, 28, 28), dtype=np.float32)}, targets=np.arange(n) % 10)
    return dataset(facts, whole, whole)


def basis(n: int) -> Dataset:
    """Record i is the i-th unit vector: under a linear model it moves column i of the weights and no other."""
    facts = DatasetSpec(
        dataset="basis",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=1,
        features={"x": InputSpec(shape=(n,))},
        classes=2,
    )
    train = Split(inputs={"x": np.eye(n, dtype=np.float32)}, targets=np.arange(n) % 2)
    one = Split(inputs={"x": train.inputs["x"][:1]}, targets=train.targets[:1])
    return Dataset(facts=facts, train=train, validation=one, fingerprint="")


def planned(system, data: Dataset, **changes) -> PrivacyPlan:
    config = {"model": "mlp", "hidden": 8, "learning_rate": 0.5, "clip_norm": 0.7, "batch_size": 30, "epochs": 2.0}
    plan = system.plan(config | {"noise_multiplier": 1.0} | changes, data.facts, GIVEN, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def fitted(system, plan: PrivacyPlan, data: Dataset, workers: int = 0, bridged: bool = False, **run) -> MemoryRun:
    """Trained by `workers` workers; 0: by this process alone."""
    settings, how = run.pop("settings", {}), run.pop("how", serve)
    one = memory_run(plan, **run)
    team = ThreadTeam(data, workers, bridged, how) if workers else None
    system.fit([one], data, RunSettings(team=team, **settings))
    return one


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def assert_same_model(found: MemoryRun, expected: MemoryRun) -> None:
    (step, state, metrics), (step_, state_, metrics_) = found.final, expected.final
    assert step == step_
    assert state.keys() == state_.keys()
    for name, value in state.items():
        # Float32 sums in another order.
        np.testing.assert_allclose(value, state_[name], rtol=2e-4, atol=2e-5)
    assert metrics == pytest.approx(metrics_, rel=1e-3)


# The same model


def test_convolutions_in_microbatches_over_a_bridge_are_the_same_too():
    data = images()
    plan = planned(NOISY_SGD, data, model="cnn", batch_size=20, epochs=1.0, learning_rate=0.05)
    whole = fitted(NOISY_SGD, plan, data)
    assert_same_model(fitted(NOISY_SGD, plan, data, 2, bridged=True, settings={"microbatch": 3}), whole)


@pytest.mark.parametrize("precision", ["bfloat16"])
def test_half_precision_is_the_same_on_every_side(precision):
    data = clouds()
    plan = planned(NOISY_SGD, data, epochs=0.5)
    alone = fitted(NOISY_SGD, plan, data, settings={"precision": precision})
    team = fitted(NOISY_SGD, plan, data, 2, settings={"precision": precision})
    exact = fitted(NOISY_SGD, plan, data)
    trained = {name: value for name, value in team.final[1].items() if name != MODEL_SEED}
    for name, value in trained.items():
        np.testing.assert_allclose(value, alone.final[1][name], atol=1e-3)
        assert value.dtype == np.float32
    assert any(not np.array_equal(value, exact.final[1][name]) for name, value in alone.final[1].items())


@pytest.mark.parametrize(("n", "batch_size"), [(300, 1), (3, 2), (2, 1)])
def test_workers_with_empty_batches_or_without_records_take_part(n, batch_size):
    data = clouds(n, classes=2)
    plan = planned(NOISY_SGD, data, batch_size=batch_size, epochs=epochs_of(20, batch_size, n))
    seen = fitted(NOISY_SGD, plan, data, 4)
    assert plan.steps == seen.final[0] == 20
    assert_same_model(seen, fitted(NOISY_SGD, plan, data))


@pytest.mark.parametrize("workers", [0, 4])
def test_a_checkpoint_of_two_workers_goes_on_with_another_number(workers):
    data = clouds()
    plan = planned(NOISY_ADAM, data, learning_rate=0.05)
    half = plan.steps // 2
    _, state, _ = fitted(NOISY_ADAM, plan, data, 2, to_step=half).final
    resumed = [
        fitted(NOISY_ADAM, plan, data, number, from_step=half, state=state, attempt=2) for number in (2, workers)
    ]
    assert_same_model(*resumed)


# What it is made of


@given(st.integers(0, 1000), st.integers(1, 64))
def test_shards_cover_every_record_once_and_evenly(n, workers):
    parts = shards(n, workers)
    assert [row for part in parts for row in part] == list(range(n))
    assert len(parts) == workers
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_flat_tensors_hold_every_type_exactly():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, dtype=torch.float64), nn.Linear(2, 2, dtype=torch.bfloat16))
    model[0].bias.requires_grad_(False)
    layout = Layout.of(model)
    flat = layout.zeros(torch.device("cpu"))
    assert {one.dtype for one in flat} == {torch.float32, torch.float64}
    parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
    layout.pack(parameters, flat)
    back = layout.unpack(flat)
    assert list(back) == list(parameters)
    for name, one in parameters.items():
        assert torch.equal(back[name].to(one.dtype), one)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_in_a_worker_ends_the_run():
    data = clouds()

    def broken(task, data, rank, workers, link, device):
        if rank == 1:
            raise ZeroDivisionError("a worker's own error")
        serve(task, data, rank, workers, link, device)

    team = ThreadTeam(data, 2, serve=broken)
    run = memory_run(planned(NOISY_SGD, data))
    with pytest.raises(ZeroDivisionError):
        NOISY_SGD.fit([run], data, RunSettings(team=team))
    assert not run.checkpoints


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


@pytest.mark.parametrize("workers", [1, 4])
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

"""One model by several workers: the one worker's model, batches, noise and claim, whatever their number."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.trainables.parallel_cases import WORKERS, clouds, fitted, images, planned
from tests.trainables.recording import MemoryRun, memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.parallel.sums import Layout, serve, shards
from trainables.system import RunSettings
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD
from trainables.training.hyperparameters import epochs_of
from trainables.training.released import MODEL_SEED


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


@WORKERS
@pytest.mark.parametrize("system", [NOISY_SGD, NOISY_ADAM], ids=lambda one: one.name)
def test_several_workers_train_the_model_of_one(system, workers):
    data = clouds()
    plan = planned(system, data, learning_rate=0.05)
    assert_same_model(fitted(system, plan, data, workers), fitted(system, plan, data))


def test_convolutions_in_microbatches_over_a_bridge_are_the_same_too():
    data = images()
    plan = planned(NOISY_SGD, data, model="cnn", batch_size=20, epochs=1.0, learning_rate=0.05)
    whole = fitted(NOISY_SGD, plan, data)
    assert_same_model(fitted(NOISY_SGD, plan, data, 2, bridged=True, settings={"microbatch": 3}), whole)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
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


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_checkpoint_of_two_workers_goes_on_with_another_number(workers):
    data = clouds()
    plan = planned(NOISY_ADAM, data, learning_rate=0.05)
    half = plan.steps // 2
    _, state, _ = fitted(NOISY_ADAM, plan, data, 2, to_step=half).final
    resumed = [
        fitted(NOISY_ADAM, plan, data, number, from_step=half, state=state, attempt=2) for number in (2, workers)
    ]
    assert_same_model(*resumed)


def test_records_keep_the_order_of_one_process():
    """The horizon before every draw, and the last checkpoint with the metrics."""
    data = clouds()
    run = fitted(NOISY_SGD, planned(NOISY_SGD, data), data, 2, settings={"checkpoint_seconds": 0.001})
    assert run.horizons == sorted(run.horizons)
    assert [step for step, _, metrics in run.checkpoints if metrics] == [run.member.to_step]
    assert len(run.checkpoints) > 1


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

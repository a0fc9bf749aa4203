"""The clipped sum of each step, formed in this process or by several.

What is split, and why the release does not change. Records (whole units, where the data name some) are cut into
consecutive shards (`shards`). Every worker draws the step's Poisson batch from the same stream and keeps what falls
into its shard: a Poisson batch of the shard at the global rate, independent of the others' (`PoissonSampling.indices`),
the very records that one worker would have drawn. Each worker clips and adds up its own, an empty batch to zeros; the
sums are added up at the owner. So the event is the same one subsampled Gaussian, and the model the one worker's up to
the order of float32 sums, whatever the number of workers; a checkpoint can go on with another number.

Who draws the noise. The owner, once, after the reduction: the process that holds the trial's secret, keeps its records
and releases the model, which every claim trusts already. It looks after no record. The workers hold the seed of the
batches (they have to draw them), never the secret or the noise's stream, and see parameters whose noise is in.

Noise in shares would be worse, however correlated. Let workers hold z_1..z_N with sum S of variance s^2: since the sum
over r of Cov(z_r, S) is Var(S) = s^2, some worker's share is correlated with S, and S given z_r has a variance below
s^2. With independent shares of s^2/N each worker faces s^2 (N-1)/N, with N = 2 half the variance. Raising the shares
until s^2 is left to everybody would put more than the planned variance into the model. So: no shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.gradients import ClippedSum, PrivateGradients, seeded_draws
from dpcore.randomness import Purpose
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.knobs import read
from trainables.measures.hooks import WatchesGradients
from trainables.models import sketch
from trainables.parallel.flat import Layout
from trainables.parallel.link import Link
from trainables.parallel.process import limited_threads
from trainables.parallel.shards import shards
from trainables.parallel.team import BatchSums, GradientTask
from trainables.system import Dataset, Execution, PublicFacts, Run
from trainables.training.hyperparameters import ModelKnobs
from trainables.training.losses import loss_function, record_weights, tensor, weighted
from trainables.training.noise import batch_key, batches_of

LossFunction = Callable[[Any, Any], Tensor]


class LocalSums:
    """Sums over one shard of the units, formed in this process; a unit is a record where the data name no other.

    shard  which units; all by default
    loss   (outputs, targets) -> losses [B], here multiplied by the records' weights; the data's own by default
    """

    def __init__(
        self,
        task: GradientTask,
        model: nn.Module,
        data: Dataset,
        device: torch.device,
        shard: range | None = None,
        loss: LossFunction | None = None,
    ) -> None:
        self._task, self._device, self._present = task, device, data.present
        self._shard = () if shard is None else (shard,)
        part = range(data.present) if shard is None else shard
        self._units = None if data.units is None else data.units.shard(part)
        first, last = (part.start, part.stop) if data.units is None else data.units.offsets[[part.start, part.stop]]
        own = slice(first, last)
        self._inputs = tuple(tensor(array[own], device) for array in data.train.inputs.values())
        loss = loss or loss_function(data.facts)
        self._answers: tuple[Tensor, ...] = (tensor(data.train.targets[own], device),)
        weights = record_weights(data.facts, data.train)
        if weights is not None:
            loss, self._answers = weighted(loss), (*self._answers, tensor(weights[own], device))
        self._sampling = PoissonSampling(rate=task.rate)
        self._draws = batches_of(task.sampling_seed, task.sampling)
        self._unit_records = data.facts.unit_records
        self._gradients = PrivateGradients(model, loss, unit_records=self._unit_records, precision=task.precision)

    def next(self) -> ClippedSum:
        """See `BatchSums`."""
        rows, taken = self._batch(self._sampling.indices(self._present, self._draws, *self._shard))
        microbatch = self._task.microbatch
        return self._gradients.clipped_sum(
            tuple(_at(one, rows) for one in self._inputs),
            tuple(_at(one, rows) for one in self._answers),
            clip_norm=self._task.clip_norm,
            taken=taken,
            # Of a task in records, of an engine in units.
            microbatch_size=None if microbatch is None else max(1, microbatch // self._unit_records),
        )

    def _batch(self, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
        """Positions of the records of the `chosen` units, [B] or [B, k], and which of them are there."""
        if self._units is None:
            return torch.from_numpy(chosen).to(self._device), None
        rows, taken = self._units.rows(chosen, self._unit_records)
        if self._unit_records == 1:
            return torch.from_numpy(rows[:, 0]).to(self._device), None
        return torch.from_numpy(rows).to(self._device), torch.from_numpy(taken).to(self._device)


def _at(column: Tensor, rows: Tensor) -> Tensor:
    """[*rows.shape, ...]"""
    return column.index_select(0, rows.flatten()).view(*rows.shape, *column.shape[1:])


class LinkedSums:
    """Sums over all records, formed by the workers at the other end of `link`; the owner's side."""

    def __init__(self, task: GradientTask, model: nn.Module, link: Link) -> None:
        self._task, self._link, self._layout = task, link, Layout.of(model)
        self._parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._sent = self._layout.zeros(torch.device("cpu"))

    def next(self) -> ClippedSum:
        """See `BatchSums`."""
        self._layout.pack(self._parameters, self._sent)
        self._link.spread(self._sent)
        total = self._layout.zeros(torch.device("cpu"))
        self._link.add_up(total)
        return ClippedSum(tensors=self._layout.unpack(total), clip_norm=self._task.clip_norm)


@contextmanager
def clipped_sums(
    run: Run,
    data: Dataset,
    execution: Execution,
    *,
    rate: float,
    clip_norm: float,
    model: nn.Module,
    loss: LossFunction,
    device: torch.device,
) -> Iterator[BatchSums]:
    """The sums of `run` from its start to its `member.to_step`: by `execution.team`, or in this process without one.

    Raises ValueError for a watched run with a team, whose workers would not see what is watched.
    """
    task = gradient_task(run, execution, rate=rate, clip_norm=clip_norm)
    if execution.team is None:
        yield LocalSums(task, model, data, device, loss=loss)
        return
    if isinstance(run, WatchesGradients):
        raise ValueError(f"{run.member.key}: canaries in gradients are planted in one process; run it without workers")
    with execution.team.sums(replace(task, untrained=_untrained(model)), model) as sums:
        yield sums


def gradient_task(run: Run, execution: Execution, *, rate: float, clip_norm: float) -> GradientTask:
    """What other processes have to know of `run`."""
    knobs = read(ModelKnobs, run.member.plan.config)
    return GradientTask(
        model=knobs.model,
        hidden=knobs.hidden,
        model_seed=model_seed(run),
        rate=rate,
        clip_norm=clip_norm,
        steps=run.member.to_step - run.start_step,
        sampling_seed=batch_key(run),
        sampling=execution.noise_source,
        microbatch=execution.microbatch,
        precision=execution.precision,
        device=execution.device,
        threads=execution.threads,
    )


def model_seed(run: Run) -> int:
    """What starting weights are drawn from; public."""
    return int.from_bytes(run.streams.derived_seed(Purpose.INITIALISATION)[:8], "big")


def initial_model(name: str, hidden: int, seed: int, facts: PublicFacts, device: torch.device) -> nn.Module:
    """A model with its starting weights, the same in every process. Raises InvalidValue (model)."""
    # Layers draw their weights from torch's global generator, which is put back afterwards.
    with seeded_draws(seed):
        model = models.build(name, facts, hidden=hidden)
    if any(isinstance(module, nn.Conv2d) for module in model.modules()):
        # A third faster on a CPU for the two-convolution net.
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model.to(device)


def _untrained(model: nn.Module) -> tuple[float, ...]:
    parts = sketch.untrained(model)
    return tuple(sketch.sketch(parts).tolist()) if parts else ()


def serve(task: GradientTask, data: Dataset, rank: int, workers: int, link: Link, device: torch.device) -> None:
    """Form this worker's part of each of `task.steps` sums. The worker's side: it keeps nothing between steps.

    Raises InvalidValue where this node's model has other parts that are never trained than the owner's.
    """
    with limited_threads(task.threads):
        model = initial_model(task.model, task.hidden, task.model_seed, data.facts, device)
        if not sketch.alike(np.array(task.untrained), np.array(_untrained(model))):
            raise InvalidValue(
                "model",
                task.model,
                "the same parts that are never trained on every node: here they are others",
                "Put the files that it loads on all of them.",
            )
        sums = LocalSums(task, model, data, device, shards(data.present, workers)[rank])
        layout = Layout.of(model)
        parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        exchanged = torch.device("cpu") if link.on_cpu else device
        received = layout.zeros(exchanged)
        for _ in range(task.steps):
            link.spread(received)
            _take(parameters, layout.unpack(received))
            part = layout.zeros(exchanged)
            layout.pack(sums.next().tensors, part)
            link.add_up(part)


@torch.no_grad()
def _take(parameters: dict[str, nn.Parameter], values: dict[str, Tensor]) -> None:
    for name, one in parameters.items():
        one.copy_(values[name])

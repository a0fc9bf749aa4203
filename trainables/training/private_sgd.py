"""Private SGD, readable from sampling to update: sample, clip, add up, noise, show, update; by whatever optimiser.

Source      Abadi et al. 2016, Algorithm 1; the sampler and the public divisor as in Bu et al. 2020.
Departures  Batches are Poisson samples. The noisy sum is divided by the expected size of a batch, which is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.gradients import ClippedSum, PrivateGradients
from dpcore.gradients.check import RECORDS
from dpcore.mechanisms.noisy_sums import SampledGaussian, Sequence, part_at
from dpcore.noise import NoiseSource
from dpcore.sampling import PoissonSampling
from trainables.hyperparameters import read
from trainables.models.pretrained import trained_groups
from trainables.system import Dataset, Run, RunSettings, State
from trainables.team import BatchSums, GradientTask, RecordGradient, device_named, limited_threads
from trainables.training.augmentation import copied
from trainables.training.hyperparameters import ModelHyperparameters
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import (
    LossFunction,
    as_stored,
    as_taken,
    averaged,
    loss_function,
    record_weights,
    weighted,
)
from trainables.training.made_up import made_up_records
from trainables.training.noise import batch_key, batches_of, noise_source
from trainables.training.optimisers import Optimiser
from trainables.training.released import build_model, model_seed, with_seed
from trainables.training.trained_model import CLIPPED, MOVED
from trainables.validation.evaluate import report


@dataclass(frozen=True, slots=True)
class PrivateSteps:
    """One run of noised gradient steps, as `run_steps` executes it."""

    run: Run
    data: Dataset
    execution: RunSettings
    mechanism: SampledGaussian | Sequence
    model: nn.Module
    optimiser: Optimiser
    sums: BatchSums
    noise: NoiseSource
    device: torch.device
    gradient: RecordGradient
    start: Mapping[str, Tensor]
    stopped: bool = False

    def step(self, number: int) -> None:
        """One step of Algorithm 1: sample and clip (`LocalSums.next`), noise and the public divisor, update."""
        clipped = self.sums.next()
        gradient = part_at(self.mechanism, number).noisy_mean(clipped, self.noise)
        self.run.saw(number, gradient)
        self.optimiser.update(gradient, number)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed(self.optimiser.state(), self.run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        with self.optimiser.released():
            told = report(self.run, self.model, self.data, self.device, self.execution, step)
            return {**told, **self._fine_tuned()} if self.start else told

    def _fine_tuned(self) -> Mapping[str, float]:
        """What is known of weights that are released without looking at a record: `trained_model.FINE_TUNED`."""
        found = dict[str, float]()
        for group, weights in trained_groups(self.model).items():
            before = sum(float(self.start[name].square().sum()) for name in weights)
            moved = sum(float((one.detach() - self.start[name]).square().sum()) for name, one in weights.items())
            found |= {MOVED + group: math.sqrt(moved / before)} if before else {}
        facts, clip_norm = self.data.facts, self.mechanism.clip_norm
        if self.gradient.automatic:
            found[CLIPPED] = 1.0
        elif facts.features.keys() == self.data.train.inputs.keys():
            gradients = PrivateGradients(self.model, loss_function(facts), precision=self.execution.precision)
            inputs, targets = made_up_records(facts, RECORDS, self.device)
            for row in range(RECORDS):
                own = gradients.clipped_sum(tuple(one[[row]] for one in inputs), targets[[row]], clip_norm=clip_norm)
                norm = math.sqrt(sum(float(one.square().sum()) for one in own.tensors.values()))
                found[CLIPPED] = found.get(CLIPPED, 0.0) + (norm > (1 - 1e-5) * clip_norm) / RECORDS
        return found


def train(
    run: Run,
    data: Dataset,
    execution: RunSettings,
    *,
    mechanism: SampledGaussian | Sequence,
    optimiser: Callable[[nn.Module], Optimiser],
    gradient: RecordGradient = RecordGradient(),
) -> None:
    """Execute one run up to its `member.to_step`: batches are summed by `execution.team`, or here without one.

    Raises InvalidValue (model), Refused and MixesExamples for a model that says something else of records together than
    alone, and ValueError for a watched run with a team, which would not see what is watched.
    """
    if run.watched and execution.team is not None:
        raise ValueError(f"{run.member.key}: canaries in gradients are planted in one process; run it without workers")
    device = device_of(execution)
    with limited_threads(execution.threads), ExitStack() as opened:
        model, loss = initial_model(run, data, device), loss_function(data.facts)
        if not run.watched:
            # Together and alone, of made-up ones, so that no refusal depends on a private record.
            engine = PrivateGradients(model, loss, precision=execution.precision)
            engine.check(*made_up_records(data.facts, RECORDS, device))
        model, loss = run.attach(model, loss)
        is_fine_tuned = read(ModelHyperparameters, run.member.plan.config).is_fine_tuned
        weights = dict(model.named_parameters()) if is_fine_tuned else {}
        start = {name: one.detach().clone() for name, one in weights.items() if one.requires_grad}
        updates = optimiser(model)
        if run.state is not None:
            updates.restore(run.state)
        noise = noise_source(run, execution, device)
        task = GradientTask(
            config=run.member.plan.config,
            model_seed=model_seed(run),
            rate=mechanism.sampling.rate,
            clip_norm=mechanism.clip_norm,
            from_step=run.start_step,
            steps=run.member.to_step - run.start_step,
            gradient=gradient,
            sampling_seed=batch_key(run),
            sampling=execution.noise_source,
            microbatch=execution.microbatch,
            precision=execution.precision,
            device=execution.device,
            threads=execution.threads,
        )
        sums: BatchSums
        if execution.team is None:
            sums = LocalSums(task, model, data, device, loss=loss)
        else:
            sums = opened.enter_context(execution.team.sums(task, model))
        steps = PrivateSteps(run, data, execution, mechanism, model, updates, sums, noise, device, gradient, start)
        run_steps(run, steps, Pace(execution.checkpoint_seconds))


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
        self._task, self._device, self._present, self._step = task, device, data.present, task.from_step
        self._shard = () if shard is None else (shard,)
        part = range(data.present) if shard is None else shard
        self._units = None if data.units is None else data.units.shard(part)
        first, last = (part.start, part.stop) if data.units is None else data.units.offsets[[part.start, part.stop]]
        own = slice(first, last)
        loss = loss or loss_function(data.facts)
        columns = [*data.train.inputs.values(), data.train.targets]
        weights = record_weights(data.facts, data.train)
        if weights is not None:
            loss, columns = weighted(loss), [*columns, weights]
        self._names, self._columns = tuple(data.train.inputs), [as_stored(one[own]) for one in columns]
        if device.type == "cuda" and 2 * sum(one.nbytes for one in self._columns) < torch.cuda.mem_get_info(device)[0]:
            self._columns = [one.to(device) for one in self._columns]
        gradient, self._features = task.gradient, data.facts.features
        if gradient.augmentation != "none":
            loss = averaged(loss, gradient.copies)
        self._sampling = PoissonSampling(rate=task.rate)
        self._draws = batches_of(task.sampling_seed, task.sampling)
        self._unit_records = data.facts.unit_records
        self._rows = self._unit_records * gradient.copies
        self._gradients = PrivateGradients(
            model, loss, unit_records=self._rows, precision=task.precision, automatic=gradient.automatic
        )

    def next(self) -> ClippedSum:
        """See `BatchSums`."""
        rows, taken = self._batch(self._sampling.indices(self._present, self._draws, *self._shard))
        columns = [_at(one, rows, self._device) for one in self._columns]
        inputs, answers = dict(zip(self._names, columns, strict=False)), tuple(columns[len(self._names) :])
        microbatch = self._task.microbatch
        if self._task.gradient.augmentation != "none":
            inputs, answers, taken = self._copied(inputs, answers, taken)
        self._step += 1
        return self._gradients.clipped_sum(
            tuple(inputs.values()),
            answers,
            clip_norm=self._task.clip_norm,
            taken=taken,
            # Of a task in records, of an engine in units.
            microbatch_size=None if microbatch is None else max(1, microbatch // self._rows),
        )

    def _copied(
        self, inputs: Mapping[str, Tensor], answers: tuple[Tensor, ...], taken: Tensor | None
    ) -> tuple[dict[str, Tensor], tuple[Tensor, ...], Tensor | None]:
        """[U, ...] or [U, k, ...] -> [U, k * K, ...]: the copies of its records are the rows of a unit."""
        units, axis = len(answers[0]), int(self._unit_records > 1)
        lead = (units, self._rows) if self._rows > 1 else (units,)
        records = {name: one.flatten(0, axis) for name, one in inputs.items()}
        gradient = self._task.gradient
        copies = copied(gradient, records, self._features, self._step)
        repeated = [one.repeat_interleave(gradient.copies, axis) for one in answers]
        return (
            {name: one.view(*lead, *one.shape[1:]) for name, one in copies.items()},
            tuple(one.view(*lead, *one.shape[1 + axis :]) for one in repeated),
            None if taken is None else taken.repeat_interleave(gradient.copies, 1),
        )

    def _batch(self, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor | None]:
        """Positions of the records of the `chosen` units, [B] or [B, k], and which of them are there."""
        if self._units is None:
            return torch.from_numpy(chosen).to(self._columns[0].device), None
        rows, taken = self._units.rows(chosen, self._unit_records)
        if self._unit_records == 1:
            return torch.from_numpy(rows[:, 0]).to(self._columns[0].device), None
        return torch.from_numpy(rows).to(self._columns[0].device), torch.from_numpy(taken).to(self._device)


def _at(column: Tensor, rows: Tensor, device: torch.device) -> Tensor:
    """[*rows.shape, ...] on `device`, read where the column lies: in memory, in a file, or on the device."""
    return as_taken(column.index_select(0, rows.flatten()).view(*rows.shape, *column.shape[1:]), device)


def initial_model(run: Run, data: Dataset, device: torch.device) -> nn.Module:
    """The run's model with its starting weights, from the public seed. Raises InvalidValue (model)."""
    return build_model(run.member.plan.config, model_seed(run), data.facts, device)


def device_of(execution: RunSettings) -> torch.device:
    """Where this process keeps the model: with a team on the CPU, since the GPUs are its workers'."""
    return device_named("cpu" if execution.team is not None else execution.device)

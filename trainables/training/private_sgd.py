"""Private SGD, readable from sampling to update: sample, clip, add up, noise, show, update; by whatever optimiser.

Source      Abadi et al. 2016, Algorithm 1; the sampler and the public divisor as in Bu et al. 2020.
Departures  Batches are Poisson samples. The noisy sum is divided by the expected size of a batch, which is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.gradients import ClippedSum, PrivateGradients
from dpcore.gradients.check import RECORDS
from dpcore.mechanisms.noisy_sums import part_at
from dpcore.sampling import PoissonSampling
from trainables.models.pretrained import trained_groups
from trainables.planning import Fit
from trainables.system import Dataset, Run, RunSettings, State
from trainables.team import BatchSums, GradientTask, RecordGradient, device_named, limited_threads
from trainables.training.augmentation import copied
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

Made = Callable[[nn.Module], Optimiser]
"""What moves the weights of a model."""


def train(fit: Fit[Any, Any], optimiser: Made, gradient: RecordGradient = RecordGradient()) -> None:
    """Execute one run up to its `member.to_step`: batches are summed by the team of its settings, or here without one.

    Raises InvalidValue (model), Refused and MixesExamples for a model that says something else of records together than
    alone, and ValueError for a watched run with a team, which would not see what is watched.
    """
    with limited_threads(fit.settings.threads), ExitStack() as opened:
        run_steps(fit.run, PrivateSteps(fit, optimiser, gradient, opened), Pace(fit.settings.checkpoint_seconds))


class PrivateSteps:
    """One run of noised gradient steps, as `run_steps` executes it."""

    stopped = False

    def __init__(self, fit: Fit[Any, Any], optimiser: Made, gradient: RecordGradient, opened: ExitStack) -> None:
        self._fit, self._gradient, self._mechanism = fit, gradient, fit.mechanism
        run, data, settings, self._device = fit.run, fit.data, fit.settings, device_of(fit.settings)
        device = self._device
        if run.watched and settings.team is not None:
            text = "canaries in gradients are planted in one process; run it without workers"
            raise ValueError(f"{run.member.key}: {text}")
        model, loss = initial_model(run, data, device), loss_function(data.facts)
        if not run.watched:
            # Together and alone, of made-up ones, so that no refusal depends on a private record.
            engine = PrivateGradients(model, loss, precision=settings.precision)
            engine.check(*made_up_records(data.facts, RECORDS, device))
        self._model, loss = run.attach(model, loss)
        weights = self._model.named_parameters() if fit.params.is_fine_tuned else ()
        self._start = {name: one.detach().clone() for name, one in weights if one.requires_grad}
        self._optimiser = optimiser(self._model)
        if run.state is not None:
            self._optimiser.restore(run.state)
        self._noise = noise_source(run, settings, device)
        task = GradientTask(
            config=run.member.plan.config,
            model_seed=model_seed(run),
            rate=self._mechanism.sampling.rate,
            clip_norm=self._mechanism.clip_norm,
            from_step=run.start_step,
            steps=run.member.to_step - run.start_step,
            gradient=gradient,
            sampling_seed=batch_key(run),
            sampling=settings.noise_source,
            microbatch=settings.microbatch,
            precision=settings.precision,
            device=settings.device,
            threads=settings.threads,
        )
        self._sums: BatchSums
        if settings.team is None:
            self._sums = LocalSums(task, self._model, data, device, loss=loss)
        else:
            self._sums = opened.enter_context(settings.team.sums(task, self._model))

    def step(self, number: int) -> None:
        """One step of Algorithm 1: sample and clip (`LocalSums.next`), noise and the public divisor, update."""
        gradient = part_at(self._mechanism, number).noisy_mean(self._sums.next(), self._noise)
        self._fit.run.saw(number, gradient)
        self._optimiser.update(gradient, number)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed(self._optimiser.state(), self._fit.run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        fit = self._fit
        with self._optimiser.released():
            told = report(fit.run, self._model, fit.data, self._device, fit.settings, step)
            return {**told, **self._fine_tuned()} if self._start else told

    def _fine_tuned(self) -> Mapping[str, float]:
        """What is known of weights that are released without looking at a record: `trained_model.FINE_TUNED`."""
        found, start = dict[str, float](), self._start
        for group, weights in trained_groups(self._model).items():
            before = sum(float(start[name].square().sum()) for name in weights)
            moved = sum(float((one.detach() - start[name]).square().sum()) for name, one in weights.items())
            found |= {MOVED + group: math.sqrt(moved / before)} if before else {}
        facts, clip_norm = self._fit.data.facts, self._mechanism.clip_norm
        if self._gradient.automatic:
            found[CLIPPED] = 1.0
        elif facts.features.keys() == self._fit.data.train.inputs.keys():
            engine = PrivateGradients(self._model, loss_function(facts), precision=self._fit.settings.precision)
            inputs, targets = made_up_records(facts, RECORDS, self._device)
            for row in range(RECORDS):
                own = engine.clipped_sum(tuple(one[[row]] for one in inputs), targets[[row]], clip_norm=clip_norm)
                norm = math.sqrt(sum(float(one.square().sum()) for one in own.tensors.values()))
                found[CLIPPED] = found.get(CLIPPED, 0.0) + (norm > (1 - 1e-5) * clip_norm) / RECORDS
        return found


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

"""Private gradient steps: sample, clip, add up, noise, show, update; by whatever optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from dpcore.mechanisms.sampled_gaussian import SampledGaussian, Sequence, part_at
from dpcore.noise import NoiseSource
from trainables import parallel
from trainables.knobs import read
from trainables.measures import hooks
from trainables.parallel import BatchSums, clipped_sums, device_named, limited_threads, model_seed
from trainables.system import Dataset, Execution, Run, State
from trainables.training.hyperparameters import ModelKnobs
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import loss_function
from trainables.training.noise import noise_source
from trainables.training.optimisers import Optimiser
from trainables.training.released import Origin
from trainables.validation.evaluate import report


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateSteps:
    """One run of noised gradient steps, as `run_steps` executes it."""

    run: Run
    data: Dataset
    execution: Execution
    mechanism: SampledGaussian | Sequence
    model: nn.Module
    optimiser: Optimiser
    sums: BatchSums
    noise: NoiseSource
    device: torch.device
    origin: Origin
    stopped: bool = False

    def step(self, number: int) -> None:
        """See `Training.step`."""
        gradient = part_at(self.mechanism, number).noisy_mean(self.sums.next(), self.noise)
        hooks.saw(self.run, number, gradient)
        self.optimiser.update(gradient, number)

    def state(self) -> State:
        """See `Training.state`."""
        return self.origin.beside(self.optimiser.state())

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        return report(self.run, self.model, self.data, self.device, self.execution, step)


def train(
    run: Run,
    data: Dataset,
    execution: Execution,
    *,
    mechanism: SampledGaussian | Sequence,
    optimiser: Callable[[nn.Module], Optimiser],
) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model)."""
    with limited_threads(execution.threads):
        device = device_of(execution)
        own = initial_model(run, data, device)
        origin = Origin.of(run, own)
        model, loss = hooks.attach(run, own, loss_function(data.facts))
        updates = optimiser(model)
        if run.state is not None:
            updates.restore(run.state)
        noise = noise_source(run, execution, device)
        with clipped_sums(
            run,
            data,
            execution,
            rate=mechanism.sampling.rate,
            clip_norm=mechanism.clip_norm,
            model=model,
            loss=loss,
            device=device,
        ) as sums:
            steps = PrivateSteps(
                run=run,
                data=data,
                execution=execution,
                mechanism=mechanism,
                model=model,
                optimiser=updates,
                sums=sums,
                noise=noise,
                device=device,
                origin=origin,
            )
            run_steps(run, steps, Pace(execution.checkpoint_seconds))


def initial_model(run: Run, data: Dataset, device: torch.device) -> nn.Module:
    """The run's model with its starting weights, from the public seed. Raises InvalidValue (model)."""
    knobs = read(ModelKnobs, run.member.plan.config)
    return parallel.initial_model(knobs.model, knobs.hidden, model_seed(run), data.facts, device)


def device_of(execution: Execution) -> torch.device:
    """Where this process keeps the model: with a team on the CPU, since the GPUs are its workers'."""
    return device_named("cpu" if execution.team is not None else execution.device)

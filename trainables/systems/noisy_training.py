"""The training loop of NoisySGD and NoisyAdam: sample, clip, noise, update, keep records."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.events import PoissonSampled
from dpcore.gradients import noise_event, noisy_mean_gradient
from dpcore.sampling import PoissonSampling
from trainables import parallel
from trainables.measures import watching
from trainables.parallel import clipped_sums, device_named, limited_threads, model_seed
from trainables.system import Config, Dataset, Execution, Run, State
from trainables.training.losses import loss_function
from trainables.training.noise import noise_source
from trainables.training.released import PARAMETER, arrays, restore, with_origin
from trainables.validation.judging import report

FIRST_INTERVAL = 8
"""Steps before the first checkpoint, when their cost is not known yet."""
LARGEST_GROWTH = 32

_MEAN, _SQUARE = "mean.", "square."
_STEPS = "steps"


class WrongEvent(RuntimeError):
    """What is about to run is not what the plan counted; nothing was drawn."""


def train(run: Run, data: Dataset, execution: Execution) -> None:
    """Execute one run up to its `member.to_step`. Raises WrongEvent, InvalidValue (model)."""
    with limited_threads(execution.threads):
        _train(run, data, execution)


def _train(run: Run, data: Dataset, execution: Execution) -> None:
    plan = run.member.plan
    sampling = PoissonSampling(rate=int(plan.config["batch_size"]) / data.facts.n)
    issued = sampling.event(noise_event(float(plan.config["noise_multiplier"])))
    _as_planned(run, issued)
    device = device_of(execution)
    model, loss = watching.attach(run, initial_model(run, data, device), loss_function(data.facts))
    optimiser = _optimiser(plan.system, plan.config, model, run.state)
    noise = noise_source(run, execution, device)
    clip_norm, noise_multiplier = float(plan.config["clip_norm"]), float(plan.config["noise_multiplier"])
    step, stop = run.start_step, run.member.to_step
    pace = Pace(execution.checkpoint_seconds)
    with clipped_sums(
        run, data, execution, rate=sampling.rate, clip_norm=clip_norm, model=model, loss=loss, device=device
    ) as sums:
        while step < stop:
            until = min(stop, step + pace.steps)
            run.may_execute(until)
            for now in range(step, until):
                gradient = noisy_mean_gradient(
                    sums.next(),
                    noise_multiplier=noise_multiplier,
                    # The public n of the facts, not the number of records present.
                    expected_batch_size=sampling.rate * data.facts.n,
                    noise=noise,
                )
                watching.saw(run, now, gradient)
                optimiser.update(gradient)
            pace.after(until - step)
            step = until
            # Validation costs time, and a metric in the middle would be one more release: only the end is judged.
            metrics = report(run, model, data, device, execution) if step == stop else {}
            run.checkpoint(step, with_origin(run, optimiser.state()), metrics)


def _as_planned(run: Run, issued: PoissonSampled) -> None:
    planned = {event for event, _ in run.member.plan.schedule}
    if planned != {issued}:
        raise WrongEvent(f"{run.member.key}: the plan counted {planned}, the sampler would issue {issued}")


def initial_model(run: Run, data: Dataset, device: torch.device) -> nn.Module:
    """The run's model with its starting weights, from the public seed. Raises InvalidValue (model)."""
    config = run.member.plan.config
    return parallel.initial_model(str(config["model"]), int(config["hidden"]), model_seed(run), data.facts, device)


def device_of(execution: Execution) -> torch.device:
    """Where this process keeps the model: with a team on the CPU, since the GPUs are its workers'."""
    return device_named("cpu" if execution.team is not None else execution.device)


@dataclass(slots=True)
class Pace:
    """How many steps fit between two checkpoints."""

    seconds: float
    steps: int = FIRST_INTERVAL
    _since: float = field(default_factory=time.perf_counter)

    def after(self, executed: int) -> None:
        """Learn from `executed` steps that took the time since the last call."""
        now = time.perf_counter()
        per_step = max((now - self._since) / executed, 1e-9)
        self.steps = max(1, min(int(self.seconds / per_step), executed * LARGEST_GROWTH))
        self._since = now


class Descent:
    """theta -= learning_rate * g. Holds the trainable parameters by name."""

    def __init__(self, config: Config, model: nn.Module) -> None:
        self.learning_rate = float(config["learning_rate"])
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}

    @torch.no_grad()
    def update(self, gradient: Mapping[str, Tensor]) -> None:
        for name, one in self.parameters.items():
            one.sub_(gradient[name], alpha=self.learning_rate)

    def state(self) -> dict[str, NDArray[np.generic]]:
        return arrays(PARAMETER, self.parameters)

    @torch.no_grad()
    def restore(self, state: State) -> None:
        restore(PARAMETER, self.parameters, state)


class Adam(Descent):
    """Bu et al. 2020, Algorithm 2, with xi beside the root; bias correction only where the configuration asks."""

    def __init__(self, config: Config, model: nn.Module) -> None:
        super().__init__(config, model)
        self.beta1, self.beta2, self.xi = (float(config[name]) for name in ("beta1", "beta2", "xi"))
        self.corrects, self.steps = bool(config["bias_correction"]), 0
        self.mean = {name: torch.zeros_like(one, requires_grad=False) for name, one in self.parameters.items()}
        self.square = {name: torch.zeros_like(one, requires_grad=False) for name, one in self.parameters.items()}

    @torch.no_grad()
    def update(self, gradient: Mapping[str, Tensor]) -> None:
        self.steps += 1
        rate = self.learning_rate
        if self.corrects:
            rate *= math.sqrt(1 - self.beta2**self.steps) / (1 - self.beta1**self.steps)
        for name, one in self.parameters.items():
            mean, square, new = self.mean[name], self.square[name], gradient[name]
            mean.lerp_(new, 1 - self.beta1)
            square.mul_(self.beta2).addcmul_(new, new, value=1 - self.beta2)
            one.addcdiv_(mean, square.sqrt().add_(self.xi), value=-rate)

    def state(self) -> dict[str, NDArray[np.generic]]:
        steps = {_STEPS: np.asarray(self.steps)}
        return super().state() | arrays(_MEAN, self.mean) | arrays(_SQUARE, self.square) | steps

    @torch.no_grad()
    def restore(self, state: State) -> None:
        super().restore(state)
        restore(_MEAN, self.mean, state)
        restore(_SQUARE, self.square, state)
        self.steps = int(state[_STEPS])


OPTIMISERS: Mapping[str, type[Descent]] = {"noisy-sgd": Descent, "noisy-adam": Adam}


def _optimiser(system: str, config: Config, model: nn.Module, state: State | None) -> Descent:
    optimiser = OPTIMISERS[system](config, model)
    if state is not None:
        optimiser.restore(state)
    return optimiser

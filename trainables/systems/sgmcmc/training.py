"""Training without protection: shuffled batches, one step each, the last iterates' predictions kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import nn

from dpcore.noise import NoiseSource
from dpcore.papers.sgld import step_size_of
from dpcore.randomness import Purpose
from trainables.measures import hooks
from trainables.models.images import with_dropout
from trainables.parallel import limited_threads
from trainables.system import Dataset, Execution, Run, State
from trainables.systems.sgmcmc.judging import Probabilities, judged, predicted
from trainables.systems.sgmcmc.sampler_knobs import (
    CommonKnobs,
    DropoutKnobs,
    PosteriorKnobs,
    PSGLDKnobs,
    RMSpropKnobs,
    SGHMCKnobs,
)
from trainables.training import optimisers
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import loss_function, tensor
from trainables.training.noise import noise_source
from trainables.training.private_sgd import device_of, initial_model
from trainables.training.released import with_seed

DRAWS = "draws.probabilities"


def train(run: Run, knobs: CommonKnobs, data: Dataset, execution: Execution) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model, no validation records)."""
    device = device_of(execution)
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with limited_threads(execution.threads), torch.random.fork_rng(devices=devices):
        # Dropout draws its masks from the global generator, which is put back afterwards.
        seed = run.streams.derived_seed(Purpose.SAMPLING, step=run.start_step)
        torch.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
        run_steps(run, _Unprotected(run, knobs, data, execution, device), Pace(execution.checkpoint_seconds))


class _Unprotected:
    """One run, as `run_steps` executes it."""

    stopped = False

    def __init__(self, run: Run, knobs: CommonKnobs, data: Dataset, execution: Execution, device: torch.device) -> None:
        self._run, self._knobs, self._data, self._device = run, knobs, data, device
        own = initial_model(run, data, device)
        model = with_dropout(own, knobs.dropout if isinstance(knobs, DropoutKnobs) else 0.0)
        self._model, self._loss = hooks.attach(run, model, loss_function(data.facts))
        self._optimiser = optimiser(knobs, self._model, data.facts.n, noise_source(run, execution, device))
        self._draws: list[Probabilities] = []
        if run.state is not None:
            self._optimiser.restore(run.state)
            self._draws = list(run.state[DRAWS])
        self._inputs = tuple(tensor(array, device) for array in data.train.inputs.values())
        self._targets = tensor(data.train.targets, device)
        per_epoch = sum(phase.steps for phase in knobs.phases(data.facts.n)) // knobs.epochs
        self._batches = _Batches(run, len(data.train), knobs.batch_size, per_epoch)

    def step(self, number: int) -> None:
        """See `Training.step`."""
        rows = torch.from_numpy(self._batches.rows(number)).to(self._device)
        outputs = self._model(*(one.index_select(0, rows) for one in self._inputs))
        mean_loss = self._loss(outputs, self._targets.index_select(0, rows)).mean()
        parameters = self._optimiser.parameters
        found = torch.autograd.grad(mean_loss, list(parameters.values()))
        self._optimiser.update(dict(zip(parameters, found, strict=True)), number)
        if number >= self._run.member.to_step - self._knobs.window:
            self._draws.append(predicted(self._model, self._data, self._device))

    @property
    def _kept(self) -> Probabilities:
        last = self._draws[-self._knobs.window :]
        return np.stack(last) if last else np.zeros((0, 0, 0), dtype=np.float32)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed({**self._optimiser.state(), DRAWS: self._kept}, self._run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        samples = isinstance(self._knobs, PosteriorKnobs)
        return judged(self._kept, self._data, average=self._knobs.average, samples=samples)


def optimiser(knobs: CommonKnobs, model: nn.Module, n: int, noise: NoiseSource) -> optimisers.Optimiser:
    """The update of a method, with its rate halving over the trial."""
    rate_of = partial(step_size_of, knobs.phases(n))
    match knobs:
        case RMSpropKnobs():
            return optimisers.RMSprop(model, rate_of, knobs)
        case PSGLDKnobs():
            return optimisers.PSGLD(model, rate_of, optimisers.NoisyPosterior(n, knobs.prior_variance, noise), knobs)
        case SGHMCKnobs():
            posterior = optimisers.NoisyPosterior(n, knobs.prior_variance, noise)
            return optimisers.SGHMC(model, rate_of, posterior, knobs.friction)
        case PosteriorKnobs():
            return optimisers.SGLD(model, rate_of, optimisers.NoisyPosterior(n, knobs.prior_variance, noise))
        case _:
            return optimisers.Descent(model, rate_of)


class _Batches:
    """A fresh permutation each epoch, cut into batches; a resumed epoch goes on with another permutation."""

    def __init__(self, run: Run, n: int, batch_size: int, per_epoch: int) -> None:
        self._generator = run.streams.numpy(Purpose.SAMPLING, step=run.start_step)
        self._n, self._batch_size, self._per_epoch = n, batch_size, per_epoch
        self._order = self._generator.permutation(n)

    def rows(self, step: int) -> np.ndarray:
        """The records of step number `step`; called for each step in order."""
        position = step % self._per_epoch
        if position == 0:
            self._order = self._generator.permutation(self._n)
        return self._order[position * self._batch_size : (position + 1) * self._batch_size]

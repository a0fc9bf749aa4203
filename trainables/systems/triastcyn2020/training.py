"""How far records would move the next step: gradients of a few records at the current weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.accountants.bayesian import contribution_norms, pair_distances, random_mask
from dpcore.gradients import PrivateGradients
from dpcore.gradients.units import clip_factors
from dpcore.mechanisms.average_case import AverageCase
from dpcore.mechanisms.sampled_gaussian import SampledGaussian
from dpcore.randomness import Purpose, Streams
from trainables import hooks
from trainables.parallel import limited_threads
from trainables.planning import Fit
from trainables.system import Dataset, Run, Split, State
from trainables.systems.triastcyn2020.accountant import (
    PAIR,
    AverageCaseHyperparameters,
    BayesianSGDHyperparameters,
    EstimateHyperparameters,
    Watch,
)
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import loss_function, tensor
from trainables.training.noise import batches, noise_source
from trainables.training.optimisers import Descent, steadily
from trainables.training.private_sgd import device_of, initial_model
from trainables.training.released import with_seed
from trainables.validation.evaluate import judge


@dataclass(frozen=True, slots=True)
class Draws:
    """Which records are looked at: `size` of `present`, without repetition, anew for each step."""

    present: int
    size: int
    rng: np.random.Generator

    @classmethod
    def of(cls, run: Run, params: EstimateHyperparameters, split: Split, pairs: bool) -> Draws:
        """The draws of a run from its first step on."""
        size = params.distance_records * (PAIR if pairs else 1)
        return cls(present=len(split), size=size, rng=stream(run.streams, "distances", run.start_step))

    def rows(self) -> NDArray[np.int64]:
        """The next records."""
        return self.rng.choice(self.present, size=self.size, replace=False)


def looked_at(params: EstimateHyperparameters, data: Dataset) -> Split:
    """Whose gradients the distances come from."""
    return data.validation if params.held_out else data.train


def stream(streams: Streams, name: str, step: int) -> np.random.Generator:
    """A secret stream of its own, beside those of the batches."""
    return replace(streams, key=f"{streams.key}/{name}").numpy(Purpose.SAMPLING, step=step)


class GradientDistances:
    """Distances of a model's per-record gradients, clipped and masked as the update does it.

    clip_norm  None for gradients that are not clipped
    pairs      between two records each, for batches of fixed size; else each record's own norm
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        split: Split,
        draws: Draws,
        *,
        device: torch.device,
        clip_norm: float | None,
        pairs: bool = False,
    ) -> None:
        self._gradients = PrivateGradients(model, loss)
        self._inputs = tuple(tensor(array, device) for array in split.inputs.values())
        self._targets = tensor(split.targets, device)
        self._draws, self._device, self._clip_norm, self._pairs = draws, device, clip_norm, pairs

    def measure(self, mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Shape [records or pairs]: on the sum's scale, over the coordinates that the step updates."""
        rows = torch.from_numpy(self._draws.rows()).to(self._device)
        gradients = self._gradients.record_gradients(
            tuple(one.index_select(0, rows) for one in self._inputs), self._targets.index_select(0, rows)
        ).double()
        if self._clip_norm is not None:
            gradients *= clip_factors(gradients.square().sum(1), self._clip_norm)[:, None]
        # The update clips whole gradients and then drops coordinates, so they are dropped after the clip here.
        found = gradients if mask is None else gradients[:, torch.from_numpy(mask).to(self._device)]
        array = found.cpu().numpy()
        return pair_distances(array) if self._pairs else contribution_norms(array)


# Training of both gradient systems: look at distances, ask the watch, sample, noise, update, keep records.

Gradients = Fit[BayesianSGDHyperparameters, SampledGaussian] | Fit[AverageCaseHyperparameters, AverageCase]


def train(fit: Gradients) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model)."""
    with limited_threads(fit.settings.threads):
        run_steps(fit.run, _Watched(fit), Pace(fit.settings.checkpoint_seconds))


class _Watched:
    """One run, as `run_steps` executes it."""

    def __init__(self, fit: Gradients) -> None:
        self._fit, run, mechanism = fit, fit.run, fit.mechanism
        self._device = device_of(fit.settings)
        own = initial_model(run, fit.data, self._device)
        self._model, loss = hooks.attach(run, own, loss_function(fit.data.facts))
        self._descent = MaskedDescent(self._model, fit.params.learning_rate, fit.params.updated_share, run)
        pairs = isinstance(mechanism, AverageCase) and mechanism.fixed
        # Two clipped contributions of a pair may point opposite ways.
        largest = None if mechanism.clip_norm is None else mechanism.clip_norm * (2 if pairs else 1)
        self._watch = Watch.of(fit.params, run.member.plan, largest)
        if run.state is not None:
            self._descent.restore(run.state)
            self._watch.restore(run.state)
        split = looked_at(fit.params, fit.data)
        self._distances = GradientDistances(
            self._model,
            loss,
            split,
            Draws.of(run, fit.params, split, pairs=pairs),
            device=self._device,
            clip_norm=mechanism.clip_norm,
            pairs=pairs,
        )
        self._gradients = PrivateGradients(self._model, loss)
        self._noise, self._batches = noise_source(run, fit.settings, self._device), batches(run, fit.settings)
        self._inputs = tuple(tensor(array, self._device) for array in fit.data.train.inputs.values())
        self._targets = tensor(fit.data.train.targets, self._device)

    @property
    def stopped(self) -> bool:
        """See `Training.stopped`."""
        return self._watch.stopped

    def step(self, number: int) -> None:
        """See `Training.step`."""
        mask, mechanism = self._descent.next_mask(), self._fit.mechanism
        if not self._watch.admits(self._distances.measure(mask), mechanism.sampling.rate, mechanism.deviation):
            return
        rows = torch.from_numpy(mechanism.batch(len(self._targets), self._batches)).to(self._device)
        total = self._gradients.clipped_sum(
            tuple(one.index_select(0, rows) for one in self._inputs),
            self._targets.index_select(0, rows),
            clip_norm=math.inf if mechanism.clip_norm is None else mechanism.clip_norm,
            microbatch_size=self._fit.settings.microbatch,
        )
        noisy = mechanism.noisy_mean(total, self._noise)
        # Before the mask: an ordinary claim covers every coordinate, whether it is used or not.
        hooks.saw(self._fit.run, number, noisy)
        self._descent.update_masked(noisy, mask, number)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed(self._descent.state() | self._watch.state(), self._fit.run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        data = self._fit.data
        return {**judge(self._model, data.validation, data.facts, self._device), **self._watch.metrics()}


class MaskedDescent(Descent):
    """theta -= learning_rate * mask * g, with a fresh random mask of `share` of the weights for every step."""

    def __init__(self, model: nn.Module, learning_rate: float, share: float, run: Run) -> None:
        super().__init__(model, steadily(learning_rate))
        self._share = share
        self._size = sum(one.numel() for one in self.parameters.values())
        self._rng = stream(run.streams, "masks", run.start_step)

    def next_mask(self) -> NDArray[np.bool_] | None:
        """Which of the weights, side by side in their order, the next step updates; None for all."""
        return None if self._share == 1.0 else random_mask(self._size, self._share, self._rng)

    @torch.no_grad()
    def update_masked(self, gradient: Mapping[str, Tensor], mask: NDArray[np.bool_] | None, number: int) -> None:
        """One step; noise on the other coordinates is thrown away unseen."""
        if mask is not None:
            start = 0
            for name, one in self.parameters.items():
                part = torch.from_numpy(mask[start : start + one.numel()]).view(one.shape)
                gradient[name].mul_(part.to(one.device))
                start += one.numel()
        self.update(gradient, number)

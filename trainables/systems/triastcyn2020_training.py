"""Training of all four systems: look at distances, ask the watch, step, keep records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.accountants.bayesian import contribution_norms, pair_distances, random_mask
from dpcore.gradients import ClippedSum, PrivateGradients
from dpcore.gradients.precision import all_digits
from dpcore.gradients.units import clip_factors
from dpcore.mechanisms.noisy_sums import AverageCase, SampledGaussian
from dpcore.mechanisms.protocol import Scheduled
from dpcore.randomness import Purpose, Streams
from dpcore.sampling import PoissonSampling
from trainables.models.networks import UnitNormRows
from trainables.planning import Fit
from trainables.system import Dataset, DatasetSpec, Run, Split, State
from trainables.systems.linear import rows, width_of
from trainables.team import limited_threads
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import loss_function, tensor
from trainables.training.noise import batches, noise_source, normals
from trainables.training.optimisers import Optimiser, steadily
from trainables.training.private_sgd import device_of, initial_model
from trainables.training.released import with_seed
from trainables.validation.evaluate import judge

Array = NDArray[np.float64]


def rows_looked_at(run: Run, params: Any, split: Split, pairs: bool) -> Iterator[NDArray[np.int64]]:
    """Which records are looked at, from a run's first step on: so many, without repetition, anew for each step."""
    rng = stream(run.streams, "distances", run.start_step)
    while True:
        yield rng.choice(len(split), size=params.distance_records * (2 if pairs else 1), replace=False)


def looked_at(params: Any, data: Dataset) -> Split:
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
        draws: Iterator[NDArray[np.int64]],
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
        rows = torch.from_numpy(next(self._draws)).to(self._device)
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


def train(fit: Fit[Any, Any], watch: Any) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model).

    watch  admits its steps, counts them, and goes on from a checkpoint's state
    """
    with limited_threads(fit.settings.threads):
        run_steps(fit.run, _Watched(fit, watch), Pace(fit.settings.checkpoint_seconds))


class _Watched:
    """One run, as `run_steps` executes it."""

    def __init__(self, fit: Fit[Any, Any], watch: Any) -> None:
        self._fit, self._watch, run, mechanism = fit, watch, fit.run, fit.mechanism
        self._device = device_of(fit.settings)
        own = initial_model(run, fit.data, self._device)
        self._model, loss = run.attach(own, loss_function(fit.data.facts))
        self._descent = MaskedDescent(self._model, fit.params.learning_rate, fit.params.updated_share, run)
        pairs = isinstance(mechanism, AverageCase) and mechanism.fixed
        if run.state is not None:
            self._descent.restore(run.state)
            self._watch.restore(run.state)
        split = looked_at(fit.params, fit.data)
        self._distances = GradientDistances(
            self._model,
            loss,
            split,
            rows_looked_at(run, fit.params, split, pairs),
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
        self._fit.run.saw(number, noisy)
        self._descent.update_masked(noisy, mask, number)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed(self._descent.state() | self._watch.state(), self._fit.run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        data = self._fit.data
        return {**judge(self._model, data.validation, data.facts, self._device), **self._watch.metrics()}


class MaskedDescent(Optimiser):
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


# DPVI: a mean-field Gaussian over the weights of a two-class logistic regression.
#
# Source  Jaelkoe, Dikmen & Honkela (2017); the reparametrised gradient of Kucukelbir et al. (2017), AdaGrad of Duchi et
#         al. (2011). B batch, D columns with the intercept, K draws.

TINY = 1e-8
"""Beside AdaGrad's root."""
WIDEST = 1e6
"""Records longer than this are shortened to it: far above what data scaled to [0, 1] have, and short of overflow."""
_MEAN, _LOG_SD, _SQUARES = "mean", "log_sd", "squares"


@dataclass(slots=True)
class Posterior:
    """N(mean, exp(log_sd)^2) over each weight, with AdaGrad's memory [2 D]."""

    mean: Tensor
    log_sd: Tensor
    squares: Tensor

    @classmethod
    def start(cls, params: Any, width: int, device: torch.device) -> Posterior:
        """Mean 0 and the configured deviation."""
        log_sd = float(np.log(params.first_sd))
        return cls(
            mean=torch.zeros(width, device=device),
            log_sd=torch.full((width,), log_sd, device=device),
            squares=torch.zeros(2 * width, device=device),
        )

    @classmethod
    def of(cls, state: State, device: torch.device) -> Posterior:
        """The posterior of a checkpoint."""
        parts = (torch.from_numpy(np.ascontiguousarray(state[name])).to(device) for name in (_MEAN, _LOG_SD, _SQUARES))
        return cls(*parts)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint keeps."""
        named = {_MEAN: self.mean, _LOG_SD: self.log_sd, _SQUARES: self.squares}
        return {name: one.cpu().numpy().copy() for name, one in named.items()}

    def with_divergence(self, likelihood: Tensor, variance: float) -> Tensor:
        """The likelihood's gradient [2 D] and that of KL(q || N(0, v I)), v the `variance`."""
        return likelihood + torch.cat([self.mean / variance, (2 * self.log_sd).exp() / variance - 1])

    def step(self, likelihood: Tensor, variance: float, learning_rate: float) -> None:
        """One AdaGrad step."""
        gradient = self.with_divergence(likelihood, variance)
        self.squares += gradient.square()
        change = learning_rate * gradient / (self.squares.sqrt() + TINY)
        self.mean -= change[: len(self.mean)]
        self.log_sd -= change[len(self.mean) :]


def record_gradients(x_BD: Tensor, y_B: Tensor, posterior: Posterior, z_D: Tensor) -> Tensor:
    """Gradient of -log p(y | x, w) by (mean, log_sd) at w = mean + exp(log_sd) z, for each record: [B, 2 D]."""
    sd_D = posterior.log_sd.exp()
    residual_B = torch.sigmoid(x_BD @ (posterior.mean + sd_D * z_D)) - y_B
    return residual_B[:, None] * torch.cat([x_BD, x_BD * (sd_D * z_D)], dim=1)


class LookedAt:
    """The records that distances come from."""

    def __init__(self, fit: Fit[Any, Any], device: torch.device) -> None:
        split = looked_at(fit.params, fit.data)
        self._x, self._y = design(fit.data.facts, split, device)
        self._draws = rows_looked_at(fit.run, fit.params, split, pairs=False)

    def gradients(self, posterior: Posterior, z_D: Tensor) -> Array:
        """Of the next few records, [records, 2 D]; not clipped."""
        chosen = torch.from_numpy(next(self._draws)).to(self._y.device)
        found = _finite(record_gradients(self._x[chosen], self._y[chosen], posterior, z_D))
        out: Array = found.double().cpu().numpy()
        return out


class Noised:
    """Clipped gradients of a Poisson batch with Gaussian noise on their sum."""

    def __init__(self, fit: Fit[Any, SampledGaussian], device: torch.device) -> None:
        self._n, self._mechanism = fit.data.facts.n, fit.mechanism
        self.rate, self.sigma = fit.mechanism.sampling.rate, fit.mechanism.deviation
        self._noise, self._batches = noise_source(fit.run, fit.settings, device), batches(fit.run, fit.settings)
        self._x, self._y = design(fit.data.facts, fit.data.train, device)
        self._looked_at = LookedAt(fit, device)

    def distances(self, posterior: Posterior, z_D: Tensor) -> Array:
        """Norms of clipped gradients."""
        return contribution_norms(self._looked_at.gradients(posterior, z_D), self._mechanism.clip_norm)

    def likelihood(self, posterior: Posterior, z_D: Tensor) -> Tensor:
        """n times the noisy mean; the public batch size divides, not the number of records drawn."""
        batch = torch.from_numpy(self._mechanism.batch(len(self._y), self._batches)).to(self._y.device)
        gradients = record_gradients(self._x[batch], self._y[batch], posterior, z_D)
        mean = self._mechanism.noisy_mean(_clipped_sum(gradients, self._mechanism.clip_norm), self._noise)
        return self._n * mean[_MEAN]


class Drawn:
    """As published for the Bayesian accountant: plain gradients of a Poisson batch; a draw's own deviation stands for
    the noise.

    The distance of a record is what its gradient adds to the mean of the next draw, in deviations of that draw: what
    the deviation itself gives away, and what earlier steps left in the mean, is not counted.
    """

    sigma = 1.0

    def __init__(self, fit: Fit[Any, Scheduled], device: torch.device) -> None:
        self._params, n = fit.params, fit.data.facts.n
        self.rate, self._scale = fit.params.batch_size / n, n / fit.params.batch_size
        self._sampling = PoissonSampling(rate=self.rate)
        self._batches = batches(fit.run, fit.settings)
        self._x, self._y = design(fit.data.facts, fit.data.train, device)
        self._looked_at = LookedAt(fit, device)
        self._next: Tensor | None = None

    def distances(self, posterior: Posterior, z_D: Tensor) -> Array:
        """Of the step that `likelihood` returns next."""
        batch = torch.from_numpy(self._sampling.indices(len(self._y), self._batches)).to(self._y.device)
        total = record_gradients(self._x[batch], self._y[batch], posterior, z_D).sum(dim=0)
        self._next = self._scale * total
        width = len(posterior.mean)
        squares = posterior.squares + posterior.with_divergence(self._next, self._params.prior_variance).square()
        # AdaGrad moves the mean by this much for each unit of a record's gradient, in deviations of the draw.
        moved = self._params.learning_rate * self._scale / (squares[:width].sqrt() + TINY)
        per_unit = (moved / posterior.log_sd.exp()).double().cpu().numpy()
        return contribution_norms(self._looked_at.gradients(posterior, z_D)[:, :width] * per_unit)

    def likelihood(self, posterior: Posterior, z_D: Tensor) -> Tensor:
        """The gradient that `distances` has looked at."""
        assert self._next is not None
        return self._next


Steps = Noised | Drawn
"""What one kind of DPVI does with its records: how far looked-at ones would move what a step releases (`distances`, at
`rate` and `sigma`), and then the gradient [2 D] of the whole data's -log likelihood as the step estimates it
(`likelihood`)."""


def infer(fit: Fit[Any, Any], steps: Callable[[Any, torch.device], Steps], watch: Any) -> None:
    """Execute one run up to its `member.to_step`: look at distances, ask the watch, step, keep records.

    steps  `Noised` or `Drawn`
    watch  as `train` has it
    """
    with limited_threads(fit.settings.threads):
        run_steps(fit.run, _Inference(fit, steps, watch), Pace(fit.settings.checkpoint_seconds))


class _Inference:
    """One run, as `run_steps` executes it."""

    def __init__(self, fit: Fit[Any, Any], steps: Callable[[Any, torch.device], Steps], watch: Any) -> None:
        self._params, self._data, self._watch, run = fit.params, fit.data, watch, fit.run
        self._device = device_of(fit.settings)
        self._steps = steps(fit, self._device)
        self._width = width_of(fit.data.facts, bias=True)
        if run.state is None:
            self._posterior = Posterior.start(fit.params, self._width, self._device)
        else:
            self._posterior = Posterior.of(run.state, self._device)
            self._watch.restore(run.state)
        self._draw = normals(run, fit.settings, stream="draws")

    @property
    def stopped(self) -> bool:
        """See `Training.stopped`."""
        return self._watch.stopped

    def step(self, number: int) -> None:
        """See `Training.step`."""
        z_D = torch.from_numpy(self._draw((self._width,)).astype(np.float32)).to(self._device)
        steps, posterior = self._steps, self._posterior
        if self._watch.admits(steps.distances(posterior, z_D), steps.rate, steps.sigma):
            likelihood = steps.likelihood(posterior, z_D)
            posterior.step(likelihood, self._params.prior_variance, self._params.learning_rate)

    def state(self) -> State:
        """See `Training.state`."""
        return self._posterior.state() | self._watch.state()

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        facts = self._data.facts
        model = PosteriorPredictive(self._params, facts, self._posterior)
        return {**judge(model, self._data.validation, facts, self._device), **self._watch.metrics()}


def design(facts: DatasetSpec, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Records [n, D] with a last column of ones, and labels [n] in {0, 1}, float32."""
    # `rows` divides by the bound; what that does to the scale is undone.
    plain = rows(facts, split, WIDEST, bias=False) * WIDEST
    x = np.hstack([plain, np.ones((len(plain), 1))]).astype(np.float32)
    return torch.from_numpy(x).to(device), torch.from_numpy(np.asarray(split.targets, dtype=np.float32)).to(device)


def _finite(gradients: Tensor) -> Tensor:
    return gradients.masked_fill(~torch.isfinite(gradients).all(dim=1)[:, None], 0.0)


def _clipped_sum(gradients_BD: Tensor, clip_norm: float) -> ClippedSum:
    gradients = _finite(gradients_BD)
    factors_B = clip_factors(gradients.double().square().sum(dim=1), clip_norm)
    with all_digits():
        return ClippedSum(tensors={_MEAN: factors_B.to(gradients.dtype) @ gradients}, clip_norm=clip_norm)


class PosteriorPredictive(nn.Module):
    """The released posterior, asked: log P(class | record) for both classes, float64 [n, 2], averaged over draws.

    The draws are the same for every record, and public: whoever has the posterior has them.
    """

    draws: Tensor

    def __init__(self, params: Any, facts: DatasetSpec, posterior: Posterior) -> None:
        super().__init__()
        self.rows = UnitNormRows(facts.features, WIDEST, bias=False)
        self.mean = nn.Parameter(posterior.mean, requires_grad=False)
        self.log_sd = nn.Parameter(posterior.log_sd, requires_grad=False)
        # From a public seed: [draws, width].
        draws = np.random.default_rng(0).standard_normal((params.draws, len(posterior.mean))).astype(np.float32)
        self.register_buffer("draws", torch.from_numpy(draws).to(posterior.mean.device))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Of n records."""
        plain = self.rows(*inputs) * WIDEST
        x = torch.cat([plain, torch.ones_like(plain[:, :1])], dim=1).float()
        w_KD = self.mean + self.log_sd.exp() * self.draws
        likely = torch.sigmoid(x @ w_KD.T).double().mean(dim=1).clamp(1e-12, 1 - 1e-12)
        return torch.stack([1 - likely, likely], dim=1).log()


def posterior_predictive(params: Any, facts: DatasetSpec, state: State) -> PosteriorPredictive:
    """The model of a final state, on the CPU. Raises ValueError for the state of another model."""
    posterior, width = Posterior.of(state, torch.device("cpu")), width_of(facts, bias=True)
    if posterior.mean.shape != (width,):
        raise ValueError(f"checkpoint has {len(posterior.mean)} weights, the model {width}: another model")
    return PosteriorPredictive(params, facts, posterior)

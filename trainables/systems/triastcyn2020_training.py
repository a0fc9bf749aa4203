"""Training of all four systems: look at distances, ask the watch, step, keep records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

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
from dpcore.randomness import Purpose
from dpcore.sampling import PoissonSampling
from trainables.models.networks import UnitNormRows
from trainables.planning import Fit
from trainables.system import Dataset, DatasetSpec, Run, Split, State
from trainables.systems.linear import rows, width_of
from trainables.team import limited_threads
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import chosen, loss_function, tensors
from trainables.training.noise import batches, noise_source, normals
from trainables.training.optimisers import Optimiser, steadily
from trainables.training.private_sgd import device_of, initial_model
from trainables.training.released import with_seed
from trainables.validation.evaluate import judge

Array = NDArray[np.float64]


def rows_looked_at(run: Run, params: Any, split: Split, pairs: bool) -> Iterator[NDArray[np.int64]]:
    """Which records are looked at, from a run's first step on: so many, without repetition, anew for each step."""
    rng = stream(run, "distances")
    while True:
        yield rng.choice(len(split), size=params.distance_records * (2 if pairs else 1), replace=False)


def looked_at(params: Any, data: Dataset) -> Split:
    """Whose gradients the distances come from."""
    return data.validation if params.held_out else data.train


def stream(run: Run, name: str) -> np.random.Generator:
    """A secret stream of its own, beside those of the batches."""
    return replace(run.streams, key=f"{run.streams.key}/{name}").numpy(Purpose.SAMPLING, step=run.start_step)


def distances_of(
    gradients: Tensor, clip_norm: float | None, mask: NDArray[np.bool_] | None, pairs: bool = False
) -> Array:
    """Distances [records or pairs] by gradients [records, D], clipped and masked as the update does it: on the sum's
    scale, over the coordinates that the step updates.

    clip_norm  None for gradients that are not clipped
    pairs      between two records each, for batches of fixed size; else each record's own norm
    """
    gradients = gradients.double()
    if clip_norm is not None:
        gradients *= clip_factors(gradients.square().sum(1), clip_norm)[:, None]
    # The update clips whole gradients and then drops coordinates, so they are dropped after the clip here.
    found = gradients if mask is None else gradients[:, torch.from_numpy(mask).to(gradients.device)]
    array = found.cpu().numpy()
    return pair_distances(array) if pairs else contribution_norms(array)


# One run of any of them: look at distances, ask the watch, step, keep records.


class Steps(Protocol):
    """What a system does with its records at each step, whose noise has deviation `sigma` and its batches `rate`."""

    rate: float
    sigma: float

    def distances(self) -> Array:
        """How far looked-at records would move what `take` releases next."""

    def take(self, number: int) -> None:
        """Execute step `number`."""

    def state(self) -> State:
        """What a checkpoint keeps."""

    @property
    def model(self) -> nn.Module:
        """The model that is judged."""


def train(fit: Fit[Any, Any], steps: Callable[[Any, torch.device], Steps], watch: Any) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model).

    steps  `MaskedDescent`, `Noised` or `Drawn`
    watch  admits its steps, counts them, and goes on from a checkpoint's state
    """
    with limited_threads(fit.settings.threads):
        run_steps(fit.run, _Watched(fit, steps, watch), Pace(fit.settings.checkpoint_seconds))


class _Watched:
    """One run, as `run_steps` executes it."""

    def __init__(self, fit: Fit[Any, Any], steps: Callable[[Any, torch.device], Steps], watch: Any) -> None:
        self._data, self._device, self._watch = fit.data, device_of(fit.settings), watch
        self._steps = steps(fit, self._device)
        if fit.run.state is not None:
            watch.restore(fit.run.state)

    @property
    def stopped(self) -> bool:
        """See `Training.stopped`."""
        return self._watch.stopped

    def step(self, number: int) -> None:
        """See `Training.step`."""
        if self._watch.admits(self._steps.distances(), self._steps.rate, self._steps.sigma):
            self._steps.take(number)

    def state(self) -> State:
        """See `Training.state`."""
        return {**self._steps.state(), **self._watch.state()}

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        data = self._data
        return {**judge(self._steps.model, data.validation, data.facts, self._device), **self._watch.metrics()}


class MaskedDescent:
    """theta -= learning_rate * mask * g, with a fresh random mask of `updated_share` of the weights for every step."""

    def __init__(self, fit: Fit[Any, Any], device: torch.device) -> None:
        run, self._fit, self._mechanism, self._device = fit.run, fit, fit.mechanism, device
        self.rate, self.sigma = fit.mechanism.sampling.rate, fit.mechanism.deviation
        self.model, loss = run.attach(initial_model(run, fit.data, device), loss_function(fit.data.facts))
        self._descent, self._masks = Optimiser(self.model, steadily(fit.params.learning_rate)), stream(run, "masks")
        self._mask: NDArray[np.bool_] | None = None
        if run.state is not None:
            self._descent.restore(run.state)
        self._pairs = isinstance(fit.mechanism, AverageCase) and fit.mechanism.fixed
        split = looked_at(fit.params, fit.data)
        self._seen, self._rows = tensors(split, device), rows_looked_at(run, fit.params, split, self._pairs)
        self._gradients = PrivateGradients(self.model, loss)
        self._noise, self._batches = noise_source(run, fit.settings, device), batches(run, fit.settings)
        self._train = tensors(fit.data.train, device)

    def distances(self) -> Array:
        """See `Steps.distances`."""
        if (share := self._fit.params.updated_share) < 1.0:
            size = sum(one.numel() for one in self._descent.parameters.values())
            self._mask = random_mask(size, share, self._masks)
        gradients = self._gradients.record_gradients(*chosen(self._seen, next(self._rows)))
        return distances_of(gradients, self._mechanism.clip_norm, self._mask, self._pairs)

    def take(self, number: int) -> None:
        """See `Steps.take`."""
        mechanism, parameters = self._mechanism, self._descent.parameters
        total = self._gradients.clipped_sum(
            *chosen(self._train, mechanism.batch(len(self._train[1]), self._batches)),
            clip_norm=math.inf if mechanism.clip_norm is None else mechanism.clip_norm,
            microbatch_size=self._fit.settings.microbatch,
        )
        noisy = mechanism.noisy_mean(total, self._noise)
        # Before the mask: an ordinary claim covers every coordinate, whether it is used or not.
        self._fit.run.saw(number, noisy)
        if self._mask is not None:
            parts = torch.from_numpy(self._mask).to(self._device).split([one.numel() for one in parameters.values()])
            # Noise on the other coordinates is thrown away unseen.
            for (name, one), part in zip(parameters.items(), parts, strict=True):
                noisy[name].mul_(part.view(one.shape))
        self._descent.update(noisy, number)

    def state(self) -> State:
        """See `Steps.state`."""
        return with_seed(self._descent.state(), self._fit.run)


# DPVI: a mean-field Gaussian over the weights of a two-class logistic regression.
#
# Source  Jaelkoe, Dikmen & Honkela (2017); the reparametrised gradient of Kucukelbir et al. (2017), AdaGrad of Duchi et
#         al. (2011). B batch, D columns with the intercept, K draws.

TINY = 1e-8
"""Beside AdaGrad's root."""
WIDEST = 1e6
"""Records longer than this are shortened to it: far above what data scaled to [0, 1] have, and short of overflow."""
_MEAN = "mean"


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
        return cls(*(torch.from_numpy(np.ascontiguousarray(state[one.name])).to(device) for one in fields(cls)))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint keeps."""
        return {one.name: getattr(self, one.name).cpu().numpy().copy() for one in fields(self)}

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


class _Inference:
    """What both kinds of DPVI have: the posterior, its draws, and the records that distances come from."""

    def __init__(self, fit: Fit[Any, Any], device: torch.device) -> None:
        run, facts, self._params, self._device = fit.run, fit.data.facts, fit.params, device
        self._n, self._mechanism = facts.n, fit.mechanism
        self._width = width_of(facts, bias=True)
        start = Posterior.start(fit.params, self._width, device)
        self._posterior = start if run.state is None else Posterior.of(run.state, device)
        self._facts, self._draw = facts, normals(run, fit.settings, stream="draws")
        self._batches, self._noise = batches(run, fit.settings), noise_source(run, fit.settings, device)
        self._x, self._y = design(facts, fit.data.train, device)
        split = looked_at(fit.params, fit.data)
        self._seen, self._rows = design(facts, split, device), rows_looked_at(run, fit.params, split, pairs=False)

    def drawn(self) -> Tensor:
        """z of the next step, [D]."""
        return torch.from_numpy(self._draw((self._width,)).astype(np.float32)).to(self._device)

    def looked_at(self, z_D: Tensor) -> Array:
        """Gradients of the next few looked-at records, [records, 2 D]; not clipped."""
        chosen, (x, y) = torch.from_numpy(next(self._rows)).to(self._device), self._seen
        found = _finite(record_gradients(x[chosen], y[chosen], self._posterior, z_D))
        out: Array = found.double().cpu().numpy()
        return out

    def state(self) -> State:
        """See `Steps.state`."""
        return self._posterior.state()

    @property
    def model(self) -> nn.Module:
        """See `Steps.model`."""
        return PosteriorPredictive(self._params, self._facts, self._posterior)


class Noised(_Inference):
    """Clipped gradients of a Poisson batch with Gaussian noise on their sum."""

    def __init__(self, fit: Fit[Any, SampledGaussian], device: torch.device) -> None:
        super().__init__(fit, device)
        self.rate, self.sigma = fit.mechanism.sampling.rate, fit.mechanism.deviation

    def distances(self) -> Array:
        """Norms of clipped gradients."""
        self._z_D = self.drawn()
        return contribution_norms(self.looked_at(self._z_D), self._mechanism.clip_norm)

    def take(self, number: int) -> None:
        """By n times the noisy mean; the public batch size divides, not the number of records drawn."""
        batch = torch.from_numpy(self._mechanism.batch(len(self._y), self._batches)).to(self._device)
        gradients = record_gradients(self._x[batch], self._y[batch], self._posterior, self._z_D)
        mean = self._mechanism.noisy_mean(_clipped_sum(gradients, self._mechanism.clip_norm), self._noise)
        self._posterior.step(self._n * mean[_MEAN], self._params.prior_variance, self._params.learning_rate)


class Drawn(_Inference):
    """As published for the Bayesian accountant: plain gradients of a Poisson batch; a draw's own deviation stands for
    the noise.

    The distance of a record is what its gradient adds to the mean of the next draw, in deviations of that draw: what
    the deviation itself gives away, and what earlier steps left in the mean, is not counted.
    """

    sigma = 1.0

    def __init__(self, fit: Fit[Any, Scheduled], device: torch.device) -> None:
        super().__init__(fit, device)
        self.rate, self._scale = fit.params.batch_size / self._n, self._n / fit.params.batch_size

    def distances(self) -> Array:
        """Of the step that is taken next."""
        z_D, posterior, width = self.drawn(), self._posterior, self._width
        coins = PoissonSampling(rate=self.rate).indices(len(self._y), self._batches)
        batch = torch.from_numpy(coins).to(self._device)
        self._next = self._scale * record_gradients(self._x[batch], self._y[batch], posterior, z_D).sum(dim=0)
        squares = posterior.squares + posterior.with_divergence(self._next, self._params.prior_variance).square()
        # AdaGrad moves the mean by this much for each unit of a record's gradient, in deviations of the draw.
        moved = self._params.learning_rate * self._scale / (squares[:width].sqrt() + TINY)
        per_unit = (moved / posterior.log_sd.exp()).double().cpu().numpy()
        return contribution_norms(self.looked_at(z_D)[:, :width] * per_unit)

    def take(self, number: int) -> None:
        """By the gradient that `distances` has looked at."""
        self._posterior.step(self._next, self._params.prior_variance, self._params.learning_rate)


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

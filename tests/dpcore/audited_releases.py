"""What the mechanism audits look at: releases of dpcore's own parts, with one record more or less."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from dpcore.gradients import ClippedSum, PrivateGradients, noisy_mean_gradient
from dpcore.noise import NoiseSource, PseudorandomNoise
from dpcore.randomness import Purpose, Streams
from dpcore.sampling import PoissonSampling
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.dirac_canaries import DiracCanaries, draw_dirac

Records = tuple[Tensor, Tensor]


def streams(key: str, attempt: int = 0) -> Streams:
    return Streams(secret=bytes(range(32)), seed=0, key=key, attempt=attempt)


def noise(key: str, attempt: int = 0) -> PseudorandomNoise:
    return PseudorandomNoise(streams(key, attempt).torch(Purpose.NOISE))


def flat(tensors) -> np.ndarray:
    return torch.cat([one.detach().flatten() for one in tensors.values()]).double().numpy()


def clipped(engine: PrivateGradients, records: Records, clip_norm: float) -> ClippedSum:
    return engine.clipped_sum(*records, clip_norm=clip_norm)


@dataclass(frozen=True, kw_only=True)
class Release:
    """One noisy mean gradient over all records, as a training step computes it; every field can hold a bug.

    sums     (engine, records, clip norm) -> the clipped sum
    divisor  records -> what the sum is divided by
    scale    factor on the noise multiplier
    """

    model: nn.Module
    clip_norm: float
    noise_multiplier: float
    sums: Callable[[PrivateGradients, Records, float], ClippedSum] = clipped
    divisor: Callable[[Records], float] = lambda records: 8.0
    scale: float = 1.0

    def scores(self, with_it: Records, without_it: Records, runs: int, source: NoiseSource) -> list[np.ndarray]:
        """[scores of runs with the target record, scores without]: inner products with the exact difference.

        Only the noise is random here, so each sum is computed once and released `runs` times.
        """
        engine = PrivateGradients(self.model, oracle.squared_loss)
        sums = [self.sums(engine, records, self.clip_norm) for records in (with_it, without_it)]
        divisors = [self.divisor(records) for records in (with_it, without_it)]
        means = [flat(one.tensors) / divisor for one, divisor in zip(sums, divisors, strict=True)]
        direction = np.nan_to_num(means[0] - means[1], nan=1.0)

        def one(total: ClippedSum, divisor: float) -> float:
            released = noisy_mean_gradient(
                total,
                noise_multiplier=self.noise_multiplier * self.scale,
                expected_batch_size=divisor,
                noise=source,
            )
            # A release that is not a number is the loudest of all.
            return float(np.nan_to_num(flat(released) @ direction, nan=np.inf))

        return [
            np.array([one(total, divisor) for _ in range(runs)]) for total, divisor in zip(sums, divisors, strict=True)
        ]


class PerTensor:
    """Planted: each tensor's gradient clipped to C on its own, sold as one clip to C."""

    def __call__(self, engine: PrivateGradients, records: Records, clip_norm: float) -> ClippedSum:
        model, tensors = engine._passes.model, {}
        names = [name for name, _ in model.named_parameters()]
        for chosen in names:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name == chosen)
            part = PrivateGradients(model, oracle.squared_loss).clipped_sum(*records, clip_norm=clip_norm)
            tensors |= part.tensors
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        return ClippedSum(tensors={name: tensors[name] for name in names}, clip_norm=clip_norm)


def batch_mean(engine: PrivateGradients, records: Records, clip_norm: float) -> ClippedSum:
    """Planted: the gradient of the mean loss clipped to C, sold as the mean of clipped gradients."""
    inputs, targets = records
    loss = oracle.squared_loss(engine._passes.model(inputs), targets).mean()
    names, parameters = zip(*engine._passes.model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    norm = torch.sqrt(sum(one.square().sum() for one in gradients))
    factor = min(1.0, clip_norm / float(norm)) * len(targets)
    return ClippedSum(
        tensors={name: one * factor for name, one in zip(names, gradients, strict=True)}, clip_norm=clip_norm
    )


def loop_with_raw_norms(engine: PrivateGradients, records: Records, clip_norm: float) -> ClippedSum:
    """Planted: per-example clipping that lets a gradient that is not finite through."""
    by_name = oracle.rows(engine._passes.model, oracle.squared_loss, *records)
    norms = torch.sqrt(sum(several.flatten(1).square().sum(1) for several in by_name.values()))
    factors = (clip_norm / norms).clamp(max=1.0)
    return ClippedSum(
        tensors={name: torch.einsum("b,b...->...", factors, several) for name, several in by_name.items()},
        clip_norm=clip_norm,
    )


@dataclass(frozen=True, kw_only=True)
class SampledRun:
    """Several Poisson-sampled releases of one linear model over Dirac canaries, everything through dpcore's parts.

    batches  (records present, steps, rng) -> one array of indices per step
    sources  step -> where its noise comes from
    """

    canaries: DiracCanaries
    noise_multiplier: float
    rate: float
    steps: int
    sources: Callable[[int], NoiseSource]
    batches: Callable[[int, int, np.random.Generator], Sequence[np.ndarray]] | None = None

    def responses(self, coins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """[steps, canaries]: inner products of the noisy sums with each canary; `coins` says who is in the data."""
        c, present = self.canaries, torch.from_numpy(coins)
        inputs, targets = (one[present] for one in self.records)
        expected = self.rate * len(coins)
        rows = []
        for step, chosen in enumerate(self._batches(len(targets), rng)):
            rows_B = torch.from_numpy(chosen)
            total = self.engine.clipped_sum(inputs[rows_B], targets[rows_B], clip_norm=c.clip_norm)
            mean = noisy_mean_gradient(
                total,
                noise_multiplier=self.noise_multiplier,
                expected_batch_size=expected,
                noise=self.sources(step),
            )
            rows.append(c.responses(flat(mean) * expected))
        return np.array(rows)

    @cached_property
    def records(self) -> Records:
        """One-hot inputs and labels whose gradient, -label * input at weight 0, is far beyond the clip norm."""
        c, count = self.canaries, len(self.canaries.coordinates)
        inputs = torch.zeros(count, c.dimension)
        inputs[torch.arange(count), torch.from_numpy(c.coordinates)] = torch.from_numpy(-c.signs).float()
        return inputs, torch.full((count,), 100 * c.clip_norm)

    @cached_property
    def engine(self) -> PrivateGradients:
        """Of a model that is never updated: each step releases its own gradient at weight 0."""
        model = nn.Linear(self.canaries.dimension, 1, bias=False)
        nn.init.zeros_(model.weight)
        return PrivateGradients(model, oracle.squared_loss)

    def _batches(self, present: int, rng: np.random.Generator) -> Sequence[np.ndarray]:
        if self.batches is not None:
            return self.batches(present, self.steps, rng)
        return [PoissonSampling(rate=self.rate).indices(present, rng) for _ in range(self.steps)]


def shuffled_epoch(present: int, steps: int, rng: np.random.Generator) -> Sequence[np.ndarray]:
    """Planted: one pass over shuffled records, sold as Poisson batches."""
    return np.array_split(rng.permutation(present), steps)


def everybody(present: int, steps: int, rng: np.random.Generator) -> Sequence[np.ndarray]:
    """Planted: no sampling at all, sold as sampling."""
    return [np.arange(present)] * steps


def dirac(count: int, clip_norm: float, seed: int) -> DiracCanaries:
    return draw_dirac(count, count, clip_norm, np.random.default_rng(seed))

"""Noisy sums over Poisson batches: the step of private gradient descent, counted and made by one value.

Source  Abadi et al. (2016), Algorithm 1, with the public divisor rate * n; Bu et al. (2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled
from dpcore.mechanisms.protocol import in_order, mechanism, repeated, within
from dpcore.sampling import PoissonSampling, Uniforms

if TYPE_CHECKING:
    from torch import Tensor

    from dpcore.gradients import ClippedSum
    from dpcore.noise import NoiseSource


@mechanism("sampled-gaussian")
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGaussian:
    """`steps` releases of a clipped sum over a fresh Poisson batch, plus N(0, (noise_multiplier * clip_norm)^2 I).

    clip_norm            L2 bound of one record's, or unit's, contribution to a sum, above 0
    noise_multiplier     standard deviation of the noise on the sum, divided by clip_norm; above 0
    steps                at least 0
    expected_batch_size  what the noisy sum is divided by: rate * n, public, above 0; never the realised size, a fact
                         about the records

    Raises InvalidValue.
    """

    sampling: PoissonSampling
    clip_norm: float
    noise_multiplier: float
    steps: int
    expected_batch_size: float

    def __post_init__(self) -> None:
        checks.positive_finite(
            clip_norm=self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            expected_batch_size=self.expected_batch_size,
        )
        checks.count(steps=self.steps)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """L2 bound on the change of a sum between neighbours: a replaced record leaves and another enters."""
        return self.clip_norm if adjacency is Adjacency.ADD_REMOVE else 2.0 * self.clip_norm

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on a sum."""
        return self.noise_multiplier * self.clip_norm

    def batch(self, present: int, draws: Uniforms) -> NDArray[np.int64]:
        """The rows of one batch of `present` records, a number that is private under add-remove."""
        return self.sampling.indices(present, draws)

    @property
    def each(self) -> PoissonSampled:
        """What one step releases."""
        return self.sampling.event(Gaussian(noise_multiplier=self.noise_multiplier))

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def noisy_mean(self, clipped: ClippedSum, noise: NoiseSource) -> dict[str, Tensor]:
        """One step's release, shaped like the sum's tensors; an empty batch is noised like any other.

        Raises InvalidValue for a sum of another clip norm.
        """
        from dpcore.gradients import clipped as releases

        if clipped.clip_norm != self.clip_norm:
            raise checks.InvalidValue("clip_norm", clipped.clip_norm, f"the counted {self.clip_norm}")
        return releases.noisy_mean_gradient(
            clipped,
            noise_multiplier=self.noise_multiplier,
            expected_batch_size=self.expected_batch_size,
            noise=noise,
        )


@mechanism("sequence")
@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """`parts` one after the other, each on what came before: blocks of steps with unlike noise.

    They share sampling, clip norm and divisor, so that one clipped sum serves every step. Raises InvalidValue.
    """

    parts: tuple[SampledGaussian, ...]

    def __post_init__(self) -> None:
        if len({(part.sampling, part.clip_norm, part.expected_batch_size) for part in self.parts}) != 1:
            expected = "one part or more, of one sampling, one clip norm and one divisor"
            raise checks.InvalidValue("parts", self.parts, expected)

    @property
    def sampling(self) -> PoissonSampling:
        """Of every part."""
        return self.parts[0].sampling

    @property
    def clip_norm(self) -> float:
        """Of every part."""
        return self.parts[0].clip_norm

    @property
    def expected_batch_size(self) -> float:
        """Of every part."""
        return self.parts[0].expected_batch_size

    @property
    def steps(self) -> int:
        """Of all parts together."""
        return sum(part.steps for part in self.parts)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `Mechanism.event`."""
        start, stop = within(self.steps, from_step, to_step)
        found, position = [], 0
        for part in self.parts:
            first, last = max(start - position, 0), min(stop - position, part.steps)
            if first < last:
                found.append(part.event(first, last))
            position += part.steps
        return in_order(found)


def part_at(whole: SampledGaussian | Sequence, step: int) -> SampledGaussian:
    """The part that holds step number `step`, counted from 0. Raises IndexError past the last."""
    for part in whole.parts if isinstance(whole, Sequence) else (whole,):
        if step < part.steps:
            return part
        step -= part.steps
    raise IndexError("a step past the last")

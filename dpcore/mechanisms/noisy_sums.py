"""Noisy sums over Poisson batches: the step of private gradient descent, counted and made by one value.

Source  Abadi et al. (2016), Algorithm 1, with the public divisor rate * n; Bu et al. (2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Adjacency, Event, Gaussian, NonPrivate, PoissonSampled
from dpcore.mechanisms.output_perturbation import Normals
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
        from dpcore.gradients import engine as releases

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


# The sum of bounded values, released again and again with Gaussian noise.
#
# Source  Dwork & Roth (2014), section 3.5 and appendix A (Gaussian mechanism).


@mechanism("noisy-sum")
@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySum:
    """`steps` releases of sum(cut(x_i)) + N(0, (noise_multiplier * clip)^2), every value x_i cut to [0, clip].

    clip              in (0, 1]: what one record can add
    noise_multiplier  standard deviation of the noise, divided by clip; above 0
    steps             at least 0

    Raises InvalidValue.
    """

    clip: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(clip=self.clip, noise_multiplier=self.noise_multiplier)
        checks.count(steps=self.steps)

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Largest change of the sum between neighbours; a replaced value moves it from 0 to clip at most."""
        return self.clip

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(Gaussian(noise_multiplier=self.noise_multiplier), self.steps, from_step, to_step)

    def clipped_sum(self, values: NDArray[np.float64]) -> float:
        """Of values [n], what is no number counted as 0; private: not yet noised."""
        return float(np.clip(np.nan_to_num(values, nan=0.0), 0.0, self.clip).sum())

    def release(self, clipped_sum: float, draw: Normals) -> float:
        """One step."""
        return clipped_sum + self.noise_multiplier * self.clip * float(draw(()))


# Noisy sums that no ordinary epsilon stands behind: gradients need no clip, batches no coins.
#
# What such steps cost a typical record is counted while they run (`dpcore.accountants.bayesian`).


@mechanism("average-case")
@dataclass(frozen=True, slots=True, kw_only=True)
class AverageCase:
    """At most `steps` noisy sums over batches.

    sampling             of Poisson batches; of fixed ones the rate alone
    fixed                batches of exactly expected_batch_size records without replacement
    clip_norm            L2 bound of a record's contribution; None: nothing is clipped
    deviation            standard deviation of the noise on a sum, above 0
    expected_batch_size  what a noisy sum is divided by; public, above 0

    Raises InvalidValue.
    """

    sampling: PoissonSampling
    fixed: bool
    clip_norm: float | None
    deviation: float
    steps: int
    expected_batch_size: int

    def __post_init__(self) -> None:
        checks.positive_finite(deviation=self.deviation)
        if self.clip_norm is not None:
            checks.positive_finite(clip_norm=self.clip_norm)
        checks.count(steps=self.steps)
        checks.count(1, expected_batch_size=self.expected_batch_size)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`: not private."""
        return repeated(NonPrivate(), self.steps, from_step, to_step)

    def batch(self, present: int, draws: Uniforms) -> NDArray[np.int64]:
        """The rows of one batch of `present` records."""
        if self.fixed:
            # The records with the smallest of independent marks: every subset is equally likely.
            return np.argsort(draws.random(present))[: self.expected_batch_size]
        return self.sampling.indices(present, draws)

    def noisy_mean(self, total: ClippedSum, noise: NoiseSource) -> dict[str, Tensor]:
        """One step, shaped like the sum's tensors. Raises InvalidValue for a sum of another clip norm."""
        from dpcore.gradients.engine import noised_mean

        if self.clip_norm is not None and total.clip_norm != self.clip_norm:
            raise checks.InvalidValue("clip_norm", total.clip_norm, f"the planned {self.clip_norm}")
        return noised_mean(total.tensors, self.deviation, self.expected_batch_size, noise)

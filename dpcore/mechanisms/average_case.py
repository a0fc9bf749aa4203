"""Noisy sums that no ordinary epsilon stands behind: gradients need no clip, batches no coins.

What such steps cost a typical record is counted while they run (`dpcore.accountants.bayesian`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Event, NonPrivate
from dpcore.mechanisms.protocol import mechanism, repeated
from dpcore.sampling import PoissonSampling, Uniforms

if TYPE_CHECKING:
    from torch import Tensor

    from dpcore.gradients import ClippedSum
    from dpcore.noise import NoiseSource


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
        from dpcore.gradients.clipped import noised_mean

        if self.clip_norm is not None and total.clip_norm != self.clip_norm:
            raise checks.InvalidValue("clip_norm", total.clip_norm, f"the planned {self.clip_norm}")
        return noised_mean(total.tensors, self.deviation, self.expected_batch_size, noise)

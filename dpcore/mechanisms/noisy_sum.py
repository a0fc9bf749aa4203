"""The sum of bounded values, released again and again with Gaussian noise.

Source  Dwork & Roth (2014), section 3.5 and appendix A (Gaussian mechanism).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Adjacency, Event, Gaussian
from dpcore.mechanisms.noise_families import Normals
from dpcore.mechanisms.protocol import mechanism, repeated


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

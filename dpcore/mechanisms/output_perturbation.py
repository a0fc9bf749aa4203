"""Output perturbation: noise on a vector that was computed from the records, as a value that a plan carries.

Source  Dwork & Roth (2014), appendix A; pure noise: Chaudhuri, Monteleoni & Sarwate (2011), Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpcore import checks
from dpcore.events import Adjacency, Event, Gaussian, PureDP
from dpcore.mechanisms.noise_families import Array, Noise, NoiseLaw, Normals
from dpcore.mechanisms.protocol import mechanism, repeated


@mechanism("output-perturbation")
@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPerturbation:
    """`steps` releases of a vector, each with noise of its own.

    law               of the noise
    noise_multiplier  its scale (sigma, or one over beta) divided by `sensitivity`, above 0
    sensitivity       largest L2 (Frobenius) change of the vector between neighbours under `adjacency`, above 0
    steps             at least 0

    Raises InvalidValue.
    """

    law: NoiseLaw
    noise_multiplier: float
    sensitivity: float
    adjacency: Adjacency
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(noise_multiplier=self.noise_multiplier, sensitivity=self.sensitivity)
        checks.count(steps=self.steps)
        # Read from its written form, it is a plain word.
        object.__setattr__(self, "law", NoiseLaw(self.law))

    @property
    def scale(self) -> float:
        """sigma, or one over beta."""
        return self.noise_multiplier * self.sensitivity

    @property
    def noise(self) -> Noise:
        """In absolute terms."""
        return self.law.noise(self.scale)

    @property
    def each(self) -> Gaussian | PureDP:
        """What one step releases."""
        return self.law.event(self.noise_multiplier, self.adjacency)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        return repeated(self.each, self.steps, from_step, to_step)

    def release(self, vector: Array, draw: Normals) -> Array:
        """One step: the vector, or matrix, with noise of its shape."""
        return vector + self.noise.sample(vector.shape, draw)

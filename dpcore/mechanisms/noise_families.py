"""Two families of noise on a vector, as values that know their sampler and the event that they release.

Both samplers ask for standard normals alone, so that any source of normals serves them, a cryptographic one included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.events import Adjacency, Gaussian, PureDP

Array = NDArray[np.float64]
Normals = Callable[[tuple[int, ...]], Array]
"""shape -> independent N(0, 1) draws of that shape, float64."""


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent N(0, sigma^2) in every coordinate. `sigma` is an absolute scale, above 0."""

    sigma: float

    def __post_init__(self) -> None:
        checks.positive_finite(sigma=self.sigma)

    def sample(self, shape: tuple[int, ...], normals: Normals) -> Array:
        """One draw of `shape`."""
        return self.sigma * normals(shape)

    def event(self, sensitivity: float, adjacency: Adjacency) -> Gaussian:
        """What adding it to a query of this L2 sensitivity releases."""
        return Gaussian(noise_multiplier=self.sigma / sensitivity, adjacency=adjacency)


@dataclass(frozen=True, slots=True)
class RadialNoise:
    """Density proportional to exp(-beta ||b||_2): a Gamma(dimension, rate beta) radius in a uniform direction.

    beta  above 0, in units of one over the query's. Mean radius dimension / beta; variance of a coordinate
          (dimension + 1) / beta^2.

    Source  Chaudhuri, Monteleoni & Sarwate (2011), section 3; Hardt & Talwar (2010) for the sampler.
    """

    beta: float

    def __post_init__(self) -> None:
        checks.positive_finite(beta=self.beta)

    def sample(self, shape: tuple[int, ...], normals: Normals) -> Array:
        """One draw of `shape`, exact: half the sum of 2m squared normals is Gamma(m, 1)."""
        dimension = int(np.prod(shape))
        checks.count(minimum=1, dimension=dimension)
        radius = 0.5 * float(np.square(normals((2 * dimension,))).sum())
        direction = normals(shape)
        return direction * (radius / self.beta / float(np.sqrt(np.square(direction).sum())))

    def event(self, sensitivity: float, adjacency: Adjacency) -> PureDP:
        """What adding it to a query of this L2 sensitivity releases (triangle inequality)."""
        return PureDP(epsilon=self.beta * sensitivity, adjacency=adjacency)


Noise = GaussianNoise | RadialNoise
Family = TypeVar("Family", GaussianNoise, RadialNoise)


class NoiseLaw(StrEnum):
    """The two families by name."""

    GAUSSIAN = "gaussian"
    PURE = "pure"

    def noise(self, scale: float) -> Noise:
        """Of that scale, above 0: sigma, or one over beta."""
        return GaussianNoise(scale) if self is NoiseLaw.GAUSSIAN else RadialNoise(1 / scale)

    def event(self, noise_multiplier: float, adjacency: Adjacency) -> Gaussian | PureDP:
        """What noise of `noise_multiplier` times a query's sensitivity under `adjacency` releases of that query."""
        if self is NoiseLaw.GAUSSIAN:
            return Gaussian(noise_multiplier=noise_multiplier, adjacency=adjacency)
        return PureDP(epsilon=1 / noise_multiplier, adjacency=adjacency)

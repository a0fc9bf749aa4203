"""Uniform, Laplace and normal draws from standard normals alone, so that any source of normals serves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpcore.mechanisms.noise_families import Normals
from dpcore.papers.convexified import RandomSource
from trainables.system import Execution, Run
from trainables.training.noise import normals

Array = NDArray[np.float64]


class FromNormals:
    """The part of NumPy's generator that the mechanisms ask for."""

    def __init__(self, normals: Normals) -> None:
        self._normals = normals

    def random(self, size: tuple[int, ...]) -> Array:
        """Uniform on (0, 1): the normal's own distribution function."""
        uniform: Array = ndtr(self._normals(size))
        return uniform

    def laplace(self, loc: float, scale: float, size: int) -> Array:
        """The difference of two exponentials, each half a sum of two squared normals."""
        squares = np.square(self._normals((4, size)))
        drawn: Array = loc + scale * (squares[0] + squares[1] - squares[2] - squares[3]) / 2
        return drawn

    def normal(self, loc: float, scale: float, size: int | tuple[int, ...]) -> Array:
        """N(loc, scale^2)."""
        return loc + scale * self._normals((size,) if isinstance(size, int) else size)


def draws_of(run: Run, execution: Execution) -> RandomSource:
    """The noise of this attempt from its first step on."""
    return FromNormals(normals(run, execution))

"""The greatest convex function below a polygon that is known by its put and its call function.

Source  Andrew (1979) for the walk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld.pairs import Array

_PASSES = 32
"""In which most vertices above the convex minorant go at once; what is left is walked."""


def convex_minorant(y: Array, put: Array, call: Array, left: NDArray[np.bool_]) -> Array:
    """Second differences of the largest convex function below the vertices; zero at the vertices it skips.

    left  which vertices carry their digits in the put function, and which (False) in the call function; they differ by
          a line of slope 1. True up to some vertex, False from there on
    """
    keep = np.arange(len(y))
    for _ in range(_PASSES):
        mass = second_differences(y, put, call, left, keep)
        # A vertex above the chord of its neighbours is above the minorant. An end cannot be skipped: where its mass
        # has the wrong sign, the curve is flat to rounding.
        above = mass < 0
        above[0] = above[-1] = False
        if not above.any():
            break
        keep = keep[~above]
    else:
        keep = hull(y, put, call, left, keep)
        mass = second_differences(y, put, call, left, keep)
    out = np.zeros(len(y))
    out[keep] = np.maximum(mass, 0.0)
    return out


def second_differences(y: Array, put: Array, call: Array, left: NDArray[np.bool_], keep: NDArray[np.intp]) -> Array:
    """Of the polygon through the vertices `keep`, flat outside; each slope from the side that carries its digits."""
    width, at_left = np.diff(y[keep]), left[keep][1:]
    slope = np.where(at_left, np.diff(put[keep]), np.diff(call[keep])) / width
    difference = np.append(slope, 0.0) - np.append(0.0, slope)
    turned = np.append(True, at_left) & ~np.append(at_left, False)
    return np.asarray(difference + np.where(turned, 1.0, 0.0))


def hull(y: Array, put: Array, call: Array, left: NDArray[np.bool_], keep: NDArray[np.intp]) -> NDArray[np.intp]:
    """The vertices of the minorant among `keep`, in one walk (Andrew 1979): linear, where passes that skip all that
    stick out at once may take as many as there are vertices."""
    places, puts, calls, sides = (array[keep].tolist() for array in (y, put, call, left))

    def slope(i: int, j: int) -> float:
        side = puts if sides[j] else calls
        return float((side[j] - side[i]) / (places[j] - places[i]))

    kept: list[int] = [0]
    slopes: list[float] = []
    for k in range(1, len(places)):
        rising = slope(kept[-1], k)
        while slopes and rising - slopes[-1] + (1.0 if sides[kept[-1]] and not sides[k] else 0.0) < 0:
            kept.pop()
            slopes.pop()
            rising = slope(kept[-1], k)
        kept.append(k)
        slopes.append(rising)
    return keep[kept]

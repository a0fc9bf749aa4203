"""How many steps a number of passes over the data means."""

from __future__ import annotations

import math
from fractions import Fraction


def steps_of(epochs: float, batch_size: int, n: int) -> int:
    """ceil(epochs * n / batch_size), exact for `epochs` as it is written in decimal.

    In floating point 0.1 * 1000 / 10 and 1 / (1 / 234) go wrong by one step.
    """
    return math.ceil(Fraction(repr(float(epochs))) * n / batch_size)


def epochs_of(steps: int, batch_size: int, n: int) -> float:
    """The largest float of epochs that means exactly `steps` steps or, where floats are too coarse, fewer."""
    epochs = steps * batch_size / n
    while steps_of(epochs, batch_size, n) > steps:
        epochs = math.nextafter(epochs, 0.0)
    return epochs

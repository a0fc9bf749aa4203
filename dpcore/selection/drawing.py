"""Drawing K, exactly and in secret."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from dpcore import checks
from dpcore.selection.counts import Capped


def draw(law: Capped, source: random.SystemRandom) -> int:
    """K from exactly `law`: by inversion of its masses as integers, without rounding.

    source  a cryptographic generator (`secrets.SystemRandom()`): whoever can guess K breaks the guarantee. A seeded
            generator is refused.

    All counts up to the cap are gone through whatever is drawn. To be drawn once, and stored before the first trial;
    never again. Raises InvalidValue.
    """
    if not isinstance(law, Capped):
        raise checks.InvalidValue("law", law, "a law with a cap", "Capped(law, cap) is free of charge.")
    if not isinstance(source, random.SystemRandom):
        raise checks.InvalidValue("source", source, "a cryptographic source", "Pass secrets.SystemRandom().")
    # In units of the common denominator of all masses; the least count has that mass.
    first = math.prod(ratio.denominator for _, ratio in law.weights())
    total = sum(mass for _, mass in _integer_masses(law, first))
    at = source.randrange(total)
    least, cumulative, passed = next(law.weights())[0], 0, 0
    for _, mass in _integer_masses(law, first):
        cumulative += mass
        passed += at >= cumulative
    return least + passed


def _integer_masses(law: Capped, first: int) -> Iterator[tuple[int, int]]:
    """(k, P[K = k]) up to a common factor, from the mass of the least k on; every division is exact."""
    mass = first
    for k, ratio in law.weights():
        mass = mass * ratio.numerator // ratio.denominator
        yield k, mass

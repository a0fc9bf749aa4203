"""Randomised responses that answer truly but for 1e-13: their loss is nearly always epsilon, and is set aside.

Certificate: with S the sum of their epsilons and p the probability that none gives its rare answer, delta of the whole
at epsilon is at most that of the rest at epsilon - S (no loss is larger than S and the rest's), and at least p times
it. So epsilon lies between S and the rest's at delta / p, and S and the rest's at delta.

Source  this module; the pair is that of Kairouz, Oh & Viswanath (2015), Theorem 3.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpcore.accountants.pld.bounds import Asked, Bounds, of_a_part
from dpcore.accountants.pld.pairs import Parts, SampledRandomisedResponse, guessing

NEARLY_CERTAIN = 30.0
"""Randomised response of a larger epsilon gives its rarer answer with a probability of less than 1e-13."""

OfRest = Callable[[Parts, float, float], Bounds]
"""What bounds the rest, at a delta or epsilon and a tolerance."""


def set_aside(parts: Parts) -> tuple[Parts, float, float]:
    """(the rest, the summed losses of nearly certain responses, ln of the probability that none is the rare one)."""
    rest, shift, log_probability = [], 0.0, 0.0
    for pair, count in parts:
        if isinstance(pair, SampledRandomisedResponse) and pair.rate == 1.0 and pair.epsilon > NEARLY_CERTAIN:
            shift += count * pair.epsilon
            log_probability -= count * math.log1p(math.exp(-pair.epsilon))
        else:
            rest.append((pair, count))
    return tuple(rest), shift, log_probability


def epsilon_bounds(parts: Parts, asked: Asked, of_rest: OfRest) -> Bounds | None:
    """Around epsilon at the delta asked; None where no response is nearly certain. Raises as `of_rest`."""
    rest, shift, log_probability = set_aside(parts)
    if not shift > 0:
        return None
    share = asked.at * math.exp(-log_probability) * (1 + 1e-12)
    with of_a_part():
        upper = shift + of_rest(rest, asked.at, asked.tolerance).upper
        lower = shift + of_rest(rest, share, asked.tolerance).lower if share < 1 else 0.0
    if share < 1 and lower == shift:
        # The rest's delta at -e is at least 1 - exp(-e).
        lower += math.log1p(-share)
    if not rest:
        # All but the rare answers lose `shift`, so delta <= 1 - p exp(epsilon - shift).
        upper += min(0.0, math.log1p(-asked.at) - log_probability)
    return Bounds(max(0.0, lower * (1 - 1e-14)), upper * (1 + 1e-14))


def delta_bounds(parts: Parts, asked: Asked, of_rest: OfRest) -> Bounds | None:
    """Around delta at the epsilon asked; None where no response is nearly certain. Raises as `of_rest`."""
    rest, shift, log_probability = set_aside(parts)
    if not shift > 0:
        return None
    with of_a_part():
        known = of_rest(rest, asked.at - shift, asked.tolerance)
    # The shift itself is rounded: by less than this, and delta by at most as much.
    rounding = 1e-14 * (shift + abs(asked.at))
    lower = max(known.lower * math.exp(log_probability) * (1 - 1e-12) - rounding, guessing(asked.at))
    return Bounds(max(0.0, lower), min(1.0, known.upper + rounding))

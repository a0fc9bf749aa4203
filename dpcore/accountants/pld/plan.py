"""What estimates decide about one direction's certificate: its grid and its ring; and the composition on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.convolve import Composition, Window, fast_size
from dpcore.accountants.pld.loss import DiscretisationInvalid, Discretised
from dpcore.accountants.pld.pairs import Array, SampledRandomisedResponse
from dpcore.accountants.pld.parts import Parts
from dpcore.accountants.pld.saddle import Cumulants, Saddle

MAX_LOSSES = 1 << 21
"""Largest grid that is tried, in losses: seconds and less than a gigabyte. Beyond it there is no answer, whatever the
machine: plans are pure."""

REMEDY = "Another accountant may bound it."

SMALL_GRID = 1 << 17
"""What a grid may grow to before a sum over however many frequencies is tried in its place."""

_KEPT_GRID = 1 << 15

ABSOLUTE_FLOOR = 1e-6
"""Gaps below this many nats are always within tolerance."""

_SHIFTS: Array = np.geomspace(0.02, 4.0, 16)


class Bounds(NamedTuple):
    """A certified interval around the exact value."""

    lower: float
    upper: float


class Asked(NamedTuple):
    """What bounds on epsilon are asked for: at which delta, and how close together."""

    delta: float
    tolerance: float


COARSEST = 1e3
"""How many times more losses than are tried a grid may want, for a coarser one to be tried in its place."""


class ToleranceNotReached(ArithmeticError):
    """There are no bounds as close together as asked, and the grid cannot be refined further.

    best    certified bounds all the same, farther apart; None where there are none
    losses  how many the grid would have needed, where that was too many; else 0
    """

    def __init__(self, message: str, best: Bounds | None = None, losses: float = 0.0) -> None:
        super().__init__(message)
        self.best, self.losses = best, losses


def coarsened(refusal: ToleranceNotReached, largest: int) -> float:
    """By how much the gap has to grow for a grid of half of `largest` losses. Raises `refusal` where that is no use."""
    ratio = refusal.losses / largest
    if not 1 < ratio <= COARSEST:
        raise refusal
    return (2 * ratio) ** 2


@dataclass(frozen=True)
class Plan:
    """Everything about one direction that estimates decide.

    largest  how many losses a step's law and the ring may have
    precise  compose in long double
    """

    saddle: Saddle
    spacing: float
    tail: float
    window: Window
    largest: int = MAX_LOSSES
    precise: bool = False


def scale(saddle: Saddle, asked: Asked) -> float:
    """What the tolerance is relative to, as far as estimates tell."""
    return max(saddle.epsilon, 0.03 * saddle.spread, ABSOLUTE_FLOOR / asked.tolerance)


def _spacing(direction: Cumulants, tilt: float, gap: float, parts: Parts) -> float:
    """The coarsest grid whose bounds on epsilon should differ by `gap` nats.

    A loss L in a cell [a, b] becomes a or b with the ratio's mean kept: ln of its moment generating
    function at t grows by t (t+1)/2 E (L-a)(b-L), so epsilon by the sum of (t+1)/2 E (L-a)(b-L). For a
    density that is h^2 (t+1)/12 a step, and half as much again downwards for the lower bound. Where a
    heavy tail makes h wide against the bulk, the bulk sits near a node and costs far less: measured,
    not assumed.
    """
    steps = sum(direction.counts)
    spacing = math.sqrt(8 * gap / (steps * (tilt + 1)))
    candidates: Array = spacing * 1.3 ** np.arange(14, dtype=np.float64)
    cost = 0.75 * (tilt + 1) * direction.splitting_variance(tilt, candidates)
    for candidate, price in zip(candidates, cost, strict=True):
        if price <= gap and candidate * (tilt + 1) <= 0.7:
            spacing = float(candidate)
    for pair, _ in parts:
        if isinstance(pair, SampledRandomisedResponse):
            low, high = pair.atom_losses()
            if all(other == pair for other, _ in parts):
                return high - low
            return (high - low) / math.ceil((high - low) / spacing)
    return min(spacing, 0.7 / (tilt + 1))


def make_plan(
    direction: Cumulants,
    saddle: Saddle,
    gap: float,
    parts: Parts,
    spacing: float | None = None,
    largest: int = MAX_LOSSES,
) -> Plan:
    """Grid and ring so that upper and lower epsilon should differ by `gap` nats at the saddle.

    Raises ToleranceNotReached where that takes more than `largest` losses.
    """
    t, eps = saddle.tilt, saddle.epsilon
    spacing = _spacing(direction, t, gap, parts) if spacing is None else spacing
    k, _, _ = direction.at(t)
    relative = min(0.05, max(0.1 * gap * t, 1e-12))
    peak = t * math.log(t) - (1 + t) * math.log1p(t)
    log_outside = min(-4.0, math.log(relative) + saddle.log_delta - k + t * eps - peak - math.log(2))
    reach = math.sqrt(-2 * log_outside) / max(saddle.spread, 1e-300)
    shifts = reach * _SHIFTS
    up = (direction.values(t + shifts) - k - log_outside) / shifts
    down = -(direction.values(t - shifts) - k - log_outside) / shifts
    best_up, best_down = int(np.argmin(up)), int(np.argmax(down))
    margin = 4 * spacing + 0.02 * (up[best_up] - down[best_down])
    bottom, top = min(float(down[best_down]), eps) - margin, max(float(up[best_up]), eps) + margin
    most = float(sum(c * loss.max() for loss, c in zip(direction.losses, direction.counts, strict=True)))
    least = float(sum(c * loss.min() for loss, c in zip(direction.losses, direction.counts, strict=True)))
    # A few steps have a bounded support, and a window that holds it has no outside.
    pad = spacing * (sum(direction.counts) + 4)
    bottom, top = max(bottom, min(least, eps) - pad), min(top, max(most, eps) + pad)
    if not (top - bottom) / spacing <= largest:
        raise ToleranceNotReached(
            f"window of {(top - bottom) / spacing:.3g} losses: expected at most {largest}. {REMEDY}",
            losses=(top - bottom) / spacing,
        )
    size = fast_size(max(64, math.ceil((top - bottom) / spacing)))
    above = min(size - 2, max(2, math.ceil((top - eps) / spacing)))
    window = Window(size, above, float(shifts[best_up]), float(shifts[best_down]))
    return Plan(saddle, spacing, direction.tail, window, largest)


_kept = lru_cache(maxsize=64)(Discretised)
_kept_while_large = lru_cache(maxsize=2)(Discretised)
"""A large grid takes hundreds of megabytes: it serves both bounds of one composition and is forgotten."""


def compose(parts: Parts, plan: Plan, *, upper: bool, forward: bool) -> Composition | None:
    """None if this grid has no lower law: no mass, or refused by the guard."""
    if plan.window.size > 2 * plan.largest:
        raise ToleranceNotReached(
            f"window of {plan.window.size} losses: expected at most {2 * plan.largest}. {REMEDY}",
            losses=plan.window.size / 2,
        )
    laws = []
    for pair, _ in parts:
        low, high = pair.loss_range(plan.tail)
        losses = (high - low) / plan.spacing
        if losses > plan.largest:
            raise ToleranceNotReached(
                f"step of {losses:.3g} losses: expected at most {plan.largest}. {REMEDY}", losses=losses
            )
        keep = _kept if losses <= _KEPT_GRID else _kept_while_large
        discrete = keep(pair, plan.spacing, plan.tail)
        try:
            law = discrete.law(upper=upper, forward=forward)
        except DiscretisationInvalid:
            if upper:
                raise
            # Without a lower law there is no lower bound from this grid; a finer one may have one.
            return None
        if not law.masses.any():
            return None
        laws.append(law)
    return Composition(laws, [count for _, count in parts], plan.saddle.tilt, plan.window, plan.precise)

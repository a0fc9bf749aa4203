"""Where the mass that decides epsilon lies: exponential tilts and their estimates, never a bound.

The composed loss S has cumulant function K(t) = ln E exp(t S), and for t > 0
delta(eps) = (1 / 2 pi i) * integral of exp(K(z) - z eps) / (z (z + 1)) along Re z = t. The integrand's
saddle gives the tilt under which S concentrates about eps: there the convolution is exact to relative,
not absolute, precision, the window is short, and the tilted spread says how fine the grid must be even
where the loss is heavy-tailed.

Source  Daniels (1954); Alghamdi et al. (2023) for privacy losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpcore.accountants.pld.pairs import Array, Asked, Bounds, Parts, tail_for


@dataclass(frozen=True)
class Cumulants:
    """Quadrature of one direction's composed loss.

    laws  of each part: losses (nodes,), log-masses (nodes,), and how many steps
    tail  probability left out on either side of each step; grids must leave out the same, for a rare huge loss
          that the estimates did not see would spoil the Chernoff bounds
    """

    laws: tuple[tuple[Array, Array, int], ...]
    tail: float

    def mirrored(self) -> Cumulants:
        """Those of the other direction: (Q, P) under Q."""
        return Cumulants(tuple((-loss, log_mass - loss, count) for loss, log_mass, count in self.laws), self.tail)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """K, K', K'' of the composed loss at a real tilt."""
        k = mean = variance = 0.0
        for loss, log_mass, count in self.laws:
            weight, top, mass = _weights(loss, log_mass, tilt)
            first = float(weight @ loss) / mass
            away = loss - first
            k += count * (top + math.log(mass))
            mean += count * first
            variance += count * float(weight @ (away * away)) / mass
        return k, mean, variance

    def losses_at(self, end: int) -> float:
        """The composed loss at the quadrature's first (0) or last (-1) nodes, in nats."""
        return float(sum(count * loss[end] for loss, _, count in self.laws))

    def log_mgfs(self, tilt: float) -> list[float]:
        """ln E exp(tilt L) of one step of each part."""
        out = []
        for loss, log_mass, _ in self.laws:
            _, top, mass = _weights(loss, log_mass, tilt)
            out.append(top + math.log(mass))
        return out

    def at_ends(self, tilt: float) -> float:
        """Tilted mass, per step and summed over the steps, that a quadrature node at either end would have."""
        total = 0.0
        for loss, log_mass, count in self.laws:
            if len(loss) > 2:
                weight, _, mass = _weights(loss, log_mass, tilt)
                total += count * float(weight[0] + weight[-1]) / mass
        return total

    def values(self, tilts: Array) -> Array:
        """K at each tilt."""
        total = np.zeros(len(tilts))
        for loss, log_mass, count in self.laws:
            exponent = log_mass[None, :] + tilts[:, None] * loss[None, :]
            top = exponent.max(axis=1)
            total += count * (top + np.log(np.exp(exponent - top[:, None]).sum(axis=1)))
        return total

    def splitting_variance(self, tilt: float, spacings: Array) -> Array:
        """Summed tilted mean of (L - a)(b - L) where [a, b] is L's cell, for each grid spacing."""
        total = np.zeros(len(spacings))
        width = spacings[:, None]
        for loss, log_mass, count in self.laws:
            weight, _, mass = _weights(loss, log_mass, tilt)
            cells = (loss - loss[0])[None, :] / width
            # Quadrature nodes closer than a cell average over its inside; farther ones sample it.
            cells -= np.floor(cells)
            total += count / mass * spacings**2 * ((cells * (1 - cells)) @ weight)
        return total


def _weights(loss: Array, log_mass: Array, tilt: float) -> tuple[Array, float, float]:
    """Tilted masses relative to the largest, its logarithm, and their sum."""
    exponent = log_mass + tilt * loss
    top = float(exponent.max())
    exponent -= top
    weight = np.exp(exponent, out=exponent)
    return weight, top, float(weight.sum())


def cumulants(parts: Parts, tail: float, *, forward: bool) -> Cumulants:
    """Quadrature for the loss of (P, Q) under P, or with forward=False of (Q, P) under Q."""
    sampled = ((*pair.sample(tail), count) for pair, count in parts)
    laws = ((loss, log_mass + loss, n) if forward else (-loss, log_mass, n) for loss, log_mass, n in sampled)
    return Cumulants(tuple(laws), tail)


@dataclass(frozen=True)
class Saddle:
    """A tilt and what is estimated there.

    epsilon    estimated (or given) epsilon, in nats; may be negative
    log_delta  estimated ln delta at it
    log_mgf    K there
    mean, spread  tilted mean and standard deviation of the composed loss
    curvature     d epsilon / d tilt along the saddles
    """

    tilt: float
    epsilon: float
    log_delta: float
    log_mgf: float
    mean: float
    spread: float
    curvature: float


class Direction(NamedTuple):
    """One direction of a composition, where its mass lies, and what is asked of it.

    forward    the loss of (P, Q) under P; else of (Q, P) under Q
    cumulants  estimates of that loss; their `tail` is what sums and grids leave out as well
    saddle     where to look first
    known      an epsilon, or a delta, that the other direction needs anyhow: to need no more is enough; None for the
               first
    """

    parts: Parts
    forward: bool
    cumulants: Cumulants
    saddle: Saddle
    asked: Asked
    known: float | None = None

    def settled_by(self, bounds: Bounds) -> bool:
        """Whether `bounds` are as close together as asked, or need no more than the other direction does anyhow."""
        return self.asked.met_by(bounds) or (self.known is not None and bounds.upper <= self.known)

    @property
    def relative(self) -> float:
        """How far apart bounds on delta may be, relative to its estimate, at most 1: far below what matters, or below
        what the other direction needs, little will do."""
        estimate = math.exp(min(self.saddle.log_delta, 0.0))
        enough = max(self.asked.gap(estimate), 0.5 * ((self.known or 0.0) - estimate))
        return min(1.0, enough / estimate)

    @property
    def scale(self) -> float:
        """What a tolerance of epsilon is relative to, in nats, as far as estimates tell."""
        return max(self.saddle.epsilon, 0.03 * self.saddle.spread, self.asked.floor / self.asked.tolerance)


_NEGLIGIBLE = math.log(1e-18)
"""Of delta: below every floor."""


def _saddle(cumulants: Cumulants, tilt: float, epsilon: float | None) -> Saddle:
    k, mean, variance = cumulants.at(tilt)
    pole = 1 / tilt + 1 / (1 + tilt)
    eps = mean - pole if epsilon is None else epsilon
    curvature = variance + 1 / tilt**2 + 1 / (1 + tilt) ** 2
    log_delta = k - tilt * eps - math.log(tilt) - math.log1p(tilt) - 0.5 * math.log(2 * math.pi * curvature)
    return Saddle(tilt, eps, log_delta, k, mean, math.sqrt(max(variance, 0.0)), curvature)


def at_tilt(cumulants: Cumulants, tilt: float, epsilon: float, log_delta: float) -> Saddle:
    """Not a saddle but any tilt, for an epsilon and its ln delta that are already estimated."""
    return replace(_saddle(cumulants, tilt, epsilon), log_delta=log_delta)


def _solve(function: Callable[[float], tuple[float, float]], start: float, close: float = 1e-3) -> float:
    """Root of a decreasing function of ln t, given with its slope, to `close`: the tilt need not be exact."""
    low, high, x = -60.0, 60.0, start
    for _ in range(60):
        value, slope = function(x)
        if value > 0:
            low = x
        else:
            high = x
        step = -value / slope if slope < 0 else math.copysign(2.0, value)
        following = x + min(max(step, -3.0), 3.0)
        if not low < following < high:
            following = 0.5 * (max(low, x - 6.0) + min(high, x + 6.0))
        if abs(following - x) < close or high - low < close:
            return following
        x = following
    return x


def at_delta(cumulants: Cumulants, log_delta: float, near: float | None = None) -> Saddle:
    """The saddle whose estimated delta is the given one; at epsilon 0 if the given delta lies above delta(0).

    near  a tilt to start from, such as the other direction's; one that is found from there is less exact
    """

    def excess(x: float) -> tuple[float, float]:
        saddle = _saddle(cumulants, math.exp(x), None)
        # Along the saddles d ln delta / dt is -t times d epsilon / dt, but for the slow curvature term.
        return saddle.log_delta - log_delta, -(saddle.tilt**2) * saddle.curvature

    if near is None:
        _, _, variance = cumulants.at(1.0)
        near = math.sqrt(max(-2 * log_delta, 1.0) / max(variance, 1e-12)) + 1e-3
        close = 1e-3
    else:
        close = 0.02
    saddle = _saddle(cumulants, math.exp(_solve(excess, math.log(near), close)), None)
    return saddle if saddle.epsilon > 0 else at_epsilon(cumulants, 0.0)


def at_epsilon(cumulants: Cumulants, epsilon: float) -> Saddle:
    """The saddle for a given epsilon of either sign."""

    def pull(x: float) -> tuple[float, float]:
        saddle = _saddle(cumulants, math.exp(x), None)
        return epsilon - saddle.epsilon, -saddle.tilt * saddle.curvature

    _, _, variance = cumulants.at(1.0)
    return _saddle(cumulants, math.exp(_solve(pull, -0.5 * math.log(max(variance, 1e-12)))), epsilon)


def symmetric(parts: Parts) -> bool:
    """Whether both directions are one."""
    return all(pair.symmetric for pair, _ in parts)


def direction_at_delta(parts: Parts, asked: Asked, tail: float, *, forward: bool) -> Direction:
    """One direction around the epsilon that is estimated at the delta asked; `tail` is left out at either end."""
    found = cumulants(parts, tail, forward=forward)
    return Direction(parts, forward, found, at_delta(found, math.log(asked.at)), asked)


def direction_at_epsilon(parts: Parts, asked: Asked, *, forward: bool) -> Direction:
    """One direction around the epsilon asked; what is left out at either end is small beside its estimated delta."""
    found = cumulants(parts, tail_for(1e-12, parts), forward=forward)
    most = max(found.losses_at(0), found.losses_at(-1))
    # Beyond the largest loss the tilt has no saddle; just below it the bound is already tiny.
    saddle = at_epsilon(found, min(asked.at, most - 0.02 * abs(most)))
    if saddle.log_delta < _NEGLIGIBLE:
        # Far out, tilts grow without need: one at which delta is negligible a little before bounds it here as well.
        saddle = at_tilt(found, at_delta(found, _NEGLIGIBLE).tilt, asked.at, _NEGLIGIBLE)
    tail = tail_for(math.exp(min(saddle.log_delta, 0.0)), parts)
    return Direction(parts, forward, cumulants(parts, tail, forward=forward), saddle, asked)


def epsilon_directions(parts: Parts, asked: Asked) -> list[Direction]:
    """The direction that seems to need more first: the other then often only has to hold at its epsilon."""
    ahead = direction_at_delta(parts, asked, tail_for(asked.at, parts), forward=True)
    if symmetric(parts):
        return [ahead]
    mirrored = ahead.cumulants.mirrored()
    back = Direction(parts, False, mirrored, at_delta(mirrored, math.log(asked.at), near=ahead.saddle.tilt), asked)
    return [ahead, back] if ahead.saddle.epsilon >= back.saddle.epsilon else [back, ahead]


def delta_directions(parts: Parts, asked: Asked) -> Iterator[Direction]:
    """Removing a record, then adding one, where some loss of that is as large as the epsilon asked."""
    yield direction_at_epsilon(parts, asked, forward=True)
    largest = sum(-count * pair.smallest_loss for pair, count in parts)
    if not symmetric(parts) and asked.at < max(0.0, largest) * (1 + 1e-9):
        yield direction_at_epsilon(parts, asked, forward=False)

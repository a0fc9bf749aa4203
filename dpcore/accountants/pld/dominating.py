"""Which pair dominates which release: events in, a composition of dominating pairs out.

Source  Zhu, Dong & Wang (2022), Theorems 10 and 11; Kairouz, Oh & Viswanath (2015), Theorems 3.1 and 3.3.
"""

from __future__ import annotations

import math

from dpcore.accountants.countable import amplified, approximate, factor, refuse
from dpcore.accountants.pld.bounds import Bounds
from dpcore.accountants.pld.closed_forms.gaussian import MU_ROUNDING
from dpcore.accountants.pld.pairs import (
    DominatingPair,
    Parts,
    ReplacedSampledGaussian,
    SampledGaussianPair,
    SampledRandomisedResponse,
)
from dpcore.adjacency import Adjacency
from dpcore.events import ApproximateDP, Event, Gaussian, PoissonSampled, PureDP

LARGEST_PURE = 30.0
"""Beyond it the rarer answer of a sampled randomised response vanishes beside 1 in float64: it counts as pure then."""
SMALLEST_NOISE = 0.05
"""Below this noise multiplier a sampled Gaussian's losses exceed what float64 can exponentiate."""


def dominating_pair(part: Event, adjacency: Adjacency) -> DominatingPair | None:
    """The pair that dominates one release under `adjacency`, or None if none is known (or proved).

    Add-remove: Gaussian, PureDP (randomised response), Poisson sampling of either (Zhu, Dong & Wang 2022), of a PureDP
    above LARGEST_PURE by its amplified epsilon.
    Replace-one: a sensitivity to one record added or removed counts twice, so a Gaussian has half its
    multiplier and a PureDP twice its epsilon; a Poisson-sampled Gaussian has `ReplacedSampledGaussian` (proof
    there), a Poisson-sampled PureDP twice its amplified epsilon (group privacy). Sensitivities that refer to
    replace-one count as they stand, but say nothing under sampling or under add-remove. An ApproximateDP is randomised
    response once its delta, which `failure_of` counts, has been set aside (Kairouz, Oh & Viswanath 2015).
    """
    replace = adjacency is Adjacency.REPLACE_ONE
    match part:
        case Gaussian() | PureDP() | ApproximateDP() if part.adjacency is Adjacency.REPLACE_ONE and not replace:
            return None
        case Gaussian(noise_multiplier=z):
            return SampledGaussianPair(1.0, z / factor("pld", part, adjacency))
        case PureDP(epsilon=epsilon):
            return SampledRandomisedResponse(1.0, float(factor("pld", part, adjacency) * epsilon))
        case ApproximateDP():
            # Its delta is a mass of infinite loss (`failure_of`); the rest is randomised response.
            return SampledRandomisedResponse(1.0, approximate("pld", part, adjacency)[0])
        case PoissonSampled(rate=q, event=Gaussian(noise_multiplier=z, adjacency=Adjacency.ADD_REMOVE)):
            if z < SMALLEST_NOISE:
                return None
            return ReplacedSampledGaussian(float(q), float(z)) if replace else SampledGaussianPair(float(q), float(z))
        case PoissonSampled(rate=q, event=PureDP(epsilon=epsilon, adjacency=Adjacency.ADD_REMOVE)):
            if replace:
                return SampledRandomisedResponse(1.0, 2 * amplified(float(q), float(epsilon)))
            if epsilon > LARGEST_PURE:
                return SampledRandomisedResponse(1.0, amplified(float(q), float(epsilon)))
            return SampledRandomisedResponse(float(q), float(epsilon))
    return None


def _why_not(part: Event) -> str:
    """Why there is no pair for it."""
    match part:
        case PoissonSampled(event=Gaussian(noise_multiplier=z, adjacency=Adjacency.ADD_REMOVE)) if z < SMALLEST_NOISE:
            return (
                f"below a noise multiplier of {SMALLEST_NOISE:g} the losses of a sampled Gaussian exceed what floating "
                "point can hold. Take more noise, or ask another accountant."
            )
    return "no dominating pair is proved for it."


def parts_of(event_phases: dict[Event, int], adjacency: Adjacency) -> Parts:
    """Dominating pairs and how often, plain Gaussians combined into one. Raises UnsupportedEvent."""
    counts: dict[DominatingPair, int] = {}
    precisions: list[float] = []
    for part, count in event_phases.items():
        pair = dominating_pair(part, adjacency)
        if pair is None:
            raise refuse("pld", part, adjacency, _why_not(part))
        if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0:
            precisions.append(count / pair.noise_multiplier**2)
        elif not (isinstance(pair, SampledRandomisedResponse) and pair.epsilon == 0.0):
            counts[pair] = counts.get(pair, 0) + count
    if precisions:
        # Up in sensitivity by more than the sum's own rounding; every lower bound allows for that (`gaussian.mu_of`,
        # `gaussian_line`; a grid's lower law lies below the exact curve by more).
        counts[SampledGaussianPair(1.0, 1 / math.sqrt(math.fsum(precisions)) * (1 - MU_ROUNDING))] = 1
    return tuple(counts.items())


def failure_of(event_phases: dict[Event, int], adjacency: Adjacency) -> Bounds:
    """(lower, upper) around the chance that some ApproximateDP release tells all: 1 - prod (1 - delta_i)."""
    fixed = [
        (approximate("pld", part, adjacency)[1], count)
        for part, count in event_phases.items()
        if isinstance(part, ApproximateDP)
    ]
    if len(fixed) == 1 and fixed[0][1] == 1:
        # Exactly, so that one release may be asked at its own delta.
        return Bounds(fixed[0][0], fixed[0][0])
    log_safe = math.fsum(count * math.log1p(-min(delta, 1 - 1e-16)) for delta, count in fixed)
    mass = -math.expm1(log_safe)
    return Bounds(mass * (1 - 1e-12), min(1.0, mass * (1 + 1e-12)))

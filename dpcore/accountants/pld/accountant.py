"""The privacy-loss-distribution accountant: certified bounds on both sides of the exact epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dpcore import checks
from dpcore.accountants._parts import approximate
from dpcore.accountants.pld import bounds, deltas, responses
from dpcore.accountants.pld.loss import DiscretisationInvalid
from dpcore.accountants.pld.pairs import (
    DominatingPair,
    ReplacedSampledGaussian,
    SampledGaussian,
    SampledRandomisedResponse,
)
from dpcore.accountants.pld.parts import MU_ROUNDING, Parts
from dpcore.accountants.pld.plan import Bounds, ToleranceNotReached
from dpcore.accountants.rdp import RDPAccountant
from dpcore.adjacency import Adjacency
from dpcore.events import (
    ApproximateDP,
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PureDP,
    Repeated,
    UnsupportedEvent,
    phases,
)
from dpcore.guarantee import Status

DEFAULT_TOLERANCE = 1e-3

MAX_STEPS = 10**9
"""Rounding grows with the number of steps; beyond this it would no longer be small."""

LARGEST_PURE = 30.0
"""Beyond it the rarer answer of a sampled randomised response vanishes beside 1 in float64: it counts as pure then."""
_LEAST_LEFT = 1e-12
"""Of delta: where less is left, lower bounds are asked at this, which only lowers them."""
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
        case Gaussian(noise_multiplier=z, adjacency=reference):
            if reference is Adjacency.REPLACE_ONE:
                return SampledGaussian(1.0, float(z)) if replace else None
            return SampledGaussian(1.0, z / 2 if replace else float(z))
        case PureDP(epsilon=epsilon, adjacency=reference):
            if reference is Adjacency.REPLACE_ONE:
                return SampledRandomisedResponse(1.0, float(epsilon)) if replace else None
            return SampledRandomisedResponse(1.0, 2 * epsilon if replace else float(epsilon))
        case ApproximateDP(adjacency=reference):
            # Its delta is a mass of infinite loss (`failure_of`); the rest is randomised response.
            if reference is Adjacency.REPLACE_ONE and not replace:
                return None
            return SampledRandomisedResponse(1.0, approximate("pld", part, adjacency)[0])
        case PoissonSampled(rate=q, event=Gaussian(noise_multiplier=z, adjacency=Adjacency.ADD_REMOVE)):
            if z < SMALLEST_NOISE:
                return None
            return ReplacedSampledGaussian(float(q), float(z)) if replace else SampledGaussian(float(q), float(z))
        case PoissonSampled(rate=q, event=PureDP(epsilon=epsilon, adjacency=Adjacency.ADD_REMOVE)):
            if replace:
                return SampledRandomisedResponse(1.0, 2 * _amplified(float(q), float(epsilon)))
            if epsilon > LARGEST_PURE:
                return SampledRandomisedResponse(1.0, _amplified(float(q), float(epsilon)))
            return SampledRandomisedResponse(float(q), float(epsilon))
    return None


def _amplified(rate: float, epsilon: float) -> float:
    """ln(1 - q + q exp(epsilon)): what a Poisson sample at rate q makes of pure DP."""
    if epsilon <= 30:
        return math.log1p(rate * math.expm1(epsilon))
    return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon))


def _unsupported(part: Event, adjacency: Adjacency) -> UnsupportedEvent:
    return UnsupportedEvent(f"pld: expected an event with a proved dominating pair under {adjacency}, got {part}")


def parts_of(event_phases: dict[Event, int], adjacency: Adjacency) -> Parts:
    """Dominating pairs and how often, plain Gaussians combined into one. Raises UnsupportedEvent."""
    counts: dict[DominatingPair, int] = {}
    precisions: list[float] = []
    for part, count in event_phases.items():
        pair = dominating_pair(part, adjacency)
        if pair is None:
            raise UnsupportedEvent(
                f"pld: expected an event with a proved dominating pair under {adjacency}, got {part}"
            )
        if isinstance(pair, SampledGaussian) and pair.rate == 1.0:
            precisions.append(count / pair.noise_multiplier**2)
        elif not (isinstance(pair, SampledRandomisedResponse) and pair.epsilon == 0.0):
            counts[pair] = counts.get(pair, 0) + count
    if precisions:
        # Up in sensitivity by more than the sum's own rounding; every lower bound allows for that (`gaussian_mu`,
        # `GaussianLine`; a grid's lower law lies below the exact curve by more).
        counts[SampledGaussian(1.0, 1 / math.sqrt(math.fsum(precisions)) * (1 - MU_ROUNDING))] = 1
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PLDAccountant:
    """Privacy loss distributions, composed in both directions and bounded from both sides.

    Exactly where few sums of losses are possible (`responses`); where the composed loss's spectrum decays, by a sum
    over a few frequencies whose every error is bounded (`contour`); else discretised to both sides and composed by FFT
    (`convolve`).

    adjacency  neighbouring relation of every number
    tolerance  how far apart upper and lower bound may be: `tolerance` times the upper bound, or 1e-6 nats
               if that is more; in (0, 0.5]. Larger is faster; the bounds hold at any value.
    steps      what was composed so far, as {indivisible event: count} pairs

    Numbers are over the reals; what floating point does to the *accounting* is charged, what it does to
    a mechanism's noise is not covered.
    """

    adjacency: Adjacency = Adjacency.ADD_REMOVE
    tolerance: float = DEFAULT_TOLERANCE
    steps: tuple[tuple[Event, int], ...] = field(default=())
    name: str = field(default="pld", init=False)
    status: Status = field(default=Status.PROVED, init=False)
    theorem: str = field(
        default=(
            "Zhu, Dong & Wang 2022, Theorems 10 and 11 (dominating pairs, composition, sampling); "
            "Trefethen & Weideman 2014, Theorem 5.1 (error of the trapezoidal rule), "
            "or Doroshenko et al. 2022 (pessimistic discretisation), "
            "or Kairouz, Oh & Viswanath 2015, Theorem 3.3 (randomised responses, exactly)"
        ),
        init=False,
    )

    def __post_init__(self) -> None:
        checks.positive_finite(tolerance=self.tolerance)
        if self.tolerance > 0.5:
            raise checks.InvalidValue("tolerance", self.tolerance, "a number in (0, 0.5]")

    def supports(self, event: Event) -> bool:
        """Whether every part of `event` has a proved dominating pair under this adjacency, or is NonPrivate."""
        return all(
            isinstance(part, NonPrivate) or dominating_pair(part, self.adjacency) is not None for part in phases(event)
        )

    def compose(self, event: Event, count: int = 1) -> PLDAccountant:
        """This accountant after `count` more runs of `event`. Raises UnsupportedEvent, InvalidValue."""
        checks.count(count=count)
        merged = dict(self.steps)
        for part, times in phases(event).items():
            if not isinstance(part, NonPrivate) and dominating_pair(part, self.adjacency) is None:
                raise _unsupported(part, self.adjacency)
            if count:
                merged[part] = merged.get(part, 0) + times * count
        if sum(merged.values()) > MAX_STEPS:
            raise checks.InvalidValue("steps", sum(merged.values()), f"at most {MAX_STEPS} steps in all")
        return PLDAccountant(adjacency=self.adjacency, tolerance=self.tolerance, steps=tuple(merged.items()))

    @property
    def _non_private(self) -> bool:
        return any(isinstance(part, NonPrivate) for part, _ in self.steps)

    def epsilon_bounds(self, delta: float, tolerance: float | None = None) -> Bounds:
        """(lower, upper) around the exact epsilon of the worst-case pair at `delta` in (0, 1).

        tolerance  overrides the accountant's own, for searches that start coarse
        Raises plan.ToleranceNotReached, with the best bounds there are, and loss.DiscretisationInvalid.
        """
        checks.probability_open(delta=delta)
        if self._non_private:
            return Bounds(math.inf, math.inf)
        parts, failure = self._parts_and_failure()
        wanted = self.tolerance if tolerance is None else tolerance
        if not failure.upper:
            return bounds.epsilon_bounds(parts, float(delta), wanted)
        try:
            return self._with_failures(parts, failure, delta, wanted)
        except ToleranceNotReached as refusal:
            # Its best bounds are those of the rest at another delta.
            raise ToleranceNotReached(str(refusal)) from refusal

    def _with_failures(self, parts: Parts, failure: Bounds, delta: float, wanted: float) -> Bounds:
        """`epsilon_bounds` where releases may tell all, with a chance of `failure`."""
        # delta(epsilon) = failure + (1 - failure) * delta of the rest, so the rest is asked at what is left.
        left = Bounds(_left(delta, failure.upper) * (1 - 1e-12), _left(delta, failure.lower) * (1 + 1e-12))
        if delta < failure.lower:
            return Bounds(math.inf, math.inf)
        share = max(left.upper, _LEAST_LEFT)
        lower = bounds.epsilon_bounds(parts, share, wanted).lower if share < 1 else 0.0
        if left.lower > 0:
            return Bounds(lower, bounds.epsilon_bounds(parts, left.lower, wanted).upper)
        # All of delta is the releases' own: what is left of them is pure, if they are all there is.
        pure = delta >= failure.upper and responses.only_responses(parts)
        return Bounds(lower, responses.largest_sum(parts) if pure else math.inf)

    def epsilon(self, delta: float) -> float:
        """Certified upper bound on epsilon at `delta` in (0, 1), in nats; infinite after a NonPrivate event."""
        return self.epsilon_bounds(delta).upper

    def epsilon_lower(self, delta: float) -> float:
        """Certified lower bound on the exact epsilon of the composed worst-case pair at `delta` in (0, 1)."""
        return self.epsilon_bounds(delta).lower

    def epsilon_estimate(self, delta: float) -> float:
        """Saddle-point estimate, usually within a percent and in under a millisecond: a start, never a bound."""
        checks.probability_open(delta=delta)
        if self._non_private:
            return math.inf
        parts, failure = self._parts_and_failure()
        left = _left(delta, failure.upper)
        return bounds.epsilon_estimate(parts, left) if left > 0 else math.inf

    def delta_bounds(self, epsilon: float, tolerance: float | None = None) -> Bounds:
        """(lower, upper) around the exact delta at a finite `epsilon`; below 0 for trade-off curves.

        Far out on the curve, where neither sums nor grids reach, delta is at most the Renyi accountant's; where that
        is below `deltas.FLOOR`, the bounds are 0 and it. Raises plan.ToleranceNotReached, loss.DiscretisationInvalid.
        """
        if not math.isfinite(epsilon):
            raise checks.InvalidValue("epsilon", epsilon, "a finite number")
        if self._non_private:
            return Bounds(1.0, 1.0)
        parts, failure = self._parts_and_failure()
        rest = self._rest_at(parts, float(epsilon), self.tolerance if tolerance is None else tolerance)
        if not failure.upper:
            return rest
        return Bounds(
            (failure.lower + (1 - failure.lower) * rest.lower) * (1 - 1e-12),
            min(1.0, (failure.upper + (1 - failure.upper) * rest.upper) * (1 + 1e-12)),
        )

    def _rest_at(self, parts: Parts, epsilon: float, tolerance: float) -> Bounds:
        """delta of all but the failures of approximate releases."""
        try:
            return deltas.delta_bounds(parts, epsilon, tolerance)
        except (ToleranceNotReached, DiscretisationInvalid) as refusal:
            if any(isinstance(part, ApproximateDP) for part, _ in self.steps):
                # Its best bounds are those of the rest alone.
                raise ToleranceNotReached(str(refusal)) from refusal
            if epsilon < 0:
                raise
            event = Composed(events=tuple(Repeated(event=part, count=count) for part, count in self.steps))
            most = RDPAccountant(self.adjacency).compose(event).delta(epsilon)
            if most > deltas.FLOOR:
                raise
            return Bounds(0.0, most)

    def _parts_and_failure(self) -> tuple[Parts, Bounds]:
        steps = dict(self.steps)
        return parts_of(steps, self.adjacency), failure_of(steps, self.adjacency)

    def delta(self, epsilon: float) -> float:
        """Certified upper bound on delta at `epsilon` >= 0, in [0, 1]."""
        checks.non_negative_finite(epsilon=epsilon)
        return self.delta_bounds(epsilon).upper

    def delta_lower(self, epsilon: float) -> float:
        """Certified lower bound on the exact delta at `epsilon` >= 0."""
        checks.non_negative_finite(epsilon=epsilon)
        return self.delta_bounds(epsilon).lower


def _left(delta: float, failure: float) -> float:
    return (delta - failure) / (1 - failure) if failure < 1 else -1.0

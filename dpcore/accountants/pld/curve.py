"""Upper bounds on delta at many epsilons of one composition: a sum over frequencies serves its whole neighbourhood.

A sum that is laid for one epsilon is certified at every other (`contour`): its bounds only grow apart with the
distance. So each epsilon is asked of the sums that are there, and one more is laid where none of them tells it as
closely as wanted. Which sums are there depends on what was asked before, and so does a bound, in its last digits: good
for an inequality, and no number to publish.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpcore.accountants.pld import saddle_point
from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked, Bounds
from dpcore.accountants.pld.characteristic_function import inversion
from dpcore.accountants.pld.characteristic_function.contour import Contour
from dpcore.accountants.pld.closed_forms import gaussian
from dpcore.accountants.pld.dominating import parts_of
from dpcore.accountants.pld.pairs import Parts, ReplacedSampledGaussian, SampledGaussianPair
from dpcore.accountants.pld.saddle_point import direction_at_epsilon
from dpcore.adjacency import Adjacency
from dpcore.events import Event, NonPrivate, phases


@dataclass(slots=True)
class DeltaCurve:
    """The curve of sampled Gaussians alone, in both directions of the neighbouring relation.

    parts      (pair, steps) each; empty where sums are not what such a composition is told by
    tolerance  upper - lower <= max(tolerance * upper, DELTA_FLOOR)
    sums       laid so far, by direction: forward is the loss of (P, Q) under P
    """

    parts: Parts
    tolerance: float
    sums: dict[bool, list[Contour]] = field(default_factory=lambda: {True: [], False: []})

    @classmethod
    def of(cls, event: Event, adjacency: Adjacency, tolerance: float) -> DeltaCurve:
        """Of an event with a dominating pair for each of its parts. Raises UnsupportedEvent."""
        counts = phases(event)
        if any(isinstance(part, NonPrivate) for part in counts):
            return cls((), tolerance)
        parts = parts_of(counts, adjacency)
        known = all(isinstance(pair, SampledGaussianPair | ReplacedSampledGaussian) for pair, _ in parts)
        return cls(parts if known and gaussian.mu_of(parts) is None else (), tolerance)

    def delta(self, epsilon: float) -> float | None:
        """Certified upper bound at `epsilon` of either sign, in [0, 1]; None where no sum tells it closely enough.

        Raises DiscretisationInvalid.
        """
        if not self.parts:
            return None
        asked, most = Asked(epsilon, self.tolerance, DELTA_FLOOR), 0.0
        for forward in saddle_point.ways_at_epsilon(self.parts, epsilon):
            found = self._known(asked, forward) or self._laid(asked, forward)
            if found is None:
                return None
            most = max(most, found.upper)
        return most

    def _known(self, asked: Asked, forward: bool) -> Bounds | None:
        """By a sum that is there, the last one first: who asks goes from neighbour to neighbour."""
        told = (inversion.delta_told(one, asked.at) for one in reversed(self.sums[forward]))
        return next((found for found in told if asked.met_by(found)), None)

    def _laid(self, asked: Asked, forward: bool) -> Bounds | None:
        """By a sum of its own, which is kept."""
        for contour in inversion.delta_contours(direction_at_epsilon(self.parts, asked, forward=forward)):
            found = inversion.delta_told(contour, asked.at)
            if asked.met_by(found):
                self.sums[forward].append(contour)
                return found
        return None

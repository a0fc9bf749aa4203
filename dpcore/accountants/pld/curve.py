"""Upper bounds on delta at many epsilons of one composition: a sum over frequencies serves its whole neighbourhood.

A sum that is laid for one epsilon is certified at every other (`contour`): its bounds only grow apart with the
distance. So each epsilon is asked of the sums that are there, and one more is laid where none of them tells it as
closely as wanted. A moment (`chernoff`) is certified everywhere as well, and enough for a direction that needs far less
than the other. What is there depends on what was asked before, and so does a bound, in its last digits: good for an
inequality, and no number to publish.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpcore.accountants.pld import chernoff, gaussian, inversion, saddle_point
from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked
from dpcore.accountants.pld.chernoff import Chernoff
from dpcore.accountants.pld.contour import Contour
from dpcore.accountants.pld.pairs import Parts, ReplacedSampledGaussian, SampledGaussianPair, parts_of
from dpcore.accountants.pld.saddle_point import Direction, direction_at_epsilon
from dpcore.accountants.protocol import exp_up
from dpcore.events import Adjacency, Event, NonPrivate, phases


@dataclass(slots=True)
class _Laid:
    """What bounds delta in one direction so far."""

    moments: list[Chernoff] = field(default_factory=list)
    sums: list[Contour] = field(default_factory=list)


@dataclass(slots=True)
class DeltaCurve:
    """The curve of sampled Gaussians alone, in both directions of the neighbouring relation.

    parts      (pair, steps) each; empty where sums are not what such a composition is told by
    tolerance  upper - lower <= max(tolerance * upper, DELTA_FLOOR)
    laid       so far, by direction: forward is the loss of (P, Q) under P
    """

    parts: Parts
    tolerance: float
    laid: dict[bool, _Laid] = field(default_factory=lambda: {True: _Laid(), False: _Laid()})
    _directions: dict[tuple[float, bool], Direction] = field(default_factory=dict)

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
        return self._larger(Asked(epsilon, self.tolerance, DELTA_FLOOR), 0.0)

    def delta_above(self, epsilon: float, enough: float) -> float | None:
        """As `delta`, but at most `enough`, or else by a sum that is laid for this epsilon.

        Raises DiscretisationInvalid.
        """
        return self._larger(Asked(epsilon, 0.0, 0.0), enough)

    def _larger(self, content: Asked, enough: float) -> float | None:
        """Of both directions. content: how close a sum must tell delta that was laid for another epsilon."""
        if not self.parts:
            return None
        most = 0.0
        for forward in saddle_point.ways_at_epsilon(self.parts, content.at):
            needed = max(enough, most)
            found = self._known(content, forward, needed) or self._laid_now(content.at, forward, needed)
            if found is None:
                return None
            most = max(most, found)
        return most

    def estimate(self, epsilon: float) -> float:
        """About delta at `epsilon`, by the forward direction's saddle; 0 where sums do not tell. Never a bound."""
        return exp_up(min(self._direction(epsilon, True).saddle.log_delta, 0.0)) if self.parts else 0.0

    def _known(self, asked: Asked, forward: bool, enough: float) -> float | None:
        """By what is there, where that is as close as asked, or at most `enough`."""
        laid = self.laid[forward]
        for moment in laid.moments:
            if (most := exp_up(moment.log_delta(asked.at))) <= enough:
                return most
        # The last one first: who asks goes from neighbour to neighbour.
        for contour in reversed(laid.sums):
            told = inversion.delta_told(contour, asked.at)
            if told.upper <= enough or asked.met_by(told):
                return told.upper
        return None

    def _laid_now(self, epsilon: float, forward: bool, enough: float) -> float | None:
        """By a moment, where that is at most `enough`, else by a sum: one more, which is kept."""
        direction = self._direction(epsilon, forward)._replace(known=enough)
        return self._moment(direction) or self._sum(direction)

    def _direction(self, epsilon: float, forward: bool) -> Direction:
        if (epsilon, forward) not in self._directions:
            asked = Asked(epsilon, self.tolerance, DELTA_FLOOR)
            self._directions[epsilon, forward] = direction_at_epsilon(self.parts, asked, forward=forward)
        return self._directions[epsilon, forward]

    def _moment(self, direction: Direction) -> float | None:
        moment = chernoff.below_known(direction)
        if moment is None:
            return None
        self.laid[direction.forward].moments.append(moment)
        return exp_up(moment.log_delta(direction.asked.at))

    def _sum(self, direction: Direction) -> float | None:
        for contour in inversion.delta_contours(direction):
            found = inversion.delta_told(contour, direction.asked.at)
            if direction.asked.met_by(found):
                self.laid[direction.forward].sums.append(contour)
                return found.upper
        return None

"""The arithmetic of a total: what was released of the parts of the records, as one claim. Numbers alone, no records.

Whoever has the events counts the same: the ledger of a sweep (`sweeps.ledger.spending`), and whoever verifies a
certificate, from the document alone (`sweeps.certificate`).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

from dpcore.accounting import headline_of_many, headline_of_parts, larger_of_parts
from dpcore.events import Adjacency, Composed, Event, Gaussian, PoissonSampled, Repeated, phases
from dpcore.guarantee import Guarantee

MAX_PHASES = 128
"""More distinct (rate, noise multiplier) than this are rounded to the safe side onto a coarser grid before counting."""

FINEST_ROUNDING, COARSEST_ROUNDING = 0.001, 0.512
"""Relative grid steps that are tried, doubling, until the phases are few enough."""

_NOTHING = Composed()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedParts:
    """What was released of training, validation and test records.

    training, reports, tests  of each part, all together
    parallel  whether training and reports compose in parallel, where the adjacency lets them
    apart     whether the test records do so with both
    """

    training: Event
    reports: Event = _NOTHING
    tests: Event = _NOTHING
    parallel: bool = False
    apart: bool = False

    def together(self, adjacency: Adjacency) -> tuple[Event, ...]:
        """Releases that compose in parallel, each rounded to the safe side: the largest of their claims is all's."""
        in_turn, added = adjacency is Adjacency.ADD_REMOVE, (self.training, self.reports)
        parts = added if self.parallel and in_turn else (Composed(events=added),)
        if phases(self.tests):
            parts = (*parts, self.tests) if self.apart and in_turn else (Composed(events=(*added, self.tests)),)
        return tuple(coarsened(collapsed(one, adjacency), MAX_PHASES)[0] for one in parts if phases(one))

    def claim(self, delta: float, adjacency: Adjacency, unit: str) -> tuple[Guarantee, float]:
        """The headline of all, and the largest ratio by which `coarsened` moved a number to its safe side.

        delta  on top of what approximate releases have fixed as their own deltas: the guarantee carries the sum
        Raises as `dpcore.accounting.headline_of_many` does.
        """
        training, reports, parallel = self.training, self.reports, self.parallel
        if not parallel:
            training, reports = Composed(events=(training, reports)), Composed()
        tested = bool(phases(self.tests))
        apart = self.apart and adjacency is Adjacency.ADD_REMOVE
        if tested and not apart:
            training, reports, parallel = Composed(events=(training, reports, self.tests)), Composed(), False
        event, ratio = coarsened(collapsed(training, adjacency), MAX_PHASES)
        counted = headline_of_parts(
            event, collapsed(reports, adjacency), parallel=parallel, delta=delta, adjacency=adjacency, unit=unit
        )
        if tested and apart:
            of_tests = headline_of_many(collapsed(self.tests, adjacency), delta, adjacency, unit)
            counted = larger_of_parts(counted, of_tests)
        # The lower bound belongs to the rounded event, which spends more than the true one.
        return (replace(counted, epsilon_lower=None) if ratio > 1 else counted), ratio


def rounding_line(ratio: float) -> tuple[str, ...]:
    """What a claim rests on whose event was rounded by `ratio`; nothing for one that was not."""
    if ratio <= 1:
        return ()
    return (
        f"Counted with noise multipliers rounded down and sampling rates up by at most {(ratio - 1):.2%}, which "
        "only raises epsilon.",
    )


def collapsed(event: Event, adjacency: Adjacency) -> Event:
    """The same release with all unsampled Gaussians as one.

    Gaussian noise of multipliers s_i composes to one Gaussian of multiplier 1/sqrt(sum 1/s_i^2) exactly (Dong, Roth
    & Su 2022, corollary 2). Its float is moved down by 1e-12 of itself, which outweighs the rounding of the sum.
    """
    rest: list[Event] = []
    precision: dict[Adjacency, list[float]] = {}
    number = 0
    for part, count in phases(event).items():
        if isinstance(part, Gaussian):
            precision.setdefault(part.adjacency, []).append(count / part.noise_multiplier**2)
            number += 1
        else:
            rest.append(Repeated(event=part, count=count))
    if number <= 1:
        return event
    gaussians = [
        Gaussian(noise_multiplier=(1 - 1e-12) / math.sqrt(math.fsum(parts)), adjacency=stated)
        for stated, parts in precision.items()
    ]
    return Composed(events=(*gaussians, *rest))


def coarsened(event: Event, max_phases: int) -> tuple[Event, float]:
    """An event that spends at least as much, with at most `max_phases` phases where rounding can reach that.

    Returns it with the largest ratio by which a noise multiplier was lowered or a rate raised (1.0: unchanged).
    A smaller noise multiplier is dominated by adding the missing noise; rate q by keeping each draw at a larger
    rate q' with probability q/q'. Values move to powers of the ratio, so the largest noise and rates do too.
    """
    counts = phases(event)
    if len(counts) <= max_phases:
        return event, 1.0
    ratio, excess = 1.0, FINEST_ROUNDING
    rounded = Counter(counts)
    while len(rounded) > max_phases and excess <= COARSEST_ROUNDING:
        ratio, excess = 1 + excess, 2 * excess
        rounded = Counter()
        for part, count in counts.items():
            rounded[_rounded(part, ratio)] += count
    return Composed(events=tuple(Repeated(event=part, count=count) for part, count in rounded.items())), ratio


def _rounded(part: Event, ratio: float) -> Event:
    match part:
        case Gaussian():
            return replace(part, noise_multiplier=_down(part.noise_multiplier, ratio))
        case PoissonSampled(rate=rate, event=Gaussian() as inner):
            return PoissonSampled(rate=min(1.0, 1 / _down(1 / rate, ratio)), event=_rounded(inner, ratio))
        case _:
            return part


def _down(value: float, ratio: float) -> float:
    """The largest power of `ratio` at most `value`."""
    power = ratio ** math.floor(math.log(value) / math.log(ratio))
    return power if power <= value else power / ratio

"""Two parts of one population, each released from by itself: the larger claim where they compose in parallel.

Parallel composition (McSherry 2009, theorem 4; adaptively, by the argument below). Let a function h of one record
alone part the records: x belongs to part h(x), whoever else is there. Mechanisms run in turn, each on one part and on
everything that was answered before. If all that runs on part i is together (e_i, delta)-DP under add-remove, adaptively
chosen inputs included, then the whole is (max e_i, delta)-DP under add-remove.

Proof. Neighbours differ in one unit x, and h(x) is the same in both worlds: only that part differs. The answers from
the other part are then randomised functions of earlier answers and of records that both worlds share, with the same
distribution in both: steps of an adversary's own between the releases from part h(x), and so post-processing. What is
left is the composition of those releases, which is (e_h(x), delta)-DP. Which part it is does not matter to the maximum.

It needs a part that depends on the record alone. A permutation of the records present, or of their positions, is no
such function: one record more moves others across. A unit of several records has to be in one part as a whole. Two
files that are declared to share no unit are parted by that declaration.

Under replace-one it fails: a record of one part may give way to a record of the other, so that both parts change. Then
each part changes by at most one record's leaving or entering, which is an exchange with a record that contributes
nothing, and the releases from both compose.
"""

from __future__ import annotations

from dataclasses import replace

from dpcore.accounting import headline_of_many
from dpcore.adjacency import Adjacency
from dpcore.events import Composed, Event, phases
from dpcore.guarantee import Guarantee

THEOREM = "parallel composition of two parts of the records (McSherry 2009, theorem 4)"


def headline_of_parts(
    one: Event, other: Event, *, parallel: bool, delta: float, adjacency: Adjacency, unit: str = "record"
) -> Guarantee:
    """What the releases from two parts claim together at `delta`: as for `headline_of_many`, of one event or of both.

    parallel  whether the part of a record is a function of that record alone (or declared so); under replace-one the
              parts add all the same
    Raises as `headline_of_many`.
    """
    if not phases(other):
        return headline_of_many(one, delta, adjacency, unit)
    if not phases(one):
        return headline_of_many(other, delta, adjacency, unit)
    if not (parallel and adjacency is Adjacency.ADD_REMOVE):
        return headline_of_many(Composed(events=(one, other)), delta, adjacency, unit)
    return larger_of_parts(*(headline_of_many(event, delta, adjacency, unit) for event in (one, other)))


def larger_of_parts(first: Guarantee, second: Guarantee) -> Guarantee:
    """What the releases from two parts claim together that compose in parallel, each of which is claimed by itself.

    Both under add-remove, of one unit; where a record belongs is a function of that record alone (or declared so).
    """
    # Fixed deltas of approximate releases may differ: each claim holds at the larger of the two as well.
    larger = max(first, second, key=lambda claim: claim.epsilon)
    lowers = [claim.epsilon_lower for claim in (first, second) if claim.epsilon_lower is not None]
    return replace(
        larger,
        delta=max(first.delta, second.delta),
        epsilon_lower=max(lowers, default=None) if first.delta == second.delta else None,
        theorem=f"{larger.theorem}; {THEOREM}",
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
    )

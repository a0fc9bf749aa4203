"""Proposals that are planned before their turn, in search of those that train together in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from sweeps.records import Proposal
from trainables.system import PrivacyPlan, Refusal

GROUP_LIMIT = 256
"""Largest number of trials in one launch."""
GROUP_AHEAD = 1024
"""How many upcoming proposals are planned in search of trials that train together."""


def together(one: PrivacyPlan, other: PrivacyPlan) -> bool:
    """Whether two plans can train in one launch."""
    return bool(one.group) and (one.system, one.group) == (other.system, other.group)


class PlansAhead:
    """Plans each proposal once, by `plan`, whenever it is first looked at. Used from one thread."""

    def __init__(self, plan: Callable[[Proposal], PrivacyPlan | Refusal]) -> None:
        self._plan = plan
        self._known: dict[tuple[object, ...], PrivacyPlan | Refusal] = {}

    def of(self, proposal: Proposal) -> PrivacyPlan | Refusal:
        """The plan of a proposal whose turn has come."""
        return self._known.pop(_of(proposal), None) or self._plan(proposal)

    def companions(self, plan: PrivacyPlan, upcoming: Iterable[Proposal]) -> Iterator[tuple[Proposal, PrivacyPlan]]:
        """Those of the upcoming proposals that train together with `plan`, at most as many as fit in its launch."""
        if not plan.group:
            return
        found = 1
        for proposal in list(upcoming):
            other = self._known.get(_of(proposal)) or self._plan(proposal)
            self._known[_of(proposal)] = other
            if found < GROUP_LIMIT and isinstance(other, PrivacyPlan) and together(plan, other):
                found += 1
                yield proposal, other


def _of(proposal: Proposal) -> tuple[object, ...]:
    """A number alone is no proposal: a point that somebody enqueued moves those behind it by one."""
    return (proposal.number, *proposal.config.items())

"""Steps that were charged, from ledger entries alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sweeps.store.records import LedgerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Steps of one trial, or of a whole sweep.

    executed   steps that the ledger counts, open reservations whole
    path       distinct steps among them: each once, however often it was executed
    open       steps of reservations that are not settled yet
    attempts   number of launches
    """

    executed: int = 0
    path: int = 0
    open: int = 0
    attempts: int = 0

    @property
    def excess(self) -> int:
        """Steps executed again after a lost attempt: in the ledger, in no claim."""
        return self.executed - self.path

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            executed=self.executed + other.executed,
            path=self.path + other.path,
            open=self.open + other.open,
            attempts=self.attempts + other.attempts,
        )


def spending(entries: Iterable[LedgerEntry]) -> dict[str, Spending]:
    """{key: steps spent by that trial}, in order of first appearance."""
    grouped: dict[str, list[LedgerEntry]] = {}
    for entry in entries:
        grouped.setdefault(entry.key, []).append(entry)
    return {
        key: Spending(
            executed=sum(entry.steps_spent for entry in own),
            path=_distinct([(entry.from_step, entry.from_step + entry.steps_spent) for entry in own]),
            open=sum(entry.steps_spent for entry in own if entry.executed_to is None),
            attempts=len(own),
        )
        for key, own in grouped.items()
    }


def total(entries: Iterable[LedgerEntry]) -> Spending:
    """Steps spent by the whole sweep."""
    return sum(spending(entries).values(), start=Spending())


def _distinct(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of half-open intervals."""
    covered, reached = 0, 0
    for start, stop in sorted(intervals):
        covered += max(0, stop - max(start, reached))
        reached = max(reached, stop)
    return covered

"""The totals that belong together: of a sweep, and of every sweep whose results its search started from.

A sweep with `search.warm_start` chooses its first trials by what an earlier one released, on the same records unless
the data changed. Its own total leaves that out, so every view that states the one states the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpcore.guarantee import Guarantee
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.summary import Procedure, Summary
from sweeps.ledger.text import TOTAL_SHOWN_UP_TO, too_many, total_lines
from sweeps.records import SweepRecord
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What all trials of one sweep released together.

    procedure  None where it is not counted
    uncounted  why not; empty where nothing was launched
    in_this_store  whether this store has the sweep
    """

    sweep: str
    procedure: Procedure | None = None
    uncounted: str = ""
    in_this_store: bool = True

    def claims(self) -> list[Guarantee]:
        """The total, where it has a status to be shown."""
        return [self.procedure.guarantee] if self.procedure is not None and self.procedure.is_claim else []

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        counted = {} if self.procedure is None else {"procedure": self.procedure.to_dict()}
        reason = {"uncounted": self.uncounted} if self.uncounted else {}
        return {"sweep": self.sweep, "in_this_store": self.in_this_store, **counted, **reason}


def own_total(store: Publisher, sweep: str, trials: Sequence[Published]) -> Total:
    """Of one sweep, all of whose `trials` are given. Raises UnknownSweep."""
    attempts = sum(trial.attempts for trial in trials)
    if attempts > TOTAL_SHOWN_UP_TO:
        return Total(sweep=sweep, uncounted=too_many(sweep, attempts))
    # The accountants take a quarter of a second to import: a large front does without them.
    from sweeps.ledger.spending import summary_in_passing

    return total_of(sweep, summary_in_passing(store.sweep(sweep), trials, store.ledger(sweep)))


def total_of(sweep: str, ledger: Summary) -> Total:
    """The total among what a view says of a ledger."""
    return Total(sweep=sweep, procedure=ledger.procedure, uncounted=ledger.uncounted)


def totals(store: Publisher, sweep: str, trials: Sequence[Published]) -> tuple[Total, ...]:
    """A sweep's own total, then `earlier_totals`. Raises UnknownSweep."""
    return own_total(store, sweep, trials), *earlier_totals(store, store.sweep(sweep).spec.warm_start)


def earlier_totals(store: Publisher, warm_start: str | None) -> tuple[Total, ...]:
    """Of the sweep that a spec names in `search.warm_start`, of the one that this one started from, ..."""
    found: list[Total] = []
    name = warm_start
    while name is not None and name not in [total.sweep for total in found]:
        record = _sweep(store, name)
        known = record is not None
        found.append(own_total(store, name, store.trials(name)) if known else Total(sweep=name, in_this_store=False))
        name = None if record is None else record.spec.warm_start
    return tuple(found)


def lines(found: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """Those of `totals` in words, one line each."""
    if found:
        own, *earlier = found
        yield from total_lines(own.procedure, own.uncounted, assumptions)
        yield from earlier_lines(earlier, assumptions)


def earlier_lines(earlier: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """One line for each of `earlier_totals`; nothing for a sweep that started from no other."""
    for total in earlier:
        counted = "its total is not known here (it is not in this store)"
        if total.in_this_store:
            counted = "; ".join(total_lines(total.procedure, total.uncounted, assumptions)) or "nothing was launched"
        yield f"the search started from the results of sweep {total.sweep!r}, which adds its own total: {counted}"


def sentences(listed: Iterable[str]) -> str:
    """Lines as running text."""
    return " ".join(f"{line[0].upper()}{line[1:]}{'' if line.endswith(('.', '.)')) else '.'}" for line in listed)


def _sweep(store: Publisher, name: str) -> SweepRecord | None:
    from sweeps.store.errors import UnknownSweep

    try:
        return store.sweep(name)
    except UnknownSweep:
        return None

"""The total of the whole procedure, for the note under a front: a front by itself shows what single trials claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sweeps.ledger_text import TOTAL_SHOWN_UP_TO, too_many, total_lines
from sweeps.records import LedgerEntry, TrialRecord


class Store(Protocol):
    """What a total needs of the store."""

    def ledger(self, sweep: str) -> list[LedgerEntry]: ...

    def sweep(self, name: str) -> Any: ...


def procedure_total(store: Store, sweep: str, trials: Sequence[TrialRecord]) -> tuple[str, dict[str, Any] | None]:
    """(one sentence, the guarantee as plain values) of all that was executed; None, and why, where it is not counted.

    trials  all of the sweep. More than `TOTAL_SHOWN_UP_TO` attempts are not counted here.
    """
    attempts = sum(trial.attempts for trial in trials)
    if attempts > TOTAL_SHOWN_UP_TO:
        return _sentence({"uncounted": too_many(sweep, attempts)}), None
    # The accountants take a quarter of a second to import: a large front does without them.
    from sweeps.ledger import summary_in_passing

    spent = summary_in_passing(store.sweep(sweep), trials, store.ledger(sweep))
    return _sentence(spent), spent.get("procedure")


def _sentence(spent: Mapping[str, Any]) -> str:
    return "".join(f"{line[0].upper()}{line[1:]}." for line in total_lines(spent))

"""Whether a ledger charges everything that workers may have drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sweeps.store.records import LedgerEntry


def never_under_charged(entries: Iterable[LedgerEntry], horizons: Mapping[tuple[str, int], int]) -> list[str]:
    """What the ledger fails to charge; an empty list is the proof that it charges everything.

    horizons  {(key, attempt): step up to which its worker may have drawn noise}, from the workers' own records
    """
    recorded = {(entry.key, entry.attempt): entry for entry in entries}
    problems = []
    for (key, attempt), horizon in sorted(horizons.items()):
        entry = recorded.get((key, attempt))
        if entry is None:
            problems.append(f"{key}, attempt {attempt}: ran to step {horizon} without a reservation")
        elif entry.from_step + entry.steps_spent < horizon:
            charged = entry.from_step + entry.steps_spent
            problems.append(f"{key}, attempt {attempt}: ran to step {horizon}, charged to {charged}")
    return problems

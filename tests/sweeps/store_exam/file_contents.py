"""What `tests.sweeps.store_exam.file_store` keeps in its one file."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.population.arithmetic import Population, Row, RowKind, admits, charges_of, refusal
from sweeps.records import (
    AttemptRecord,
    CurveReport,
    LedgerEntry,
    OutboxRow,
    SweepRecord,
    TrialRecord,
)
from sweeps.requests import Request
from sweeps.store import (
    Conflict,
    PopulationSpent,
    UnknownPopulation,
    UnknownSweep,
    UnknownTrial,
)


@dataclass
class Contents:
    """What the file holds. `ended` is what closed attempts were closed with; a lease is (token, holder, expiry);
    `names` are of all sweeps, those that they had too."""

    secret: str = field(default_factory=partial(secrets.token_hex, 32))
    sweeps: dict[str, SweepRecord] = field(default_factory=dict)
    leases: dict[str, tuple[int, int | None, float]] = field(default_factory=dict)
    trials: dict[str, TrialRecord] = field(default_factory=dict)
    entries: dict[tuple[str, int], LedgerEntry] = field(default_factory=dict)
    attempts: dict[tuple[str, int], AttemptRecord] = field(default_factory=dict)
    ended: dict[tuple[str, int], object] = field(default_factory=dict)
    told: dict[tuple[str, int], CurveReport] = field(default_factory=dict)
    outbox: list[OutboxRow] = field(default_factory=list)
    announced: int = 0
    names: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Request]] = field(default_factory=list)
    solved: dict[str, float] = field(default_factory=dict)
    populations: dict[str, Population] = field(default_factory=dict)
    charged: dict[str, list[Row]] = field(default_factory=dict)

    def charge(self, population: str, row: Row) -> None:
        """Append a row that the budget holds."""
        if population not in self.populations:
            raise UnknownPopulation(population, self.populations)
        rows, ledger = self.charged[population], self.populations[population]
        there = next((one for one in rows if (one.kind, one.what) == (row.kind, row.what)), None)
        if there is None:
            if not admits(ledger, charges_of(rows), row.charge):
                raise PopulationSpent(refusal(ledger, charges_of(rows), row.charge))
            rows.append(row)
        elif (there.sweep, there.charge) != (row.sweep, row.charge):
            raise Conflict(f"{row.what} was charged before, with other content")

    def block(self, population: str, sweep: str) -> Row | None:
        rows = self.charged.get(population, [])
        return next((one for one in rows if (one.kind, one.what) == (RowKind.SWEEP, sweep)), None)

    def announce(self, sweep: str, key: str | None, kind: str) -> None:
        self.announced += 1
        self.outbox.append(OutboxRow(id=self.announced, sweep=sweep, key=key, kind=kind, at=time.time()))

    def trial(self, key: str) -> TrialRecord:
        if key not in self.trials:
            raise UnknownTrial(f"trial {key}: not in this store")
        return self.trials[key]

    def of_sweep(self, rows: dict[Any, Any], name: str) -> list[Any]:
        if name not in self.sweeps:
            raise UnknownSweep(name, self.sweeps)
        mine = [row for row in rows.values() if row.key.rpartition("-")[0] == name]
        return sorted(mine, key=lambda row: (int(row.key.rpartition("-")[2]), getattr(row, "attempt", 0)))

    def tell(self, key: str, attempt: int, curve: Any) -> bool:
        """Whether a point of the curve was new; they are there now."""
        entry = self.entries.get((key, attempt))
        if entry is None:
            raise UnknownTrial(f"trial {key}, attempt {attempt}: not in this store")
        if not all(entry.from_step < step < entry.to_step for step in curve):
            raise InvalidValue("curve", list(curve), "steps inside of the reservation")
        fresh = {step: metrics for step, metrics in curve.items() if (key, step) not in self.told}
        if any(self.told[key, step].metrics != curve[step] for step in curve.keys() - fresh.keys()):
            raise Conflict(f"trial {key}: told something else before")
        for step, metrics in fresh.items():
            self.told[key, step] = CurveReport(
                key=key, step=step, attempt=attempt, metrics=dict(sorted(metrics.items())), at=time.time()
            )
        return bool(fresh)

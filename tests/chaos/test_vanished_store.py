"""The store vanishes under real sweeps; the witness counts what was drawn apart from every record.

Printed: what was done, when it stopped, steps drawn and steps charged.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos import witness
from tests.chaos.harness import HANG_SECONDS, LONG, Tortured


def under_charged(sweep: Tortured) -> dict[tuple[str, int], tuple[int, int]]:
    """{(key, attempt): (drawn, charged)} of all that drew more than it is charged."""
    charged = {(entry.key, entry.attempt): entry.steps_spent for entry in sweep.store().ledger(sweep.name)}
    drawn = witness.witnessed(sweep.witness)
    return {one: (count, charged.get(one, 0)) for one, count in drawn.items() if count > charged.get(one, 0)}


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["deleted", "replaced by an older copy", "its log deleted"])
def test_a_store_that_vanishes_stops_the_sweep_before_more_is_drawn(tmp_path: Path, fault: str) -> None:
    sweep = Tortured(tmp_path, LONG, seed=1)
    sweep.start()
    limit = time.monotonic() + 3 * HANG_SECONDS
    while sweep.attempts() < 3:
        assert time.monotonic() < limit, sweep.tail()
        time.sleep(0.05)
    path = sweep.root / "sweeps.db"
    if fault == "deleted":
        path.unlink()
    elif fault == "its log deleted":
        path.with_name("sweeps.db-wal").unlink()
    else:
        with closing(sqlite3.connect(path)) as before, closing(sqlite3.connect(tmp_path / "older.db")) as copy:
            before.backup(copy)
        time.sleep(1)
        (tmp_path / "older.db").rename(path)
    at = dict(witness.witnessed(sweep.witness))
    began = time.monotonic()
    code = sweep.wait(2 * HANG_SECONDS)
    seconds = time.monotonic() - began
    (kept,) = sweep.root.glob("sweeps.db.kept-*")
    assert code == 2, sweep.tail()
    assert "Nothing more is launched, and what runs is stopped" in sweep.tail()
    after = witness.witnessed(sweep.witness)
    time.sleep(2)
    assert witness.witnessed(sweep.witness) == after, "something runs on"
    # No attempt began that the copy does not know, and each drew no more than it is charged there.
    sweep.opened = None
    for part in ("", "-wal", "-shm"):
        path.with_name(f"sweeps.db{part}").unlink(missing_ok=True)
    kept.rename(path)
    assert under_charged(sweep) == {}
    charged = sum(entry.steps_spent for entry in sweep.store().ledger(sweep.name))
    print(
        f"\nstore {fault}: stopped after {seconds:.1f} s, code {code}; drawn {sum(at.values())} when it happened, "
        f"{sum(after.values())} in all; charged in the copy {charged}"
    )
    sweep.start()
    assert sweep.wait(4 * HANG_SECONDS) == 0, sweep.tail()
    assert under_charged(sweep) == {}
    assert sweep.store().counts(sweep.name)["complete"] == 14
    print(sweep.figures())

"""Recorded trials that searches are judged on (`tests.benchmarks.surfaces`): each is a function of its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.benchmarks.surfaces.record import merged, read, record
from tests.benchmarks.surfaces.surface import TABLE

KEPT, ALL = 3, 5


def test_recording_goes_on_from_the_kept_table_and_makes_the_same_trials(tmp_path: Path) -> None:
    """Trials of the table, taken out of it and recorded again, are the same but for their seconds."""
    table = pq.read_table(TABLE)
    digits = table.filter(pc.equal(table["data"], "digits"))
    kept = tmp_path / "kept.parquet"
    pq.write_table(digits.filter(pc.less(digits["number"], KEPT)), kept)

    record(["digits"], tmp_path, tmp_path, ALL, kept)
    assert [one["number"] for one in read(tmp_path / "digits.jsonl")] == list(range(KEPT, ALL))

    again = merged(kept, tmp_path).drop(["seconds"])
    wanted = digits.filter(pc.less(digits["number"], ALL)).drop(["seconds"])
    exact = [name for name in again.column_names if name not in ("rung_1", "rung_2", "accuracy", "noise_multiplier")]
    assert again.select(exact).equals(wanted.select(exact))
    # The kept noise was solved to within 0.2%, and is solved to its last digit today.
    assert np.allclose(again["noise_multiplier"], wanted["noise_multiplier"], rtol=2e-3)
    for name in ("rung_1", "rung_2", "accuracy"):
        # One of 360 validation records may fall otherwise where sums are rounded in another order.
        assert abs(again[name].to_numpy() - wanted[name].to_numpy()).max() < 2.5 / 360, name


def test_the_table_has_each_trial_once() -> None:
    table = pq.read_table(TABLE)
    assert table.group_by(["data", "number"]).aggregate([]).num_rows == table.num_rows

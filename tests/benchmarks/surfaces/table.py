"""Adds trials that were recorded to the table that is kept beside this file.

Run: python -m tests.benchmarks.surfaces.table FOLDER, of `python -m tests.benchmarks.surfaces.record FOLDER`
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.surfaces.record import read
from tests.benchmarks.surfaces.sets import SETS
from tests.benchmarks.surfaces.surface import TABLE, rows

SINGLE = ("learning_rate", "clip_norm", "epochs", "noise_multiplier", "work", "rung_1", "rung_2", "accuracy", "seconds")


def row(data: str, one: dict[str, Any]) -> dict[str, Any] | None:
    """One trial as a row; None for one that was refused. A short trial has the same report at two rungs."""
    if "accuracy" not in one:
        return None
    reports = [value for _, value in sorted((int(step), value) for step, value in one["accuracy"].items())]
    config = {name: value for name, value in one["config"].items() if name not in ("system", "hidden")}
    others = {name: one[name] for name in ("number", "noise_multiplier", "work", "steps", "seconds")}
    rungs = {"rung_1": reports[0], "rung_2": reports[-2] if len(reports) > 1 else reports[-1], "accuracy": reports[-1]}
    return {"data": data, **config, **others, **rungs}


def merged(kept: Path, folder: Path) -> pa.Table:
    """The trials of the table `kept` and of the files in `folder`, by data set and number.

    A trial that both have is the table's.
    """
    found: list[dict[str, Any]] = []
    for data in SETS:
        recorded = [row(data, one) for one in read(folder / f"{data}.jsonl")]
        trials = {one["number"]: one for one in (*filter(None, recorded), *rows(data, kept))}
        found += [trials[number] for number in sorted(trials)]
    table = pa.Table.from_pylist(found)
    for name in SINGLE:
        # Single precision holds more digits than a trial of ten thousand validation records has.
        column = pa.array(table[name].to_numpy().astype(np.float32))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kept", type=Path, default=TABLE, help="the table that they are added to")
    parser.add_argument("--output", type=Path, default=TABLE)
    options = parser.parse_args()
    table = merged(options.kept, options.folder)
    pq.write_table(table, options.output, compression="zstd", compression_level=19)
    counts = {data: table["data"].to_pylist().count(data) for data in SETS}
    print(f"{options.output}: {table.num_rows} trials {counts}, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()

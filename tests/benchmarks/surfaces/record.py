"""Records trials: each planned by the product, trained in this process, and appended as a line of JSON.

Run: python -m tests.benchmarks.surfaces.record FOLDER [--data DIR] [--set digits] [--trials 2000]

FOLDER gets one file per data set. A trial is a function of its number: a run that was ended goes on where it stood, and
none is run again that the table beside this file holds. With `--keep` it records nothing, and adds those of FOLDER to
the table.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from sweeps.planning.plan import plan_proposal
from sweeps.search.asha import stops
from sweeps.search.samplers import RandomPoints, seed_of_trial
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from tests.benchmarks.surfaces.sets import SETS, TRIALS, sweep
from tests.benchmarks.surfaces.surface import TABLE, rows
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, RunSettings


def trials(spec: SweepSpec, data: Dataset, wanted: Iterable[int]) -> Iterator[dict[str, Any]]:
    """What each of the `wanted` trials comes to: its knobs, solved noise, planned cost, and accuracy at each rung.

    Seconds are those of the processor.
    """
    facts, points = public_facts(spec), RandomPoints(spec)
    for number in sorted(wanted):
        config = points.point(number)
        assert config is not None
        plan = plan_proposal(spec, config, facts, {})
        if not isinstance(plan, PrivacyPlan):
            yield {"number": number, "config": config, "refused": plan.reason}
            continue
        start = time.process_time()
        step, state, accuracy = 0, None, {}
        for attempt, end in enumerate(stops(spec, plan.steps), start=1):
            run = memory_run(
                plan,
                from_step=step,
                to_step=end,
                state=state,
                attempt=attempt,
                seed=seed_of_trial(spec.search.seed, number),
                key=f"{spec.name}-{number}",
            )
            SYSTEMS[plan.system].fit([run], data, RunSettings())
            step, state, metrics = run.final
            accuracy[end] = metrics["accuracy"]
        yield {
            "number": number,
            "config": config,
            "noise_multiplier": plan.config["noise_multiplier"],
            "epsilon": plan.guarantee.epsilon,
            "work": plan.work,
            "steps": plan.steps,
            "accuracy": accuracy,
            "seconds": round(time.process_time() - start, 4),
        }


def known(path: Path) -> list[dict[str, Any]]:
    """The trials of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def record(data: str, path: Path, files: str, count: int) -> None:
    """Append what is missing of the first `count` trials of a data set, whose own files lie in `files`."""
    spec = sweep(data, files)
    done = {one["number"] for one in (*known(path), *rows(data))}
    with path.open("a") as file:
        for one in trials(spec, SOURCES[data].load(spec.data.options()), set(range(count)) - done):
            file.write(f"{json.dumps(one)}\n")
            file.flush()


SINGLE = ("learning_rate", "clip_norm", "epochs", "noise_multiplier", "work", "rung_1", "rung_2", "accuracy", "seconds")


def row(data: str, one: dict[str, Any]) -> dict[str, Any]:
    """One trial as a row. A short trial has the same report at two rungs."""
    reports = [value for _, value in sorted((int(step), value) for step, value in one["accuracy"].items())]
    config = {name: value for name, value in one["config"].items() if name not in ("system", "hidden")}
    others = {name: one[name] for name in ("number", "noise_multiplier", "work", "steps", "seconds")}
    rungs = {"rung_1": reports[0], "rung_2": reports[-2] if len(reports) > 1 else reports[-1], "accuracy": reports[-1]}
    return {"data": data, **config, **others, **rungs}


def keep(folder: Path) -> None:
    """Add the trials of `folder` to the table, by data set and number."""
    found: list[dict[str, Any]] = []
    for data in SETS:
        recorded = [row(data, one) for one in known(folder / f"{data}.jsonl") if "accuracy" in one]
        by_number = {one["number"]: one for one in (*recorded, *rows(data))}
        found += [by_number[number] for number in sorted(by_number)]
    table = pa.Table.from_pylist(found)
    for name in SINGLE:
        # Single precision holds more digits than a trial of ten thousand validation records has.
        column = pa.array(table[name].to_numpy().astype(np.float32))
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, TABLE, compression="zstd", compression_level=19)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", default="data", help="folder of the data sets' files")
    parser.add_argument("--set", choices=SETS, action="append", help="one data set; all unless given")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--keep", action="store_true", help="add what was recorded to the table")
    options = parser.parse_args()
    if options.keep:
        return keep(options.folder)
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for data in options.set or SETS:
        record(data, options.folder / f"{data}.jsonl", options.data, options.trials)


if __name__ == "__main__":
    main()

"""Trains the trials of every way, epsilon and data set, and appends each as a line of JSON.

Run: python -m tests.benchmarks.search_cost.record FILE --data DIR [--set mnist]

A trial is a function of its number: a run that was ended goes on where it stood. Each is scored on validation records
as its sweep would score it (noised on MNIST, whose validation is private), and on test records, which no choice reads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sweeps.search.space import Space
from sweeps.spec import SweepSpec
from tests.benchmarks.search_cost.ways import EPSILONS, SETS, WAYS, planner, spec_of
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.export.scoring import score
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, RunSettings, Split

ROUND, DRAWS = 8, 1000
POOL: Mapping[str, Mapping[str, int]] = {
    "mnist": {"untuned": 16, "all": 16, "best": 32},
    "adult": {"untuned": 64, "all": 64, "best": 128},
}


def records(spec: SweepSpec, folder: str, kept: Path) -> tuple[Dataset, Split]:
    """What is trained and validated on, and the test records."""
    own, features = parted(spec.data.options())
    source: Any = SOURCES[spec.data.source]
    if features is None:
        return source.load(own), source.load({**own, "split": "test"}).validation
    test = features.split(source.load_held_out(own), source.facts(own), kept)
    return features.dataset(source.load_records(own), kept), test


def trial(spec: SweepSpec, number: int, data: Dataset, test: Split) -> dict[str, Any]:
    """One trial, drawn from the space by its number alone."""
    space, plan_of = Space.of(spec), planner(spec)
    coins = np.random.default_rng((20201, number))
    for _ in range(DRAWS):
        config = space.draw(coins)
        if isinstance(plan := plan_of(config), PrivacyPlan):
            break
    else:
        raise RuntimeError(f"{DRAWS} draws without a plan: {plan}")
    start = time.process_time()
    run = memory_run(plan, seed=number, key=f"{spec.name}-{number}")
    system: Any = SYSTEMS[plan.system]
    system.fit([run], data, RunSettings())
    _, state, metrics = run.final
    model = system.released_model(plan, data.facts, state)
    return {
        "number": number,
        "config": plan.config,
        "validation": metrics["accuracy"],
        "test": score(model, test, data.facts).metrics["accuracy"],
        "seconds": round(time.process_time() - start, 2),
    }


def wanted(data: str, done: set[tuple[float, str, int]]) -> Iterator[tuple[float, str, int]]:
    """What is missing, some of every way in turn."""
    pools = POOL[data]
    for first in range(0, max(pools.values()), ROUND):
        for epsilon in EPSILONS:
            for way in WAYS:
                for number in range(first, min(first + ROUND, pools[way])):
                    if (epsilon, way, number) not in done:
                        yield epsilon, way, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", default="data", help="folder of the data sets' files")
    parser.add_argument("--set", choices=SETS, action="append")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    known = [json.loads(line) for line in lines]
    for name in options.set or SETS:
        done = {(one["epsilon"], one["way"], one["number"]) for one in known if one["data"] == name}
        specs = {(e, w): spec_of(name, e, w, options.data) for e in EPSILONS for w in WAYS}
        data, test = records(specs[EPSILONS[0], WAYS[0]], options.data, options.file.parent / "features")
        for epsilon, way, number in wanted(name, done):
            found = trial(specs[epsilon, way], number, data, test)
            with options.file.open("a") as file:
                file.write(f"{json.dumps({'data': name, 'epsilon': epsilon, 'way': way, **found})}\n")


if __name__ == "__main__":
    main()

"""Memory of one node while 1, 4 and 16 trials run at once on a table of 500 MB or more.

    python -m tests.benchmarks.node_memory [--megabytes 512] [--trials 1,4,16]

One number each: the sum over all processes of the cluster and the driver of their proportional set size (a page that
k processes map counts 1/k in each), and how much of it is the object store's mapped pages. Beside it the sum of
resident set sizes, in which a page that is mapped k times counts k times: what `top` would show. Were data copied for
each trial, both would grow by the table's size per trial.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

WAIT_SECONDS = 800.0


def table(megabytes: int) -> Any:
    """A table of float32 columns, rows as they would come from a file."""
    from trainables.system import Dataset, Feature, PublicFacts, Split, Task

    width = 64
    rows = megabytes * 2**20 // (4 * width)
    facts = PublicFacts(
        dataset="large",
        task=Task.CLASSIFICATION,
        n=rows,
        n_validation=256,
        features={"x": Feature(shape=(width,))},
        classes=2,
    )
    rng = np.random.default_rng(0)
    features = rng.random((rows, width), dtype=np.float32)
    validation = Split({"x": features[:256].copy()}, np.arange(256) % 2)
    return Dataset(
        facts=facts, train=Split({"x": features}, np.arange(rows) % 2), validation=validation, fingerprint="x"
    )


def trial(config: dict[str, Any], *, data: Any, folder: str) -> None:
    """Some steps of NoisySGD on the whole table, then wait until everybody was counted."""
    from ray import tune

    from tests.trainables.recording import memory_run
    from trainables.system import Execution, PrivacyPlan, PrivacyTarget, Scalar
    from trainables.systems.noisy_sgd import NOISY_SGD

    records = data.get()
    knobs: dict[str, Scalar] = {"model": "linear", "hidden": 1, "learning_rate": 0.1, "clip_norm": 1.0}
    knobs |= {"batch_size": 256, "noise_multiplier": 1.0, "epochs": 20 * 256 / records.facts.n}
    plan = NOISY_SGD.plan(
        knobs,
        records.facts,
        PrivacyTarget(epsilon=1e6, delta=1e-9, solve="none"),
        {},
    )
    assert isinstance(plan, PrivacyPlan), plan
    run = memory_run(plan, key=f"t-{config['number']}")
    NOISY_SGD.fit([run], records, Execution())
    # Every page of the table, as an epoch would touch it.
    touched = float(records.train.inputs["x"].sum(dtype=np.float64))
    Path(folder, str(config["number"])).write_text(str(touched))
    began = time.monotonic()
    while not Path(folder, "counted").exists() and time.monotonic() - began < WAIT_SECONDS:
        time.sleep(0.2)
    tune.report({"done": 1})


def processes(root: int) -> list[int]:
    """`root` and everything below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = [root], [root]
    while queue:
        for pid in children.get(queue.pop(), []):
            found.append(pid)
            queue.append(pid)
    return found


def memory(pids: list[int]) -> dict[str, float]:
    """Megabytes, summed: proportional (pss), of which shared pages (the object store), and resident (rss)."""
    total = {"Pss": 0, "Pss_Shmem": 0, "Rss": 0}
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            name, _, rest = line.partition(":")
            if name in total:
                total[name] += int(rest.split()[0])
    return {"pss": total["Pss"] / 1024, "store": total["Pss_Shmem"] / 1024, "rss": total["Rss"] / 1024}


def measure(trials: int, megabytes: int) -> dict[str, float]:
    """One fresh cluster, `trials` at once."""
    import ray
    from ray import tune

    from trainables.worker.ray_shared import SharedData

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=(megabytes + 256) * 2**20,
        log_to_driver=False,
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            shared = SharedData.put(table(megabytes))
            trainable = tune.with_parameters(trial, data=shared, folder=folder)
            tuner = tune.Tuner(
                tune.with_resources(trainable, {"cpu": 2 / 16}),
                param_space={"number": tune.grid_search(list(range(trials)))},
                run_config=tune.RunConfig(storage_path=folder, name="memory", verbose=0, log_to_file=False),
            )
            counted: dict[str, float] = {}

            def count() -> None:
                until = time.monotonic() + WAIT_SECONDS
                while sum(one.name.isdigit() for one in Path(folder).iterdir()) < trials:
                    if time.monotonic() > until:
                        break
                    time.sleep(0.2)
                else:
                    counted.update(memory(processes(os.getpid())))
                Path(folder, "counted").touch()

            import threading

            counter = threading.Thread(target=count)
            counter.start()
            tuner.fit()
            counter.join()
            assert counted, f"{trials} trials did not all start within {WAIT_SECONDS:.0f} s"
            return counted
    finally:
        ray.shutdown()


def main() -> None:
    """Print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--trials", default="1,4,16")
    options = parser.parse_args()
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", OMP_NUM_THREADS="1")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    print(f"{'trials':>6} {'PSS MB':>8} {'of it store':>12} {'RSS MB':>8}   table {options.megabytes} MB", flush=True)
    rows = []
    for trials in map(int, options.trials.split(",")):
        row = measure(trials, options.megabytes)
        print(f"{trials:6} {row['pss']:8.0f} {row['store']:12.0f} {row['rss']:8.0f}", flush=True)
        rows.append({"trials": trials, **row})
    json.dump({"table_mb": options.megabytes, "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

"""Seconds that a trial of several workers needs before its first step, for the first trial of a process and the next.

    python -m tests.benchmarks.team_start [--workers 2] [--trials 4]

A trial's own process starts (Tune's actor), then its workers (import of torch, rendezvous). Tune reuses the process
and its placement group for the next trial, and with them the workers. `request` is from the moment that Tune runs the
trial's function to the team's being there; `actor` is the age of the trial's process at that moment.
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


def trial(config: dict[str, Any], *, data: Any, layout: Any) -> None:
    """Get the team twice; the second time it is there."""
    import psutil
    from ray import tune

    age = time.time() - psutil.Process().create_time()
    began = time.monotonic()
    from trainables.parallel.ray_team import team_of

    imported = time.monotonic() - began
    team = team_of(layout, data)
    tune.report({"actor": age, "import": imported, "request": time.monotonic() - began, "load": os.getloadavg()[0]})
    assert team.usable()


def main() -> None:
    """Print a table, then JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trials", type=int, default=4)
    options = parser.parse_args()
    if options.workers < 2:
        parser.error(f"--workers {options.workers}: expected at least 2, which make a team")
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", OMP_NUM_THREADS="1")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    import ray
    from ray import tune

    from sweeps.ray.resources import request
    from sweeps.spec import Resources
    from trainables.data import SOURCES
    from trainables.worker.ray_shared import SharedData, TeamLayout

    ray.init(address="local", num_cpus=options.workers, include_dashboard=False, log_to_driver=False)
    shared = SharedData.put(SOURCES["digits"].load({}))
    layout = TeamLayout(workers=options.workers, cpus=1, gpus=0)
    with tempfile.TemporaryDirectory() as folder:
        results = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(trial, data=shared, layout=layout),
                request(Resources(workers=options.workers, cpus_per_worker=1)),
            ),
            tune_config=tune.TuneConfig(reuse_actors=True),
            param_space={"number": tune.grid_search(list(range(options.trials)))},
            run_config=tune.RunConfig(storage_path=folder, name="starts", verbose=0, log_to_file=False),
        ).fit()
        rows = [dict(one.metrics or {}) for one in results]
    ray.shutdown()
    names = ("actor", "import", "request", "load")
    rows = sorted(({name: row[name] for name in names} for row in rows), key=lambda row: row["actor"])
    print(f"{'trial':>5} {'actor s':>8} {'import s':>9} {'request s':>10} {'load':>6}   {options.workers} workers")
    for number, row in enumerate(rows):
        print(f"{number:5} {row['actor']:8.2f} {row['import']:9.2f} {row['request']:10.2f} {row['load']:6.1f}")
    json.dump({"workers": options.workers, "rows": rows}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

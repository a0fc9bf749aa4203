"""Ray Tune: `Tuner`, `ResultGrid` and `Tuner.restore`, on a Ray of one processor."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from ray import tune

from tests.benchmarks.peers.rows import NotThere

SLOW = """
import json, sys, tempfile, time
from pathlib import Path
import ray
from ray import tune
folder, again = sys.argv[1], sys.argv[2] == "again"
def trainable(config):
    import json, os, tempfile, time
    from pathlib import Path
    from ray import tune
    held = tune.get_checkpoint()
    step = 0
    if held:
        with held.as_directory() as place:
            step = json.loads(Path(place, "step").read_text()) + 1
    for step in range(step, 12):
        time.sleep(0.3)
        with open(f"{folder}/steps", "a") as log:
            log.write(json.dumps([config["x"], step]) + "\\n")
        with tempfile.TemporaryDirectory() as place:
            Path(place, "step").write_text(json.dumps(step))
            tune.report({"loss": config["x"]}, checkpoint=tune.Checkpoint.from_directory(place))
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
if again:
    tuner = tune.Tuner.restore(f"{folder}/s", trainable=trainable, resume_unfinished=True)
else:
    tuner = tune.Tuner(trainable, param_space={"x": tune.grid_search([0.1, 0.2])},
                       run_config=tune.RunConfig(name="s", storage_path=folder, verbose=0))
print(sorted(one.metrics["loss"] for one in tuner.fit()))
"""


def _steps(folder: str) -> list[tuple[float, int]]:
    log = Path(folder, "steps")
    lines = log.read_text().splitlines() if log.is_file() else []
    return [(float(x), int(step)) for x, step in map(json.loads, lines)]


def killed() -> str:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW, folder, "first"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while len(_steps(folder)) < 5:
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Its workers see that their driver is gone, after some seconds.
        time.sleep(10)
        before = len(_steps(folder))
        done = subprocess.run([sys.executable, "-c", SLOW, folder, "again"], capture_output=True, text=True)
        steps = _steps(folder)
    if done.returncode:
        raise NotThere(f"`Tuner.restore` ended with {done.stderr.strip().splitlines()[-1]}")
    twice = len(steps) - len(set(steps))
    return f"`Tuner.restore` went on after {before} steps; {twice} of {len(set(steps))} steps ran twice, unsaid"


def _grid(space: dict[str, Any], trainable: Callable[[dict[str, Any]], Any], **config: Any) -> tune.ResultGrid:
    if not ray.is_initialized():
        ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        run = tune.RunConfig(name="s", storage_path=folder, verbose=0)
        return tune.Tuner(trainable, param_space=space, run_config=run, tune_config=tune.TuneConfig(**config)).fit()


def extended() -> str:
    raise NotThere("`Tuner.restore` takes neither `num_samples` nor a space with more points: a new search")


def enqueued() -> str:
    raise NotThere("`points_to_evaluate` of a searcher, before it starts; nothing takes a point while it runs")


def stopped() -> str:
    raise NotThere("a `Stopper` inside the search; from elsewhere one sends its process SIGINT")


def listed() -> str:
    def trainable(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["x"]}

    table = _grid({"x": tune.grid_search([0.1, 0.2, 0.3])}, trainable).get_dataframe()
    return f"`ResultGrid.get_dataframe`, {len(table.columns)} columns; filters and order are those of pandas"


def front() -> str:
    raise NotThere("`get_best_result` takes one metric; a searcher of Optuna may search for two")


def joined() -> str:
    raise NotThere("a `ResultGrid` is one search")


def conditional() -> str:
    def trainable(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["y"]}

    space = {
        "kind": tune.choice(["a", "b"]),
        "y": tune.sample_from(lambda config: 0.1 if config["kind"] == "a" else 0.5),
    }
    _grid(space, trainable, num_samples=2)
    return "`sample_from` a function of the other knobs, at random alone: searchers refuse it"


def constrained() -> str:
    raise NotThere("none; a trial that breaks a relation runs and reports what its user makes of it")


def pruned() -> str:
    try:
        tune.schedulers.ASHAScheduler(metric=["loss", "cost"], mode=["min", "min"])
    except AssertionError as error:
        raise NotThere(f"schedulers take one metric: {error}") from error
    raise NotThere("schedulers take one metric")


def exported() -> str:
    raise NotThere("`Result.checkpoint` is the folder that the trainable wrote, whatever it holds")


def predicted() -> str:
    raise NotThere("Ray Data's `map_batches` with a class that its user writes")


def noted() -> str:
    raise NotThere("none")


def deleted() -> str:
    raise NotThere("its folder is removed by hand; nothing stays")


def misspelled() -> str:
    def trainable(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config.get("learning_rate", 0.1)}

    loss = _grid({"learnin_rate": tune.grid_search([0.5])}, trainable)[0].metrics["loss"]
    raise NotThere(f"ran with the default, loss {loss} where .5 was meant")


def charged() -> str:
    raise NotThere("knows no budget")

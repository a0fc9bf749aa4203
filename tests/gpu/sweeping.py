"""Whole sweeps: trials that share a GPU, trials of two workers, and a sweep of many."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.gpu.results import Figure, Setting

PATIENCE = 1800.0
SHARE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """A finished sweep. at_once: the most trials whose attempts overlapped in time."""

    trials: int
    seconds: float
    at_once: int


def spec(setting: Setting, trials: int, resources: dict[str, Any]) -> dict[str, Any]:
    """Perceptrons on digits, under a fixed epsilon."""
    return {
        "name": "shared",
        "data": {"source": "digits"},
        "systems": {
            "noisy-sgd": {
                "model": "mlp",
                "learning_rate": {"log_uniform": [0.1, 4.0]},
                "clip_norm": {"log_uniform": [0.2, 4.0]},
                "batch_size": 128,
                "epochs": 1 if setting.small else 60,
            }
        },
        "privacy": {"epsilon": 4.0, "delta": 1e-4},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}],
        "search": {"sampler": "random", "trials": trials, "seed": 0},
        "resources": resources,
        "execution": {"device": setting.device},
    }


def swept(wanted: dict[str, Any]) -> Swept:
    """Run to its end by the command line, in a folder of its own. Raises RuntimeError with its last words."""
    with tempfile.TemporaryDirectory() as folder:
        path, root = Path(folder, "spec.yaml"), Path(folder, "root")
        # YAML reads JSON.
        path.write_text(json.dumps(wanted))
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.cli", "run", str(path), "--root", str(root)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        seconds = time.monotonic() - began
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise RuntimeError(f"the sweep ended with code {done.returncode}: {' '.join(said[-3:])}")
        store = open_store(f"sqlite:///{root}/sweeps.db", create=False)
        try:
            ended = [one for one in store.trials(wanted["name"]) if one.state is TrialState.COMPLETE]
            spans = [(one.started_at, one.ended_at or one.started_at) for one in store.attempts(wanted["name"])]
        finally:
            store.close()
    at_once = max(sum(start <= moment < end for start, end in spans) for moment, _ in spans)
    return Swept(trials=len(ended), seconds=seconds, at_once=at_once)


def _share(setting: Setting) -> dict[str, Any]:
    return {"cpus": SHARE, "gpus": SHARE} if setting.device == "cuda" else {"cpus": SHARE}


def packing(setting: Setting) -> Iterator[Figure]:
    """Four trials on one GPU (or one core) against one at a time: how many ran at once, and the time of all."""
    trials = 4 if setting.small else 16
    shared = swept(spec(setting, trials, {**_share(setting), "concurrency": round(1 / SHARE)}))
    assert shared.trials == trials, f"{shared.trials} of {trials} trials completed"
    assert 1 < shared.at_once <= 1 / SHARE, f"{shared.at_once} at once of shares of {SHARE}"
    yield Figure("at once", shared.at_once)
    yield Figure("trials, all of them", shared.seconds, "s")
    if not setting.small:
        alone = swept(spec(setting, trials, {**_share(setting), "concurrency": 1}))
        yield Figure("one at a time", alone.seconds, "s")


def of_two_workers(setting: Setting) -> Iterator[Figure]:
    """A trial trained by two workers of the cluster, on parts of a GPU where there are not two."""
    gpus = {"gpus_per_worker": 1 if setting.devices >= 2 else 0.5} if setting.device == "cuda" else {}
    found = swept(spec(setting, 1, {"workers": 2, "cpus_per_worker": SHARE, **gpus}))
    assert found.trials == 1
    yield Figure("a sweep of one trial", found.seconds, "s")


def many(setting: Setting) -> Iterator[Figure]:
    """A sweep of 64 trials on shares of the GPUs, whole: start, launches, training, store and MLflow."""
    trials = 4 if setting.small else 64
    found = swept(spec(setting, trials, _share(setting)))
    assert found.trials == trials, f"{found.trials} of {trials} trials completed"
    yield Figure("trials", found.trials)
    yield Figure("all of it", found.seconds, "s")
    yield Figure("at once", found.at_once)

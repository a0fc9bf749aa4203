"""This platform, from Python: a toy whose trials are a private mean, and digits where a model is asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sweeps
from dpcore.checks import InvalidValue
from sweeps.spec import SpecErrors
from sweeps.store.errors import StoreError

TOY: dict[str, Any] = {
    "name": "s",
    "data": {"source": "uniform", "n": 1000},
    "systems": {"noisy-mean": {"clip": {"uniform": [0.1, 1.0]}, "steps": 4}},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "objectives": [{"metric": "expected_error"}, {"metric": "epsilon"}],
    "search": {"sampler": "random", "trials": 3, "seed": 0},
}
DIGITS: dict[str, Any] = {
    "name": "digits",
    "data": {"source": "digits"},
    "systems": {
        "noisy-sgd": {
            "model": "linear",
            "learning_rate": {"log_uniform": [0.1, 4.0]},
            "clip_norm": 1,
            "batch_size": 128,
            "epochs": 2,
        }
    },
    "privacy": {"epsilon": 8.0, "delta": 1e-4},
    "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon"}],
    "search": {"sampler": "random", "trials": 4, "seed": 0},
}
LONG = {"search.trials": 200}
RUN = "import json, sys, sweeps; sweeps.run(json.loads(sys.argv[1]), root=sys.argv[2], changes=json.loads(sys.argv[3]))"


@contextmanager
def _folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield folder


@contextmanager
def _elsewhere(root: str, changes: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """The toy in a process of its own, once a trial of it is finished."""
    asked = [sys.executable, "-c", RUN, json.dumps(TOY), root, json.dumps(dict(changes))]
    process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and not _finished(root):
            time.sleep(0.2)
        yield process
    finally:
        process.kill()
        process.wait()


def _finished(root: str) -> int:
    try:
        return sweeps.open("s", root=root).counts.get("complete", 0)
    except (InvalidValue, StoreError):
        return 0


def killed() -> str:
    with _folder() as root:
        with _elsewhere(root, {"search.trials": 40}) as process:
            process.kill()
            process.wait()
            before = _finished(root)
        sweep = sweeps.resume("s", root=root)
        launches = sweep.ledger()
    assert sweep.counts["complete"] == 40
    return f"`resume`: {before} finished ones stayed, 40 in all; {len(launches)} launches in its ledger, lost ones too"


def extended() -> str:
    with _folder() as root:
        sweeps.run(TOY, root=root)
        sweep = sweeps.resume("s", root=root, trials=5)
    assert sweep.counts["complete"] == 5
    return "`resume --trials 5`; the total says that it is no guarantee any more"


def enqueued() -> str:
    with _folder() as root, _elsewhere(root, LONG):
        sweep = sweeps.open("s", root=root)
        sweep.enqueue({"clip": 0.25})
        until = time.monotonic() + 60
        while time.monotonic() < until and not len(sweep.trials("clip=0.25")):
            time.sleep(0.2)
        assert len(sweep.trials("clip=0.25")) == 1
        sweep.stop()
    return "`enqueue clip=0.25`"


def stopped() -> str:
    with _folder() as root:
        with _elsewhere(root, LONG) as process:
            began = time.monotonic()
            sweeps.open("s", root=root).stop()
            process.wait(60)
            took = time.monotonic() - began
        assert sweeps.open("s", root=root).state == "stopped"
    return f"`stop`: its process had ended after {took:.0f} s, at a checkpoint"


def listed() -> str:
    with _folder() as root:
        sweep = sweeps.run(TOY, root=root)
        table = sweep.trials("expected_error<1", sort="clip:descending")
    return f"`show --where --sort`, `Sweep.trials` ({len(table.columns)} columns, its claim among them)"


def front() -> str:
    with _folder() as root:
        found = sweeps.run(TOY, root=root, changes={"privacy.epsilon": [0.5, 1.0]}).front()
    return f"`pareto` ({len(found.table())} points), with the total over all trials"


def joined() -> str:
    with _folder() as root:
        sweeps.run(TOY, root=root)
        sweeps.run(TOY, root=root, name="t", seed=1)
        found = sweeps.pareto(["s", "t"], root=root)
    return f"`pareto s t` ({len(found.table())} points), with the total over both"


def conditional() -> str:
    when = {"choice": [0.25, 0.5], "when": {"steps": [4]}}
    knobs = {**TOY["systems"]["noisy-mean"], "steps": {"choice": [1, 4]}, "shrinkage": when}
    sweeps.load({**TOY, "systems": {"noisy-mean": knobs}})
    return "`when`, in the spec; for every sampler"


def constrained() -> str:
    sweeps.load({**TOY, "constraints": ["clip <= 0.5"]})
    return "`constraints`, in the spec; costs nothing"


def pruned() -> str:
    stopping = {"early_stopping": {"method": "asha", "rungs": 3}, "search.trials": 9}
    with _folder() as root:
        sweep = sweeps.run(DIGITS, root=root, changes=stopping)
        steps = sweep.ledger()
    return f"non-dominated sorting at each rung ({len(steps)} launches for {len(sweep.trials())} trials)"


def exported() -> str:
    with _folder() as root:
        sweep = sweeps.run(DIGITS, root=root)
        place = sweep.model(sweep.best().number).save(Path(root, "model"))
        files = sorted(one.name for one in place.iterdir())
    return f"`export`: {', '.join(files)}"


def predicted() -> str:
    with _folder() as root:
        sweep = sweeps.run(DIGITS, root=root)
        model = sweep.model(sweep.best().number)
        (name, feature), *_ = model.preprocessing.features.items()
        said = model.predict({name: np.zeros((3, *feature.shape), dtype=np.float32)})
        assert isinstance(said.table(), pd.DataFrame)
    return f"`predict` over files and folders ({len(said)} rows here, from memory)"


def noted() -> str:
    with _folder() as root, _elsewhere(root, LONG):
        sweep = sweeps.open("s", root=root)
        sweep.note("clip is too small")
        sweep.tag({"paper": "v2"})
        assert sweep.tags == {"paper": "v2"}
        sweep.stop()
    return "`note`, `tag`"


def deleted() -> str:
    with _folder() as root:
        said = str(sweeps.run(TOY, root=root).delete())
        assert "s" not in list(sweeps.list_sweeps(root=root).get("name", []))
    return f"`delete`: {said}"


def misspelled() -> str:
    try:
        sweeps.load({**TOY, "systems": {"noisy-mean": {"clipp": {"uniform": [0.1, 1.0]}, "steps": 4}}})
    except SpecErrors as error:
        return str(error).strip().replace("\n", " ")
    raise AssertionError("it was taken")


def charged() -> str:
    with _folder() as root:
        procedure = sweeps.run(TOY, root=root).claim.procedure
    assert procedure is not None
    total = procedure.guarantee
    kind = f"at delta {total.delta:g}, {total.adjacency}, {total.status}"
    return f"`show`, `Sweep.claim`: epsilon {total.epsilon:.4g} {kind}"

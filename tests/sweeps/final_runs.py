"""Sweeps that tune and then train finally, for the exam of both: small tables, real trials, without Ray."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sweeps.execution import session
from sweeps.execution.limits import SharedBudget
from sweeps.privacy.population import ledger_of
from sweeps.spec.parse import load_spec
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.sweeps.stores import controller_of, run_here
from trainables.data import SOURCES

WHY = "made up for the exam, of nobody"
KNOBS = {"learning_rate": {"log_uniform": [0.01, 1.0]}, "model": "linear", "clip_norm": 1.0, "batch_size": 20}


def table(root: Path, name: str, n: int = 200, seed: int = 0) -> str:
    """A file of n records with an id each: one number says the label, mostly."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    label = (x + 0.1 * rng.normal(size=n) > 0.5).astype(int)
    path = root / f"{name}.csv"
    pd.DataFrame({"id": [f"{name}{i}" for i in range(n)], "x": x, "label": label}).to_csv(path, index=False)
    return str(path)


def spec(name: str, path: str, **sections: Any) -> dict[str, Any]:
    """A spec over such a file; `data` and `search` are joined to what is there, other sections replace it."""
    raw = specs.digits(
        name,
        data={
            "source": "table",
            "path": path,
            "n": 200,
            "label": "label",
            "classes": 2,
            "columns": {"x": {"low": 0, "high": 1}},
            "validation": {"records": "public", "share": 0.2, "id": "id"},
        },
        systems={"noisy-sgd": {**KNOBS, "epochs": 1}},
        privacy={"epsilon": 2.0, "delta": 1e-5},
        search={"sampler": "random", "trials": 3, "seed": 1},
    )
    joined = {key: {**raw[key], **sections.pop(key)} for key in ("data", "search") if key in sections}
    return deepcopy({**raw, **joined, **sections})


def ran(
    raw: Mapping[str, Any], root: Path, state: str = "finished", lost: int = 0, told: list[Any] | None = None
) -> str:
    """The name of a sweep that was created as `sweeps run` does it, and whose trials were run here.

    lost  launches of which nobody heard again
    told  hears what screen and sampler hear
    """
    workspace = Workspace.at(root)
    name = session.create(load_spec(raw), workspace)
    store = open_store(workspace.store_url)
    recorded = load_spec(store.sweep(name).spec.canonical())
    data = SOURCES[recorded.data.source].load(recorded.data.options())
    lease = store.acquire(name)
    keyed = store.data_fingerprint(data.fingerprint)
    session.check_apart(recorded, keyed)
    store.set_fingerprints(lease, {**store.sweep(name).fingerprints, "data": keyed})
    budget = SharedBudget(ledger_of(store, recorded) if recorded.privacy.scope != "sweep" else None)
    controller = controller_of(store, lease, recorded, workspace.trials(name), budget, data.facts)
    if told is not None:
        controller.on_change = told.append
    controller.recover()
    run_here(controller, data, lost=lost)
    store.set_state(lease, state)
    lease.release()
    store.close()
    return name

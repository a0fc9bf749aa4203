"""An objective that no trial could report of public validation records is refused before any trial."""

from __future__ import annotations

import pandas as pd
import pytest

from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.spec.parse import load_spec
from sweeps.store.records import SweepState
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.validation.planning import check_defined


def spec(folder, metric, records="public", **task):
    for name, targets in (("train", [0, 1] * 20), ("held", [0] * 20)):
        x = [0.1 * (row % 10) for row in range(len(targets))]
        pd.DataFrame({"x": x, "y": targets}).to_parquet(folder / f"{name}.parquet")
    validation = {"records": records, "path": str(folder / "held.parquet"), "n": 20}
    data = {"source": "table", "path": str(folder / "train.parquet"), "n": 40, "label": "y", "validation": validation}
    knobs = {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 10, "epochs": 1}
    return {
        "name": "undefined",
        "data": {**data, "columns": {"x": {"low": 0, "high": 1}}, **(task or {"classes": 2})},
        "systems": {"noisy-sgd": knobs},
        "privacy": {"epsilon": 3.0, "delta": 1e-3},
        "objectives": [{"metric": metric}],
        "search": {"sampler": "random", "trials": 2},
    }


def test_a_run_ends_before_its_first_trial(tmp_path):
    workspace = Workspace.at(tmp_path / "root")
    name = session.create(load_spec(spec(tmp_path, "auc")), workspace)
    with pytest.raises(InvalidValue, match="validation records of several classes, without which there is no auc"):
        session.resume(name, workspace)
    store = workspace.open_store()
    assert store.sweep(name).state is SweepState.CREATED
    assert store.trials(name) == []


@pytest.mark.parametrize(
    ("metric", "task", "refused"),
    [
        ("average_precision", {}, True),
        ("accuracy", {}, False),
        ("f1", {}, False),
        ("r2", {"target": [0, 1]}, True),
        ("mae", {"target": [0, 1]}, False),
    ],
)
def test_what_is_undefined_and_what_is_not(tmp_path, metric, task, refused):
    loaded = load_spec(spec(tmp_path, metric, **task))
    data = SOURCES["table"].load(loaded.data.options())
    if refused:
        with pytest.raises(InvalidValue, match=f"there is no {metric}"):
            check_defined(data, [metric])
    else:
        check_defined(data, [metric])

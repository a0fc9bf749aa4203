"""A run that is refused before anything of it runs leaves nothing: its name is free."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.api import created
from sweeps.execution.session import RunOptions, resume
from sweeps.store.workspace import Workspace


def test_a_refused_run_leaves_its_name_free(tmp_path: Path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(size=60), "y": rng.integers(0, 2, 60)})
    frame.assign(a=frame["a"].where(frame.index != 3)).to_parquet(tmp_path / "p.parquet")
    raw = {
        "name": "patients",
        "data": {
            "source": "table",
            "path": str(tmp_path / "p.parquet"),
            "n": 60,
            "label": "y",
            "classes": 2,
            "columns": {"a": {"low": 0, "high": 1}},
        },
        "systems": {
            "noisy-sgd": {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1}
        },
        "privacy": {"epsilon": [1.0], "delta": 1e-3},
        "objectives": [{"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "random", "trials": 2, "seed": 0},
    }
    workspace = Workspace.at(tmp_path / "root")
    for _ in range(2):
        name, _ = created(raw, root=tmp_path / "root")
        assert name == "patients"
        with pytest.raises(InvalidValue, match="1 missing"):
            resume(name, workspace, RunOptions(is_new=True))
        assert len(sweeps.list_sweeps(root=tmp_path / "root")) == 0
        assert not workspace.folder("patients").exists()
    # Of a sweep that was there before, a refusal takes nothing.
    name, _ = created(raw, root=tmp_path / "root")
    with pytest.raises(InvalidValue, match="1 missing"):
        resume(name, workspace)
    assert list(sweeps.list_sweeps(root=tmp_path / "root")["sweep"]) == ["patients"]


def test_a_temporary_folder_whose_name_is_too_long_is_refused_before_anything_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", "/tmp/" + "x" * 60)
    with pytest.raises(InvalidValue, match="RAY_TMPDIR to a shorter one"):
        created("toy", root=tmp_path / "root")
    assert not (tmp_path / "root").exists()

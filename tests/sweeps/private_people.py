"""A small Parquet table of people, part of whom are private validation records, and a spec over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

N, DELTA = 400, 1e-5
PUBLIC = {"records": "public", "share": 0.3, "id": "id"}
"""The same validation records, declared public."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, (N, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame["id"] = [f"person {i}" for i in range(N)]
    frame["rich"] = (x @ [2.0, -1.0, 1.0] + rng.normal(0, 0.3, N) > 1).astype(int)
    path = tmp_path_factory.mktemp("own") / "people.parquet"
    frame.to_parquet(path)
    return path


def spec_of(path: Path, **changes: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "data": {
            "source": "table",
            "path": str(path),
            "n": N,
            "label": "rich",
            "classes": 2,
            "columns": {name: {"low": 0, "high": 1} for name in "abc"},
            "validation": {"records": "private", "share": 0.3, "id": "id"},
        },
        "systems": {
            "noisy-sgd": {
                "model": "linear",
                "learning_rate": {"log_uniform": [0.1, 2.0]},
                "clip_norm": 1.0,
                "batch_size": 40,
                "epochs": 3,
            }
        },
        "privacy": {"epsilon": 2.0, "delta": DELTA},
        "objectives": [{"metric": "auc"}],
        "search": {"sampler": "random", "trials": 3, "seed": 1},
    } | changes

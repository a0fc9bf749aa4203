"""Specs as people write them, of which a test changes what it is about; and as a store has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sweeps.spec.sections import SweepSpec

LINEAR = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 200, "epochs": 1}


def written(name: str, trials: int, **sections: Any) -> dict[str, Any]:
    return {"name": name, "search": {"sampler": "random", "trials": trials, "seed": 0}} | sections


def mean(name: str = "s", trials: int = 1, **sections: Any) -> dict[str, Any]:
    """Of noisy means over made-up numbers."""
    own = {
        "data": {"source": "uniform", "n": 1000},
        "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 4}},
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "objectives": [{"metric": "expected_error"}],
    }
    return written(name, trials, **own | sections)


def digits(name: str = "s", trials: int = 1, **sections: Any) -> dict[str, Any]:
    """Of a linear model over handwritten digits."""
    own = {
        "data": {"source": "digits"},
        "systems": {"noisy-sgd": LINEAR},
        "privacy": {"epsilon": 2.0, "delta": 1e-4},
        "objectives": [{"metric": "accuracy"}],
    }
    return written(name, trials, **own | sections)


def recorded(sections: Mapping[str, Any]) -> SweepSpec:
    """A spec as a store has it: a plain one with these sections, or keys of them."""
    plain = mean(
        trials=3,
        data={"source": "uniform"},
        systems={"noisy-mean": {"clip": 1.0}},
        privacy={"epsilon": [1.0], "delta": 1e-5},
        objectives=[{"metric": "expected_error", "goal": "minimize"}],
    )
    changed = {name: {**plain.get(name, {}), **one} if isinstance(one, dict) else one for name, one in sections.items()}
    return SweepSpec.model_validate({**plain, **changed})


# A small Parquet table of people, part of whom are private validation records, and a spec over it.


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
    knobs = {**LINEAR, "learning_rate": {"log_uniform": [0.1, 2.0]}, "batch_size": 40, "epochs": 3}
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
        "systems": {"noisy-sgd": knobs},
        "privacy": {"epsilon": 2.0, "delta": DELTA},
        "objectives": [{"metric": "auc"}],
        "search": {"sampler": "random", "trials": 3, "seed": 1},
    } | changes

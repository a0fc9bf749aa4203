"""The smallest table with private validation records: one number, an id, and a label of two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

N = 400


def small_table(path: Path, values: Sequence[float] | None = None) -> dict[str, Any]:
    """Written to `path`, and the data section of a spec over it. `values` are the numbers, .5 each unless given."""
    numbers = [0.5] * N if values is None else values
    pd.DataFrame({"a": numbers, "id": range(N), "rich": [0, 1] * (N // 2)}).to_parquet(path)
    return {
        "source": "table",
        "path": str(path),
        "n": N,
        "label": "rich",
        "classes": 2,
        "columns": {"a": {"low": 0, "high": 1}},
        "validation": {"records": "private", "share": 0.3, "id": "id"},
    }

"""Each row tried in Optuna, Ray Tune, MLflow and here; of W&B what its help says.

    SWEEPS_WANDB=PYTHON python -m tests.benchmarks.peers [--row ROW ...] [--markdown]

A cell is what was seen: `yes` with the call that does it, `no` with what there is in its place. What a peer leaves to
the code of its user is `no`, unless its own documentation shows that code.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
from collections.abc import Callable
from types import ModuleType

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

from rich.console import Console
from rich.table import Table

from tests.benchmarks.peers import mlflow_rows, optuna_rows, our_rows, tune_rows, wandb_rows
from tests.benchmarks.peers.rows import NotThere, Row

PEERS: dict[str, ModuleType] = {"here": our_rows, "Optuna": optuna_rows, "Ray Tune": tune_rows, "MLflow": mlflow_rows}
PACKAGES = {"Optuna": "optuna", "Ray Tune": "ray", "MLflow": "mlflow"}


def seen(tried: Callable[[], str]) -> str:
    """What one cell says."""
    try:
        return f"yes: {tried()}"
    except NotThere as none:
        return f"no: {none}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=[row.name.lower() for row in Row])
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    rows = [row for row in Row if asked.row is None or row.name.lower() in asked.row]
    table = []
    for row in rows:
        cells = [seen(getattr(peer, row.name.lower())) for peer in PEERS.values()]
        table.append((str(row), *cells, seen(lambda row=row: wandb_rows.said(row))))  # type: ignore[misc]
    versions = {name: importlib.metadata.version(package) for name, package in PACKAGES.items()}
    heads = ["", *(f"{name} {versions.get(name, '')}".strip() for name in PEERS), "W&B"]
    if asked.markdown:
        for line in (heads, ["---"] * len(heads), *table):
            print(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |")
    else:
        drawn = Table(*heads, show_lines=True)
        for line in table:
            drawn.add_row(*line)
        Console().print(drawn)
    print(f"W&B: {wandb_rows.tried()}")


if __name__ == "__main__":
    main()

"""Each row tried in Optuna, Ray Tune, MLflow and here; of W&B what its help says.

    SWEEPS_WANDB=PYTHON python -m tests.benchmarks.peers [--row ROW ...] [--markdown]

A cell is what was seen: `yes` with the call that does it, `no` with what there is in its place. What a peer leaves to
the code of its user is `no`, unless its own documentation shows that code.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
from collections.abc import Callable, Sequence
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


def _print_markdown(cells: Sequence[str]) -> None:
    # At once: a row takes minutes, and whoever ends the run has those before.
    print(f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=[row.name.lower() for row in Row])
    parser.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    rows = [row for row in Row if asked.row is None or row.name.lower() in asked.row]
    versions = {name: importlib.metadata.version(package) for name, package in PACKAGES.items()}
    heads = ["", *(f"{name} {versions.get(name, '')}".strip() for name in PEERS), "W&B"]
    drawn = Table(*heads, show_lines=True)
    if asked.markdown:
        for line in (heads, ["---"] * len(heads)):
            _print_markdown(line)
    for row in rows:
        cells = [seen(getattr(peer, row.name.lower())) for peer in PEERS.values()]
        line = [str(row), *cells, seen(lambda row=row: wandb_rows.said(row))]  # type: ignore[misc]
        if asked.markdown:
            _print_markdown(line)
        drawn.add_row(*line)
    if not asked.markdown:
        Console().print(drawn)
    print(f"W&B: {wandb_rows.tried()}")


if __name__ == "__main__":
    main()

"""The order that a submitted job carries out. Imports the standard library alone: nothing is known yet of the
cluster's Python."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ORDER_FILE, SPEC_FILE = "sweeps-order.json", "spec.yaml"
COMPARED = ("ray", "torch", "numpy", "optuna", "mlflow", "pyarrow", "SQLAlchemy")
"""Packages whose versions on the submitting machine travel along, to be compared with the cluster's."""
OPERATORS = "SWEEPS_PLUGINS"
"""The variable by which the cluster's operator decides what code may run (`trainables.plugins`): no order sets it."""


@dataclass(frozen=True, slots=True)
class Order:
    """The words after `sweeps`, the environment to set first, and the versions on the submitting machine."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    versions: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Order:
        """The order of the parcel at `path`."""
        order = cls(**json.loads(path.read_text()))
        if OPERATORS not in order.environment:
            return order
        return replace(order, environment={n: text for n, text in order.environment.items() if n != OPERATORS})


def versions() -> dict[str, str]:
    """{package: version} of `COMPARED`, as installed in this process."""
    return {name: importlib.metadata.version(name) for name in COMPARED}

"""Where a call of the Python face looks for a sweep: the same places as the command line's, under the same names."""

from __future__ import annotations

import os
from pathlib import Path

from sweeps.util.workspace import DEFAULT_ROOT, Workspace


def places(
    root: str | Path | None = None,
    store: str | None = None,
    records: str | None = None,
    tracking: str | None = None,
) -> Workspace:
    """The workspace of these places, each from its environment variable (SWEEPS_ROOT, ...) where it is not given.

    root      folder of store, records and reports; `.sweeps` by default
    store     SQLAlchemy URL; the file `sweeps.db` in `root` by default
    records   workers' records: a folder or URL that every node sees; `root` by default
    tracking  MLflow tracking URI, also from MLFLOW_TRACKING_URI; `mlflow.db` in `root` by default

    Raises InvalidValue for a root that is a URL, and for records or a tracking URI that cannot be.
    """
    return Workspace.at(
        root or os.environ.get("SWEEPS_ROOT") or DEFAULT_ROOT,
        store=store or os.environ.get("SWEEPS_STORE"),
        records=records or os.environ.get("SWEEPS_RECORDS"),
        tracking=tracking or os.environ.get("SWEEPS_TRACKING") or os.environ.get("MLFLOW_TRACKING_URI"),
    )

"""Arguments and options that several commands share: name, variable and help once each. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_ROOT = Path(".sweeps")

SpecSource = Annotated[str, typer.Argument(help="Spec file (YAML, TOML or JSON), or the name of a packaged example.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="path.to.key=VALUE (YAML) over the spec's own; repeatable.")
]
Trials = Annotated[int | None, typer.Option(help="Override search.trials.")]
NewTotal = Annotated[
    int | None,
    typer.Option("--trials", help="Extend the sweep to this many in all; says what that costs, and does to its total."),
]
MoreBudgets = Annotated[
    list[float] | None,
    typer.Option(
        "--epsilon",
        help="Add this budget, for trials that are left or that --trials adds; says its cost. Repeatable.",
    ),
]
Hours = Annotated[float | None, typer.Option(help="Let the sweep run for this many hours in all; see limits.hours.")]
Seed = Annotated[int | None, typer.Option(help="Override search.seed.")]
NewName = Annotated[str | None, typer.Option("--name", help="Of the sweep; default: the spec's, numbered if taken.")]
Accepted = Annotated[
    list[str] | None,
    typer.Option("--accept", help="Resuming: go on although this changed: spec, code or data; repeatable."),
]
DataFolder = Annotated[Path | None, typer.Option("--data", help="Folder with the data set's upstream files.")]

Root = Annotated[Path, typer.Option("--root", envvar="SWEEPS_ROOT", help="Folder of store, records and reports.")]
StoreUrl = Annotated[str | None, typer.Option("--store", envvar="SWEEPS_STORE", help="Store by SQLAlchemy URL.")]
Records = Annotated[
    str | None,
    typer.Option("--records", envvar="SWEEPS_RECORDS", help="Workers' records: a folder or URL that every node sees."),
]
TrackingUri = Annotated[
    str | None,
    typer.Option("--tracking", envvar=["SWEEPS_TRACKING", "MLFLOW_TRACKING_URI"], help="MLflow tracking URI."),
]
ClusterAddress = Annotated[
    str | None, typer.Option("--address", help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

"""`sweeps show`: its arguments and options."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl


def show(
    sweep: Annotated[str | None, typer.Argument(help="One sweep; default: a list of all.")] = None,
    trial: Annotated[str | None, typer.Argument(help="One of its trials, by number or key: all of it.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="state=failed, accuracy>=0.9, model!=linear, ...: list those trials alone; repeatable."),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Metric (best first), knob or column; NAME:descending turns it.")
    ] = None,
    page: Annotated[int | None, typer.Option(help="Which 20 trials; csv and json have all by default.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again until the sweep ends.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks of --watch.")] = 2.0,
    curves: Annotated[
        bool, typer.Option("--curves", help="Metrics at planned steps, one row each: of all trials, or of --where.")
    ] = False,
    format: Annotated[str, typer.Option(help="table, csv or json.")] = "table",
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Where a sweep stands: what one trial and all of them promise, steps charged, and its trials; or one trial whole.

    Running trials come first, with their step and the seconds left to the end of their launch.
    """
    from sweeps.cli.showing import show_asked
    from sweeps.util.workspace import Workspace

    show_asked(
        sweep=sweep,
        trial=trial,
        where=where or [],
        sort=sort,
        page=page,
        form="json" if as_json else format,
        watched=watch,
        every=every,
        curves=curves,
        workspace=Workspace.at(root, store=store),
    )

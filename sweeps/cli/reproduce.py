"""`sweeps reproduce`: the claims as a table, with what they took."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sweeps.cli.output import print_json
from sweeps.papers import Effort, Result, reproduce
from sweeps.papers.run import PUBLIC
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Release
from sweeps.store.workspace import Workspace
from sweeps.util.log import say


def reproduce_command(
    paper: str, data: Path | None, workspace: Workspace, effort: Effort, *, as_json: bool = False
) -> None:
    """Reproduce and print; with `as_json`, everything as the one JSON document on stdout: `rows` are the claims."""
    console = Console(stderr=as_json)
    started, heading = time.monotonic(), Release(public_because=PUBLIC).heading

    def told(line: str) -> None:
        say(line, plain=lambda: console.print(line, highlight=False))

    result = reproduce(paper, data, workspace, effort, told)
    cost = f"{time.monotonic() - started:.0f} s this time; {_trained(paper, workspace)}"
    if as_json:
        print_json({"heading": heading, **result.to_dict(), "cost": cost})
        return
    console.print(heading, highlight=False)
    _print(console, result)
    console.print(f"cost: {cost}", highlight=False)


def _print(console: Console, result: Result) -> None:
    for table in result.tables:
        shown = _folding(*table.columns, title=table.title)
        for row in table.rows:
            shown.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(shown)
    claims = _folding("claim", "published", "ours", "holds", "note", title=result.title)
    for claim in result.claims:
        ours = "" if claim.ours is None else str(claim.ours)
        claims.add_row(claim.claim, str(claim.published), ours, claim.verdict, claim.note)
    console.print(claims)
    for line in result.cut:
        console.print(f"cut: {line}", highlight=False)
    for plot in result.plots:
        console.print(f"plot: {plot}", highlight=False)


def _folding(*columns: str, title: str) -> Table:
    """A table whose long words are broken, never cut: two methods may begin alike."""
    shown = Table(title=title)
    for one in columns:
        shown.add_column(one, overflow="fold")
    return shown


def _trained(paper: str, workspace: Workspace) -> str:
    """The trials behind it, over all the times it was run."""
    store = PublishedStore(workspace.open_store(create=True))
    sweeps = [sweep.name for sweep in store.sweeps() if sweep.name.startswith(f"{paper}-")]
    metrics = [trial.metrics for sweep in sweeps for trial in store.trials(sweep) if trial.metrics]
    peak = max((one.get("peak_memory_mb", 0.0) for one in metrics), default=0.0)
    return f"{len(metrics)} trials of {len(sweeps)} sweeps in all, peak memory of a worker {peak:.0f} MB"

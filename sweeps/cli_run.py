"""What `run` and `resume` show around a session: progress, the result, and always how to go on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeps import session
from sweeps.cli_output import EXIT_INTERRUPTED, print_json
from sweeps.display import ProgressDisplay
from sweeps.publishing import Release
from sweeps.store import Store
from sweeps.urls import without_password
from sweeps.validation_text import recorded_text
from sweeps.workspace import DEFAULT_ROOT, Workspace


def resume_command(sweep: str, workspace: Workspace, address: str | None = None) -> str:
    """The command that goes on with the sweep from any folder that is the current one now. No passwords."""
    words = ["sweeps", "resume", sweep]
    if workspace.root != Workspace.at(DEFAULT_ROOT).root:
        words += ["--root", workspace.root]
    for option, url in (
        ("--store", workspace.store),
        ("--records", workspace.records),
        ("--tracking", workspace.tracking),
    ):
        if url is not None:
            words += [option, without_password(url)]
    if address is not None:
        words += ["--address", address]
    return shlex.join(words)


def drive(
    sweep: str,
    workspace: Workspace,
    *,
    shown: Callable[[str, Workspace], Any] | None = None,
    address: str | None = None,
    **options: Any,
) -> None:
    """Run the session and print what came of it; with `shown`, its value as the one JSON document on stdout.

    Exits with EXIT_INTERRUPTED after Ctrl-C.
    """
    console = Console(stderr=shown is not None)
    again = resume_command(sweep, workspace, address)

    def cluster_lost(name: str) -> None:
        print(f"\nThe Ray cluster does not answer any more. Nothing is lost; go on with:\n  {again}", file=sys.stderr)

    if heading := Release.recorded(Store.open(workspace.store_url, create=False).sweep(sweep).spec).heading:
        console.print(heading, highlight=False, markup=False, soft_wrap=True)
    console.print(f"Sweep [bold]{sweep}[/bold]  (Ctrl-C stops cleanly)", highlight=False)
    if (validation := recorded_text(Store.open(workspace.store_url, create=False).sweep(sweep).spec)) is not None:
        console.print(f"validation records: {validation}", highlight=False, soft_wrap=True)
    try:
        with ProgressDisplay(console) as display:
            outcome = session.resume(
                sweep, workspace, progress=display, on_cluster_lost=cluster_lost, address=address, **options
            )
    except KeyboardInterrupt:
        _stopped(console, again)
    if shown is not None:
        print_json(shown(sweep, workspace))
    if outcome.state == "stopped":
        _stopped(console, again)
    if shown is None:
        _summary(sweep, workspace, outcome, console)


def _stopped(console: Console, again: str) -> None:
    console.print(f"Stopped. Nothing is lost; go on with:\n  {again}", highlight=False, soft_wrap=True)
    sys.exit(EXIT_INTERRUPTED)


def _summary(sweep: str, workspace: Workspace, outcome: session.Outcome, console: Console) -> None:
    from sweeps.front.pareto import LABELS, sweep_front
    from sweeps.front.terminal import table
    from sweeps.report import write_report

    opened = Store.open(workspace.store_url, create=False)
    counts = ", ".join(f"{count} {state}" for state, count in outcome.counts.items() if count)
    console.print(f"{outcome.state.capitalize()} after {outcome.seconds:.0f} s: {counts}.", highlight=False)
    for reason in outcome.reasons:
        console.print(reason, highlight=False, markup=False)
    if outcome.counts["complete"]:
        # One panel for each kind of claim, as on the report page.
        console.print(table(sweep_front(opened, sweep, mix=LABELS, total=True)))
    path = write_report(opened, sweep, workspace.report(sweep))
    console.print(f"Report  {path}", highlight=False, soft_wrap=True)
    uri = without_password(workspace.tracking_uri)
    # The one beside this Python: a fresh clone's environment is not on the path.
    ui = Path(sys.executable).parent / "mlflow"
    console.print(f"MLflow  {ui} ui --backend-store-uri {uri}", highlight=False, soft_wrap=True)

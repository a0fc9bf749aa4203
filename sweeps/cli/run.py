"""`sweeps run` and `sweeps resume` around a session: progress, the result, and always how to go on."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from rich.console import Console

from sweeps.api import with_models
from sweeps.cli.output import print_json
from sweeps.cli.streams import steadfast_streams
from sweeps.execution import session
from sweeps.execution.end import Failure, SweepEnd
from sweeps.execution.session import RunOptions
from sweeps.mlflow.page import LOCAL_SERVER, kept_page
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Release
from sweeps.privacy.wording import recorded_text
from sweeps.reporting.progress import ProgressDisplay
from sweeps.reporting.summary import refuted_lines, shown
from sweeps.util.exits import ExitCode
from sweeps.util.log import LOG, Event, kept_in, say
from sweeps.util.workspace import DEFAULT_ROOT, Workspace
from trainables.worker.redaction import shown_url


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
            words += [option, shown_url(url)]
    if address is not None:
        words += ["--address", shown_url(address)]
    return shlex.join(words)


def drive(sweep: str, workspace: Workspace, options: RunOptions, *, as_json: bool = False) -> None:
    """Run the session and print what came of it; with `as_json`, as the one JSON document on stdout.

    A terminal that is closed stops the sweep as Ctrl-C does; a pipe whose reader ended changes nothing. Whatever is
    said beside the answer is in the sweep's `LOG` too.

    Exits with `SweepEnd.code` where that is not OK: INTERRUPTED after Ctrl-C, SOME_FAILED, NONE_RANKED.
    """
    sweep = PublishedStore.open(workspace.store_url).sweep(sweep).kept().name
    with steadfast_streams(), kept_in(workspace.folder(sweep) / LOG):
        _drive(sweep, workspace, options, as_json)


class Terminal(ProgressDisplay):
    """Says how a run goes on to the person who started it."""

    def __init__(self, console: Console, sweep: str, workspace: Workspace, again: str) -> None:
        super().__init__(console)
        self._name, self._workspace, self._again = sweep, workspace, again

    def on_begin(self) -> None:
        """What stands above every claim of the sweep."""
        seen = PublishedStore.open(self._workspace.store_url)
        spec = seen.sweep(self._name).spec
        if heading := Release.recorded(spec).heading:
            _tell(self.console, heading, Event.CLAIM)
        for line in refuted_lines(seen.refuted(self._name)):
            _tell(self.console, line, Event.REFUTED)
        greeting = f"Sweep [bold]{self._name}[/bold]  (Ctrl-C stops cleanly)"
        say(f"Sweep {self._name} begins.", plain=lambda: self.console.print(greeting, highlight=False))
        if (validation := recorded_text(spec)) is not None:
            _tell(self.console, f"validation records: {validation}")

    def on_failure(self, failure: Failure) -> None:
        """At once: a person may want to stop."""
        plain = failure.lines()
        say(failure.unquoted(), Event.FAILURE, trial=failure.key, plain=lambda: _print(self.console, *plain))

    def on_cluster_lost(self, sweep: str) -> None:
        """How to go on."""
        say(f"\nThe Ray cluster does not answer any more. Nothing is lost; go on with:\n  {self._again}", Event.ERROR)


def _drive(sweep: str, workspace: Workspace, options: RunOptions, as_json: bool) -> None:
    console = Console(stderr=as_json)
    again = resume_command(sweep, workspace, options.address)
    try:
        with Terminal(console, sweep, workspace, again) as terminal:
            outcome = session.resume(sweep, workspace, options, terminal)
    except KeyboardInterrupt:
        _stopped(console, again)
    outcome = with_models(outcome, workspace)
    if as_json:
        models = {} if outcome.models is None else {"models": outcome.models.to_dict()}
        print_json({**shown(sweep, workspace).to_dict(), **models})
    if outcome.state == "stopped":
        _stopped(console, again)
    if not as_json:
        _summary(sweep, workspace, outcome, console)
    code = outcome.code
    if code is ExitCode.OK:
        # People have read it above the front.
        say(_end(outcome), Event.END, plain=lambda: None)
    else:
        text = f"{_end(outcome)} {_meaning(outcome)}"
        say(text, Event.END, level=logging.WARNING, plain=lambda: _print(console, *_why(outcome)))
        sys.exit(outcome.code)


def _why(outcome: SweepEnd) -> list[str]:
    """What went wrong, last on the screen: the first failure, and what the exit code says."""
    lines = []
    if outcome.failure is not None:
        count = outcome.counts["failed"]
        lines += [f"{count} trial{'s' if count > 1 else ''} failed. The first:", *outcome.failure.lines()]
    return [*lines, _meaning(outcome)]


def _print(console: Console, *lines: str) -> None:
    """As they are: no colours, no markup, and no line broken but by the terminal."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _tell(console: Console, text: str, event: Event = Event.NOTICE) -> None:
    say(text, event, plain=lambda: _print(console, text))


def _end(outcome: SweepEnd) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in outcome.counts.items() if count)
    return f"{outcome.state.capitalize()} after {outcome.seconds:.0f} s: {counts}."


def _meaning(outcome: SweepEnd) -> str:
    return f"{outcome.meaning[0].upper()}{outcome.meaning[1:]} (exit code {outcome.code.value})."


def _stopped(console: Console, again: str) -> NoReturn:
    text = f"Stopped. Nothing is lost; go on with:\n  {again}"
    say(text, Event.END, level=logging.WARNING, plain=lambda: _print(console, text))
    sys.exit(ExitCode.INTERRUPTED)


def _summary(sweep: str, workspace: Workspace, outcome: SweepEnd, console: Console) -> None:
    from sweeps.reporting.front import LABELS, sweep_front
    from sweeps.reporting.html import write_report
    from sweeps.reporting.tables import table

    store = PublishedStore.open(workspace.store_url)
    _print(console, _end(outcome), *outcome.reasons)
    if outcome.ranked:
        # One panel for each kind of claim, as on the report page.
        console.print(table(sweep_front(store, sweep, mix=LABELS, total=True)))
    _print(console, f"Report  {write_report(store, sweep, workspace.report(sweep))}")
    if outcome.tracking is not None:
        _print(console, *_view(outcome.tracking, kept_page(workspace.folder(sweep))))
    if outcome.models is not None:
        _print(console, *outcome.models.lines())


def _view(uri: str, page: str) -> list[str]:
    """Where a person looks at MLflow: a server by its own address, a database through a server of one's own."""
    shown = shown_url(uri)
    if urlsplit(uri).scheme in ("http", "https"):
        return [f"MLflow  {shown.rstrip('/')}{page}"]
    # The one beside this Python: a fresh clone's environment is not on the path.
    command = f"{Path(sys.executable).parent / 'mlflow'} ui --backend-store-uri {shlex.quote(shown)}"
    return [f"MLflow  {command}", *([f"        then {LOCAL_SERVER}{page}"] if page else [])]

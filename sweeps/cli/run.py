"""`sweeps run` and `sweeps resume` around a session: progress, the result, and always how to go on."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO

from rich.console import Console

from sweeps.api import with_models
from sweeps.cli.common import print_json
from sweeps.execution import session
from sweeps.execution.session import Failure, RunOptions, SweepEnd
from sweeps.mlflow.sync import kept_page
from sweeps.privacy.release import PublishedStore, Release
from sweeps.progress import ProgressDisplay
from sweeps.reporting.summary import SweepSummary, refuted_lines
from sweeps.reporting.terminal import counts_text, greeting, mlflow_line, near, next_lines, print_plain, print_result
from sweeps.store.workspace import DEFAULT_ROOT, Workspace
from sweeps.util import log
from sweeps.util.exits import ExitCode
from sweeps.util.log import LOG, Event, kept_in, say
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
    sweep = PublishedStore.open(workspace).sweep(sweep).kept().name
    with steadfast_streams(), kept_in(workspace.folder(sweep) / LOG):
        _drive(sweep, workspace, options, as_json)


class Terminal(ProgressDisplay):
    """Says how a run goes on to the person who started it."""

    def __init__(self, console: Console, sweep: str, workspace: Workspace, again: str) -> None:
        super().__init__(console)
        self._name, self._workspace, self._again = sweep, workspace, again

    def on_begin(self) -> None:
        """What stands above every claim of the sweep."""
        seen = PublishedStore.open(self._workspace)
        spec = seen.sweep(self._name).spec
        if heading := Release.of(spec).heading:
            _tell(self.console, heading, Event.CLAIM)
        for line in refuted_lines(seen.refuted(self._name)):
            _tell(self.console, line, Event.REFUTED)
        line = greeting(self._name, spec)
        say(f"Sweep {self._name} begins.", plain=lambda: print_plain(self.console, line))

    def on_failure(self, failure: Failure) -> None:
        """At once: a person may want to stop."""
        plain = failure.lines()
        say(failure.unquoted(), Event.FAILURE, trial=failure.key, plain=lambda: print_plain(self.console, *plain))

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
        print_json({**SweepSummary(PublishedStore.open(workspace), sweep, workspace).to_dict(), **models})
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
        say(text, Event.END, level=logging.WARNING, plain=lambda: print_plain(console, *_why(outcome)))
        sys.exit(outcome.code)


def _why(outcome: SweepEnd) -> list[str]:
    """What went wrong, last on the screen: the first failure, and what the exit code says."""
    lines = []
    if outcome.failure is not None:
        count = outcome.counts["failed"]
        lines += [f"{count} trial{'s' if count > 1 else ''} failed. The first:", *outcome.failure.lines()]
    return [*lines, _meaning(outcome)]


def _tell(console: Console, text: str, event: Event = Event.NOTICE) -> None:
    say(text, event, plain=lambda: print_plain(console, text))


def _end(outcome: SweepEnd) -> str:
    return f"{outcome.state.capitalize()} in {outcome.seconds:.0f} s: {counts_text(outcome.counts)}."


def _meaning(outcome: SweepEnd) -> str:
    return f"{outcome.meaning[0].upper()}{outcome.meaning[1:]} (exit code {outcome.code.value})."


def _stopped(console: Console, again: str) -> NoReturn:
    text = f"Stopped. Nothing is lost; go on with:\n  {again}"
    say(text, Event.END, level=logging.WARNING, plain=lambda: print_plain(console, text))
    sys.exit(ExitCode.INTERRUPTED)


def _summary(sweep: str, workspace: Workspace, outcome: SweepEnd, console: Console) -> None:
    from sweeps.reporting.html import report_page
    from sweeps.util.files import write_output

    store = PublishedStore.open(workspace)
    summary = SweepSummary(store, sweep, workspace, count_all=True)
    print_plain(console, "", _end(outcome), *outcome.reasons)
    print_result(console, summary)
    report = write_output(report_page(summary), workspace.report(sweep))
    print_plain(console, "", f"Report   {near(report)}")
    if outcome.tracking is not None:
        print_plain(console, mlflow_line(outcome.tracking, kept_page(workspace.folder(sweep))))
    if outcome.models is not None and outcome.models.left_out:
        print_plain(console, *outcome.models.lines())
    print_plain(console, *next_lines(summary))


# stdout and stderr that a sweep survives: `sweeps run ... | head -1` and a lost connection end the reader, not the wish
# for the result. What the sweep says from then on stands in its own log.


class Steadfast:
    """A text stream that never raises: what it cannot write any more it keeps in the log."""

    def __init__(self, stream: TextIO, name: str) -> None:
        self._stream: Any = stream
        self._name = name

    def write(self, text: str) -> int:
        """As of any text stream."""
        return int(self._done("write", text))

    def flush(self) -> None:
        """As of any text stream."""
        self._done("flush")

    def _done(self, call: str, *given: str) -> Any:
        try:
            return getattr(self._stream, call)(*given)
        except OSError as error:
            with suppress(OSError, ValueError):
                # For what is still buffered, and for libraries that write without asking Python.
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
            self._stream = log.LogOnly(self._stream)
            log.say(f"{self._name} is closed ({error.strerror}). The sweep goes on; what it says is in its {log.LOG}.")
            return getattr(self._stream, call)(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def steadfast_streams() -> Iterator[None]:
    """While the block runs, nothing that is printed can end it."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Steadfast(before[0], "stdout"), Steadfast(before[1], "stderr")  # type: ignore[assignment]
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before

"""Progress of a running sweep on the screen: counts, an estimate of the time left, the best values so far."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sweeps.control.controller import Controller
from sweeps.process.words import Event, Level, say, voice
from sweeps.records import DECIDED, TrialState
from sweeps.release.published import Published

LINE_SECONDS = 5.0


def in_notebook() -> bool:
    """Whether the code runs in a notebook's kernel: one that asked for no display sees one all the same."""
    kernel = sys.modules.get("IPython")
    shell = None if kernel is None else kernel.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _in_the_bar() -> None:
    """People see a trial's end in the bar, or in the lines that stand for it."""


OVER = (TrialState.COMPLETE, TrialState.FAILED)


@dataclass(slots=True)
class ProgressDisplay:
    """A live bar on a terminal, one line every few seconds anywhere else. A context manager; call it per change."""

    console: Console
    total: int = 0
    _bar: Progress | None = None
    _best: dict[str, float] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)
    _infeasible: int = 0
    _known: int = 0
    _pace_from: tuple[float, int] | None = None
    _printed: float = 0.0

    def __enter__(self) -> ProgressDisplay:
        if self.console.is_terminal and voice().least <= Level.INFO and not voice().as_json:
            self._bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(bar_width=28),
                MofNCompleteColumn(),
                TextColumn("trials"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                TextColumn("[dim]{task.fields[best]}"),
                console=self.console,
                transient=True,
            )
            self._bar.add_task("sweep", total=None, best="")
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, controller: Controller, record: Published) -> None:
        """One trial changed."""
        first, self.total = self.total == 0, controller.spec.search.trials + controller.enqueued
        if first:
            for known in controller.roster.published():
                self._note(controller, known)
            self._known = len(self._over)
        self._note(controller, record)
        say(str(record.state), Event.TRIAL, sweep=controller.sweep, trial=record.key, plain=_in_the_bar)
        if self._pace_from is None and len(self._over) > self._known:
            # The first one's time was mostly the start of workers.
            self._pace_from = (time.monotonic(), len(self._over))
        best = ", ".join(f"best {name} {value:.4g}" for name, value in self._best.items())
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                description=controller.sweep,
                total=self.total,
                completed=len(self._over),
                best=best,
            )
        elif time.monotonic() - self._printed > LINE_SECONDS:
            self._printed = time.monotonic()
            line = f"{len(self._over)}/{self.total} trials{self._left()}  {best}"
            say(
                line,
                Event.PROGRESS,
                sweep=controller.sweep,
                plain=lambda: self.console.print(line, highlight=False),
            )

    def _note(self, controller: Controller, record: Published) -> None:
        if record.state in OVER:
            self._over.add(record.key)
        if record.state is not TrialState.COMPLETE:
            return
        for objective in controller.spec.objectives:
            value = record.metric(objective.metric)
            if value is None or objective.metric in DECIDED:
                continue
            better = max if objective.goal == "maximize" else min
            self._best[objective.metric] = better(value, self._best.get(objective.metric, value))

    def _left(self) -> str:
        if self._pace_from is None:
            return ""
        since, over = self._pace_from
        done = len(self._over) - over
        if done < 2:
            return ""
        seconds = (time.monotonic() - since) / done * (self.total - len(self._over))
        return f", about {seconds:.0f} s left"

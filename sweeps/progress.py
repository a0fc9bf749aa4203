"""Progress of a running sweep on the screen: counts, an estimate of the time left, the best values so far."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sweeps.execution.controller import Controller
from sweeps.execution.session import Observer
from sweeps.privacy.release import Published
from sweeps.store.records import DECIDED, TrialState
from sweeps.util.log import CONSOLE, Event, say

LINE_SECONDS, CELL_SECONDS = 5.0, 0.5
"""Least time between two lines, and between two changes of a notebook's cell."""


def in_notebook() -> bool:
    """Whether the code runs in a notebook's kernel: one that asked for no display sees one all the same."""
    kernel = sys.modules.get("IPython")
    shell = None if kernel is None else kernel.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


OVER = (TrialState.COMPLETE, TrialState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep is: what the function is called with that `sweeps.run(..., progress=function)` is given.

    trial, state  of which this is news
    done, total   trials that are complete or failed, and all that the sweep will have
    best          {objective: the best value so far}, as recorded
    seconds_left  estimated from the pace since this start; None until two trials have ended
    """

    sweep: str
    trial: str
    state: str
    done: int
    total: int
    best: Mapping[str, float]
    seconds_left: float | None


@dataclass
class ProgressDisplay(Observer):
    """A live bar on a terminal and in a notebook, one line every few seconds anywhere else, and one at the end.

    told  called at each change of a trial, in place of all that

    A context manager.
    """

    console: Console
    told: Callable[[SweepProgress], None] | None = None
    total: int = 0
    _bar: Progress | None = None
    _in_cell: bool = False
    _cell: Any = None
    _sweep: str = ""
    _line: str = ""
    _best: dict[str, float] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)
    _known: int = 0
    _pace_from: tuple[float, int] | None = None
    _printed: float = 0.0

    def __enter__(self) -> ProgressDisplay:
        shown = CONSOLE.least <= logging.INFO and not CONSOLE.as_json and self.told is None
        self._in_cell = shown and in_notebook()
        if shown and not self._in_cell and self.console.is_terminal:
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
        elif self.total and self.told is None:
            self._say()

    def on_change(self, controller: Controller, trial: Published) -> None:
        """See `Observer`."""
        self._sweep = controller.sweep
        first, self.total = self.total == 0, controller.spec.search.trials + controller.enqueued
        if first:
            for known in controller.table.published():
                self._note(controller, known)
            self._known = len(self._over)
        self._note(controller, trial)
        # People see a trial's end in the bar, or in the lines that stand for it.
        say(str(trial.state), Event.TRIAL, sweep=controller.sweep, trial=trial.key, plain=lambda: None)
        if self._pace_from is None and len(self._over) > self._known:
            # The first one's time was mostly the start of workers.
            self._pace_from = (time.monotonic(), len(self._over))
        if self.told is not None:
            self._tell(trial)
        elif self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                description=controller.sweep,
                total=self.total,
                completed=len(self._over),
                best=self._bests(),
            )
        elif time.monotonic() - self._printed > (CELL_SECONDS if self._in_cell else LINE_SECONDS):
            self._say()

    def _tell(self, trial: Published) -> None:
        """What the function raises ends no sweep: it is said, and the function is called no more."""
        assert self.told is not None
        news = SweepProgress(
            sweep=self._sweep,
            trial=trial.key,
            state=str(trial.state),
            done=len(self._over),
            total=self.total,
            best=dict(self._best),
            seconds_left=self._seconds_left(),
        )
        try:
            self.told(news)
        except Exception as error:
            self.told = lambda _: None
            text = f"The progress function raised {type(error).__name__}: {error}. It is called no more."
            say(f"{text} The sweep goes on.", Event.NOTICE, level=logging.WARNING, sweep=self._sweep)

    def _say(self) -> None:
        """How far it is, where that was not just said."""
        line = f"{len(self._over)}/{self.total} trials{self._left()}  {self._bests()}".rstrip()
        if line != self._line:
            self._line, self._printed = line, time.monotonic()
            say(line, Event.PROGRESS, sweep=self._sweep, plain=self._show)

    def _show(self) -> None:
        if not self._in_cell:
            self.console.print(self._line, highlight=False)
            return
        # One place in the notebook's output, which is written over as the sweep goes on.
        shown: Any = sys.modules["IPython"].display
        bar = f'<progress value="{len(self._over)}" max="{self.total}"></progress>'
        page = shown.HTML(f"{bar} {escape(f'{self._sweep}  {self._line}')}")
        if self._cell is None:
            # Not before: as Ray starts it clears the output of the cell.
            self._cell = shown.display(page, display_id=True)
        else:
            self._cell.update(page)

    def _bests(self) -> str:
        return ", ".join(f"best {name} {value:.4g}" for name, value in self._best.items())

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
        seconds = self._seconds_left()
        return "" if seconds is None else f", about {seconds:.0f} s left"

    def _seconds_left(self) -> float | None:
        if self._pace_from is None:
            return None
        since, over = self._pace_from
        done = len(self._over) - over
        if done < 2 or len(self._over) >= self.total:
            return None
        return (time.monotonic() - since) / done * (self.total - len(self._over))

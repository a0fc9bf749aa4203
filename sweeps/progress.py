"""Progress of a running sweep on the screen: counts, an estimate of the time left, the best values so far."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


class ProgressDisplay(Observer):
    """A live bar on a terminal and in a notebook, one line every few seconds anywhere else, and one at the end.

    told  called at each change of a trial, in place of all that

    A context manager.
    """

    def __init__(self, console: Console, told: Callable[[SweepProgress], None] | None = None) -> None:
        self.console, self.told = console, told
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TextColumn("trials"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[best]}"),
            console=console,
            transient=True,
            get_time=time.monotonic,
            speed_estimate_period=math.inf,
        )
        self._bar.add_task("sweep", total=None, best="")
        self._task = self._bar.tasks[0]
        self._best: dict[str, float] = {}
        self._over: set[str] = set()
        self._in_cell, self._is_drawn, self._line, self._printed = False, False, "", 0.0
        self._cell: Any = None

    def __enter__(self) -> ProgressDisplay:
        shown = CONSOLE.least <= logging.INFO and not CONSOLE.as_json and self.told is None
        self._in_cell = shown and in_notebook()
        self._is_drawn = shown and not self._in_cell and self.console.is_terminal
        if self._is_drawn:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_drawn:
            self._bar.stop()
        elif self._task.total and self.told is None:
            self._say()

    def on_change(self, controller: Controller, trial: Published) -> None:
        """See `Observer`."""
        if self._task.total is None:
            for known in controller.published():
                if known.key != trial.key:
                    self._note(controller, known)
            # What had ended before this start is no pace, nor is the first one's time: workers take long to start.
            self._task.completed = len(self._over)
        self._note(controller, trial)
        total, done = controller.spec.search.trials + controller.enqueued, len(self._over)
        self._bar.update(self._task.id, description=controller.sweep, total=total, completed=done, best=self._bests())
        # People see a trial's end in the bar, or in the lines that stand for it.
        say(str(trial.state), Event.TRIAL, sweep=controller.sweep, trial=trial.key, plain=lambda: None)
        if self.told is not None:
            self._tell(trial)
        elif not self._is_drawn:
            least = CELL_SECONDS if self._in_cell else LINE_SECONDS
            if time.monotonic() - self._printed > least:
                self._say()

    def _tell(self, trial: Published) -> None:
        """What the function raises ends no sweep: it is said, and the function is called no more."""
        assert self.told is not None
        news = SweepProgress(
            sweep=self._task.description,
            trial=trial.key,
            state=str(trial.state),
            done=len(self._over),
            total=int(self._task.total or 0),
            best=dict(self._best),
            seconds_left=self._seconds_left(),
        )
        try:
            self.told(news)
        except Exception as error:
            self.told = lambda _: None
            text = f"The progress function raised {type(error).__name__}: {error}. It is called no more."
            say(f"{text} The sweep goes on.", Event.NOTICE, level=logging.WARNING, sweep=self._task.description)

    def _say(self) -> None:
        """How far it is, where that was not just said."""
        seconds = self._seconds_left()
        left = "" if seconds is None else f", about {seconds:.0f} s left"
        line = f"{len(self._over)}/{self._task.total} trials{left}  {self._bests()}".rstrip()
        if line != self._line:
            self._line, self._printed = line, time.monotonic()
            say(line, Event.PROGRESS, sweep=self._task.description, plain=self._show)

    def _show(self) -> None:
        if not self._in_cell:
            self.console.print(self._line, highlight=False)
            return
        # One place in the notebook's output, which is written over as the sweep goes on.
        shown: Any = sys.modules["IPython"].display
        bar = f'<progress value="{len(self._over)}" max="{self._task.total}"></progress>'
        page = shown.HTML(f"{bar} {escape(f'{self._task.description}  {self._line}')}")
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

    def _seconds_left(self) -> float | None:
        return None if self._task.finished else self._task.time_remaining

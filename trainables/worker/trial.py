"""What a worker does with one launch: train the group, keep its durable records, return its results."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from dpcore.randomness import Streams
from trainables.measures.quality import QUALITY, NoFiniteNumber, own_metrics
from trainables.metrics import WITHHELD, Dependence
from trainables.publishing import Undeclared, published
from trainables.registry import SYSTEMS
from trainables.system import Dataset, Launch, State, System, TrialRun
from trainables.worker import memory
from trainables.worker.attempt import (
    NODE_LEAVES,
    UNWRITABLE,
    AlreadyExecuted,
    Attempt,
    Cancelled,
    Curve,
    NodeLeaves,
    Overran,
    Progress,
    RecordsUnwritable,
    TrialResult,
)
from trainables.worker.files import Damaged, Folder


@dataclass(slots=True)
class Clock:
    """Time of one launch: what passes before the first member's first step is every member's, for it is their training.

    Each is then timed from its own first step, so that none pays for what was done, or measured, of the others.
    """

    opened: float = field(default_factory=time.monotonic)
    _first: float | None = None

    def first_step(self) -> float:
        """Called by each member as it begins: when it would have begun alone."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
        return now - (self._first - self.opened)


class Records(Protocol):
    """Where a run keeps what is to last: the folder of an attempt, or memory."""

    def reserve_until(self, until_step: int) -> None: ...

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None: ...

    def explain(self, text: str) -> str:
        """Keep the full text of a failure, and say where it is."""
        ...

    def move(self) -> None: ...


@dataclass(slots=True)
class RecordedRun:
    """A `Run` that keeps its records in an attempt folder (see trainables.worker.attempt for the order of writes).

    measured  what the spec asks for besides the system's metrics, from the state at the end of the reservation
    judged    the part of that which costs no more than judging does: at each point of the curve too
    withheld  numbers that depend on these are not recorded
    seconds   after which the launch is to end; None: never
    leaving   whether this node has notice that it is to go
    memory_elsewhere  peak of the trial's other processes, in MiB
    clock     of the launch
    tell      told what new points of the curve a checkpoint covers
    """

    member: TrialRun
    start_step: int
    state: State | None
    streams: Streams
    attempt: Records
    measured: Callable[[State], Mapping[str, float]] = lambda state: {}
    judged: Callable[[State], Mapping[str, float]] = lambda state: {}
    withheld: frozenset[Dependence] = WITHHELD
    seconds: float | None = None
    leaving: Callable[[], bool] = lambda: False
    memory_elsewhere: Callable[[], float] = lambda: 0.0
    clock: Clock = field(default_factory=Clock)
    tell: Callable[[Progress], None] = lambda told: None
    result: Mapping[str, Any] | None = None
    _began: float | None = None
    _curve: dict[int, Mapping[str, float]] = field(default_factory=dict)
    _told: int = 0
    """Points of the curve that a checkpoint covers."""

    def reserve_until(self, until_step: int) -> None:
        """Durably note the horizon. Raises ValueError beyond the reservation, Fenced, NodeLeaves, Overran."""
        if until_step > self.member.to_step:
            raise ValueError(
                f"until_step={until_step}: the reservation of {self.member.key} ends at {self.member.to_step}"
            )
        if self.leaving():
            # Everything up to here is in a checkpoint, so that moving costs no step.
            raise NodeLeaves(NODE_LEAVES)
        if self.seconds is not None and time.monotonic() - self.clock.opened > self.seconds:
            raise Overran
        if self._began is None:
            self._began = self.clock.first_step()
        with _records():
            self.attempt.reserve_until(until_step)

    def report(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Remember a point of the curve until the next checkpoint. Raises Undeclared as `checkpoint` does."""
        self._curve[step] = self._leaving(self.judged(state), metrics)

    def _leaving(self, asked: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """Those that may leave, of what the spec asked for and of the system's own."""
        plan = self.member.plan
        both = {**asked, **metrics}
        leaving = published(both, SYSTEMS[plan.system], plan.config, self.withheld, asked.keys())
        return {name: float(value) for name, value in leaving.items()}

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Keep the state durably; at the end of the reservation, with the result in the same file.

        Raises Undeclared for a metric that the system does not declare.
        """
        if step != self.member.to_step:
            with _records():
                self.attempt.save(step, state, curve=self._curve)
            if fresh := dict(list(self._curve.items())[self._told :]):
                self._told = len(self._curve)
                self.tell(Progress(key=self.member.key, attempt=self.member.attempt, curve=fresh))
            return
        # What measuring takes is none of the trial's.
        seconds = time.monotonic() - (self.clock.opened if self._began is None else self._began)
        peak_memory_mb = memory.peak_mb() + self.memory_elsewhere()
        result = TrialResult(
            key=self.member.key,
            attempt=self.member.attempt,
            step=step,
            metrics=self._leaving(self.measured(state), metrics),
            seconds=seconds,
            peak_memory_mb=peak_memory_mb,
            curve=self._curve,
        ).to_dict()
        with _records():
            self.attempt.save(step, state, result)
        self.result = result


@contextmanager
def _records() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordsUnwritable(f"{UNWRITABLE}: {error}") from error


def open_run(member: TrialRun, trials: Folder, secret: bytes) -> RecordedRun:
    """The run of `member`, started from scratch or from the checkpoint that the controller chose.

    Raises FileNotFoundError or Damaged when that checkpoint is no longer what it was, AlreadyExecuted when this
    attempt's noise may have been drawn before, RecordsUnwritable when it cannot be claimed.
    """
    attempt = Attempt.of(trials, member.key, member.attempt)
    with _records():
        attempt.claim(member.from_step)
    state: State | None = None
    if member.resume_attempt:
        state = Attempt.of(trials, member.key, member.resume_attempt).load(member.from_step)
    return RecordedRun(
        member=member,
        start_step=member.from_step,
        state=state,
        streams=Streams(secret=secret, seed=member.seed, key=member.key, attempt=member.attempt),
        attempt=attempt,
    )


def run_launch(
    group: Launch,
    data: Dataset,
    trials: Folder,
    secret: bytes,
    leaving: Callable[[], bool] = lambda: False,
    tell: Callable[[Progress], None] = lambda told: None,
) -> list[dict[str, Any]]:
    """Train every member; one dictionary each, in order: its result, or {"key", "attempt"} and why there is none.

    error       nothing that another attempt would do better
    damaged     its checkpoint is no longer what it was
    unwritable  its records cannot be written
    overran     it trained for longer than its launch was given

    An exception of the system ends its group with an error text instead of killing the worker: the same
    configuration would fail again, so it is not retried. Members that had finished keep their results. The text
    names the exception and its place; its message may quote a record, so it stays in the attempt's folder.

    leaving  whether this node has notice that it is to go; asked before each interval
    tell     told of points of curves, once a checkpoint covers them

    Raises NodeLeaves, and other OSErrors, which say nothing about the configuration.
    """
    runs: list[RecordedRun] = []
    refused: dict[str, tuple[str, str]] = {}
    for member in group.members:
        try:
            runs.append(open_run(member, trials, secret))
        except AlreadyExecuted as stop:
            refused[member.key] = "error", str(stop)
        except (Damaged, FileNotFoundError) as gone:
            refused[member.key] = "damaged", str(gone)
        except RecordsUnwritable as stop:
            refused[member.key] = "unwritable", str(stop)
    if runs:
        for run in runs:
            run.tell = tell
        refused |= train(group, runs, data, leaving)
    results = {run.member.key: run.result for run in runs if run.result is not None}
    return [
        dict(results[member.key])
        if member.key in results
        else {"key": member.key, "attempt": member.attempt, refused[member.key][0]: refused[member.key][1]}
        for member in group.members
    ]


def train(
    group: Launch, runs: list[RecordedRun], data: Dataset, leaving: Callable[[], bool] = lambda: False
) -> dict[str, tuple[str, str]]:
    """Train these runs; {key: (kind, why)} for those that end without a result, as `run_launch` says it.

    group  how they execute, what is measured, what is withheld, how long: its members are not looked at

    Raises NodeLeaves, and other OSErrors, which say nothing about the configuration.
    """
    memory.forget_peak()
    clock = Clock()
    for run in runs:
        run.leaving, run.clock, run.withheld, run.seconds = leaving, clock, group.withheld, group.seconds
        if group.execution.team is not None:
            run.memory_elsewhere = group.execution.team.peak_memory_mb
    kind, why = "error", dict.fromkeys((run.member.key for run in runs), "ended before its last step")
    system = SYSTEMS[runs[0].member.plan.system]
    if group.measures:
        for run in runs:
            run.measured = partial(_measured, group, group.measures, system, run.member, data)
            own = own_metrics(group.measures)
            cheap = tuple(name for name in group.measures if name in QUALITY or name in own)
            run.judged = partial(_measured, group, cheap, system, run.member, data)
    try:
        system.fit(runs, data, group.execution)
    except Cancelled:
        why = dict.fromkeys(why, "given up by the controller")
    except (Undeclared, NoFiniteNumber) as said:
        # Names, and no value of a private record: it may be told.
        why = dict.fromkeys(why, str(said))
    except RecordsUnwritable as refused:
        kind, why = "unwritable", dict.fromkeys(why, str(refused))
    except Overran:
        kind, why = "overran", dict.fromkeys(why, "")
    except NodeLeaves:
        for run in runs:
            run.attempt.move()
        raise
    except OSError:
        # A path or a peer that went away says nothing about the configuration: let the launch be lost.
        raise
    except Exception as failure:
        for run in runs:
            where = run.attempt.explain(traceback.format_exc())
            why[run.member.key] = f"{_without_values(failure)}; the whole text is in {where}"
    return {key: (kind, text) for key, text in why.items()}


def _measured(
    group: Launch, asked: tuple[str, ...], system: System, member: TrialRun, data: Dataset, state: State
) -> Mapping[str, float]:
    from trainables.measures.objectives import measure, measured, wanted

    known = measured(asked)
    names = [one for one in wanted(asked, system) if known[one].depends not in group.withheld]
    return measure(names, system, member, state, data, group.execution)


def _without_values(failure: Exception) -> str:
    frame = traceback.extract_tb(failure.__traceback__)[-1]
    place = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    return f"{type(failure).__name__} ({place})"

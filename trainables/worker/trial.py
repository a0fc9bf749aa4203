"""What a worker does with one launch: train the group, keep its durable records, return its results."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dpcore.randomness import Streams
from trainables import memory
from trainables.measures.quality import QUALITY, NoFiniteNumber, own_metrics
from trainables.publishing import Undeclared, measure, measured, published, wanted
from trainables.registry import SYSTEMS
from trainables.system import Dataset, Launch, Run, State, TrialRun
from trainables.worker.attempt import Attempt, Curve, Ended, NodeLeaves, Overran, Progress, TrialResult, recording
from trainables.worker.files import Damaged, Folder


class Records(Protocol):
    """Where a run keeps what is to last: the folder of an attempt, or memory."""

    def reserve_until(self, until_step: int) -> None: ...

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None: ...

    def explain(self, text: str) -> str:
        """Keep the full text of a failure, and say where it is."""

    def move(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class LaunchContext:
    """What the runs of one launch have in common.

    group    how they execute, what is measured, what is withheld, how long: its members are not looked at
    leaving  whether this node has notice that it is to go
    tell     told what new points of a curve a checkpoint covers
    """

    group: Launch = field(default_factory=lambda: Launch(members=()))
    data: Any = None
    leaving: Callable[[], bool] = lambda: False
    tell: Callable[[Progress], None] = lambda told: None
    opened: float = field(default_factory=time.monotonic)
    first_step: float | None = None

    def begin(self) -> float:
        """Called by each member as it begins: when it would have begun alone.

        What passes before the first member's first step is every member's, for it is their training. Each is then timed
        from its own first step, so that none pays for what was done, or measured, of the others.
        """
        now = time.monotonic()
        if self.first_step is None:
            self.first_step = now
        return now - (self.first_step - self.opened)

    def peak_memory_mb(self) -> float:
        """Of all processes of the trial."""
        team = self.group.execution.team
        return memory.peak_mb() + (0.0 if team is None else team.peak_memory_mb())

    def measured(self, member: TrialRun, state: State, *, cheap: bool = False) -> Mapping[str, float]:
        """What the spec asks for besides the system's metrics.

        cheap  the part of it that costs no more than judging does: at each point of the curve too
        """
        asked, system, group = self.group.measures, SYSTEMS[member.plan.system], self.group
        if cheap:
            own = own_metrics(asked)
            asked = tuple(name for name in asked if name in QUALITY or name in own)
        known = measured(asked)
        names = [one for one in wanted(asked, system) if known[one].depends not in group.withheld]
        return measure(names, system, member, state, self.data, group.execution) if names else {}


@dataclass(slots=True)
class RecordedRun(Run):
    """A `Run` that keeps its records in an attempt folder (see trainables.worker.attempt for the order of writes)."""

    member: TrialRun
    start_step: int
    state: State | None
    streams: Streams
    attempt: Records
    launch: LaunchContext = field(default_factory=LaunchContext)
    result: Mapping[str, Any] | None = None
    _began: float | None = None
    _curve: dict[int, Mapping[str, float]] = field(default_factory=dict)
    _told: int = 0
    """Points of the curve that a checkpoint covers."""

    def reserve_until(self, until_step: int) -> None:
        """Durably note the horizon. Raises ValueError beyond the reservation, Cancelled, NodeLeaves, Overran."""
        if until_step > self.member.to_step:
            raise ValueError(
                f"until_step={until_step}: the reservation of {self.member.key} ends at {self.member.to_step}"
            )
        if self.launch.leaving():
            # Everything up to here is in a checkpoint, so that moving costs no step.
            raise NodeLeaves
        seconds = self.launch.group.seconds
        if seconds is not None and time.monotonic() - self.launch.opened > seconds:
            raise Overran
        if self._began is None:
            self._began = self.launch.begin()
        with recording():
            self.attempt.reserve_until(until_step)

    def report(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Remember a point of the curve until the next checkpoint. Raises Undeclared as `checkpoint` does."""
        self._curve[step] = self._released(self.launch.measured(self.member, state, cheap=True), metrics)

    def _released(self, asked: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """Those that are not withheld, of what the spec asked for and of the system's own."""
        plan, withheld = self.member.plan, self.launch.group.withheld
        found = published({**asked, **metrics}, SYSTEMS[plan.system], plan.config, withheld, asked.keys())
        return {name: float(value) for name, value in found.items()}

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        """Keep the state durably; at the end of the reservation, with the result in the same file.

        Raises Undeclared for a metric that the system does not declare.
        """
        member = self.member
        if step != member.to_step:
            with recording():
                self.attempt.save(step, state, curve=self._curve)
            if fresh := dict(list(self._curve.items())[self._told :]):
                self._told = len(self._curve)
                self.launch.tell(Progress(key=member.key, attempt=member.attempt, curve=fresh))
            return
        # What measuring takes is none of the trial's.
        seconds = time.monotonic() - (self.launch.opened if self._began is None else self._began)
        peak_memory_mb = self.launch.peak_memory_mb()
        result = TrialResult(
            key=member.key,
            attempt=member.attempt,
            step=step,
            metrics=self._released(self.launch.measured(member, state), metrics),
            seconds=seconds,
            peak_memory_mb=peak_memory_mb,
            curve=self._curve,
        ).model_dump()
        with recording():
            self.attempt.save(step, state, result)
        self.result = result


def open_run(member: TrialRun, trials: Folder, secret: bytes) -> RecordedRun:
    """The run of `member`, started from scratch or from the checkpoint that the controller chose.

    Raises FileNotFoundError or Damaged when that checkpoint is no longer what it was, AlreadyExecuted when this
    attempt's noise may have been drawn before, RecordsUnwritable when it cannot be claimed.
    """
    attempt = Attempt.of(trials, member.key, member.attempt)
    with recording():
        attempt.claim(member.from_step)
    state: State | None = None
    if member.resume_attempt:
        state = Attempt.of(trials, member.key, member.resume_attempt).read(member.from_step).state
    streams = Streams(secret=secret, seed=member.seed, key=member.key, attempt=member.attempt)
    return RecordedRun(member, member.from_step, state, streams, attempt)


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
        except Ended as stop:
            refused[member.key] = stop.kind, str(stop)
        except (Damaged, FileNotFoundError) as gone:
            refused[member.key] = "damaged", str(gone)
    if runs:
        refused |= train(runs, LaunchContext(group=group, data=data, leaving=leaving, tell=tell))
    results = {run.member.key: run.result for run in runs if run.result is not None}
    return [
        dict(results[member.key])
        if member.key in results
        else {"key": member.key, "attempt": member.attempt, refused[member.key][0]: refused[member.key][1]}
        for member in group.members
    ]


def train(runs: list[RecordedRun], launch: LaunchContext) -> dict[str, tuple[str, str]]:
    """Train these runs; {key: (kind, why)} for those that end without a result, as `run_launch` says it.

    Raises NodeLeaves, and other OSErrors, which say nothing about the configuration.
    """
    memory.forget_peak()
    for run in runs:
        run.launch = launch
    ended = "error", "ended before its last step"
    try:
        SYSTEMS[runs[0].member.plan.system].fit(runs, launch.data, launch.group.execution)
    except Ended as stop:
        ended = stop.kind, str(stop)
    except (Undeclared, NoFiniteNumber) as said:
        # Names, and no value of a private record: it may be told.
        ended = "error", str(said)
    except NodeLeaves:
        for run in runs:
            run.attempt.move()
        raise
    except OSError:
        # A path or a peer that went away says nothing about the configuration: let the launch be lost.
        raise
    except Exception as failure:
        # Kind and message in the first line.
        first = " ".join("".join(traceback.format_exception_only(failure)).split())
        text, frame = f"{first}\n\n{traceback.format_exc()}", traceback.extract_tb(failure.__traceback__)[-1]
        # Without values: the message may quote a record.
        what = f"{type(failure).__name__} ({Path(frame.filename).name}, line {frame.lineno}, in {frame.name})"
        return {run.member.key: ("error", f"{what}; the whole text is in {run.attempt.explain(text)}") for run in runs}
    return {run.member.key: ended for run in runs}

"""`sweeps check` tries a spec out on made-up records, in a process of its own.

The user's code is about to run for the first time. It may end the process, crash it, or never come back: none of that
reaches the command that asked.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import chain
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NamedTuple, Self

from dpcore.checks import InvalidValue
from sweeps.planning.plan import DRAWS, draws, ends, plan_proposal
from sweeps.privacy.ledger import count_text
from sweeps.ray.resources import workers_of
from sweeps.search import samplers
from sweeps.search.proposer import faults
from sweeps.search.space import Branch, Space
from sweeps.spec.domains import Domain
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.util.exits import ExitCode
from sweeps.util.text import shortened
from sweeps.util.waiting import patience
from trainables.metrics import WITH
from trainables.registry import SYSTEMS
from trainables.rehearsal.findings import CannotRun, MemoryLimits, Rehearsed, Step
from trainables.system import Config, DatasetSpec, PrivacyPlan, Refusal, Scalar

# Work in a process of its own, so that whatever it does there ends with a sentence here.

Send = Callable[[Any], None]


class ProcessEnded(RuntimeError):
    """The process is gone, or was stopped because it did not go on; the message says how."""


class Child:
    """A process that runs `work(send, *given)`; what it sends are its messages.

    Use it as a context: leaving the block ends the process and all that it started. What it prints goes to stderr.
    """

    def __init__(self, work: Callable[..., None], *given: Any) -> None:
        context: Any = multiprocessing.get_context(_method())
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(work, sender, os.getpid(), *given))
        with _main_left_out():
            self._process.start()
        # Only the child holds it now, so that its end is seen.
        sender.close()
        self._heard = time.monotonic()

    def messages(self, patience: float) -> Iterator[Any]:
        """Until the work is over. Raises ProcessEnded, also after `patience` seconds without a message."""
        while True:
            try:
                while not self._receiver.poll(_LOOK_SECONDS):
                    # Processes that it started may hold its end of the pipe open after it.
                    if not self._process.is_alive() and not self._receiver.poll():
                        raise EOFError
                    if time.monotonic() - self._heard > patience:
                        raise ProcessEnded(f"it did not come back within {patience:g} s, and was stopped")
                message = self._receiver.recv()
            except (EOFError, ConnectionResetError):
                self._process.join()
                raise ProcessEnded(_how(self._process.exitcode)) from None
            self._heard = time.monotonic()
            if message == _OVER:
                return
            yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.pid is not None
        with suppress(ProcessLookupError, PermissionError):
            # Its own group, once it has one, with whatever it started.
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._receiver.close()


_OVER = ("over",)
_LOOK_SECONDS = 0.1


def _method() -> str:
    """A fork has all imports done; it is safe where this process has no other thread and no engine of its own yet."""
    engines = {"torch", "ray"} & set(sys.modules)
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 and not engines else "spawn"


@contextmanager
def _main_left_out() -> Iterator[None]:
    """A process that is spawned runs the main module again, but for what is under `if __name__ == "__main__"`: a
    script that has run one sweep and begins the next would run the first once more."""
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _work(work: Callable[..., None], sender: Connection, parent: int, *given: Any) -> None:
    os.setsid()
    # Ctrl-C is for the parent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_outlives, args=(parent,), daemon=True).start()
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        work(sender.send, *given)
    except KeyboardInterrupt:
        os._exit(ExitCode.INTERRUPTED)
    sender.send(_OVER)


def _outlives(parent: int) -> None:
    """Nobody is left to stop a process that never comes back, once its parent was killed."""
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os.killpg(os.getpid(), signal.SIGKILL)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        memory = ": probably out of memory" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{memory}"
    return f"its process ended itself with exit code {code}"


# Which configurations of a space are rehearsed: its middle, and where shapes change.
#
# Every text and every truth value that may be chosen, the ends of every whole number, and the largest of all whole
# numbers together; the other knobs stand in the middle. Numbers that only scale something are left there.

MOST = 12
"""Corners of one system."""
OTHERS = 20
"""Draws of the remaining knobs and budgets, before a corner counts as one that is never launched."""


@dataclass(frozen=True, slots=True)
class Corner:
    """One way to build a trial of `system`.

    knobs    what changes shapes here, by name
    configs  alike in that; the first that may be launched stands for all of them
    """

    system: str
    knobs: Mapping[str, Scalar]
    configs: Sequence[Config]

    def __str__(self) -> str:
        listed = ", ".join(f"{name}={value}" for name, value in self.knobs.items())
        return f"{self.system} ({listed})" if listed else self.system


def corners(spec: SweepSpec) -> Iterator[Corner]:
    """One corner after the other, the middle of every system first."""
    space = Space.of(spec)
    several = [_of_branch(space, branch, spec.search.seed) for branch in space.branches]
    for position in range(MOST):
        for found in several:
            if position < len(found):
                yield found[position]


def first_plan(
    spec: SweepSpec, corner: Corner, facts: DatasetSpec, calibrations: MutableMapping[str, float]
) -> tuple[Config, PrivacyPlan] | None:
    """The first configuration that may be launched, with its plan; None where none may."""
    planned = ((config, plan_proposal(spec, config, facts, calibrations)) for config in corner.configs)
    return next(((config, plan) for config, plan in planned if isinstance(plan, PrivacyPlan)), None)


def _of_branch(space: Space, branch: Branch, seed: int) -> list[Corner]:
    middle = branch.drawn(lambda: 0.5)
    shaping = {name: values for name, domain in branch.searched.items() if (values := _shaping(name, domain))}
    moves: list[dict[str, Scalar]] = [{}]
    moves += [{**branch.with_knob(name), name: value} for name, values in shaping.items() for value in values]
    whole = {name: values for name, values in shaping.items() if not isinstance(values[-1], str)}
    moves.append({name: max(one for one in values if not isinstance(one, str)) for name, values in whole.items()})
    rng = samplers.generator(seed, 0, samplers.CORNERS)
    model = {"model": branch.fixed["model"]} if "model" in branch.fixed else {}
    out: dict[tuple[object, ...], Corner] = {}
    for move in moves:
        here = {**middle, **move}
        kept = {name: here[name] for name in shaping if branch.is_there(name, {**branch.fixed, **here})}
        if (key := tuple(kept.items())) in out:
            continue
        draws = [middle] + [branch.drawn(lambda: float(rng.random())) for _ in range(OTHERS)]
        configs = [
            space.config(branch, epsilon, {**knobs, **kept, **move})
            for knobs in draws
            for epsilon in reversed(space.epsilons)
        ]
        out[key] = Corner(branch.system, {**model, **kept}, configs)
    return list(out.values())


def _shaping(name: str, domain: Domain) -> tuple[Scalar, ...]:
    """The values that change what is built, from the smallest on; () for a number that only scales."""
    if name.startswith(WITH):
        # Whatever a builder of one's own takes may change what it builds.
        return ends(domain)
    if domain.kind == "choice":
        whole = all(isinstance(one, int) for one in domain.values)
        return tuple(sorted(domain.values)) if whole else tuple(one for one in domain.values if isinstance(one, str))
    return (domain.draw(0.0), domain.draw(1.0 - 1e-16)) if domain.integer else ()


# The result of a rehearsal, as `sweeps check` prints it or refuses the spec for it.

ONE_PASS = "one pass"


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration that ran, by the name of its corner, and as it was proposed."""

    label: str
    proposed: Config
    found: Rehearsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The configurations that ran on made-up records.

    infeasible  corners of the space of which nothing could be launched
    left        corners that there was no time for
    """

    ran: tuple[Tried, ...]
    infeasible: int
    left: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "ran": [{"label": one.label} | asdict(one.found) for one in self.ran],
            "infeasible": self.infeasible,
            "left": self.left,
            "seconds": self.seconds,
        }

    def trial_seconds(self, spec: SweepSpec) -> float | None:
        """Of the median configuration, where what is trained is the user's own; None where plans tell the time."""
        known = [one.found.trial_seconds for one in self.ran if one.found.trial_seconds is not None]
        return statistics.median(known) if known and spec.user_modules() else None

    @property
    def limits(self) -> MemoryLimits | None:
        """What fits in memory of every configuration that ran; None where all of them do."""
        found = [one.found.step.limits for one in self.ran if one.found.step and one.found.step.limits]
        if not found:
            return None
        return MemoryLimits(
            needed_mb=max(one.needed_mb for one in found),
            free_mb=min(one.free_mb for one in found),
            microbatch=min((one.microbatch for one in found if one.microbatch), default=None),
            concurrency=min((one.concurrency for one in found if one.concurrency), default=None),
        )

    def fitted(self, spec: SweepSpec, address: str | None = None) -> SweepSpec:
        """The spec with the records of a pass that fit in memory, and the trials at once where this machine runs them.

        address  of the cluster that does; None: this machine
        """
        if self.limits is None:
            return spec
        execution, resources = spec.execution, spec.resources
        if self.limits.microbatch is not None:
            execution = execution.model_copy(update={"microbatch": self.limits.microbatch})
        if self.limits.concurrency is not None and address is None:
            resources = resources.model_copy(update={"concurrency": self.limits.concurrency})
        return spec.model_copy(update={"execution": execution, "resources": resources})

    def lines(self) -> Iterator[tuple[str, str]]:
        """(label, sentence) each: one for all that ran as they should, one for each that is slow or reaches not all."""
        count = len(self.ran)
        parts = [f"{count} configuration{'s' * (count != 1)} ran on made-up records; no record was read"]
        systems = []
        for system, found in {one.found.system: one.found for one in self.ran}.items():
            steps = [one.found.step for one in self.ran if one.found.system == system and one.found.step is not None]
            took = _steps_text(steps) if steps else f"{count_text(found.steps, 'step')} took {found.seconds:.2g} s"
            own = [one.found.trial_seconds for one in self.ran if one.found.system == system]
            if paces := sorted({f"{one:.2g}": one for one in own if one is not None}.values()):
                took += f", a trial {' to '.join(f'{one:.2g}' for one in dict.fromkeys((paces[0], paces[-1])))} s"
            systems.append(f"{system}: {took}; reports {', '.join(found.reported)}")
        if self.infeasible:
            parts.append(f"{self.infeasible} corners of the space hold nothing that may be launched")
        if self.left:
            parts.append(f"{self.left} more corners were left out: the time was up")
        yield "Rehearsal", "; ".join(parts)
        yield from (("", line) for line in systems)
        warned = dict.fromkeys(line for one in self.ran if one.found.step for line in _warnings(one.found.step))
        yield from (("", line) for line in warned)
        if self.limits is not None:
            yield "", f"{self.limits}, and are taken"


def _steps_text(steps: Sequence[Step]) -> str:
    slowest = max(steps, key=lambda one: one.seconds)
    of = f"{slowest.records}" if slowest.records == slowest.planned else f"{slowest.records} of {slowest.planned}"
    memory = max(one.memory_mb or 0.0 for one in steps)
    grown = f" and {max(memory, 1.0):.0f} MB" if memory else ""
    weights = " to ".join(f"{count:,}" for count in sorted({min(one.parameters for one in steps), slowest.parameters}))
    return f"{weights} weights, a step over {of} takes {slowest.seconds:.2g} s{grown} ({slowest.device})"


def _warnings(step: Step) -> Iterator[str]:
    """What is slow, and what no loss reaches, by name."""
    for way in dict.fromkeys(step.routes.values()):
        if way not in (ONE_PASS, "unreached"):
            yield f"{way}: {', '.join(name for name, one in step.routes.items() if one == way)}"
    if step.looped:
        yield f"right but slow, records go through one at a time: {', '.join(step.looped)}"
    if step.unreached:
        yield (
            f"NO loss depends on {', '.join(step.unreached)}: noise alone would be added. Use them, or set "
            "requires_grad to False"
        )


_PLANNING = "planning it, which builds its model"
_SAMPLER = "search.sampler"
ENOUGH = 15.0
"""Seconds after which no other corner is begun."""


class _Failed(NamedTuple):
    label: str
    reason: str


class Rehearsing(Child):
    """A rehearsal that has begun, beside whatever this process does meanwhile. Leaving the block ends it.

    One part of it, such as building a model, counts as stuck after `sweeps.util.waiting.patience` seconds.
    """

    def __init__(self, spec: SweepSpec) -> None:
        super().__init__(_rehearse_all, spec)

    def finished(self) -> Rehearsal:
        """Wait for its end. Raises WouldFail."""
        failed: list[_Failed] = []
        at, found = ("systems", "it began"), None
        try:
            for message in self.messages(patience()):
                if isinstance(message, Rehearsal):
                    found = message
                elif isinstance(message, _Failed):
                    failed.append(message)
                else:
                    at = message
        except ProcessEnded as end:
            failed.append(_Failed(at[0], f"{at[1]}: {end}"))
        if failed or found is None:
            raise WouldFail(failed)
        return found


def _rehearse_all(send: Send, spec: SweepSpec) -> None:
    """The child's work: every corner that there is time for."""
    began = time.monotonic()
    facts, calibrations = public_facts(spec), dict[str, float]()
    if samplers.module_of(spec.search.sampler) is not None:
        # One that is not this project's own sits the exam of all samplers.
        send((_SAMPLER, asking := "asking it for points"))
        try:
            wrong = faults(spec)
        except Exception as error:
            wrong = [f"{asking}: {type(error).__name__}: {error}"]
        for one in wrong:
            send(_Failed(_SAMPLER, shortened(one)))
    ran: list[Tried] = []
    infeasible, left, warm = 0, 0, began
    for corner in corners(spec):
        # Imports are over with the first one.
        if ran and time.monotonic() - warm > ENOUGH:
            left += 1
            continue
        path = f"systems.{corner}"
        try:
            found = _rehearse_corner(send, spec, path, corner, facts, calibrations)
        except Exception as error:
            send(_Failed(path, shortened(str(CannotRun.by(error, _PLANNING)))))
        else:
            infeasible += found is None
            if found is not None:
                warm = warm if ran else time.monotonic()
                ran.append(Tried(str(corner), *found))
    send(Rehearsal(ran=tuple(ran), infeasible=infeasible, left=left, seconds=time.monotonic() - began))


def _rehearse_corner(
    send: Send, spec: SweepSpec, path: str, corner: Corner, facts: DatasetSpec, calibrations: MutableMapping[str, float]
) -> tuple[Config, Rehearsed] | None:
    """What ran, as trials run (on a GPU only where trials have one); None where nothing may be launched."""
    # With torch, which takes seconds to import: in this process alone.
    from trainables.rehearsal.rehearse import rehearse

    send((path, _PLANNING))
    found = first_plan(spec, corner, facts, calibrations)
    if found is None:
        return None
    config, plan = found
    settings, of_gpu = spec.settings(), spec.resources.per_worker()[1] > 0
    by_cpus = spec.resources.model_copy(update={"concurrency": None})
    rehearsed = rehearse(
        SYSTEMS[corner.system],
        plan,
        facts,
        objectives=spec.asked,
        replanned=lambda few: plan_proposal(spec, config, few, calibrations),
        execution=settings if of_gpu else replace(settings, device="cpu"),
        saying=lambda doing: send((path, doing)),
        at_once=1 if of_gpu else min(spec.search.trials, *map(workers_of, (spec.resources, by_cpus))),
    )
    if rehearsed.step is not None and rehearsed.step.limits is not None:
        _check_limits(spec, rehearsed.step.limits)
    return config, rehearsed


def _check_limits(spec: SweepSpec, limits: MemoryLimits) -> None:
    """Raises CannotRun where the spec gives a size that does not fit; what it leaves open is taken as it fits."""
    given = {
        "execution.microbatch": (spec.execution.microbatch, limits.microbatch),
        "resources.concurrency": (spec.resources.concurrency, limits.concurrency),
    }
    remedies = [f"{path}: {fits}" for path, (size, fits) in given.items() if size is not None and fits is not None]
    if remedies:
        raise CannotRun(f"{limits}. Set {' and '.join(remedies)}, or nothing")


class WouldFail(ValueError):
    """Trials of this spec would fail. The message has a line for each reason, with the part of the spec it is in."""

    def __init__(self, reasons: Sequence[tuple[str, str]]) -> None:
        self.reasons = tuple(reasons)
        labels: dict[str, list[str]] = {}
        for label, reason in reasons:
            labels.setdefault(reason, []).append(label)
        lines = [
            f"  {first}{f' (and {len(more)} more like it)' if more else ''}: {reason}"
            for reason, (first, *more) in labels.items()
        ]
        super().__init__(
            "\n".join(["trials of this spec would fail, as a rehearsal on made-up records shows:", *lines])
            + "\nNo record was read. `sweeps check --no-rehearsal` plans without running anything."
        )


REMEDY = "Raise epsilon or `limits`, or narrow the space."
MENDED = "Mend the relation, or move the space."


def check_feasible(spec: SweepSpec, facts: DatasetSpec) -> None:
    """At least one corner of the space, or one draw, may be launched. Reads no record. Raises InvalidValue."""
    calibrations, refusals = dict[str, float](), list[Refusal]()
    for config in chain(draws(spec, Space.of(spec)), *(corner.configs for corner in corners(spec))):
        outcome = plan_proposal(spec, config, facts, calibrations)
        if isinstance(outcome, PrivacyPlan):
            return
        refusals.append(outcome)
    never = set.intersection(*(set(one.violations) for one in refusals)).intersection(spec.constraints)
    if never:
        raise InvalidValue(
            "constraints",
            ", ".join(sorted(never)),
            f"relations that hold of one of {DRAWS} draws, or of a corner",
            MENDED,
        )
    expected = f"a space of which something may be launched: of {DRAWS} draws nothing may ({refusals[0].reason})"
    raise InvalidValue("systems", ", ".join(spec.systems), expected, REMEDY)

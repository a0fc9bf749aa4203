"""The durable record of one attempt, and the order of writes that makes it trustworthy.

One folder per attempt, `trials/<key>/<attempt>/`, written by its worker alone:

    claim               taken before anything else: whoever finds it taken leaves the attempt alone
    horizon.json        steps below `until_step` may have been executed; written before their noise is drawn
                        (on an object store horizon.<until_step>.json, one for each)
    horizon.copy.json   the same, written next: should one of the two be lost or damaged, the other shows it
    checkpoint.*.npz    see `trainables.worker.attempt`
    moved               its worker stopped between two intervals, because its node had notice that it is to go

and two files of the controller:

    reserved            made before the launch, on a local path only, and taken away by the worker that claims it:
                        while it is there, nobody has begun
    fence               made when the attempt is given up: from now on its worker may not start another interval

Writing the horizon first and looking for the fence second (worker), fencing first and reading the
horizon second (controller), means that no step escapes: a worker that did not see the fence had its
horizon written before the controller read it. So a fenced attempt without a horizon has drawn no noise and never
will: a worker that comes late notes its horizon, meets the fence and stops. That is believed only of a folder that
shows it, by the mark or by a claim and an untouched copy; what others are charged, `trainables.worker.attempt` says.
"""

from __future__ import annotations

import errno
import io
import json
import platform
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictInt, TypeAdapter, ValidationError

from trainables.system import State
from trainables.worker.files import Damaged, Folder, parsed, verify, whole_number, with_checksum
from trainables.worker.redaction import redacted

# What an attempt reports, as it travels: inside its checkpoints, and back through Ray.

Curve = Mapping[int, Mapping[str, float]]
"""{number of steps: metrics of the model after them}, of one attempt, between the ends of its reservation."""
_CURVE: TypeAdapter[Curve] = TypeAdapter(dict[int, dict[str, float]])


def _curve_between(place: str, data: object, above: int, below: int) -> Curve:
    """A curve with points at steps in (above, below), in order. Raises Damaged."""
    try:
        found = _CURVE.validate_python(data)
    except ValidationError as error:
        raise Damaged(f"{place}: its curve is none ({type(error).__name__})") from None
    if not all(above < step < below for step in found):
        raise Damaged(f"{place}: its curve has points outside of the reservation")
    return dict(sorted(found.items()))


class Progress(BaseModel):
    """New points of the curve of an attempt that goes on: a durable checkpoint covers their steps."""

    model_config = ConfigDict(frozen=True)

    key: str
    attempt: StrictInt
    curve: Curve = Field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, from_step: int, to_step: int) -> Progress:
        """The inverse of `model_dump`, for this reservation. Raises Damaged."""
        key, attempt = data["key"], data["attempt"]
        curve = _curve_between(f"curve of {key}, attempt {attempt}", data["curve"], from_step, to_step)
        return cls(key=key, attempt=attempt, curve=curve)


class TrialResult(Progress):
    """The report of one attempt that reached the end of its reservation.

    step            that end: the steps behind `metrics`
    seconds         of training
    peak_memory_mb  largest memory of the trial's processes, in MiB
    curve           what it told before that
    """

    step: StrictInt
    metrics: Mapping[str, float]
    seconds: float
    peak_memory_mb: float

    @classmethod
    def of(cls, data: object, *, key: str, attempt: int, step: int) -> TrialResult:
        """The inverse of `model_dump`, for this attempt and this end of its reservation and no other. Raises Damaged.

        Whose reservation began where is the ledger's to say.
        """
        place = f"result of {key}, attempt {attempt}"
        try:
            found = cls.model_validate(data)
        except ValidationError as error:
            raise Damaged(f"{place}: it is none ({type(error).__name__})") from None
        if (found.key, found.attempt, found.step) != (key, attempt, step):
            raise Damaged(f"{place}: it is of another attempt, or of another step than {step}")
        return found.model_copy(update={"curve": _curve_between(place, found.curve, 0, step)})


# Checkpoints of one attempt: `checkpoint.<step>.npz`, the newest and its predecessor.
#
# Each is one atomic, sealed file: arrays, the step that they stand for, at the end of the reservation the result, and
# the points of the attempt's curve up to there, so that metrics never exist without the state that covers them. A
# step's file is written once and never replaced; a damaged one leaves its predecessor to go on from.

KEPT = 2
"""The newest, and one to go on from should that be damaged."""

_NAME = re.compile(r"checkpoint\.(0|[1-9]\d{0,17})\.npz", re.ASCII)
_HEAD, _STATE = "head", "state."


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State after `step` steps.

    result  what the worker reported with it, as it was read; None inside
    curve   what it told of the steps before
    """

    step: int
    state: State
    result: object
    curve: Curve = field(default_factory=dict)


def steps_among(names: Iterable[str]) -> list[int]:
    """Steps of the checkpoints among the names of files, newest first."""
    return sorted((int(match[1]) for name in names if (match := _NAME.fullmatch(name))), reverse=True)


def _name(step: int) -> str:
    return f"checkpoint.{step}.npz"


# What is charged for an attempt that is over: the one rule over everything that its worker left.
#
# A worker writes down how far it may go in two records before it draws any noise (`Attempt.reserve_until`), and how far
# it came in its checkpoints. What it left is evidence, never a word to be taken: the largest step that any record
# proves is charged. A record that cannot be read, or that contradicts another, counts as missing, and where one is
# missing the whole reservation is charged. So one record that is deleted, cut short, overwritten, replaced by an
# older copy of itself or by another trial's is never enough for a step to escape; nor are several, unless they are
# all brought back to one and the same older moment. (A copy of the whole folder is: nothing in it is wrong.)

Reading = int | Damaged | None
"""The step that one record states; what is wrong with it; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What was found in the folder of an attempt after its fence was up.

    unclaimed    the controller's mark is there, which a worker takes away before it begins
    claimed      a worker has begun
    horizon      step up to which noise may be drawn, by the first record of it
    mirror       the same by the second, which starts at the first step of the reservation
    checkpoints  step of each checkpoint
    """

    unclaimed: bool = False
    claimed: bool = False
    horizon: Reading = None
    mirror: Reading = None
    checkpoints: tuple[int | Damaged, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a fenced attempt left behind.

    executed_to  steps below this may have been executed, and are charged
    doubt        why that is the whole reservation although no record states so; "" where all records agree
    result       what it reported, where it reached the end of its reservation
    moved        it ended by itself, to go on elsewhere
    """

    executed_to: int
    doubt: str = ""
    result: TrialResult | None = None
    moved: bool = False


def charge(traces: Traces, from_step: int, to_step: int) -> Recovered:
    """What is charged for the reservation [from_step, to_step) of which these traces are left."""
    if doubt := _doubt(traces, from_step, to_step):
        return Recovered(to_step, doubt)
    return Recovered(traces.horizon if isinstance(traces.horizon, int) else from_step)


def _doubt(traces: Traces, from_step: int, to_step: int) -> str:
    horizon, mirror = traces.horizon, traces.mirror
    steps: list[int] = []
    for one in (horizon, mirror, *traces.checkpoints):
        if isinstance(one, Damaged):
            return str(one)
        if one is not None and not from_step <= one <= to_step:
            return f"a record states step {one} of a reservation from {from_step} to {to_step}"
        steps += [] if one is None else [one]
    if traces.unclaimed and not steps:
        # A worker takes the mark away after it has claimed the folder and noted where it begins: none came so far.
        return ""
    if not traces.claimed:
        return "its claim is missing" if steps else "nothing is left in its folder"
    if mirror is None or (horizon is None and steps != [from_step]):
        return "one of its two records of how far it may go is missing"
    # The first is written before the second, so that it may be ahead; never behind.
    if isinstance(horizon, int) and max(steps) > horizon:
        return f"its horizon states step {horizon}, another record proves step {max(steps)}"
    return ""


CLAIM, HORIZON, MIRROR, FENCE = "claim", "horizon.json", "horizon.copy.json", "fence"
RESERVED = "reserved"
ERROR = "error.txt"
MOVED = "moved"

UNWRITABLE = "its records cannot be written"
"""How the reason of an attempt begins that `RecordsUnwritable` ended."""

NODE_LEAVES = "its node had notice to go, and it moves"
"""How the reason of an attempt begins that `NodeLeaves` ended."""

LARGEST = 2**62
"""No step is larger: the store's integers end at 2**63."""

_NUMBERED = re.compile(r"horizon\.(0|[1-9]\d{0,17})\.json", re.ASCII)


class Ended(RuntimeError):
    """An attempt that ends without a result. `kind` says which way: see `trainables.worker.trial.run_launch`."""

    kind = "error"


class AlreadyExecuted(Ended):
    """Noise of this attempt may have been drawn before: drawing the same stream again would reveal a difference."""


class Cancelled(Ended):
    """The controller has given this attempt up; its worker must stop without drawing more noise."""


class Overran(Ended):
    """The launch has trained for as long as it was given, so it ends here, at a checkpoint."""

    kind = "overran"


class RecordsUnwritable(Ended):
    """The folder of records refuses a write (full disk, read-only, gone): says nothing about the configuration."""

    kind = "unwritable"


class NodeLeaves(OSError):
    """The node has notice that it is to go, so the attempt ends here and another goes on from its checkpoint."""

    def __init__(self, why: str = NODE_LEAVES) -> None:
        super().__init__(why)


@contextmanager
def recording() -> Iterator[None]:
    """A write that the folder of records refuses inside is RecordsUnwritable."""
    try:
        yield
    except OSError as error:
        raise RecordsUnwritable(f"{UNWRITABLE}: {error}") from error


@dataclass(frozen=True, slots=True)
class Attempt:
    """Reads and writes the folder of one attempt.

    holder  by which a worker knows that the claim in the folder is its own
    """

    folder: Folder
    key: str
    number: int
    holder: str = field(default_factory=partial(secrets.token_hex, 16), repr=False, compare=False)

    @classmethod
    def of(cls, trials: Folder, key: str, attempt: int) -> Attempt:
        """The attempt's record below the sweep's `trials` folder."""
        return cls(trials.child(key).child(str(attempt)), key, attempt)

    @property
    def _place(self) -> str:
        return f"{self.key}/{self.number}"

    def reserve(self) -> None:
        """Mark the folder before the launch. Cheap and not synced: where the mark is missing, more is charged."""
        if self.folder.is_local:
            # A folder that refuses this refuses the worker's records too, and it is the worker who says so.
            with suppress(OSError):
                self.folder.write(RESERVED, b"", durable=False)

    def is_seen(self) -> bool:
        """Whether this machine sees the folder that the controller has marked; on an object store everybody does.

        A worker whose path leads elsewhere would keep its records where nobody looks, under a mark that says that
        nobody has begun.
        """
        return not self.folder.is_local or self.folder.exists(RESERVED) or self.folder.exists(CLAIM)

    def claim(self, from_step: int) -> None:
        """Take this attempt, which begins at `from_step`, for one worker, for ever.

        Raises AlreadyExecuted when another has, or had, it.

        An attempt's streams follow from the secret, its key and its number. A store that was restored from an older
        copy, or another store over the same folders, would hand out the same number twice; so would a cluster that
        repeats a call on its own. (Records of releases without claims show by their horizon that they were executed.)
        """
        if self.folder.exists(HORIZON) or not self.folder.claim(CLAIM, self.holder):
            raise AlreadyExecuted(
                f"{self.folder.url}: noise of this attempt was drawn before, or is about to be, so it is not drawn "
                "again on other gradients. Does the store belong to these records, and is it the newest copy? Start a "
                "sweep of a new name."
            )
        self._note(MIRROR, from_step, durable=False)
        if self.folder.is_local:
            self.folder.delete(RESERVED)

    def reserve_until(self, until_step: int) -> None:
        """Note the horizon durably. Raises Cancelled if the attempt was given up, OSError if another has its folder."""
        if self.folder.is_local:
            # Before the note, which would make the folder anew, or hide another worker's.
            self._check_claim()
        # On an object store a PUT that timed out and was repeated may land late, over a newer one: there each horizon
        # is an object of its own, and the largest counts.
        self._note(HORIZON if self.folder.is_local else f"horizon.{until_step}.json", until_step)
        # A power loss may take this one back, which the first then shows.
        self._note(MIRROR, until_step, durable=False)
        # On an object store one listing answers both questions.
        names = None if self.folder.is_local else self.folder.names()
        if self.folder.exists(FENCE) if names is None else FENCE in names:
            raise Cancelled("given up by the controller")
        self._check_claim(names)

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep `state` durably as the state after `step` steps, with the result if this ends the reservation.

        curve  what was told of the steps before
        """
        if self.folder.is_local:
            self._check_claim()
        buffer = io.BytesIO()
        said = {"step": step, "result": None if result is None else dict(result), "curve": curve or {}}
        head = json.dumps(said).encode()
        arrays = {f"{_STATE}{name}": value for name, value in state.items()}
        np.savez(buffer, **{_HEAD: np.frombuffer(head, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
        self.folder.write(_name(step), with_checksum(f"{self._place}/{_name(step)}", buffer.getvalue()))
        self._delete(self.steps()[KEPT:])

    def steps(self) -> list[int]:
        """Steps of its checkpoints that are there, readable or not, newest first."""
        return steps_among(self.folder.names())

    def read(self, step: int) -> Checkpoint:
        """The checkpoint at `step`. Raises FileNotFoundError, Damaged."""
        place = f"{self._place}/{_name(step)}"
        content = self.folder.read(_name(step))
        if content is None:
            raise FileNotFoundError(place)
        body = verify(place, content)
        try:
            with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
                read = {name: arrays[name] for name in arrays.files}
        except Exception as error:
            # zipfile, zlib, numpy and struct each have errors of their own for bytes that are no archive of arrays.
            raise Damaged(f"{place}: no archive of arrays ({type(error).__name__})") from None
        if _HEAD not in read:
            raise Damaged(f"{place}: no head")
        head = parsed(place, read[_HEAD].tobytes())
        whole_number(place, "its step", head.get("step"), step, step)
        state = {name.removeprefix(_STATE): array for name, array in read.items() if name.startswith(_STATE)}
        # At the step of a checkpoint the curve has a point too, where one is planned there.
        return Checkpoint(step, state, head.get("result"), _curve_between(place, head.get("curve", {}), 0, step + 1))

    def readable(self, at_least: int, below: int) -> Checkpoint | None:
        """The newest undamaged one at a step in [at_least, below), None without one."""
        for step in self.steps():
            if at_least <= step < below:
                with suppress(Damaged, FileNotFoundError):
                    return self.read(step)
        return None

    def checkpoint_bytes(self) -> int:
        """Bytes that its checkpoints take together."""
        sizes = self.folder.sizes()
        return sum(sizes[_name(step)] for step in steps_among(sizes))

    def discard(self, but: int | None = None) -> None:
        """Free the space of all but the checkpoint at step `but`."""
        self._delete([step for step in self.steps() if step != but])

    def _delete(self, steps: list[int]) -> None:
        # What cannot be deleted only takes space; the next write says why.
        with suppress(OSError):
            for step in steps:
                self.folder.delete(_name(step))

    def fence(self) -> None:
        """Give the attempt up: its worker ends the interval that it is in, and begins no other."""
        self.folder.write(FENCE, b"")

    def recover(self, from_step: int, to_step: int) -> Recovered:
        """Fence the attempt, then read what it left of its reservation (in this order: see the module's text)."""
        self.fence()
        # Who comes to stand here only now meets the fence: nothing but what is listed counts.
        names = self.folder.names()
        result, checkpoints = self._checkpointed(names, to_step)
        # The copy is written second, so it is read first: a worker in between makes no contradiction.
        mirror = self._noted(MIRROR) if MIRROR in names else None
        horizon = self._horizon(names)
        moved = MOVED in names
        if result is not None:
            # It covers its whole reservation, so nothing that the others say could add to it.
            return Recovered(to_step, result=result, moved=moved)
        claimed = any(name.partition(".")[0] == CLAIM for name in names)
        traces = Traces(
            unclaimed=RESERVED in names, claimed=claimed, horizon=horizon, mirror=mirror, checkpoints=checkpoints
        )
        return replace(charge(traces, from_step, to_step), moved=moved)

    def signs(self) -> tuple[tuple[str, int], ...]:
        """What its worker has written, with times: it changes with the claim, each interval begun, each checkpoint.

        Times are the file system's own: to be compared with those of before, never with a clock.
        """
        return tuple((name, at) for name, at in self.folder.times().items() if name not in (FENCE, RESERVED))

    def move(self) -> None:
        """Note that nothing went wrong: the worker stops between two intervals."""
        self.folder.write(MOVED, b"")

    def explain(self, text: str) -> str:
        """Keep the full text of a failure here, inside the release boundary: it may quote private values. Its place."""
        self.folder.write(ERROR, redacted(text).encode())
        return f"{self.folder.url}/{ERROR}"

    def explained(self) -> str | None:
        """The full text of its failure, None without one. It may quote private values."""
        try:
            text = self.folder.read(ERROR)
        except Damaged:
            return None
        return None if text is None else text.decode(errors="replace")

    def _check_claim(self, names: Collection[str] | None = None) -> None:
        """Raises OSError where the claim of this worker does not stand here (any more).

        The folder was removed, moved away or unmounted, perhaps another made in its place: a fence that was up would
        be gone with it, and the controller looks elsewhere.
        """
        if not self.folder.holds(CLAIM, self.holder, names):
            raise OSError(errno.ESTALE, f"{self.folder.url} is no longer the folder that this worker claimed")

    def _note(self, name: str, until_step: int, *, durable: bool = True) -> None:
        text = json.dumps({"until_step": until_step, "node": platform.node()}).encode()
        self.folder.write(name, with_checksum(f"{self._place}/{name}", text), durable=durable)

    def _said(self, name: str) -> dict[str, Any]:
        """The record of that name; {} without one. Raises Damaged."""
        place, content = f"{self._place}/{name}", self.folder.read(name)
        return {} if content is None else parsed(place, verify(place, content))

    def _noted(self, name: str) -> Reading:
        place = f"{self._place}/{name}"
        try:
            said = self._said(name)
            return whole_number(place, "its step", said.get("until_step"), 0, LARGEST) if said else None
        except Damaged as damaged:
            return damaged

    @property
    def node(self) -> str:
        """The name of the machine whose worker has it; empty where nothing says it."""
        with suppress(OSError, Damaged):
            return str(self._said(MIRROR).get("node", ""))
        return ""

    def _horizon(self, names: Collection[str]) -> Reading:
        if self.folder.is_local:
            return self._noted(HORIZON) if HORIZON in names else None
        steps = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
        if not steps:
            return None
        noted = self._noted(f"horizon.{max(steps)}.json")
        stated = noted == max(steps) or isinstance(noted, Damaged)
        return noted if stated else Damaged(f"{self._place}: a horizon states another step than its name")

    def _checkpointed(
        self, names: Collection[str], to_step: int
    ) -> tuple[TrialResult | None, tuple[int | Damaged, ...]]:
        """The result, and each checkpoint's step."""
        result, found = None, list[int | Damaged]()
        for step in steps_among(names):
            try:
                checkpoint = self.read(step)
                if checkpoint.result is not None:
                    if step != to_step:
                        expected = f"of a reservation that ends at {to_step}"
                        raise Damaged(f"{self._place}: a result at step {step} {expected}")
                    result = TrialResult.of(checkpoint.result, key=self.key, attempt=self.number, step=to_step)
                found.append(step)
            except Damaged as damaged:
                found.append(damaged)
            except FileNotFoundError:
                # Replaced by its successor while we looked: its worker was still in the interval before the fence.
                continue
        return result, tuple(found)


def latest_checkpoint(
    trials: Folder, key: str, attempts: Collection[int], at_least: int, below: int
) -> tuple[int, Checkpoint] | None:
    """(attempt, the newest undamaged checkpoint at a step in [at_least, below)); None without one.

    A worker that was given up may still end the interval that it was in, and leave the checkpoint, even the result,
    of an attempt that is already settled as lost. Its steps are paid, its result came too late: what leads up to
    `below` is run again.
    """
    for attempt in sorted(attempts, reverse=True):
        found = Attempt.of(trials, key, attempt).readable(max(at_least, 1), below)
        if found is not None:
            return attempt, found
    return None

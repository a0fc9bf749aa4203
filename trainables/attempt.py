"""The durable record of one attempt, and the order of writes that makes it trustworthy.

One folder per attempt, `trials/<key>/<attempt>/`, written by its worker alone:

    claim            taken before anything else: whoever finds it taken leaves the attempt alone
    horizon.json     steps below `until_step` may have been executed; written before their noise is drawn
                     (on an object store horizon.<until_step>.json, one for each)
    checkpoint.npz   arrays, the step that they stand for and, at the end of the reservation, the result:
                     one atomic file, so that metrics never exist without the state that covers them
    moved            its worker stopped between two intervals, because its node had notice that it is to go

and two files of the controller:

    reserved         made before the launch, on a local path only: this folder was there to be written to
    fence            made when the attempt is given up: from now on its worker may not start another interval

Writing the horizon first and looking for the fence second (worker), fencing first and reading the
horizon second (controller), means that no step escapes: a worker that did not see the fence had its
horizon written before the controller read it. So a fenced attempt without a horizon has drawn no noise and never
will: a worker that comes late notes its horizon, meets the fence and stops. That is believed only of a folder that
still holds what was in it before any horizon (`reserved`, or a worker's claim): an empty one may have been emptied.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainables.files import Folder
from trainables.system import State

CLAIM, HORIZON, CHECKPOINT, FENCE = "claim", "horizon.json", "checkpoint.npz", "fence"
RESERVED = "reserved"
ERROR = "error.txt"
MOVED = "moved"

UNWRITABLE = "its records cannot be written"
"""How the reason of an attempt begins that `RecordsUnwritable` ended."""

NODE_LEAVES = "its node had notice to go, and it moves"
"""How the reason of an attempt begins that `NodeLeaves` ended."""

_HEAD, _STATE = "head", "state."
_NUMBERED = re.compile(r"horizon\.(\d+)\.json")


class AlreadyExecuted(RuntimeError):
    """Noise of this attempt may have been drawn before: drawing the same stream again would reveal a difference."""


class Fenced(RuntimeError):
    """The controller has given this attempt up; its worker must stop without drawing more noise."""


class RecordsUnwritable(RuntimeError):
    """The folder of records refuses a write (full disk, read-only, gone): says nothing about the configuration."""


class NodeLeaves(OSError):
    """The node has notice that it is to go, so the attempt ends here and another goes on from its checkpoint."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a fenced attempt left behind.

    executed_to  steps below this may have been executed; None when no horizon was found
    untouched    the folder shows that no horizon was ever written: no step was, or will be, executed
    checkpoint   step of its checkpoint, None without one
    result       the result inside that checkpoint, None when it is not the last one
    moved        it ended by itself, to go on elsewhere
    """

    executed_to: int | None
    untouched: bool
    checkpoint: int | None
    result: Mapping[str, Any] | None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """Reads and writes the folder of one attempt."""

    folder: Folder

    @classmethod
    def of(cls, trials: Folder, key: str, attempt: int) -> Attempt:
        """The attempt's record below the sweep's `trials` folder."""
        return cls(trials.child(key).child(str(attempt)))

    def reserve(self) -> None:
        """Mark the folder before the launch. Cheap and not synced: where the mark is missing, more is charged."""
        if not self.folder.is_local:
            return
        path = Path(self.folder.url)
        # A folder that refuses this refuses the worker's records too, and it is the worker who says so.
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
            (path / RESERVED).touch()

    def claim(self) -> None:
        """Take this attempt for one worker, for ever. Raises AlreadyExecuted when another has, or had, it.

        An attempt's streams follow from the secret, its key and its number. A store that was restored from an older
        copy, or another store over the same folders, would hand out the same number twice; so would a cluster that
        repeats a call on its own. (Records of releases without claims show by their horizon that they were executed.)
        """
        if self.folder.exists(HORIZON) or not self.folder.claim(CLAIM):
            raise AlreadyExecuted(
                f"{self.folder.url}: noise of this attempt was drawn before, or is about to be, so it is not drawn "
                "again on other gradients. Does the store belong to these records, and is it the newest copy? Start a "
                "sweep of a new name."
            )

    def may_execute(self, until_step: int) -> None:
        """Note the horizon durably. Raises Fenced if the attempt was given up."""
        # On an object store a PUT that timed out and was repeated may land late, over a newer one: there each horizon
        # is an object of its own, and the largest counts.
        name = HORIZON if self.folder.is_local else f"horizon.{until_step}.json"
        self.folder.write(name, json.dumps({"until_step": until_step}).encode())
        if self.folder.exists(FENCE):
            raise Fenced(f"{self.folder.url}: given up by the controller")

    def save(self, step: int, state: State, result: Mapping[str, Any] | None = None) -> None:
        """Keep `state` durably as the state after `step` steps, with the result if this ends the reservation."""
        buffer = io.BytesIO()
        head = json.dumps({"step": step, "result": None if result is None else dict(result)}).encode()
        arrays = {f"{_STATE}{name}": value for name, value in state.items()}
        np.savez(buffer, **{_HEAD: np.frombuffer(head, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
        self.folder.write(CHECKPOINT, buffer.getvalue())

    def load(self) -> tuple[int, State]:
        """(step, state) of the checkpoint. Raises FileNotFoundError without one."""
        with self._arrays() as arrays:
            names = [name for name in arrays.files if name.startswith(_STATE)]
            return int(_head(arrays)["step"]), {name.removeprefix(_STATE): arrays[name] for name in names}

    def step(self) -> int | None:
        """Step of the checkpoint, None without one."""
        try:
            with self._arrays() as arrays:
                return int(_head(arrays)["step"])
        except FileNotFoundError:
            return None

    def recover(self) -> Recovered:
        """Fence the attempt, then read what it left (in this order: see the module's text)."""
        self.folder.write(FENCE, b"")
        try:
            with self._arrays() as arrays:
                head = _head(arrays)
        except FileNotFoundError:
            head = {"step": None, "result": None}
        horizon = self._horizon()
        return Recovered(
            executed_to=horizon,
            untouched=horizon is None and head["step"] is None and self._is_whole(),
            checkpoint=head["step"],
            result=head["result"],
            moved=self.folder.exists(MOVED),
        )

    def move(self) -> None:
        """Note that nothing went wrong: the worker stops between two intervals."""
        self.folder.write(MOVED, b"")

    def explain(self, text: str) -> None:
        """Keep the full text of a failure here, inside the release boundary: it may quote private values."""
        self.folder.write(ERROR, text.encode())

    def explained(self) -> str | None:
        """The full text of its failure, None without one. It may quote private values."""
        text = self.folder.read(ERROR)
        return None if text is None else text.decode(errors="replace")

    def discard_checkpoint(self) -> None:
        """Free the space of a checkpoint that a later attempt's has replaced."""
        self.folder.delete(CHECKPOINT)

    def _is_whole(self) -> bool:
        names = self.folder.names()
        return RESERVED in names or any(name.partition(".")[0] == CLAIM for name in names)

    def _horizon(self) -> int | None:
        if self.folder.is_local:
            horizon = self.folder.read(HORIZON)
            return None if horizon is None else int(json.loads(horizon)["until_step"])
        steps = [int(found[1]) for name in self.folder.names() if (found := _NUMBERED.fullmatch(name))]
        return max(steps, default=None)

    def _arrays(self) -> Any:
        content = self.folder.read(CHECKPOINT)
        if content is None:
            raise FileNotFoundError(f"{self.folder.url}/{CHECKPOINT}")
        return np.load(io.BytesIO(content), allow_pickle=False)


def latest_checkpoint(trials: Folder, key: str, attempts: int, below: int) -> tuple[int, int]:
    """(attempt, step) of the newest checkpoint under step `below` among attempts 1..attempts; (0, 0) without one.

    A worker that was given up may still end the interval that it was in, and leave the checkpoint, even the result,
    of an attempt that is already settled as lost. Its steps are paid, its result came too late: what leads up to
    `below` is run again.
    """
    for attempt in range(attempts, 0, -1):
        step = Attempt.of(trials, key, attempt).step()
        if step is not None and step < below:
            return attempt, step
    return 0, 0


def _head(arrays: Any) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(arrays[_HEAD].tobytes())
    return head

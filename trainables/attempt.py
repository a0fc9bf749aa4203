"""The durable record of one attempt, and the order of writes that makes it trustworthy.

One folder per attempt, `trials/<key>/<attempt>/`, written by its worker alone:

    horizon.json     steps below `until_step` may have been executed; written before their noise is drawn
    checkpoint.npz   arrays, the step that they stand for and, at the end of the reservation, the result:
                     one atomic file, so that metrics never exist without the state that covers them

and one file that the controller adds when it gives the attempt up:

    fence            from now on this worker may not start another interval

Writing the horizon first and looking for the fence second (worker), fencing first and reading the
horizon second (controller), means that no step escapes: a worker that did not see the fence had its
horizon written before the controller read it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainables.files import Folder
from trainables.system import State

HORIZON, CHECKPOINT, FENCE = "horizon.json", "checkpoint.npz", "fence"
ERROR = "error.txt"


_HEAD, _STATE = "head", "state."


class AlreadyExecuted(RuntimeError):
    """Noise of this attempt may have been drawn before: drawing the same stream again would reveal a difference."""


class Fenced(RuntimeError):
    """The controller has given this attempt up; its worker must stop without drawing more noise."""


class RecordsUnwritable(RuntimeError):
    """The folder of records refuses a write (full disk, read-only, gone): says nothing about the configuration."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a fenced attempt left behind.

    executed_to  steps below this may have been executed; None when no horizon was written
    checkpoint   step of its checkpoint, None without one
    result       the result inside that checkpoint, None when it is not the last one
    """

    executed_to: int | None
    checkpoint: int | None
    result: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Reads and writes the folder of one attempt."""

    folder: Folder

    @classmethod
    def of(cls, trials: Folder, key: str, attempt: int) -> Attempt:
        """The attempt's record below the sweep's `trials` folder."""
        return cls(trials.child(key).child(str(attempt)))

    def claim(self) -> None:
        """Look that no worker has executed this attempt. Raises AlreadyExecuted.

        An attempt's streams follow from the secret, its key and its number. A store that was restored from an older
        copy, or another store over the same folders, would hand out the same number twice.
        """
        if self.folder.exists(HORIZON):
            raise AlreadyExecuted(
                f"{self.folder.url}: noise of this attempt was drawn before, so it is not drawn again on other "
                "gradients. Does the store belong to this root, and is it the newest copy? Start a sweep of a new name."
            )

    def may_execute(self, until_step: int) -> None:
        """Note the horizon durably. Raises Fenced if the attempt was given up."""
        self.folder.write(HORIZON, json.dumps({"until_step": until_step}).encode())
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
        horizon = self.folder.read(HORIZON)
        return Recovered(
            executed_to=None if horizon is None else int(json.loads(horizon)["until_step"]),
            checkpoint=head["step"],
            result=head["result"],
        )

    def explain(self, text: str) -> None:
        """Keep the full text of a failure here, inside the release boundary: it may quote private values."""
        self.folder.write(ERROR, text.encode())

    def discard_checkpoint(self) -> None:
        """Free the space of a checkpoint that a later attempt's has replaced."""
        self.folder.delete(CHECKPOINT)

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

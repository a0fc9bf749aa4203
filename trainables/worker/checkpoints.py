"""Checkpoints of one attempt: `checkpoint.<step>.npz`, the newest and its predecessor.

Each is one atomic, sealed file: arrays, the step that they stand for, at the end of the reservation the result,
and the points of the attempt's curve up to there, so that
metrics never exist without the state that covers them. A step's file is written once and never replaced; a
damaged one leaves its predecessor to go on from.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainables.system import State
from trainables.worker.files import Folder, NotARecord
from trainables.worker.results import Curve, curve_from_json, curve_to_json
from trainables.worker.sealed import Damaged, parsed, seal, unseal, whole_number

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


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Those in `folder`; `place` names the attempt in their seals."""

    folder: Folder
    place: str

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep `state` durably as the state after `step` steps, with the result if this ends the reservation."""
        buffer = io.BytesIO()
        said = {"step": step, "result": None if result is None else dict(result), "curve": curve_to_json(curve or {})}
        head = json.dumps(said).encode()
        arrays = {f"{_STATE}{name}": value for name, value in state.items()}
        np.savez(buffer, **{_HEAD: np.frombuffer(head, dtype=np.uint8)}, **arrays)  # type: ignore[arg-type]
        self.folder.write(_name(step), seal(f"{self.place}/{_name(step)}", buffer.getvalue()))
        self._delete(self.steps()[KEPT:])

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are there, readable or not, newest first."""
        return steps_among(self.folder.names())

    def read(self, step: int) -> Checkpoint:
        """The checkpoint at `step`. Raises FileNotFoundError, Damaged."""
        place = f"{self.place}/{_name(step)}"
        try:
            content = self.folder.read(_name(step))
        except NotARecord as refused:
            raise Damaged(str(refused)) from refused
        if content is None:
            raise FileNotFoundError(place)
        body = unseal(place, content)
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
        return Checkpoint(step, state, head.get("result"), curve_from_json(head.get("curve", {}), place, 0, step + 1))

    def readable(self, at_least: int, below: int) -> Checkpoint | None:
        """The newest undamaged one at a step in [at_least, below), None without one."""
        for step in self.steps():
            if at_least <= step < below:
                with suppress(Damaged, FileNotFoundError):
                    return self.read(step)
        return None

    def size(self) -> int:
        """Bytes that they take together."""
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


def steps_among(names: Iterable[str]) -> list[int]:
    """Steps of the checkpoints among the names of files, newest first."""
    return sorted((int(match[1]) for name in names if (match := _NAME.fullmatch(name))), reverse=True)


def _name(step: int) -> str:
    return f"checkpoint.{step}.npz"

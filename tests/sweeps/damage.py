"""What may become of a file that a worker left: cut, emptied, overwritten, exchanged, brought back, forged."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from trainables.worker.files import with_checksum

DEEP = b"[" * 100_000
LIES: tuple[object, ...] = (-1, 0, 1, 10**30, float("nan"), float("inf"), True, None, "3", [], {}, 2.5)
"""What no worker ever writes in the place of a step, and what it may, elsewhere."""

Older = Mapping[str, bytes]
"""{path of a record below `trials`: an earlier content of it}."""


def records(trials: Path) -> list[Path]:
    """Every file that a worker wrote."""
    return sorted(path for path in trials.rglob("*") if path.is_file() and path.name not in ("fence", "reserved"))


def cut(path: Path, numbers: random.Random, older: Older) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: numbers.randrange(len(content))] if content else b"")


def empty(path: Path, numbers: random.Random, older: Older) -> None:
    path.write_bytes(b"")


def garbage(path: Path, numbers: random.Random, older: Older) -> None:
    path.write_bytes(numbers.randbytes(numbers.choice([1, 64, 65, 300, 70_000])))


def flipped(path: Path, numbers: random.Random, older: Older) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
    path.write_bytes(bytes(content))


def deleted(path: Path, numbers: random.Random, older: Older) -> None:
    path.unlink()


def brought_back(path: Path, numbers: random.Random, older: Older) -> None:
    """An older copy of this one record."""
    name = "/".join(path.parts[-3:])
    if name in older:
        path.write_bytes(older[name])


def exchanged(path: Path, numbers: random.Random, older: Older) -> None:
    """Another trial's, or another attempt's, record of the same kind."""
    kind = path.name.split(".")[0]
    others = [one for one in records(path.parents[2]) if one.name.split(".")[0] == kind and one != path]
    if others:
        path.write_bytes(numbers.choice(others).read_bytes())


def forged(path: Path, numbers: random.Random, older: Older) -> None:
    """Sealed as it should be, with a content that no worker writes."""
    lie = numbers.choice(LIES)
    deep = numbers.random() < 0.2
    if path.name.startswith("checkpoint."):
        step = int(path.name.split(".")[1])
        stated = numbers.choice([lie, step])
        result = {"key": lie, "attempt": 1, "step": stated, "metrics": {"expected_error": lie}, "seconds": lie}
        head = DEEP if deep else json.dumps({"step": stated, "result": numbers.choice([result, lie])}).encode()
        buffer = io.BytesIO()
        np.savez(buffer, head=np.frombuffer(head, dtype=np.uint8), **{"state.total": np.zeros(1)})
        body = buffer.getvalue()
    else:
        body = DEEP[:60_000] if deep else json.dumps(numbers.choice([lie, {"until_step": lie}])).encode()
        if body == b'{"until_step": 1}' or body == b'{"until_step": 0}':
            # These a worker may have written: an older copy.
            return brought_back(path, numbers, older)
    path.write_bytes(with_checksum("/".join(path.parts[-3:]), body))


DAMAGES: tuple[Callable[[Path, random.Random, Older], None], ...] = (
    cut,
    empty,
    garbage,
    flipped,
    deleted,
    brought_back,
    exchanged,
    forged,
)

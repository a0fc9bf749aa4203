"""Features on disk, computed once on a machine: as private as the records that they were made of.

A file is named by a digest of all that decides its numbers (the map, what is done with its output, the records), so
that it is never out of date; it appears whole or not at all; whoever needs it while another process computes it waits.
The folder is its owner's alone. Nothing removes files: a folder that is deleted costs time, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]
Filled = Callable[[Numbers], None]
"""Writes all numbers into an array [n, ...]."""


def kept(folder: Path | None, key: str, shape: tuple[int, ...], fill: Filled) -> Numbers:
    """The numbers of `key`, float32 of this shape: mapped from `folder`, where they are computed if nobody did yet.

    folder  None: computed, and kept nowhere
    Raises OSError.
    """
    if folder is None:
        numbers = np.empty(shape, dtype=np.float32)
        fill(numbers)
        return numbers
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder / f"{key}.npy"
    if (found := _mapped(place, shape)) is not None:
        return found
    with _locked(folder / f"{key}.lock"):
        # Somebody else may have computed it meanwhile.
        if (found := _mapped(place, shape)) is None:
            _write(place, shape, fill)
            found = _mapped(place, shape)
    if found is None:
        raise OSError(f"{place} is not what was written to it")
    return found


def _mapped(place: Path, shape: tuple[int, ...]) -> Numbers | None:
    try:
        # A plain array over the mapping: processes share it without a copy, which they do not do with np.memmap.
        found = np.asarray(np.load(place, mmap_mode="r", allow_pickle=False))
    except (FileNotFoundError, ValueError, EOFError):
        # Not there, or cut short by a disk.
        return None
    return found if found.dtype == np.float32 and found.shape == shape else None


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    descriptor = os.open(place, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(place: Path, shape: tuple[int, ...], fill: Filled) -> None:
    """The caller holds the lock, so that the part file is nobody else's; a killed process may have left one.

    Not every file system that several machines see keeps a lock among them: each has a part file of its own.
    """
    part = place.with_suffix(f".{socket.gethostname()}.part")
    os.close(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    try:
        if not np.prod(shape):
            with part.open("wb") as empty:
                np.save(empty, np.empty(shape, dtype=np.float32))
        else:
            numbers = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=shape)
            fill(numbers)
            numbers.flush()
            del numbers
        with part.open("r+b") as written:
            os.fsync(written.fileno())
        part.replace(place)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    descriptor = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

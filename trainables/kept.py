"""Arrays on disk, made once on a machine and mapped by whoever needs them: as private as the records in them.

A folder of arrays is named by a digest of all that decides its numbers, so that it is never out of date; it appears
whole or not at all; whoever needs it while another process makes it waits. It is its owner's alone. `clear` removes
what nobody has open, which costs the time to make it again, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Made = TypeVar("Made")
_UNREADABLE = (FileNotFoundError, ValueError, EOFError)
"""Not there, or cut short by a disk."""


def kept(folder: Path, key: str, write: Callable[[Path], None], read: Callable[[Path], Made]) -> Made:
    """What `read` finds in the folder `key` below `folder`, which `write` fills if nobody did yet. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place, part = folder / key, folder / f"{key}.{socket.gethostname()}.part"
    with os.fdopen(os.open(folder / f"{key}.lock", os.O_CREAT | os.O_RDWR, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return read(place)
        except _UNREADABLE:
            shutil.rmtree(place, ignore_errors=True)
        # What a kill left, of this machine: a file system that keeps no lock among machines costs time alone.
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(mode=0o700)
        try:
            write(part)
            for one in part.iterdir():
                one.chmod(0o600)
                to_disk(one)
            part.rename(place)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        to_disk(folder)
        try:
            return read(place)
        except _UNREADABLE as error:
            raise OSError(f"{place} is not what was written to it") from error


def created(place: Path, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> NDArray[Any]:
    """An array to be filled, in a new file. Raises OSError where there is no room for the whole of it."""
    if 0 in shape:
        np.save(place, np.zeros(shape, dtype))
        return np.zeros(shape, dtype)
    array: NDArray[Any] = np.lib.format.open_memmap(place, mode="w+", dtype=dtype, shape=shape)
    with place.open("r+b") as file:
        try:
            # A page that finds no room as it is written ends the process.
            os.posix_fallocate(file.fileno(), 0, place.stat().st_size)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(place)) from error
    return array


def mapped(place: Path) -> NDArray[Any]:
    """The array in a file, not to be written to. The file is in use as long as the array is.

    Raises FileNotFoundError, ValueError and EOFError for a file that is cut short.
    """
    with place.open("rb") as file:
        # Held by the map too, which keeps a copy of the descriptor.
        fcntl.flock(file, fcntl.LOCK_SH)
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if 0 in shape:
            return np.zeros(shape, dtype)
        # A plain array over the mapping: processes share it without a copy, which they do not do with np.memmap.
        return np.asarray(np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape))  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True)
class Mapped:
    """An array of a file, as it is sent to other processes of this machine."""

    place: str
    records: int

    def __len__(self) -> int:
        return self.records


def sent(array: NDArray[Any]) -> NDArray[Any] | Mapped:
    """What stands for an array in a message: the file that it maps, if it is the whole of one."""
    of = array.base
    if isinstance(of, np.memmap) and of.shape == array.shape and of.filename and os.path.exists(of.filename):
        return Mapped(os.fspath(of.filename), len(array))
    return array


def received(array: NDArray[Any] | Mapped) -> NDArray[Any]:
    """The inverse of `sent`. Raises OSError."""
    return mapped(Path(array.place)) if isinstance(array, Mapped) else array


def clear(folder: Path, *, dry_run: bool = False) -> int:
    """Remove what is kept in a folder and nobody has open. Returns its bytes."""
    freed = 0
    for lock in folder.glob("*.lock"):
        with lock.open() as key:
            if _taken(key):
                continue
            for place in folder.glob(f"{lock.stem}*"):
                files = list(place.iterdir()) if place.is_dir() else []
                opened = [one.open("rb") for one in files]
                free = not any(map(_taken, opened))
                for one in opened:
                    one.close()
                if free:
                    freed += sum(one.stat().st_size for one in files)
                    if files and not dry_run:
                        shutil.rmtree(place)
    return freed


def _taken(file: Any) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def to_disk(place: Path) -> None:
    """A file or a folder survives a power loss."""
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)

"""Features on disk, computed once on a machine: as private as the records that they were made of.

A file is named by a digest of all that decides its numbers (the map, what is done with its output, the records), so
that it is never out of date; it appears whole or not at all; whoever needs it while another process computes it waits.
The folder is its owner's alone. Nothing removes files: a folder that is deleted costs time, and nothing else.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]


def kept(folder: Path | None, key: str, compute: Callable[[], Numbers]) -> Numbers:
    """What `compute` returns, mapped from `folder`, where it is computed if nobody did yet. Raises OSError.

    folder  None: computed, and kept nowhere
    """
    if folder is None:
        return compute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder / f"{key}.npy"
    with os.fdopen(os.open(folder / f"{key}.lock", os.O_CREAT | os.O_RDWR, 0o600)) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (found := _mapped(place)) is None:
            # A file system that keeps no lock among machines costs time: each writes a file of its own.
            numbers = compute()
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
                np.save(part, numbers)
                part.flush()
                os.fsync(part.fileno())
            os.replace(part.name, place)
            found = _mapped(place)
    if found is None:
        raise OSError(f"{place} is not what was written to it")
    return found


def _mapped(place: Path) -> Numbers | None:
    try:
        # A plain array over the mapping: processes share it without a copy, which they do not do with np.memmap.
        return np.asarray(np.load(place, mmap_mode="r", allow_pickle=False))
    except (FileNotFoundError, ValueError, EOFError):
        # Not there, or cut short by a disk.
        return None

"""Whether a path still leads to the file that this process holds.

An open SQLite file can be deleted, moved, or replaced: every write then succeeds, into a file that nobody will find
again. The same holds of its log (`-wal`) and of the log's index (`-shm`), where what was committed last may lie alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sweeps.store.errors import StoreError, StoreVanished

PARTS = ("", "-wal", "-shm")

Identity = tuple[int, int]
"""Device and inode."""


class Place:
    """The files of one SQLite database, by the identity that they had when it was opened. Safe to use from threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: dict[str, Identity] = {}
        self._size = 0
        """Bytes of the database when it was last looked at."""

    def hold(self) -> None:
        """The files that stand here now are ours; those that come later (the first write makes the log) too."""
        for part in PARTS:
            if (found := _identity(f"{self._path}{part}")) is not None:
                self._held.setdefault(part, found)

    def check(self) -> None:
        """Raises StoreVanished when one of them is gone, or another stands in its place."""
        for part, held in list(self._held.items()):
            try:
                found = _identity(f"{self._path}{part}")
            except OSError as error:
                raise StoreError(f"store {self._path}: cannot be looked at: {error}") from error
            if found != held:
                raise StoreVanished(self._path, part, replaced=found is not None)
        self.hold()
        # One that is deleted at this very moment is missed at the next look.
        with suppress(FileNotFoundError, NotADirectoryError):
            size = os.stat(self._path).st_size
            if size < self._size:
                # It is never vacuumed: an older copy was written over it in place.
                raise StoreVanished(self._path, "", replaced=True)
            self._size = size

    def spare(self) -> Path:
        """A path beside it where nothing stands."""
        number = 1
        while (path := Path(f"{self._path}.kept-{number}")).exists():
            number += 1
        return path


def _identity(path: str) -> Identity | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        found = os.stat(path)
        return found.st_dev, found.st_ino
    return None

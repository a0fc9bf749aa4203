"""At most one process tells MLflow about a sweep: two could each make a run for one trial."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from sweeps.util.waiting import patience, waiting


class DrainRunning(RuntimeError):
    """Another process is telling MLflow about this sweep."""


class DrainLock:
    """A lock on `<folder>/tracking.lock` that the system releases when its holder dies, however that happens.

    wait_seconds  how long to wait for the holder; default: the patience
    give_up       asked while waiting; True ends the wait

    Raises DrainRunning on entry.
    """

    def __init__(
        self, folder: Path, wait_seconds: float | None = None, give_up: Callable[[], bool] = lambda: False
    ) -> None:
        self._path = folder / "tracking.lock"
        self._seconds, self._give_up = patience() if wait_seconds is None else wait_seconds, give_up
        self._descriptor = -1

    def __enter__(self) -> DrainLock:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        with waiting(f"the process that is telling MLflow about this sweep ({self._path})", self._seconds) as wait:
            while True:
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return self
                except BlockingIOError:
                    if wait.left() == 0 or self._give_up():
                        os.close(self._descriptor)
                        raise DrainRunning(
                            f"{self._path}: held by another process that is telling MLflow about this sweep. "
                            "Wait for it to end, or end it, then try again."
                        ) from None
                    time.sleep(0.1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

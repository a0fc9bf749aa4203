"""What happened and when, and waiting that says in it what it waited for."""

from __future__ import annotations

import time
from collections.abc import Callable


class Journal:
    """Events with the seconds since `began`; `longest_seconds` is the patience of `until`."""

    longest_seconds: float

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.log: list[str] = []

    def words(self) -> str:
        """Everything that can explain a failure."""
        return "\n".join(self.log)

    def in_vain(self) -> None:
        """Fails where what is waited for can not come any more."""

    def note(self, event: str) -> float:
        """What was done, and when."""
        now = time.monotonic()
        self.log.append(f"{now - self.began:6.1f} s  {event}")
        return now

    def until(self, what: str, holds: Callable[[], bool]) -> float:
        """Wait for it; seconds waited."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < self.longest_seconds, f"waited for {what}: {self.words()}"
            self.in_vain()
            time.sleep(0.2)
        waited = time.monotonic() - began
        self.note(f"{what}, after {waited:.1f} s")
        return waited

"""Launches that show no sign of life: a worker that is stopped or hung costs its own trial and nobody else anything.

A sign is whatever the worker writes into its own attempt: its claim, each interval before it begins, each checkpoint.
So nothing is written for this alone, and a process that merely exists gives none. Signs are compared with those of
before, on the controller's clock: no two clocks have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sweeps.process.patience import CLOCK, patience
from sweeps.process.words import Event, say

LOOKS = 8
"""How often a launch is looked at before it is named or ended."""


@dataclass(frozen=True, slots=True)
class Sign:
    """What shows that a launch lives, to be compared with the one before.

    process  that it was given: with another one it begins anew
    written  by its workers, for each member (`Attempt.signs`)
    """

    process: str
    written: tuple[tuple[tuple[str, int], ...], ...]

    @property
    def began(self) -> bool:
        """Whether a worker has taken it: until then its process starts, imports and maps the data."""
        return any(self.written)


@dataclass(slots=True)
class _Seen:
    sign: Sign
    since: float
    named: float = 0.0
    """Seconds of silence at which it was last spoken of."""


@dataclass(slots=True)
class Stalls:
    """Silence of each launch. Used from one thread.

    limit  seconds after which a launch is to be ended, once it began; its start has the patience, if that is longer.
           None: never
    """

    limit: float | None
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _looked: float = float("-inf")

    def every(self) -> float:
        """Seconds between two looks."""
        return min(self.limit or float("inf"), patience()) / LOOKS

    def look(self, launches: Mapping[str, Callable[[], Sign]]) -> list[tuple[str, float]]:
        """Those of `launches` that are to be ended, with their seconds of silence; names the silent ones.

        launches  those that a process has been given, by name, each with what shows its signs (may raise OSError)
        """
        now = CLOCK.now()
        if now - self._looked < self.every():
            return []
        self._looked = now
        self._forget(launches)
        silences = {name: self._silent(name, signs) for name, signs in launches.items()}
        return [(name, silent) for name, silent in silences.items() if self._is_over(name, silent)]

    def _forget(self, launches: Iterable[str]) -> None:
        kept = set(launches)
        self._seen = {name: seen for name, seen in self._seen.items() if name in kept}

    def _silent(self, name: str, signs: Callable[[], Sign]) -> float:
        try:
            sign = signs()
        except OSError:
            # Records that cannot be looked at say nothing of their worker.
            self._seen.pop(name, None)
            return 0.0
        seen = self._seen.get(name)
        if seen is None or seen.sign != sign:
            if seen is not None and seen.named:
                say(f"{name} goes on.")
            self._seen[name] = _Seen(sign, CLOCK.now())
            return 0.0
        return CLOCK.now() - seen.since

    def _is_over(self, name: str, silent: float) -> bool:
        seen = self._seen.get(name)
        if seen is None:
            return False
        limit = None if self.limit is None else self.limit if seen.sign.began else max(self.limit, patience())
        if limit is not None and silent >= limit:
            return True
        if silent >= max(patience(), 2 * seen.named):
            seen.named = silent
            what = (
                "Nothing ends it: limits.stall_seconds would"
                if limit is None
                else f"It is ended after {limit:.0f} s: limits.stall_seconds"
            )
            say(
                f"{name} has shown no sign of life for {silent:.0f} s: no interval begun, no checkpoint. {what}.",
                Event.WARNING,
            )
        return False


def ended_for(silent: float) -> str:
    """The reason of an attempt that was ended."""
    return f"it showed no sign of life for {silent:.0f} s, and limits.stall_seconds ended it"

"""Steps of which nothing is said but what each releases."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore import checks
from dpcore.events import Event, NonPrivate, Repeated
from dpcore.mechanisms.protocol import in_order, mechanism, within


@mechanism("scheduled")
@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """`schedule`: (what one step releases, how many such steps), in order. Raises InvalidValue."""

    schedule: tuple[tuple[Event, int], ...]

    def __post_init__(self) -> None:
        for _, count in self.schedule:
            checks.count(count=count)

    @property
    def steps(self) -> int:
        """Of all entries together."""
        return sum(count for _, count in self.schedule)

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`."""
        start, stop = within(self.steps, from_step, to_step)
        parts: list[Event] = []
        position = 0
        for event, count in self.schedule:
            inside = min(stop, position + count) - max(start, position)
            if inside > 0:
                parts.append(Repeated(event=event, count=inside))
            position += count
        return in_order(parts)


def unprotected(steps: int) -> Scheduled:
    """`steps` releases without any protection."""
    return Scheduled(schedule=((NonPrivate(), steps),))

"""What a mechanism is: a frozen value that is checked once, counts its own steps, and can be written down.

A plan carries it and training runs it, so what is counted cannot differ from what runs. Whoever counts asks for the
event of a range of steps and slices nothing: a mechanism whose noise is correlated over steps answers that itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeVar, get_args, runtime_checkable

from dpcore import checks, events
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Event, NonPrivate, Repeated
from dpcore.sampling import PoissonSampling


@runtime_checkable
class Mechanism(Protocol):
    """A frozen dataclass under `@mechanism(kind)`. A step is the unit of the ledger."""

    @property
    def steps(self) -> int:
        """How many there are, at least 0: fixed before the first."""

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """What steps from_step..to_step-1 release (all by default). Raises InvalidValue for a range outside."""


Made = TypeVar("Made", bound=type)

_KINDS: dict[str, type] = {"poisson-sampling": PoissonSampling}
_NAMES: dict[type, str] = {PoissonSampling: "poisson-sampling"}
_ADJACENCY = "adjacency"
_HOMES = {
    "average-case": "dpcore.mechanisms.noisy_sums",
    "loss-perturbation": "dpcore.mechanisms.loss_perturbation",
    "noisy-sum": "dpcore.mechanisms.noisy_sums",
    "one-neuron-answers": "dpcore.papers.lu2021",
    "output-perturbation": "dpcore.mechanisms.output_perturbation",
    "sampled-gaussian": "dpcore.mechanisms.noisy_sums",
    "scheduled": "dpcore.mechanisms.protocol",
    "sequence": "dpcore.mechanisms.noisy_sums",
    "soft-vote": "dpcore.mechanisms.noisy_vote",
}
"""Where each kind of ours registers itself: who reads a plan may never have met its system."""
_EVENTS = get_args(Event)


def mechanism(kind: str) -> Callable[[Made], Made]:
    """Registers a frozen dataclass under the word that its written form carries. Raises ValueError for a used word."""

    def register(made: Made) -> Made:
        if kind in _KINDS or kind == _ADJACENCY or kind in events.KINDS:
            raise ValueError(f"the kind {kind!r} is taken")
        _KINDS[kind], _NAMES[made] = made, kind
        return made

    return register


def to_dict(value: Mechanism) -> dict[str, Any]:
    """A mechanism as plain JSON values; `kind` names the class."""
    written = _plain(value)
    assert isinstance(written, dict)
    return written


def from_dict(data: Mapping[str, Any]) -> Mechanism:
    """The inverse of `to_dict`. Raises InvalidValue for an unknown kind or a bad number, ValueError otherwise."""
    read = _valued(data)
    if not isinstance(read, Mechanism):
        raise InvalidValue("mechanism", data.get("kind"), "one of " + ", ".join(_KINDS))
    return read


def is_ours(value: object) -> bool:
    """Whether a mechanism, and every mechanism in it, is of this package, whose counts are proved."""
    if isinstance(value, tuple):
        return all(map(is_ours, value))
    if isinstance(value, (Adjacency, PoissonSampling, *_EVENTS)) or not dataclasses.is_dataclass(value):
        return True
    kind = _NAMES.get(type(value))
    home = _HOMES.get("" if kind is None else kind)
    return home == type(value).__module__ and all(
        is_ours(getattr(value, one.name)) for one in dataclasses.fields(value)
    )


def within(steps: int, from_step: int, to_step: int | None) -> tuple[int, int]:
    """A range of steps with its end filled in. Raises InvalidValue where it is none of 0..steps."""
    stop = steps if to_step is None else to_step
    if not 0 <= from_step <= stop <= steps:
        raise InvalidValue("to_step", stop, f"between from_step={from_step} and {steps}")
    return from_step, stop


def repeated(each: Event, steps: int, from_step: int, to_step: int | None) -> Event:
    """A range of `steps` steps that each release the same. Raises InvalidValue as `within` does."""
    start, stop = within(steps, from_step, to_step)
    return in_order([events.Repeated(event=each, count=stop - start)] if stop > start else [])


def in_order(parts: list[Event]) -> Event:
    """Events one after the other; one alone stays as it is."""
    return parts[0] if len(parts) == 1 else events.Composed(events=tuple(parts))


def _plain(value: object) -> object:
    match value:
        case Adjacency():
            return {"kind": _ADJACENCY, "value": value.value}
        case tuple():
            return [_plain(one) for one in value]
        case _ if isinstance(value, _EVENTS):
            return events.to_dict(value)  # type: ignore[arg-type]
        case _ if type(value) in _NAMES:
            own = {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}  # type: ignore[arg-type]
            return {"kind": _NAMES[type(value)], **own}
        case _:
            return value


def _valued(data: object) -> object:
    if isinstance(data, list | tuple):
        return tuple(_valued(one) for one in data)
    if not isinstance(data, Mapping):
        return data
    kind = str(data.get("kind"))
    if kind == _ADJACENCY:
        return Adjacency(data["value"])
    if kind not in _KINDS and kind in _HOMES:
        import_module(_HOMES[kind])
    if kind not in _KINDS:
        return events.from_dict(dict(data))
    fields = {name: _valued(one) for name, one in data.items() if name != "kind"}
    try:
        return _KINDS[kind](**fields)
    except TypeError as error:
        raise ValueError(f"mechanism {kind!r}: {error}") from None


# Steps of which nothing is said but what each releases.


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

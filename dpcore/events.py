"""What was released, described without saying how it was computed or who will count it.

Events are frozen values that nest, compare by value and survive a round trip through plain
dictionaries: `from_dict(event.to_dict()) == event`. An accountant walks `phases(event)` and either
understands every part or names the part that it cannot count (`UnsupportedEvent`).

Two events mark the edges of knowledge: `NonPrivate` (every accountant answers infinity) and `Unknown`
(every accountant refuses).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dpcore import checks

# Which data sets count as neighbours: every claim names one of these.


class Adjacency(StrEnum):
    """The neighbouring relation that a sensitivity, an event or a guarantee refers to."""

    ADD_REMOVE = "add-remove"
    """One unit more or one unit less; the number of records may differ by one."""

    REPLACE_ONE = "replace-one"
    """Same number of records, one of them exchanged for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Independent N(0, sigma^2) noise on every coordinate of one query.

    noise_multiplier  sigma divided by the L2 sensitivity under `adjacency`; dimensionless, above 0
    adjacency         the relation that this sensitivity refers to. Under replace-one, an add-remove
                      sensitivity counts twice (a record leaves, another enters).

    Raises InvalidValue.
    """

    noise_multiplier: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        checks.positive_finite(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, slots=True, kw_only=True)
class PureDP:
    """Any mechanism known only to be (epsilon, 0)-DP under `adjacency` (Laplace, exponential, ...).

    Raises InvalidValue.
    """

    epsilon: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        checks.non_negative_finite(epsilon=self.epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateDP:
    """Any mechanism known only to be (epsilon, delta)-DP under `adjacency`.

    delta  in (0, 1); a mechanism without one is PureDP

    Raises InvalidValue.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        checks.non_negative_finite(epsilon=self.epsilon)
        checks.probability_open(delta=self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonSampled:
    """`event` run on a subset that holds each record independently with probability `rate`.

    Only a sampler that really draws so may issue this event (`dpcore.sampling.PoissonSampling`). Raises InvalidValue.
    """

    rate: float
    event: Event

    def __post_init__(self) -> None:
        checks.rate(rate=self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """`event` run `count` times, adaptively, `count` fixed in advance. Raises InvalidValue."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        checks.count(count=self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """All of `events`, run one after the other, each adaptively on what came before."""

    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """A release without any protection: every accountant answers infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A release that nobody has described: every accountant refuses."""

    description: str


Event = Gaussian | PureDP | ApproximateDP | PoissonSampled | Repeated | Composed | NonPrivate | Unknown

KINDS: dict[str, type] = {
    "gaussian": Gaussian,
    "pure-dp": PureDP,
    "approximate-dp": ApproximateDP,
    "poisson-sampled": PoissonSampled,
    "repeated": Repeated,
    "composed": Composed,
    "non-private": NonPrivate,
    "unknown": Unknown,
}
_NAMES = {kind: name for name, kind in KINDS.items()}


class UnsupportedEvent(ValueError):
    """An accountant met an event that it cannot count; the message names accountant and event."""


def to_dict(event: Event) -> dict[str, Any]:
    """The event as plain JSON values; `kind` names the class."""
    out: dict[str, Any] = {"kind": _NAMES[type(event)]}
    for field in event.__dataclass_fields__:
        value = getattr(event, field)
        if field == "event":
            value = to_dict(value)
        elif field == "events":
            value = [to_dict(part) for part in value]
        elif isinstance(value, Adjacency):
            value = value.value
        out[field] = value
    return out


def event_text(event: Event, digits: int = 6) -> str:
    """One event for people: "poisson-sampled (rate 0.1, noise_multiplier 2.5, adjacency add-remove)".

    digits  of each number; 17 are all of them
    """
    return _described(to_dict(event), digits)


def _described(fields: dict[str, Any], digits: int) -> str:
    return f"{fields['kind']} ({', '.join(_told(fields, digits))})"


def _told(fields: dict[str, Any], digits: int) -> Iterator[str]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _told(value, digits)
        elif isinstance(value, list):
            yield f"{name} {'; '.join(_described(one, digits) for one in value)}"
        elif name != "kind":
            whole = not isinstance(value, float) or digits > 16
            yield f"{name} {value}" if whole else f"{name} {value:.{digits}g}"


def from_dict(data: dict[str, Any]) -> Event:
    """The inverse of `to_dict`. Raises ValueError for an unknown kind or field, InvalidValue for a bad number."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in KINDS:
        raise checks.InvalidValue("kind", kind, "one of " + ", ".join(KINDS))
    if "event" in fields:
        fields["event"] = from_dict(fields["event"])
    if "events" in fields:
        fields["events"] = tuple(from_dict(part) for part in fields["events"])
    if "adjacency" in fields:
        fields["adjacency"] = Adjacency(fields["adjacency"])
    try:
        return KINDS[kind](**fields)
    except TypeError as error:
        raise ValueError(f"event {kind!r}: {error}") from None


def phases(event: Event) -> dict[Event, int]:
    """The event as a multiset of indivisible parts: {part: how often}, in order of first appearance.

    A part is a Gaussian, PureDP, ApproximateDP, NonPrivate, Unknown, or a PoissonSampled of such a part. Composition
    is commutative for every accountant here, so this is all that an accountant needs. Sampling a
    composition once and running all of it on the same subset is none of these parts and comes back
    as it stands, for the accountant to refuse.
    """
    counts: dict[Event, int] = {}
    for part, times in _walk(event, 1):
        counts[part] = counts.get(part, 0) + times
    return {part: times for part, times in counts.items() if times}


def blocks(event: Event) -> Iterator[tuple[Event, int]]:
    """The event as it happens: (one step, how many such), in order, each step as it was described."""
    match event:
        case Repeated(event=inner, count=count):
            yield from ((part, times * count) for part, times in blocks(inner))
        case Composed(events=parts):
            for part in parts:
                yield from blocks(part)
        case _:
            yield event, 1


def _walk(event: Event, times: int) -> Iterator[tuple[Event, int]]:
    match event:
        case Repeated(event=inner, count=count):
            yield from _walk(inner, times * count)
        case Composed(events=parts):
            for part in parts:
                yield from _walk(part, times)
        case PoissonSampled(rate=1.0, event=inner):
            yield from _walk(inner, times)
        case PoissonSampled(rate=rate, event=inner):
            # Sampling one single release is transparent to a Repeated(count=1) or Composed of one.
            inner_parts = phases(inner)
            if len(inner_parts) == 1 and next(iter(inner_parts.values())) == 1:
                inner = next(iter(inner_parts))
            yield PoissonSampled(rate=rate, event=inner), times
        case _:
            yield event, times

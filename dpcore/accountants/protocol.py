"""The contract of every accountant: small, immutable, and honest about what it cannot count."""

from __future__ import annotations

from typing import Protocol, Self

from dpcore.adjacency import Adjacency
from dpcore.events import Event
from dpcore.guarantee import Status


class Accountant(Protocol):
    """Counts events under one adjacency. `compose` returns a new accountant; nothing is mutated.

    One that knows how far it may be from the truth also has `epsilon_lower(delta)`, a certified lower bound.
    """

    @property
    def name(self) -> str:
        """The word printed beside its numbers."""

    @property
    def status(self) -> Status:
        """How firmly its numbers stand."""

    @property
    def theorem(self) -> str:
        """The argument that they rest on: author, year, theorem."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of every number that it returns."""

    def supports(self, event: Event) -> bool:
        """Whether every part of `event` can be counted under this adjacency."""

    def compose(self, event: Event, count: int = 1) -> Self:
        """This accountant after `count` more runs of `event`. Raises UnsupportedEvent, naming the part."""

    def epsilon(self, delta: float) -> float:
        """Upper bound on epsilon at `delta` in (0, 1) (infinite if there is none). Never below 0."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0, in [0, 1]."""

"""A registry: values by the name that specs use, where a repeated name is an error at import.

A registry that is open to the user's own (`OrImported`) also knows whatever is named as `module:object`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, TypeVar

from trainables import plugins


class Named(Protocol):
    """Whatever has a name."""

    @property
    def name(self) -> str:
        """The word that specs and records use."""
        ...


Registered = TypeVar("Registered", bound=Named)


Known = TypeVar("Known")


class OrImported(ABC, dict[str, Known]):
    """Those it is made with, and whatever else is asked for as `module:object`: imported, and known from then on."""

    @abstractmethod
    def imported(self, name: str) -> Known:
        """What `name` is, written module:object. Raises InvalidValue."""

    def __missing__(self, name: str) -> Known:
        """Raises InvalidValue where there is no such object, or the operator does not let it run."""
        if not plugins.OBJECT.fullmatch(name):
            raise KeyError(name)
        self[name] = found = self.imported(name)
        return found

    def known(self, name: str) -> Known | None:
        """What is called `name`, or None. Raises InvalidValue for a `module:object` that cannot be had."""
        return self[name] if name in self or plugins.OBJECT.fullmatch(name) else None


def by_name(kind: str, *values: Registered) -> dict[str, Registered]:
    """Values of one kind keyed by name. Raises ValueError, which says `kind`, when two share one."""
    named: dict[str, Registered] = {}
    for value in values:
        if value.name in named:
            raise ValueError(f"{kind} {value.name!r} is registered twice")
        named[value.name] = value
    return named

"""A registry: values by the name that specs use, where a repeated name is an error at import."""

from __future__ import annotations

from typing import Protocol, TypeVar


class Named(Protocol):
    """Whatever has a name."""

    @property
    def name(self) -> str:
        """The word that specs and records use."""
        ...


Registered = TypeVar("Registered", bound=Named)


def by_name(kind: str, *values: Registered) -> dict[str, Registered]:
    """Values of one kind keyed by name. Raises ValueError, which says `kind`, when two share one."""
    named: dict[str, Registered] = {}
    for value in values:
        if value.name in named:
            raise ValueError(f"{kind} {value.name!r} is registered twice")
        named[value.name] = value
    return named

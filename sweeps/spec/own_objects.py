"""Systems and data sources given as objects in Python: each by the name under which it can be imported, in the spec's
own words."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.model import FUNCTION
from sweeps.spec.same_as import renamed
from trainables.registry import SYSTEMS

_MAIN = "__main__"


def with_own_systems(document: dict[str, Any], given: Iterable[Any]) -> dict[str, Any]:
    """`document`, whose `systems:` may call those that are `given` by their own names, with `module:object` instead.

    given  classes, objects, or texts `module:object`

    Raises InvalidValue for one that a worker could not import, one that is named nowhere in `systems:`, and one whose
    own name is another system's.
    """
    written = document.get("systems")
    if not isinstance(written, Mapping):
        return document
    systems = dict(written)
    for one in given:
        place, own = _named("systems", one)
        if place in systems:
            continue
        if own in SYSTEMS:
            expected = f"a system with a name of its own: {own!r} is another's"
            raise InvalidValue("systems", place, expected, f"Rename it, or write `{place}:` in the spec.")
        if own not in systems:
            expected = f"a system that the spec's `systems:` names, as {own!r} or {place!r}"
            raise InvalidValue("systems", place, expected, f"Add `{own}:` with its hyperparameters.")
        systems = {place if name == own else name: renamed(knobs, own, place) for name, knobs in systems.items()}
    return {**document, "systems": systems}


def with_own_sources(document: dict[str, Any], given: Iterable[Any]) -> dict[str, Any]:
    """`document`, whose `data.source` may call one of those that are `given` by its own name, with `module:object`
    instead.

    given  classes, objects, or texts `module:object`

    Raises InvalidValue for one that could not be imported again, one that `data.source` does not name, and one whose
    own name is another source's.
    """
    from trainables.data import SOURCES

    written = document.get("data")
    if not isinstance(written, Mapping):
        return document
    source = written.get("source")
    for one in given:
        place, own = _named("sources", one)
        if own in SOURCES:
            expected = f"a data source with a name of its own: {own!r} is another's"
            raise InvalidValue("sources", place, expected, f"Rename it, or write `source: {place}` in the spec.")
        if source not in (own, place):
            expected = f"the source that the spec's `data.source` names, as {own!r} or {place!r}"
            raise InvalidValue("sources", place, expected, "A sweep has one data source.")
        source = place
    return {**document, "data": {**written, "source": source}} if source is not None else document


def _named(what: str, given: Any) -> tuple[str, str]:
    """`module:object` and the name that it calls itself by. Raises InvalidValue for `what` was given."""
    place = given if isinstance(given, str) else _place(what, given)
    if not FUNCTION.fullmatch(place):
        raise InvalidValue(what, place, "a class, an object, or `module:object`")
    return place, getattr(given, "name", place.partition(":")[2])


def _place(what: str, given: Any) -> str:
    """`module:object` of a class, or of an object that its module has a name for. Raises InvalidValue."""
    kind = given if isinstance(given, type) else type(given)
    if kind.__module__ == _MAIN:
        raise InvalidValue(
            what,
            kind.__qualname__,
            "something of a module: another process cannot import what a script or a notebook defines",
            f"Put {kind.__name__} into a file beside, my_systems.py, and `from my_systems import {kind.__name__}`.",
        )
    module = sys.modules.get(kind.__module__) or importlib.import_module(kind.__module__)
    for name, value in vars(module).items():
        if value is given:
            return f"{kind.__module__}:{name}"
    raise InvalidValue(
        what,
        repr(given),
        f"something that {kind.__module__} has a name for: it is imported by that name",
        f"Give it one at the top level of {kind.__module__}, such as SYSTEM = {kind.__name__}(...).",
    )

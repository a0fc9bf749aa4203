"""Systems given as objects in Python: each by the name under which a worker can import it, in the spec's own words."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.model import FUNCTION
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
        place = one if isinstance(one, str) else _place(one)
        if not FUNCTION.fullmatch(place):
            raise InvalidValue("systems", place, "a class, an object, or `module:object`")
        own = getattr(one, "name", place.partition(":")[2])
        if place in systems:
            continue
        if own in SYSTEMS:
            expected = f"a system with a name of its own: {own!r} is another's"
            raise InvalidValue("systems", place, expected, f"Rename it, or write `{place}:` in the spec.")
        if own not in systems:
            expected = f"a system that the spec's `systems:` names, as {own!r} or {place!r}"
            raise InvalidValue("systems", place, expected, f"Add `{own}:` with its hyperparameters.")
        systems = {place if name == own else name: knobs for name, knobs in systems.items()}
    return {**document, "systems": systems}


def _place(system: Any) -> str:
    """`module:object` of a class, or of an object that its module has a name for. Raises InvalidValue."""
    kind = system if isinstance(system, type) else type(system)
    if kind.__module__ == _MAIN:
        raise InvalidValue(
            "systems",
            kind.__qualname__,
            "a system of a module: workers cannot import what a script or a notebook defines",
            f"Put {kind.__name__} into a file beside, my_systems.py, and `from my_systems import {kind.__name__}`.",
        )
    module = sys.modules.get(kind.__module__) or importlib.import_module(kind.__module__)
    for name, value in vars(module).items():
        if value is system:
            return f"{kind.__module__}:{name}"
    raise InvalidValue(
        "systems",
        repr(system),
        f"something that {kind.__module__} has a name for: workers import it by that name",
        f"Give it one at the top level of {kind.__module__}, such as SYSTEM = {kind.__name__}(...).",
    )

"""Code that is not ours: functions that a spec names as `module:function`, and what installed packages offer.

Whoever may write a spec may run any function of this Python by it: importing a module runs it. So each is named on
stderr before its module is imported, and the operator decides by SWEEPS_PLUGINS, in the environment of commands,
controllers and nodes:

    (not set), allow             whatever a spec names
    deny                         nothing but what this project brings
    list:lab.models,nets:build   these packages, modules and functions, with all that is inside them
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dpcore.checks import InvalidValue
from dpcore.mechanisms import protocol

VARIABLE = "SWEEPS_PLUGINS"
ANNOUNCED = "SWEEPS_ANNOUNCED"
"""The functions that were named already, with blanks between: ours to set, for processes that begin later."""
ENTRY_POINTS = "private_sweeps.systems"
"""Third parties add systems under this entry-point group; each entry is a System object."""
OBJECT = re.compile(r"(?!(?:hf|timm):)[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""The user's own code in a spec: `package.module:function`, or the object that a system is."""
_LIST = "list:"
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator lets run. `listed` is None where that is everything."""

    text: str
    listed: tuple[str, ...] | None

    @classmethod
    def of_environment(cls) -> Policy:
        """That of SWEEPS_PLUGINS. Raises InvalidValue for a value without a meaning: it may be a misspelt "deny"."""
        text = os.environ.get(VARIABLE, "allow").strip()
        if text == "allow":
            return cls(text, None)
        if text == "deny":
            return cls(text, ())
        names = tuple(name.strip() for name in text.removeprefix(_LIST).split(","))
        if not text.startswith(_LIST) or not all(names):
            raise InvalidValue(VARIABLE, text, "allow, deny, or list:PACKAGE,MODULE:FUNCTION with commas between")
        return cls(text, names)

    def permits(self, function: str) -> bool:
        """Whether `function`, written module:function, may be imported and called."""
        return self.listed is None or any(
            function == one or function.startswith((f"{one}.", f"{one}:")) for one in self.listed
        )


def enter(option: str, function: str) -> None:
    """To be called before anything of `function`, the value of `option`, is looked for. Raises InvalidValue."""
    check_permitted(option, function)
    # Named once for a command and all processes that it starts on its machine.
    said = os.environ.get(ANNOUNCED, "").split()
    if function not in said:
        os.environ[ANNOUNCED] = " ".join([*said, function])
        _log.warning(
            "Importing %s and calling %s, as the spec or the command says (%s=deny would refuse it).",
            function.partition(":")[0],
            function,
            VARIABLE,
        )


def check_permitted(option: str, function: str) -> None:
    """Imports and says nothing. Raises InvalidValue where the operator does not let `function` run."""
    policy = Policy.of_environment()
    if not policy.permits(function):
        remedy = "Whoever operates this machine set it; use one by name, or ask for this one to be listed."
        raise InvalidValue(option, function, f"what {VARIABLE}={policy.text} lets run", remedy)


def brought(option: str, function: str, remedy: str = "", what: str = "something") -> object:
    """What `function`, written module:object, is: imported here. Raises InvalidValue where it is not to be had."""
    enter(option, function)
    module_name, _, name = function.partition(":")
    try:
        place = importlib.util.find_spec(module_name)
    except (ImportError, ValueError):
        place = None
    if place is None:
        raise InvalidValue(option, function, f"a module that can be imported, {module_name} was not found", remedy)
    if module_name not in sys.modules and place.origin and place.origin == _script():
        raise InvalidValue(
            option,
            function,
            "something of another file than the script that runs: importing it would run the script again",
            f"Put {name} into a file beside it, my_systems.py, and name it my_systems:{name}.",
        )
    with raised_as(option, function, "a module that can be imported", remedy):
        module = importlib.import_module(module_name)
    if not hasattr(module, name):
        raise InvalidValue(option, function, f"{what} {name} in {module_name}", remedy)
    return getattr(module, name)


def function(option: str, name: str, remedy: str = "") -> Callable[..., Any]:
    """The same, of what can be called. Raises InvalidValue."""
    found = brought(option, name, remedy, "a function")
    if not callable(found):
        module, _, inside = name.partition(":")
        raise InvalidValue(option, name, f"a function {inside} in {module}", remedy)
    return found


@contextmanager
def raised_as(option: str, value: object, expected: str, remedy: str = "") -> Iterator[None]:
    """What code of the user's own raises inside is InvalidValue, with what was expected of it."""
    try:
        yield
    except InvalidValue:
        raise
    except Exception as error:
        where = f" ({place})" if (place := place_of(error)) else ""
        said = f"{expected}: it raised {type(error).__name__}: {error}{where}"
        raise InvalidValue(option, value, said, remedy) from error


def place_of(error: BaseException) -> str:
    """The innermost line outside of installed packages and of this one, mostly the user's own; "" without any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        place = Path(frame.filename)
        if _LIBRARIES.isdisjoint(place.parts) and Path(__file__).parent not in place.parents:
            return f"{place.name}, line {frame.lineno}, in {frame.name}"
    return ""


def _script() -> str | None:
    path = getattr(sys.modules["__main__"], "__file__", None)
    return None if path is None else os.path.abspath(path)


def offered(group: str) -> dict[str, EntryPoint]:
    """{name: entry point} of all that installed packages offer in `group`; nothing is imported.

    Raises InvalidValue where two of them offer different things under one name.
    """
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        before = found.setdefault(entry.name, entry)
        if before.value != entry.value:
            expected = f"a name that one installed package offers, and not both {before.value} and {entry.value}"
            raise InvalidValue(group, entry.name, expected, "Uninstall one of the two.")
    return found


def offered_systems() -> list[Any]:
    """The systems that installed packages offer and the operator lets run."""
    policy = Policy.of_environment()
    return [entry.load() for entry in entry_points(group=ENTRY_POINTS) if policy.permits(entry.value)]


def module_of(system: str) -> str | None:
    """The module by which an installed package offers `system`; None where none does. Imports nothing."""
    entry = offered(ENTRY_POINTS).get(system)
    return None if entry is None else entry.value.partition(":")[0]


def withheld_systems() -> dict[str, str]:
    """{name: why} of those that they offer and the operator does not let run."""
    policy = Policy.of_environment()
    return {
        entry.name: f"{entry.value} offers it, but {VARIABLE}={policy.text} lets nothing of that run."
        for entry in entry_points(group=ENTRY_POINTS)
        if not policy.permits(entry.value)
    }


def mechanism_of(system: str, written: Mapping[str, Any]) -> protocol.Mechanism:
    """Read from a plan of `system`: a kind that is not ours is known once the code that offers the system was imported.

    Raises InvalidValue where there is no such kind, or that code is not permitted.
    """
    try:
        return protocol.from_dict(written)
    except InvalidValue as unknown:
        entry = offered(ENTRY_POINTS).get(system)
        if unknown.name != "kind" or not (entry or OBJECT.fullmatch(system)):
            raise
    if entry is None:
        brought("system", system)
    else:
        check_permitted("system", entry.value)
        entry.load()
    return protocol.from_dict(written)


class Named(Protocol):
    """Whatever has a name."""

    @property
    def name(self) -> str:
        """The word that specs and records use."""


Known = TypeVar("Known", bound=Named)


class ByName(dict[str, Known]):
    """Values of one `kind` by the name that specs use. Raises ValueError when two share one.

    imported  makes what is asked for as `module:object`, which is known from then on; None where there is no such thing
    """

    def __init__(self, kind: str, *values: Known, imported: Callable[[str], Known] | None = None) -> None:
        super().__init__((value.name, value) for value in values)
        self._imported = imported
        names = [value.name for value in values]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{kind} registered twice: {', '.join(twice)}")

    def __missing__(self, name: str) -> Known:
        """Raises InvalidValue where there is no such object, or the operator does not let it run."""
        if self._imported is None or not OBJECT.fullmatch(name):
            raise KeyError(name)
        self[name] = found = self._imported(name)
        return found

    def known(self, name: str) -> Known | None:
        """What is called `name`, or None. Raises InvalidValue for a `module:object` that cannot be had."""
        return self[name] if name in self or OBJECT.fullmatch(name) else None

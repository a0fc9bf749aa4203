"""What a model keeps from one call to the next: nothing of a record may be in it.

Seen are parameters, buffers, and of the model's own classes: attributes of the module and of the class, what functions
of the class and forward hooks close over or have as defaults, and the globals of the files that these are from. Not
seen are files on disk and globals of other modules: a model that hides records there does so on purpose.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from dpcore.gradients.refusals import Refused, label

_TORCH_OWN = frozenset(vars(nn.Module()))
_WRAPPERS = 4
_FORWARD = "forward"
CLOSELY = 4
"""How far into containers and objects to look for changes."""


def kept(modules: Mapping[str, nn.Module], *, depth: int) -> dict[tuple[str, str], Hashable]:
    """{(module, attribute): what stands there}, equal before and after a pass that writes nothing.

    depth  how far into containers and objects; 1 sees that an attribute or the length of a container changed
    """
    out: dict[tuple[str, str], Hashable] = {}
    met: set[int] = set()
    for name, module in modules.items():
        for key, one in (*module._parameters.items(), *module._buffers.items()):
            out[name, key] = _tensor(one) if one is not None else None
        if not type(module).__module__.startswith("torch.") or any(map(_is_own, _written(module))):
            for key, value in vars(module).items():
                if key not in _TORCH_OWN and (key != _FORWARD or _is_own(value)):
                    out[name, key] = _print(value, depth)
        for key, value in _beside(module, met):
            out[name, key] = _print(value, depth)
    return out


def _written(module: nn.Module) -> Iterator[Any]:
    """Hooks, and a forward pass in place of its type's."""
    yield from module._forward_pre_hooks.values()
    yield from module._forward_hooks.values()
    if _FORWARD in vars(module):
        yield vars(module)[_FORWARD]


def _is_own(function: Any) -> bool:
    """Whether it is none of torch's, which compute a weight anew at each call, and none of ours."""
    home = str(getattr(_function(function) or function, "__module__", ""))
    return not home.startswith(("torch.", "dpcore."))


@contextmanager
def nothing_beside(model: nn.Module) -> Iterator[None]:
    """Raises Refused at the end of a block in which `model` left something where another model of its class finds it.

    What it keeps in itself is its own: for models of which each sees records that it may remember.
    """
    modules = dict(model.named_modules())

    def found() -> dict[tuple[str, str], Hashable]:
        met: set[int] = set()
        return {
            (name, key): _print(value, CLOSELY)
            for name, module in modules.items()
            for key, value in _beside(module, met)
        }

    before = found()
    yield
    _refuse_difference(modules, before, found())


def _beside(module: nn.Module, met: set[int]) -> Iterator[tuple[str, Any]]:
    """What the code of a module may keep outside of it, once for all modules of a class, of a hook and of a file."""
    functions: list[FunctionType] = []
    for one in type(module).__mro__:
        if one.__module__.startswith("torch."):
            break
        if id(one) not in met:
            met.add(id(one))
            for key, value in vars(one).items():
                if (function := _function(value)) is not None:
                    functions.append(function)
                if not key.startswith("__") or function is not None:
                    yield f"{one.__name__}.{key}", value
    for hook in filter(_is_own, _written(module)):
        if id(hook) not in met:
            met.add(id(hook))
            yield f"a hook, {getattr(hook, '__qualname__', type(hook).__name__)}", hook
            if (function := _function(hook)) is not None:
                functions.append(function)
    for function in functions:
        names = function.__globals__
        home = str(names.get("__name__", ""))
        if id(names) not in met and not home.startswith("torch."):
            met.add(id(names))
            yield from ((f"{key} of {home}", value) for key, value in names.items() if _may_keep(key, value, home))


def _may_keep(key: str, value: Any, home: str) -> bool:
    """Whether a global of a file is data, or an object of a class of that file."""
    if key.startswith("__") or isinstance(value, type | ModuleType):
        return False
    return isinstance(value, Tensor | FunctionType) or type(value).__module__ in (
        "builtins",
        "collections",
        "numpy",
        home,
    )


def _function(value: Any) -> FunctionType | None:
    """The Python function behind a method, a property, a partial or a wrapper; None where there is none."""
    for _ in range(_WRAPPERS):
        if isinstance(value, FunctionType):
            return value
        if isinstance(value, staticmethod | classmethod | MethodType):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, partial):
            value = value.func
        else:
            value = getattr(value, "__wrapped__", None)
    return None


def refuse_change(modules: Mapping[str, nn.Module], before: dict[tuple[str, str], Hashable], *, depth: int) -> None:
    """Raises Refused where something kept is not as it was."""
    _refuse_difference(modules, before, kept(modules, depth=depth))


def _refuse_difference(
    modules: Mapping[str, nn.Module], before: dict[tuple[str, str], Hashable], after: dict[tuple[str, str], Hashable]
) -> None:
    if after == before:
        return
    changed = [place for place in {**before, **after} if before.get(place, ...) != after.get(place, ...)]
    name, key = changed[0]
    raise Refused(
        f"{label(name, modules[name])} changes {key!r} while it computes: what one record leaves there reaches the "
        "next ones without noise. Keep nothing of a call in the module, its class or its file."
    )


def _tensor(one: Tensor) -> Hashable:
    try:
        return id(one), one._version, one.data_ptr()
    except (RuntimeError, NotImplementedError):
        # A mapped tensor left behind has no memory of its own.
        return id(one), -1, -1


def _print(value: Any, depth: int) -> Hashable:
    """Something hashable that changes when `value` does."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if isinstance(value, nn.Module | type | logging.Logger):
        return id(value)
    if callable(value) or isinstance(value, staticmethod | classmethod | property):
        return (id(value), *(_print(one, depth - 1) for one in _held_by(value))) if depth > 1 else id(value)
    if hasattr(value, "tobytes"):
        return id(value), hash(value.tobytes()) if depth > 1 else 0
    if isinstance(value, set | frozenset):
        return id(value), len(value), hash(frozenset(id(one) for one in value)) if depth > 1 else 0
    parts: Iterable[Any] = ()
    length = 0
    if isinstance(value, Mapping):
        parts, length = itertools.chain.from_iterable(value.items()), len(value)
    elif hasattr(value, "__dict__") and not isinstance(value, list | tuple):
        parts = itertools.chain.from_iterable(vars(value).items())
    elif hasattr(value, "__iter__") and hasattr(value, "__len__"):
        parts, length = value, len(value)
    return id(value), length, tuple(_print(one, depth - 1) for one in parts) if depth > 1 else ()


def _held_by(value: Any) -> Iterator[Any]:
    """What a callable keeps: its own defaults and what it closes over. (A cache by arguments, `lru_cache`, finds no
    record's tensor again: they are told apart by identity.)"""
    if isinstance(value, partial):
        yield from (*value.args, *value.keywords.values())
    if (function := _function(value)) is not None:
        yield from (function.__defaults__ or ())
        yield from (function.__kwdefaults__ or {}).values()
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:
                yield None
    elif not isinstance(value, MethodType):
        yield from getattr(value, "__dict__", {}).values()

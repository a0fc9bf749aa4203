"""Models whose per-record gradients cannot be had or trusted, found before any record is read."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy


class Refused(ValueError):
    """A model that private gradients do not serve; the message names the layer, the reason and a remedy."""


class MixesExamples(Refused):
    """One record's gradient depends on other records, so clipping bounds nobody's influence."""


class NotComputed(Refused):
    """An operation raised an error while records passed: for all of them, or for the values of some."""


def of_the_machine(error: BaseException) -> bool:
    """Whether memory or a device failed, whatever the values of records."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError | torch.AcceleratorError) or "memory" in str(error)


def label(name: str, module: nn.Module) -> str:
    """How messages name a module."""
    return f"layer {name or '(model)'!r} ({type(module).__name__})"


def refuse(model: nn.Module) -> None:
    """Raises Refused for what is plain from the model's structure alone."""
    for name, module in model.named_modules():
        _refuse_mixing(label(name, module), module)
        _refuse_wrappers(label(name, module), module)
    if torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks:
        raise Refused("a global backward hook is registered; under a mapped pass it would do nothing. Remove it.")
    for name, one in model.named_parameters():
        _refuse_parameter(f"parameter {name!r}", one)


def _refuse_mixing(named: str, module: nn.Module) -> None:
    """Raises MixesExamples for a layer that mixes the records of a batch or keeps statistics of them.

    A normalisation in evaluation mode is a fixed map and passes. Its statistics have to be public: nothing can be seen
    of where they come from.
    """
    if isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats):
        raise MixesExamples(
            f"{named} normalises over the batch: every record's loss depends on all others, and clipping "
            "bounds nobody's influence. Use GroupNorm, or evaluation mode with public statistics."
        )
    if isinstance(module, _InstanceNorm) and module.training and module.track_running_stats:
        raise MixesExamples(
            f"{named} keeps running statistics of private records, released without noise. "
            "Use track_running_stats=False, or GroupNorm."
        )
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.scale_grad_by_freq:
            raise MixesExamples(f"{named} divides by token counts over the whole batch. Use scale_grad_by_freq=False.")
        if module.max_norm is not None:
            raise MixesExamples(
                f"{named} rescales the rows that private tokens touch, without noise. Use max_norm=None."
            )


def fixed_statistics(model: nn.Module) -> dict[str, object]:
    """What stands in the statistics of normalisations, to be told from later ones."""
    return {
        f"{name}.{key}": (id(one), one._version)
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm | _InstanceNorm)
        for key, one in module.named_buffers(recurse=False)
    }


def refuse_new_statistics(model: nn.Module, fixed: dict[str, object]) -> None:
    """Raises MixesExamples where a normalisation's statistics are not those that it had."""
    if fixed and (changed := [name for name, one in fixed_statistics(model).items() if fixed.get(name) != one]):
        raise MixesExamples(
            f"{changed[0]!r} has changed since these private gradients were made: statistics that private records "
            "leave are released without noise. Load public ones first, then make PrivateGradients anew."
        )


def _refuse_wrappers(named: str, module: nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule) and any(one.requires_grad for one in module.parameters()):
        raise Refused(f"{named} is scripted: its parameters cannot be given per record. Use the Python module.")
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise Refused(f"{named} spreads and synchronises by itself. Give the module inside it.")
    if module._backward_hooks or module._backward_pre_hooks:
        raise Refused(f"{named} has a backward hook, which a mapped pass would not run. Remove it.")


def _refuse_parameter(named: str, one: nn.Parameter) -> None:
    if is_lazy(one):
        raise Refused(f"{named} has no shape yet. Run the lazy model once on public input first.")
    if not one.requires_grad:
        return
    if one.is_complex():
        # Normal noise on a complex tensor has variance 1/2 per real coordinate: a factor sqrt 2 too little.
        raise Refused(f"{named} is complex, for which neither norm nor noise is defined here. Use two real ones.")
    if type(one) is not nn.Parameter:
        raise Refused(f"{named} is a {type(one).__name__}, whose operations may do anything. Use a plain nn.Parameter.")
    if one._backward_hooks or one._post_accumulate_grad_hooks:  # type: ignore[attr-defined]
        raise Refused(f"{named} has a gradient hook, which private gradients would not run. Remove it.")


# What a model keeps from one call to the next: nothing of a record may be in it.
#
# Seen are parameters, buffers, and of the model's own classes: attributes of the module and of the class, what
# functions of the class and forward hooks close over or have as defaults, and the globals of the files that these are
# from. Not seen are files on disk and globals of other modules: a model that hides records there does so on purpose.

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

"""What a model keeps from one call to the next: nothing of a record may be in it.

Seen are parameters, buffers and the attributes of the model's own classes. Not seen are globals, closures and files: a
model that hides records there does so on purpose.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from dpcore.gradients.refusals import Refused, label

_TORCH_OWN = frozenset(vars(nn.Module()))
CLOSELY = 4
"""How far into containers and objects to look for changes."""


def kept(modules: Mapping[str, nn.Module], *, depth: int) -> dict[tuple[str, str], Hashable]:
    """{(module, attribute): what stands there}, equal before and after a pass that writes nothing.

    depth  how far into containers and objects; 1 sees that an attribute or the length of a container changed
    """
    out: dict[tuple[str, str], Hashable] = {}
    for name, module in modules.items():
        for key, one in (*module._parameters.items(), *module._buffers.items()):
            out[name, key] = _tensor(one) if one is not None else None
        if not type(module).__module__.startswith("torch."):
            for key, value in vars(module).items():
                if key not in _TORCH_OWN:
                    out[name, key] = _print(value, depth)
    return out


def refuse_change(modules: Mapping[str, nn.Module], before: dict[tuple[str, str], Hashable], *, depth: int) -> None:
    """Raises Refused where something kept is not as it was."""
    after = kept(modules, depth=depth)
    if after == before:
        return
    changed = [place for place in {**before, **after} if before.get(place, ...) != after.get(place, ...)]
    name, key = changed[0]
    raise Refused(
        f"{label(name, modules[name])} changes {key!r} while it computes: what one record leaves there reaches the "
        "next ones without noise. Keep nothing of a call in the module."
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
    if isinstance(value, nn.Module | type) or callable(value):
        return id(value)
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

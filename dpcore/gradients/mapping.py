"""The mapped axis of torch.func.vmap seen from inside: which axis of the memory it is, and back.

Inside a mapped function a tensor shows one record's shape and stands on memory for all of them. These are the few
places where the memory is looked at; they rest on torch._C._functorch, which is not public.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import _functorch


def level() -> int | None:
    """Depth of the innermost transformation, None outside of all."""
    return _functorch.maybe_current_level()


def axis(tensor: Tensor) -> int | None:
    """Where the innermost mapped axis lies in the tensor's memory; None for a tensor that is the same for all."""
    if not _functorch.is_batchedtensor(tensor) or _functorch.maybe_get_level(tensor) != level():
        return None
    return _functorch.maybe_get_bdim(tensor)


def whole(tensor: Tensor) -> Tensor:
    """The tensor for all records, the mapped axis wherever it lies; itself where it is the same for all."""
    return tensor if axis(tensor) is None else _functorch.get_unwrapped(tensor)


def mapped(tensor: Tensor, at: int) -> Tensor:
    """One record's view of a tensor for all of them, whose axis `at` is mapped."""
    inside = level()
    assert inside is not None
    return _functorch._add_batch_dim(tensor, at, inside)


def apart(tensor: Tensor) -> Tensor:
    """The same numbers, for which autograd has a node of their own: an operation in place behind it does not reach
    back. A view would: its base's history is rewritten, and the node that was captured falls off the path."""
    found: Tensor = torch.ops.aten._unsafe_view(tensor, tensor.shape)
    return found

"""The mapped axis of torch.func.vmap seen from inside: which axis of the memory it is, and back.

Inside a mapped function a tensor shows one record's shape and stands on memory for all of them. These are the few
places where the memory is looked at; they rest on torch._C._functorch, which is not public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.utils._pytree import tree_flatten, tree_unflatten


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


Place = tuple[dict[str, Any], str]
"""A module's own table of parameters, and the key in it."""


@contextmanager
def standing_in(stand_ins: Sequence[tuple[Place, Any]]) -> Iterator[None]:
    """Inside the block each place holds its stand-in."""
    before = [(table, key, table[key]) for (table, key), _ in stand_ins]
    try:
        for (table, key), one in stand_ins:
            table[key] = one
        yield
    finally:
        for table, key, one in before:
            table[key] = one


class Slots:
    """The places of each trainable parameter, by its name; a tied one has several.

    tied  names of the parameters that stand in more than one place
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        names = {id(one): name for name, one in self.parameters.items()}
        self.places: dict[str, list[Place]] = {name: [] for name in self.parameters}
        for module in model.modules():
            for key, own in module._parameters.items():
                if own is not None and own.requires_grad:
                    self.places[names[id(own)]].append((module._parameters, key))
        self.tied = {name for name, places in self.places.items() if len(places) > 1}
        # Recurrent layers keep a list of their weights beside the table.
        self._recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]

    @contextmanager
    def holding(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside the block the model computes with `tensors`, {parameter name: stand-in}."""
        try:
            with standing_in([(place, one) for name, one in tensors.items() for place in self.places[name]]):
                yield
        finally:
            for module in self._recurrent:
                module._update_flat_weights()


def in_turn(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """function(*args, **kwargs) in a loop over records: right, and slow."""
    leaves, form = tree_flatten((args, kwargs))
    axes = [axis(one) if isinstance(one, Tensor) else None for one in leaves]
    memory = [one if at is None else whole(one) for one, at in zip(leaves, axes, strict=True)]
    sizes = [one.shape[at] for one, at in zip(memory, axes, strict=True) if at is not None]
    if not sizes:
        return function(*args, **kwargs)
    columns: list[list[Any]] = []
    with temporarily_pop_interpreter_stack():
        for record in range(sizes[0]):
            own = [one if at is None else one.select(at, record) for one, at in zip(memory, axes, strict=True)]
            own_args, own_kwargs = tree_unflatten(own, form)
            found, found_form = tree_flatten(function(*own_args, **own_kwargs))
            columns.append(found)
        stacked = [torch.stack(one) if isinstance(one[0], Tensor) else one[0] for one in zip(*columns, strict=True)]
    return tree_unflatten([mapped(one, 0) if isinstance(one, Tensor) else one for one in stacked], found_form)


def one_at_a_time(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The layer's own forward pass, its parameters given by record, in a loop over records."""
    places = [(one._parameters, key) for one in module.modules() for key in one._parameters]

    def of_one(held: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with standing_in(list(zip(places, held, strict=True))):
            return type(module).forward(module, *args, **kwargs)

    return in_turn(of_one, [table[key] for table, key in places], args, kwargs)


SUBSTITUTES: dict[type[nn.Module], Callable[..., Any]] = {
    kind: one_at_a_time for kind in (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell)
}
"""Exact types: a subclass may compute something else."""


def forward_of(module: nn.Module) -> Callable[..., Any]:
    """(module, *args, **kwargs) -> what the layer computes in a mapped pass."""
    return SUBSTITUTES.get(type(module), type(module).forward)


@contextmanager
def computing(forwards: Mapping[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    """Inside the block these run in place of the modules' own forward passes."""
    try:
        for module, forward in forwards.items():
            module.__dict__["forward"] = forward
        yield
    finally:
        for module in forwards:
            module.__dict__.pop("forward", None)


def substituted(modules: Iterable[nn.Module]) -> AbstractContextManager[None]:
    """Substitutes run for the length of the block, except where something else is in place of a forward pass."""
    own = [one for one in modules if type(one) in SUBSTITUTES and "forward" not in vars(one)]
    return computing({one: partial(SUBSTITUTES[type(one)], one) for one in own})

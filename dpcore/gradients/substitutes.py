"""Layers whose own forward pass PyTorch cannot map over records, or maps wrongly, and what runs instead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.utils._pytree import tree_flatten, tree_unflatten

from dpcore.gradients import mapping
from dpcore.gradients.slots import standing_in


def padded_embedding(module: nn.Module, codes: Tensor) -> Tensor:
    """nn.Embedding: the mapped operation forgets that the padding row is not trained."""
    layer = cast(nn.Embedding, module)
    rows = F.embedding(codes, layer.weight)
    if layer.padding_idx is None:
        return rows
    return torch.where((codes == layer.padding_idx).unsqueeze(-1), rows.detach(), rows)


def one_at_a_time(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The layer's own forward pass in a loop over records: right, and slow."""
    places = [(one._parameters, key) for one in module.modules() for key in one._parameters]
    leaves, form = tree_flatten((args, kwargs))
    seen: list[Any] = [*leaves, *(table[key] for table, key in places)]
    axes = [mapping.axis(one) if isinstance(one, Tensor) else None for one in seen]
    memory = [one if at is None else mapping.whole(one) for one, at in zip(seen, axes, strict=True)]
    sizes = [one.shape[at] for one, at in zip(memory, axes, strict=True) if at is not None]
    if not sizes:
        return type(module).forward(module, *args, **kwargs)
    columns: list[list[Any]] = []
    with temporarily_pop_interpreter_stack():
        for record in range(sizes[0]):
            own = [one if at is None else one.select(at, record) for one, at in zip(memory, axes, strict=True)]
            own_args, own_kwargs = tree_unflatten(own[: len(leaves)], form)
            with standing_in(list(zip(places, own[len(leaves) :], strict=True))):
                found, found_form = tree_flatten(type(module).forward(module, *own_args, **own_kwargs))
            columns.append(found)
        stacked = [torch.stack(one) if isinstance(one[0], Tensor) else one[0] for one in zip(*columns, strict=True)]
    return tree_unflatten([mapping.mapped(one, 0) if isinstance(one, Tensor) else one for one in stacked], found_form)


SUBSTITUTES: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Embedding: padded_embedding,
    **dict.fromkeys((nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell), one_at_a_time),
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

"""What a mapped pass answers otherwise than a plain one, wherever it is asked: by the model, by torch or by a library.

padding                a row of a table that `padding_idx` names is not trained, whoever looks it up
linear maps            one product for all records that share a weight, its bias added as it is formed
attention              one call of PyTorch's kernels for all records, which have no rule for a mapped axis
checkpoints            what is computed again in the backward pass is mapped again
compiled code          runs as it was written
autograd.Function      without a rule for a mapped axis: one record after the other
questions for values   of transformers (`mask.all()`): values are not known, as under its own tracing
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor
from torch._C import _functorch
from torch._functorch.pyfunctorch import (
    temporarily_clear_interpreter_stack,
    temporarily_pop_interpreter_stack,
    temporarily_restore_interpreter_stack,
)
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from dpcore.gradients.mapping import axis, in_turn, level, mapped, whole
from dpcore.gradients.refusals import Refused


@contextmanager
def answered() -> Iterator[None]:
    """Inside the block operations are answered as a mapped pass needs them."""
    with ExitStack() as undone:
        for holder, name, one in (*_ELSEWHERE, *_of_transformers()):
            undone.callback(setattr, holder, name, vars(holder)[name])
            setattr(holder, name, one)
        if "torch._dynamo" in sys.modules:
            undone.enter_context(torch.compiler.set_stance("force_eager"))
        # Kernels that have no rule for a mapped axis would go through records one at a time.
        undone.enter_context(sdpa_kernel(SDPBackend.MATH))
        fastpath = torch.backends.mha.get_fastpath_enabled()
        undone.callback(torch.backends.mha.set_fastpath_enabled, fastpath)
        torch.backends.mha.set_fastpath_enabled(False)
        undone.enter_context(_Answering())
        yield


class _Answering(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _ANSWERS.get(func, func)(*args, **(kwargs or {}))


def _looked_up(input: Tensor, weight: Tensor, padding_idx: int | None = None, *others: Any, **more: Any) -> Tensor:
    """F.embedding, what is padding kept out of the backward pass: mapped, PyTorch forgets it."""
    found = F.embedding(input, weight, padding_idx, *others, **more)
    if padding_idx is None:
        return found
    return torch.where((input == padding_idx % len(weight)).unsqueeze(-1), found.detach(), found)


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear of all records at once, where they share the weight; mapped, the bias is added in a pass of its own."""
    at = axis(input)
    if at is None or bias is None or axis(weight) is not None or axis(bias) is not None:
        return F.linear(input, weight, bias)
    memory = whole(input)
    with temporarily_pop_interpreter_stack():
        found = F.linear(memory.movedim(at, 0), weight, bias)
    return mapped(found, 0)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Tensor:
    """F.scaled_dot_product_attention [*lead, H, L, D] of all records at once, each of them some rows of a batch."""
    given, lead = (query, key, value, attn_mask), query.shape[:-3]
    sizes = [whole(one).shape[at] for one in given if one is not None and (at := axis(one)) is not None]
    if not sizes or query.ndim < 3 or key.shape[:-3] != lead or value.shape[:-3] != lead:
        return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, **more)
    rows = [None if one is None else _rows(one, sizes[0], lead) for one in given]
    with temporarily_pop_interpreter_stack(), sdpa_kernel(_KERNELS):
        found: Tensor = F.scaled_dot_product_attention(*rows, dropout_p, is_causal, **more)  # type: ignore
    return mapped(found.unflatten(0, (sizes[0], *lead)), 0)


_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def _rows(one: Tensor, size: int, lead: torch.Size) -> Tensor:
    """[size * lead, ...] of what each record has as [*lead, H, L, D], or fewer axes that are the same for all."""
    at = axis(one)
    memory = whole(one).unsqueeze(0) if at is None else whole(one).movedim(at, 0)
    own = memory.shape[1:]
    memory = memory.reshape(len(memory), *[1] * (len(lead) + 3 - len(own)), *own)
    return memory.expand(size, *lead, *memory.shape[1 + len(lead) :]).flatten(0, len(lead))


def _as_it_is(one: Tensor, requires_grad: bool = True) -> Tensor:
    """A mapped tensor says nothing of gradients; what is under it has them where it needs them."""
    return one if level() is not None else one.requires_grad_(requires_grad)


def _packed(*_: Any, **__: Any) -> Any:
    raise Refused(
        "a packed sequence (pack_padded_sequence) has another shape for each record. Give the recurrent layer the "
        "padded sequence, and take each record's output at its own last place, by gather."
    )


_ANSWERS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    F.embedding: _looked_up,
    F.linear: _linear,
    F.scaled_dot_product_attention: _attention,
    torch.Tensor.requires_grad_: _as_it_is,
    torch._VF._pack_padded_sequence: _packed,
}


_CHECKPOINTED = torch.utils.checkpoint._checkpoint_without_reentrant_generator


def _checkpointed(
    function: Callable[..., Any],
    preserve: Any,
    contexts: Any,
    check: Any,
    debug: Any,
    _: Any,
    *args: Any,
    **kwargs: Any,
) -> Iterator[None]:
    """PyTorch's own, which computes the function again with its map entered again: a mapped tensor belongs to the map
    of its depth, whichever that is."""
    with temporarily_clear_interpreter_stack() as maps:
        pass

    def again(*_: Any) -> None:
        with _Answering(), temporarily_restore_interpreter_stack(maps):
            function(*args, **kwargs)

    if len(maps) == 1:
        memory = [whole(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        # To its end: what a recurrent layer notes is written behind the last tensor that is saved.
        yield from _CHECKPOINTED(again, preserve, contexts, check, debug, False, *memory)
    else:
        # A transformation of the model's own is over by then: nothing is computed again.
        yield


class _Reentrant:
    @staticmethod
    def apply(*_: Any) -> Any:
        raise Refused("a reentrant checkpoint passes no gradient of single records. Use use_reentrant=False.")


_APPLY = torch.autograd.Function.__dict__["apply"].__func__


def _applied(kind: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
    has_rule = kind.setup_context is not torch.autograd.Function.setup_context
    if has_rule or level() is None:
        return _APPLY(kind, *args, **kwargs)
    return in_turn(kind.apply, *args, **kwargs)


_ELSEWHERE: tuple[tuple[Any, str, Any], ...] = (
    (torch.utils.checkpoint, "_checkpoint_without_reentrant_generator", _checkpointed),
    (torch.utils.checkpoint, "CheckpointFunction", _Reentrant),
    (torch.autograd.Function, "apply", classmethod(_applied)),
)


def _of_transformers() -> Iterator[tuple[Any, str, Any]]:
    """`is_tracing` asks this among others whether a tensor's values are known."""
    library = sys.modules.get("transformers.utils.import_utils")
    if library is not None and hasattr(library, "is_fake_tensor"):
        own = library.is_fake_tensor
        yield library, "is_fake_tensor", lambda one: _functorch.is_batchedtensor(one) or own(one)

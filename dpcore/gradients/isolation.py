"""A model's pass over a batch in which no record can see another: mapped over records, each as a batch of one."""

from __future__ import annotations

import re
import secrets
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch.autograd_function import custom_function_call
from torch._functorch.pyfunctorch import TransformType
from torch.func import vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from dpcore.checks import InvalidValue
from dpcore.gradients import mapping
from dpcore.gradients.chain import proves_isolation
from dpcore.gradients.mapping import substituted
from dpcore.gradients.refusals import CLOSELY, NotComputed, Refused, kept, label, of_the_machine, refuse, refuse_change
from dpcore.randomness import seeded_generator

# What a model draws while records pass: from a stream of its own, whose seed is nobody's to know.
#
# Dropout draws one mask after the other for the records of a batch, so that a record's mask follows from its place
# there. With masks that nobody knows a record more or less changes nothing for the others: theirs are as likely as
# before. With masks that follow from a seed that somebody set (`torch.manual_seed(0)` at the head of a file) it moves
# the masks of all that come after it, and with them their gradients, each by up to two clip norms.

_alone = threading.RLock()
_inside: Counter[str] = Counter()
_before: dict[str, Tensor] = {}
_kept: dict[str, Tensor] = {}
_seeds: dict[str, int] = {}


@contextmanager
def secret_draws(device: torch.device) -> Iterator[None]:
    """Inside the block torch's generators, of the CPU and of `device`, go on from where the last such block left them,
    and began with bytes of the operating system; outside they are as they were.

    The generators are the whole process's: one thread at a time is inside. Raises Refused at its end where a seed was
    set in it.
    """
    with _alone:
        yield from _secretly(device)


@contextmanager
def seeded_draws(seed: int) -> Iterator[None]:
    """Inside the block torch's generator of the CPU begins with a public `seed`; outside it is as it was."""
    with _alone, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def _secretly(device: torch.device) -> Iterator[None]:
    generators = {"cpu": torch.default_generator}
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators[f"cuda:{index}"] = torch.cuda.default_generators[index]
    for name, one in generators.items():
        if not _inside[name]:
            _enter(name, one)
        _inside[name] += 1
    try:
        yield
        if any(one.initial_seed() != _seeds[name] for name, one in generators.items()):
            raise Refused(
                "the model or the loss sets the seed of torch's generator while it computes, so that what a record "
                "draws follows from its place in the batch. Draw without a seed."
            )
    finally:
        for name, one in generators.items():
            _inside[name] -= 1
            if not _inside[name]:
                _leave(name, one)


def _enter(name: str, generator: torch.Generator) -> None:
    _before[name] = generator.get_state()
    if name not in _kept:
        _kept[name] = seeded_generator(secrets.token_bytes(32), name).get_state()
    generator.set_state(_kept[name])
    _seeds[name] = generator.initial_seed()


def _leave(name: str, generator: torch.Generator) -> None:
    if generator.initial_seed() == _seeds[name]:
        _kept[name] = generator.get_state()
    else:
        # Somebody set another seed: begin anew.
        del _kept[name]
    generator.set_state(_before.pop(name))


_OWN_OPERATORS = ("aten::", "prims::", "flex_lib::")


def over_records(function: Callable[..., Any], *columns: Any) -> Any:
    """`function` of every record, all at once; columns are trees of tensors [N, ...]."""
    return vmap(function, randomness="different")(*columns)


def alone(columns: Any) -> Any:
    """Tensors of one record as a batch of one."""
    return tree_map(lambda one: one.unsqueeze(0), columns)


@contextmanager
def isolating(modules: Mapping[str, nn.Module], *, depth: int = 1) -> Iterator[None]:
    """Inside the block, a mapped pass of a model treats records apart or is refused. Raises Refused.

    modules  of the model, by name
    depth    how closely to look at what they keep (dpcore.gradients.refusals)
    """
    before = kept(modules, depth=depth)
    table = custom_function_call.functorch_table
    rule = table[TransformType.Vmap]
    fastpath = torch.backends.mha.get_fastpath_enabled()
    table[TransformType.Vmap] = _without_own_rules(rule)
    # Attention by fused kernels has no rule for a mapped axis and would go through records one at a time.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), substituted(modules.values()):
            yield
    except (InvalidValue, Refused):
        raise
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        if of_the_machine(error):
            raise
        raise NotComputed(_explained(modules, error)) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        table[TransformType.Vmap] = rule
    refuse_change(modules, before, depth=depth)


def _without_own_rules(rule: Callable[..., Any]) -> Callable[..., Any]:
    def checked(interpreter: Any, function: type[torch.autograd.Function], *operands: Any, **options: Any) -> Any:
        if not function.generate_vmap_rule and not function.__module__.startswith("torch."):
            raise Refused(
                f"the autograd function {function.__name__} brings its own rule for a mapped axis, in which records "
                "may meet unseen. Set generate_vmap_rule = True on it, and write it in PyTorch operations."
            )
        return rule(interpreter, function, *operands, **options)

    return checked


class Watching(TorchFunctionMode):
    """Inside the block, refuses calls of a model's code that a mapped pass would answer otherwise than a plain one."""

    def __init__(self) -> None:
        super().__init__()
        registered = torch._C._dispatch_get_registrations_for_dispatch_key("FuncTorchBatched")
        self._own_rules = {name for name in registered if not name.startswith(_OWN_OPERATORS)}

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function == _REQUIRES_GRAD and mapping.axis(args[0]) is not None and not _asked_by_torch():
            raise Refused(
                "the model asks whether a tensor requires a gradient, which no tensor of a mapped pass says. Decide by "
                "self.training, or leave the question out; hooks on tensors are not run."
            )
        if (kwargs or {}).get("generator") is not None:
            raise Refused(
                "the model draws from a generator of its own: with a seed that somebody set, what a record draws "
                "follows from its place in the batch. Draw without one (torch.rand_like(x)); the seed is kept secret."
            )
        name = getattr(function, "_qualified_op_name", "") or getattr(function, "name", lambda: "")()
        if isinstance(name, str) and name.split(".")[0] in self._own_rules:
            raise Refused(
                f"the operator {name} brings its own rule for a mapped axis, in which records may meet unseen. "
                "Write it in PyTorch operations."
            )
        return function(*args, **(kwargs or {}))


_REQUIRES_GRAD = torch.Tensor.requires_grad.__get__  # type: ignore[attr-defined]


def _asked_by_torch() -> bool:
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("torch.")


@contextmanager
def loops_noted(names: set[str]) -> Iterator[None]:
    """Adds to `names` the operations of the block that PyTorch cannot map and takes one record at a time."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        found = re.search(r"batching rule for (\S+?)\. ", str(one.message))
        if found:
            names.add(found[1])
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _explained(modules: Mapping[str, nn.Module], error: BaseException) -> str:
    names = {id(module): name for name, module in modules.items()}
    where = "the model or the loss"
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in names:
            where = f"{label(names[id(module)], module)}, line {line} of {frame.f_code.co_filename}"
    return (
        f"{where} cannot be computed for each record apart: {error}\nRecords pass side by side, each as a batch of "
        "one. So code must not branch on values, read them out (item, numpy), or write a record into a tensor that "
        "all records share (start from x.new_zeros(...), not torch.zeros(...))."
    )


def isolated(model: nn.Module) -> Callable[..., Any]:
    """`model` as a function whose row b depends on row b of its inputs and the weights alone.

    Called with tensors [B, ...], B at least 1; returns what the model returns, every tensor [B, ...]. The mode
    (training or evaluation) is the model's. Where structure proves isolation, the model is called as it is; else it is
    mapped over records, each as a batch of one. Raises Refused, at once for a model that mixes by its structure.
    """
    refuse(model)

    def called(*inputs: Tensor) -> Any:
        refuse(model)
        with secret_draws(inputs[0].device):
            if proves_isolation(model, inputs):
                return model(*inputs)
            with isolating(dict(model.named_modules()), depth=CLOSELY), Watching():
                return over_records(lambda *one: tree_map(_of_one, model(*alone(one))), *inputs)

    return called


@contextmanager
def one_by_one(model: nn.Module) -> Iterator[None]:
    """Inside the block `model` may be called with one record at a time, which then sees no other.

    Raises Refused for a model that mixes records by its structure, and at the end for one that kept something of
    a call.
    """
    refuse(model)
    modules = dict(model.named_modules())
    before, sums = kept(modules, depth=CLOSELY), _sums(model)
    devices = {one.device for one in model.parameters()}
    with secret_draws(next(iter(devices), torch.device("cpu"))):
        yield
    refuse_change(modules, before, depth=CLOSELY)
    # What is written to `tensor.data` counts as no change of the tensor.
    if changed := [name for name, one in _sums(model).items() if sums.get(name) != one]:
        raise Refused(
            f"the model writes to {changed[0]!r} while it computes: what one record leaves there reaches the "
            "next ones. Keep nothing of a call in the module."
        )


def _sums(model: nn.Module) -> dict[str, str]:
    """Of each tensor that a model holds, as text, so that no number equals itself."""
    held = (*model.named_parameters(), *model.named_buffers())
    return {name: f"{one.detach().sum()} {one.detach().abs().sum()}" for name, one in held}


def _of_one(output: Any) -> Any:
    if not isinstance(output, Tensor):
        return output
    if not output.ndim or len(output) != 1:
        raise InvalidValue("outputs of one record", tuple(output.shape), "axis 0 of length 1, the batch")
    return output[0]

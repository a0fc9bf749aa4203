"""A model's pass over a batch in which no record can see another: mapped over records, each as a batch of one.

What the model draws meanwhile comes from a stream whose seed is nobody's to know. Dropout draws one mask after the
other for the records of a batch, so that a record's mask follows from its place there. With masks that nobody knows a
record more or less changes nothing for the others: theirs are as likely as before. With masks that follow from a seed
that somebody set it moves the masks of all that come after it, and with them their gradients, each by up to two clip
norms.
"""

from __future__ import annotations

import secrets
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_map

from dpcore.checks import InvalidValue
from dpcore.gradients.chain import proves_isolation
from dpcore.gradients.mapping import substituted
from dpcore.gradients.operations import answered
from dpcore.gradients.refusals import NotComputed, Refused, label, of_the_machine, refuse, refuse_changes, versions
from dpcore.randomness import seeded_generator

_ONE_THREAD = threading.RLock()
"""Torch's generators are the whole process's: one thread at a time puts others in their place."""


def over_records(function: Callable[..., Any], *columns: Any) -> Any:
    """`function` of every record, all at once; columns are trees of tensors [N, ...]."""
    return vmap(function, randomness="different")(*columns)


def alone(columns: Any) -> Any:
    """Tensors of one record as a batch of one."""
    return tree_map(lambda one: one.unsqueeze(0), columns)


@contextmanager
def isolating(modules: Mapping[str, nn.Module]) -> Iterator[None]:
    """Inside the block, a mapped pass of a model, whose modules are given by name, treats records apart or is refused.

    Raises Refused.
    """
    before = versions(modules)
    try:
        with answered(), substituted(modules.values()):
            yield
    except (InvalidValue, Refused):
        raise
    except (RuntimeError, ValueError, NotImplementedError, IndexError) as error:
        if of_the_machine(error):
            raise
        raise NotComputed(_explained(modules, error)) from error
    refuse_changes(modules, before)


def _explained(modules: Mapping[str, nn.Module], error: BaseException) -> str:
    names = {id(module): name for name, module in modules.items()}
    where = "the model or the loss"
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_locals.get("self")
        if isinstance(module, nn.Module) and id(module) in names:
            where = f"{label(names[id(module)], module)}, line {line} of {frame.f_code.co_filename}"
    why = next((words for piece, words in _WORDS.items() if piece in str(error)), f"{error}\n{_RULES}")
    return f"{where} cannot be computed for each record apart: {why}"


_RULES = (
    "Records pass side by side, each as a batch of one. So code must not branch on values, read them out, or write a "
    "record into a tensor that all records share (start from x.new_zeros(...), not torch.zeros(...))."
)
_WORDS = {
    "data-dependent control flow": "it decides by a value (if, while, bool, all), of a record or drawn at random. "
    "Code must not branch on values: choose by torch.where, or give the model what it decides by as a setting. "
    "Adapters that drop whole modules at random (LoHa, LoKr) pass in evaluation mode; LoRA passes in both.",
    ".item() on a Tensor": "it reads a value out (item, float, int). Keep it a tensor: records pass side by side.",
    "can support dynamic shape": "what it picks by a mask has another shape for each record. Keep the shape: "
    "torch.where, masked_fill, or a product with the mask.",
}
"""What PyTorch says: what it means here, and a remedy."""


def isolated(model: nn.Module) -> Callable[..., Any]:
    """`model` as a function whose row b depends on row b of its inputs and the weights alone.

    Called with tensors [B, ...], B at least 1; returns what the model returns, every tensor [B, ...]. The mode
    (training or evaluation) is the model's. Where structure proves isolation, and for a single record, the model is
    called as it is; else it is mapped over records, each as a batch of one. Raises Refused, at once for a model that
    mixes by its structure.
    """
    refuse(model)
    modules, draws = dict(model.named_modules()), SecretDraws()

    def called(*inputs: Tensor) -> Any:
        with draws.inside(inputs[0].device):
            if proves_isolation(model, inputs):
                return model(*inputs)
            if len(inputs[0]) == 1:
                before = versions(modules)
                outputs = model(*inputs)
                refuse_changes(modules, before)
                return outputs
            with isolating(modules):
                return over_records(lambda *one: tree_map(_of_one, model(*alone(one))), *inputs)

    return called


def _of_one(output: Any) -> Any:
    if not isinstance(output, Tensor):
        return output
    if not output.ndim or len(output) != 1:
        raise InvalidValue("outputs of one record", tuple(output.shape), "axis 0 of length 1, the batch")
    return output[0]


class SecretDraws:
    """What one run's model draws at random: torch's generators begun with bytes of the operating system."""

    def __init__(self) -> None:
        self._states: dict[str, Tensor] = {}

    @contextmanager
    def inside(self, device: torch.device) -> Iterator[None]:
        """Inside the block torch's generators, of the CPU and of `device`, go on from where this run's last block left
        them; outside they are as they were. Raises Refused at its end where a seed was set in it."""
        with _ONE_THREAD:
            generators = _generators(device)
            outside = {name: one.get_state() for name, one in generators.items()}
            for name, one in generators.items():
                if name not in self._states:
                    self._states[name] = seeded_generator(secrets.token_bytes(32), name).get_state()
                one.set_state(self._states[name])
            seeds = {name: one.initial_seed() for name, one in generators.items()}
            try:
                yield
                if any(one.initial_seed() != seeds[name] for name, one in generators.items()):
                    raise Refused(
                        "the model or the loss sets the seed of torch's generator while it computes, so that what a "
                        "record draws follows from its place in the batch. Draw without a seed."
                    )
            finally:
                for name, one in generators.items():
                    if one.initial_seed() == seeds[name]:
                        self._states[name] = one.get_state()
                    else:
                        del self._states[name]
                    one.set_state(outside[name])


def _generators(device: torch.device) -> dict[str, torch.Generator]:
    generators = {"cpu": torch.default_generator}
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        generators[f"cuda:{index}"] = torch.cuda.default_generators[index]
    return generators


@contextmanager
def seeded_draws(seed: int) -> Iterator[None]:
    """Inside the block torch's generator of the CPU begins with a public `seed`; outside it is as it was."""
    with _ONE_THREAD, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield

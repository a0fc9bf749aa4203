"""What a model draws while records pass: from a stream of its own, whose seed is nobody's to know.

Dropout draws one mask after the other for the records of a batch, so that a record's mask follows from its place there.
With masks that nobody knows a record more or less changes nothing for the others: theirs are as likely as before. With
masks that follow from a seed that somebody set (`torch.manual_seed(0)` at the head of a file) it moves the masks of all
that come after it, and with them their gradients, each by up to two clip norms.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dpcore._torch_generator import seeded_generator
from dpcore.gradients.refusals import Refused

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

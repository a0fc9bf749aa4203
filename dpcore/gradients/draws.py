"""What a model draws while records pass: from a stream of its own, whose seed is nobody's to know.

Dropout draws one mask after the other for the records of a batch, so that a record's mask follows from its place there.
With masks that nobody knows a record more or less changes nothing for the others: theirs are as likely as before. With
masks that follow from a seed that somebody set (`torch.manual_seed(0)` at the head of a file) it moves the masks of all
that come after it, and with them their gradients, each by up to two clip norms.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dpcore._torch_generator import seeded_generator
from dpcore.gradients.refusals import Refused


class SecretDraws:
    """A stream for each device, begun with a seed from the operating system."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    @contextmanager
    def on(self, device: torch.device) -> Iterator[None]:
        """Inside the block torch's generators, of the CPU and of `device`, go on from where the last block left them;
        outside they are as they were. Raises Refused at its end where a seed was set in it."""
        generators = {"cpu": torch.default_generator}
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            generators[f"cuda:{index}"] = torch.cuda.default_generators[index]
        before = {name: one.get_state() for name, one in generators.items()}
        for name, one in generators.items():
            if name not in self._kept:
                self._kept[name] = seeded_generator(secrets.token_bytes(32), name).get_state()
            one.set_state(self._kept[name])
        seeds = {name: one.initial_seed() for name, one in generators.items()}
        try:
            yield
            if any(one.initial_seed() != seeds[name] for name, one in generators.items()):
                raise Refused(
                    "the model or the loss sets the seed of torch's generator while it computes, so that what a record "
                    "draws follows from its place in the batch. Draw without a seed."
                )
        finally:
            for name, one in generators.items():
                self._kept[name] = one.get_state()
                one.set_state(before[name])

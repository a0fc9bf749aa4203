"""What a process is asked for and what it gives, where several form the clipped sums of one trial."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import nn

from dpcore.gradients import ClippedSum
from dpcore.gradients.precision import Name
from trainables.metrics import Config


class BatchSums(Protocol):
    """The private sums of one run, step by step."""

    def next(self) -> ClippedSum:
        """Draw the next step's Poisson batch and add up its clipped gradients at the model's present parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordGradient:
    """What the gradient of a record is before it is bounded, and by what.

    automatic     divided by its norm (`dpcore.gradients.units.automatic_factors`); else cut where it is too long
    copies        how many augmentations of the record it is the mean over
    augmentation  what makes them; "none": the record is as it is
    seed          32 bytes that they are drawn from; public
    """

    automatic: bool = False
    copies: int = 1
    augmentation: str = "none"
    seed: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientTask:
    """What a process needs to form its part of each step's sum. Holds no noise and nothing to derive any from.

    config          of the plan, which says what the model is
    model_seed      public: what a model draws once and does not train is the same everywhere
    rate            of the Poisson batches
    from_step       the number of the first step, counted from 0 at the start of the trial
    steps           how many sums will be asked for
    gradient        what is bounded and added up of each record
    sampling_seed   32 bytes of the attempt's sampling stream: secret towards the world, not among the trial's processes
    sampling        which generator draws batches from it (`trainables.training.noise.batches_of`)
    device          where workers compute: "auto" is a GPU if they were given one
    """

    config: Config
    model_seed: int
    rate: float
    clip_norm: float
    steps: int
    sampling_seed: bytes = field(repr=False)
    sampling: Literal["pseudorandom", "secure"] = "pseudorandom"
    microbatch: int | None = None
    precision: Name = "float32"
    device: str = "auto"
    threads: int = 1
    from_step: int = 0
    gradient: RecordGradient = RecordGradient()


class Team(Protocol):
    """Other processes that form a trial's sums."""

    def sums(self, task: GradientTask, model: nn.Module) -> AbstractContextManager[BatchSums]:
        """The sums at `model`'s parameters as they are at each call; `task.steps` of them are to be asked for."""

    def peak_memory_mb(self) -> float:
        """Largest resident memory of all its processes in the present run, added up, in MiB."""


# What a process may use of its machine.


def device_named(name: str) -> torch.device:
    """The torch device of that name; "auto" is a GPU where torch sees one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """At most so many torch threads inside; 0 changes nothing."""
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)

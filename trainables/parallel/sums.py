"""The clipped sum of each step, formed by several processes.

What is split, and why the release does not change. Records (whole units, where the data name some) are cut into
consecutive shards (`shards`). Every worker draws the step's Poisson batch from the same stream and keeps what falls
into its shard: a Poisson batch of the shard at the global rate, independent of the others' (`PoissonSampling.indices`),
the very records that one worker would have drawn. Each worker clips and adds up its own, an empty batch to zeros; the
sums are added up at the owner. So the event is the same one subsampled Gaussian, and the model the one worker's up to
the order of float32 sums, whatever the number of workers; a checkpoint can go on with another number.

Who draws the noise. The owner, once, after the reduction: the process that holds the trial's secret, keeps its records
and releases the model, which every claim trusts already. It looks after no record. The workers hold the seed of the
batches (they have to draw them), never the secret or the noise's stream, and see parameters whose noise is in.

Noise in shares would be worse, however correlated. Let workers hold z_1..z_N with sum S of variance s^2: since the sum
over r of Cov(z_r, S) is Var(S) = s^2, some worker's share is correlated with S, and S given z_r has a variance below
s^2. With independent shares of s^2/N each worker faces s^2 (N-1)/N, with N = 2 half the variance. Raising the shares
until s^2 is left to everybody would put more than the planned variance into the model. So: no shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpcore import checks
from dpcore.gradients import ClippedSum
from trainables.parallel.link import Link
from trainables.system import Dataset
from trainables.team import GradientTask, limited_threads
from trainables.training.private_sgd import LocalSums
from trainables.training.released import build_model


def shards(n: int, workers: int) -> tuple[range, ...]:
    """n records cut into `workers` consecutive parts whose sizes differ by one at most; perhaps empty ones.

    Raises InvalidValue.
    """
    checks.count(n=n)
    checks.count(minimum=1, workers=workers)
    return tuple(range(n * rank // workers, n * (rank + 1) // workers) for rank in range(workers))


@dataclass(frozen=True, slots=True)
class Layout:
    """Order, shapes and types of the trainable parameters; equal on both sides of a link.

    names   by type of accumulation: float32 for half-precision parameters too, which it holds exactly
    """

    names: Mapping[torch.dtype, tuple[str, ...]]
    shapes: Mapping[str, torch.Size]

    @classmethod
    def of(cls, model: nn.Module) -> Layout:
        """The layout of `model`'s trainable parameters."""
        names: dict[torch.dtype, tuple[str, ...]] = {}
        shapes = {}
        for name, one in model.named_parameters():
            if one.requires_grad:
                kind = torch.promote_types(one.dtype, torch.float32)
                names[kind] = (*names.get(kind, ()), name)
                shapes[name] = one.shape
        return cls(names, shapes)

    def zeros(self, device: torch.device) -> list[Tensor]:
        """One flat tensor of zeros for each type."""
        return [
            torch.zeros(sum(self.shapes[name].numel() for name in names), dtype=kind, device=device)
            for kind, names in self.names.items()
        ]

    @torch.no_grad()
    def pack(self, tensors: Mapping[str, Tensor], into: Sequence[Tensor]) -> None:
        """Copy `tensors` (by name) into the flat ones."""
        for flat, names in zip(into, self.names.values(), strict=True):
            for name, part in zip(names, self._parts(flat, names), strict=True):
                part.copy_(tensors[name])

    def unpack(self, flat: Sequence[Tensor]) -> dict[str, Tensor]:
        """Views into the flat tensors, by name and in their shapes."""
        out: dict[str, Tensor] = {}
        for one, names in zip(flat, self.names.values(), strict=True):
            out |= dict(zip(names, self._parts(one, names), strict=True))
        return {name: out[name] for name in self.shapes}

    def _parts(self, flat: Tensor, names: tuple[str, ...]) -> list[Tensor]:
        sizes = [self.shapes[name].numel() for name in names]
        return [part.view(self.shapes[name]) for name, part in zip(names, flat.split(sizes), strict=True)]


class LinkedSums:
    """Sums over all records, formed by the workers at the other end of `link`; the owner's side."""

    def __init__(self, task: GradientTask, model: nn.Module, link: Link) -> None:
        self._task, self._link, self._layout = task, link, Layout.of(model)
        self._parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._sent = self._layout.zeros(torch.device("cpu"))

    def next(self) -> ClippedSum:
        """See `BatchSums`."""
        self._layout.pack(self._parameters, self._sent)
        self._link.spread(self._sent)
        total = self._layout.zeros(torch.device("cpu"))
        self._link.add_up(total)
        return ClippedSum(tensors=self._layout.unpack(total), clip_norm=self._task.clip_norm)


def serve(task: GradientTask, data: Dataset, rank: int, workers: int, link: Link, device: torch.device) -> None:
    """Form this worker's part of each of `task.steps` sums. The worker's side: it keeps nothing between steps."""
    with limited_threads(task.threads):
        model = build_model(
            task.model, task.hidden, task.model_seed, data.facts, device, task.arguments, task.adaptation
        )
        sums = LocalSums(task, model, data, device, shards(data.present, workers)[rank])
        layout = Layout.of(model)
        parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        exchanged = torch.device("cpu") if link.on_cpu else device
        received = layout.zeros(exchanged)
        for _ in range(task.steps):
            link.spread(received)
            _take(parameters, layout.unpack(received))
            part = layout.zeros(exchanged)
            layout.pack(sums.next().tensors, part)
            link.add_up(part)


@torch.no_grad()
def _take(parameters: dict[str, nn.Parameter], values: dict[str, Tensor]) -> None:
    for name, one in parameters.items():
        one.copy_(values[name])

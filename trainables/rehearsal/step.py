"""One gradient step at the first weights, on made-up records, looked at closely before anything is trained."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from dpcore.gradients import PrivateGradients, isolated
from dpcore.gradients.refusals import refuse
from trainables.models.registry import outputs
from trainables.parallel import device_named
from trainables.rehearsal.findings import CannotRun, Step
from trainables.system import Dataset, DatasetSpec, RunSettings, Task
from trainables.training.losses import loss_function, tensor
from trainables.training.made_up import made_up
from trainables.worker import memory

Loss = Callable[[Any, Any], Tensor]
Saying = Callable[[str], None]

FEW = 8
"""Records, or units, of the first look."""
STEP_SECONDS = 4.0
"""What a step over a whole batch may take, by the time of the first look; else fewer records pass."""

MOST_AGAIN, AGAIN_SECONDS = 5, 0.2
"""How often a whole batch passes again, and for how long at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """What a step of a plan passes over.

    planned    expected records, or units, of a batch
    clip_norm  None where no gradient is clipped, and each record's own is not needed
    """

    planned: int
    clip_norm: float | None


def examined(
    model: nn.Module, loss: Loss, facts: DatasetSpec, batches: Batches, execution: RunSettings, saying: Saying
) -> Step:
    """What a step of `model` is like. Changes nothing of it. Raises CannotRun, Refused.

    saying  told what comes next, so that somebody knows where it was if it never comes back
    """
    device = device_named(execution.device)
    cuda = [torch.cuda.current_device()] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), warnings.catch_warnings():
        # What the engine warns of, the findings say.
        warnings.simplefilter("ignore")
        few = _Batch.of(facts, min(FEW, batches.planned), device)
        if batches.clip_norm is not None:
            refuse(model)
        saying("one made-up record through the model")
        _one_record(model, loss, facts, few)
        saying(f"{len(few)} made-up records forward and backward")
        value = _finite_loss(model, loss, few, isolate=batches.clip_norm is not None)
        passes = (
            _Private(model, loss, facts, batches.clip_norm, execution) if batches.clip_norm else _Plain(model, loss)
        )
        if isinstance(passes, _Private):
            passes.check(few)
        passes(few)
        took = _seconds(passes, few, device)
        each = took / len(few)
        count = min(batches.planned, max(len(few), int(STEP_SECONDS / max(each, 1e-9))))
        saying(f"a step over {count} made-up records")
        whole = few if count == len(few) else _Batch.of(facts, count, device)
        grown = _Growth(device)
        took, memory_mb = _seconds(passes, whole, device), grown.mb()
        took = min([took, *_again(passes, whole, device, took)])
        return Step(
            records=count,
            planned=batches.planned,
            seconds=took,
            memory_mb=memory_mb,
            device=device.type,
            loss=value,
            parameters=sum(one.numel() for one in model.parameters() if one.requires_grad),
            routes=dict(passes.routes),
            looped=passes.looped,
            unreached=passes.unreached,
            unit_records=facts.unit_records,
        )


@dataclass(frozen=True, slots=True)
class _Batch:
    """Tensors [U, ...], or [U, k, ...] with the places `taken` [U, k] where a unit has several records."""

    inputs: tuple[Tensor, ...]
    targets: Tensor
    taken: Tensor | None

    @classmethod
    def of(cls, facts: DatasetSpec, count: int, device: torch.device) -> _Batch:
        data = made_up(facts, count, 0)
        if facts.unit_records == 1:
            return cls(*_columns(data, device), None)
        assert data.units is not None
        rows, taken = data.units.rows(torch.arange(count).numpy(), facts.unit_records)
        inputs, targets = _columns(data, device)
        at = torch.from_numpy(rows).to(device)
        return cls(tuple(one[at] for one in inputs), targets[at], torch.from_numpy(taken).to(device))

    def __len__(self) -> int:
        return len(self.targets)

    def records(self) -> tuple[tuple[Tensor, ...], Tensor]:
        """Inputs and targets [N, ...] of the records that are there."""
        if self.taken is None:
            return self.inputs, self.targets
        return tuple(one[self.taken] for one in self.inputs), self.targets[self.taken]


def _columns(data: Dataset, device: torch.device) -> tuple[tuple[Tensor, ...], Tensor]:
    # Of their own: the made-up records lie over each other.
    inputs = tuple(tensor(array, device).clone() for array in data.train.inputs.values())
    return inputs, tensor(data.train.targets, device).clone()


def _one_record(model: nn.Module, loss: Loss, facts: DatasetSpec, few: _Batch) -> None:
    """Shapes that do not fit show best where nothing is mapped yet. Raises CannotRun."""
    inputs = tuple(one[:1] for one in few.records()[0])
    given = ", ".join(f"{name} {tuple(one.shape)}" for name, one in zip(facts.features, inputs, strict=True))
    try:
        with torch.no_grad():
            found = model(*inputs)
    except Exception as error:
        raise CannotRun.by(error, f"the model fails on one record as the data are declared, {given}") from error
    if loss is not loss_function(facts):
        return
    columns = outputs(facts)
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != (1, columns):
        why = "one number to predict" if facts.task is Task.REGRESSION else f"one column for each of {columns} classes"
        raise CannotRun(
            f"the model returns {shape} for one record, {given}: expected (1, {columns}), {why}. Build its last layer "
            "from the facts that its builder is called with."
        )


def _finite_loss(model: nn.Module, loss: Loss, few: _Batch, *, isolate: bool) -> float:
    """The mean loss. Raises CannotRun where it, or its gradient, is not finite; Refused."""
    inputs, targets = few.records()
    losses = loss((isolated(model) if isolate else model)(*inputs), targets)
    bad = int((~torch.isfinite(losses)).sum())
    if bad:
        raise CannotRun(
            f"the loss of {bad} of {len(targets)} made-up records is infinite or no number at the first weights. "
            "Look for a logarithm or a root of 0, a division by 0, or weights without a value."
        )
    weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
    if losses.requires_grad:
        found = torch.autograd.grad(losses.sum(), list(weights.values()), allow_unused=True)
        broken = [name for name, one in zip(weights, found, strict=True) if one is not None and not _all_finite(one)]
        if broken:
            raise CannotRun(
                f"the gradient of {', '.join(broken)} is infinite or no number at the first weights, though the loss "
                "is finite: such a record would count as zero. Look for a root or a norm at 0."
            )
    return float(losses.mean())


def _all_finite(one: Tensor) -> bool:
    return bool(torch.isfinite(one).all())


class _Private:
    """Clipped gradients of each record, as the training forms them."""

    def __init__(
        self, model: nn.Module, loss: Loss, facts: DatasetSpec, clip_norm: float, execution: RunSettings
    ) -> None:
        self._clip_norm, self._k, self._microbatch = clip_norm, facts.unit_records, execution.microbatch
        self._gradients = PrivateGradients(model, loss, unit_records=self._k, precision=execution.precision)

    def check(self, few: _Batch) -> None:
        self._gradients.check(*few.records())

    def __call__(self, batch: _Batch) -> None:
        self._gradients.clipped_sum(
            batch.inputs,
            batch.targets,
            clip_norm=self._clip_norm,
            taken=batch.taken,
            microbatch_size=None if self._microbatch is None else max(1, self._microbatch // self._k),
        )

    @property
    def routes(self) -> Mapping[str, str]:
        return {name: str(route) for name, route in self._gradients.routes.items()}

    @property
    def looped(self) -> tuple[str, ...]:
        return self._gradients.looped

    @property
    def unreached(self) -> tuple[str, ...]:
        return self._gradients.unreached


class _Plain:
    """The gradient of the mean loss, where nothing is clipped."""

    routes: Mapping[str, str] = MappingProxyType({})
    looped: tuple[str, ...] = ()

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._model, self._loss = model, loss
        self._weights = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.unreached: tuple[str, ...] = ()

    def __call__(self, batch: _Batch) -> None:
        inputs, targets = batch.records()
        mean = self._loss(self._model(*inputs), targets).mean()
        found = torch.autograd.grad(mean, list(self._weights.values()), allow_unused=True)
        self.unreached = tuple(name for name, one in zip(self._weights, found, strict=True) if one is None)


def _seconds(passes: Callable[[_Batch], None], batch: _Batch, device: torch.device) -> float:
    _wait(device)
    began = time.perf_counter()
    passes(batch)
    _wait(device)
    return time.perf_counter() - began


def _again(passes: Callable[[_Batch], None], batch: _Batch, device: torch.device, took: float) -> list[float]:
    """Of a quick step, which other work on the machine may have made long: the times of a few more."""
    count = min(MOST_AGAIN, int(AGAIN_SECONDS / max(took, 1e-9)))
    return [_seconds(passes, batch, device) for _ in range(count)]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class _Growth:
    """How far memory grows from now on."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            memory.forget_peak()
        self._before = self._peak()

    def mb(self) -> float | None:
        """In MiB; None where nothing was seen to grow: what was freed before was enough."""
        grown = self._peak() - self._before
        return grown if grown > 0 else None

    def _peak(self) -> float:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device) / 2**20
        return memory.peak_mb()

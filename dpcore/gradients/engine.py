"""Summed clipped gradients of units of a PyTorch model."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from dpcore import checks
from dpcore.gradients.check import RECORDS, check_gradients
from dpcore.gradients.clipped import ClippedSum
from dpcore.gradients.hooks import Columns, Passes, Recorded
from dpcore.gradients.isolation import loops_noted, secret_draws
from dpcore.gradients.layers import KINDS, Kinds, accumulation_type
from dpcore.gradients.precision import Name, Precision, all_digits
from dpcore.gradients.refusals import CLOSELY, NotComputed, fixed_statistics, refuse, refuse_new_statistics
from dpcore.gradients.units import Parts, UnitRows, clip_factors

Batch = Tensor | tuple[Tensor, ...]


class Route(StrEnum):
    """How a parameter's gradient is found for each record."""

    ONE_PASS = "one pass"
    PER_RECORD = "per record"
    LOOP = "per record, one at a time"
    UNREACHED = "unreached"


class PrivateGradients:
    """Gradients of a model by unit, clipped over all parameters together and summed.

    model         maps inputs [B, ...] to outputs; parameters with requires_grad False are left out
    loss_fn       (outputs, targets) -> losses of shape [B], one per record, reduction "none"
    unit_records  k: a unit is up to k records, and it is the sum of its records' gradients that is clipped. 1: every
                  record is a unit
    precision     "bfloat16" or "float16": forward and backward form their products in it; parameters, losses, norms,
                  clipping and sums are float32 all the same (dpcore.gradients.precision)
    kinds         the kinds of layer that are served by a rule; {} forms every record's gradient

    Records are kept apart by construction: the model passes over them under torch.func.vmap, each as a batch of one
    with random numbers of its own, so that no code of the model or of the loss can see another record. (Where the
    model's structure proves as much, it is called plainly.) Layers with a rule never form a record's gradient; any
    other parameter is given once per record, which costs its size times the number of records in memory. Values are
    those of one record at a time, up to rounding; on the first records of each kind this is compared with autograd.

    What the model draws at random comes from a secret stream, whatever seed somebody set (draws.py).

    Raises Refused, before anything is released, for what cannot be kept apart or seen: see dpcore.gradients.refusals
    and isolation. What remains is code that takes mapped tensors apart by PyTorch's internals, or that hides records in
    other modules' globals or in files: that is no mistake but hostile code, and nothing here guards against it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[[Any, Any], Tensor],
        *,
        unit_records: int = 1,
        precision: Name = "float32",
        kinds: Kinds = KINDS,
    ) -> None:
        checks.count(minimum=1, unit_records=unit_records)
        self._model, self._loss_fn, self._kinds = model, loss_fn, kinds
        self._unit_records, self._precision = unit_records, Precision.named(precision)
        self._statistics = fixed_statistics(model)
        self._prepare()

    def _prepare(self) -> None:
        refuse(self._model)
        self._structure = _structure(self._model)
        self._passes = Passes(self._model, self._loss_fn, self._kinds, self._precision)
        if not self._passes.slots.parameters:
            raise ValueError("the model has no trainable parameter: set requires_grad on those that are to be trained")
        self._checked: set[object] = set()
        self._reached: dict[str, Route] = {}
        self._noted: tuple[str, ...] | None = None
        self._looped: set[str] = set()

    @property
    def routes(self) -> Mapping[str, Route]:
        """{parameter: how its gradient is found}: as the structure says before the first batch, then as it was."""
        names = self._passes.slots.parameters
        if not self._checked:
            captured = {name for layer in self._passes.captured for name in self._passes.owned(layer)}
            return {name: Route.ONE_PASS if name in captured else self._uncaptured(name) for name in names}
        return {name: self._reached.get(name, Route.UNREACHED) for name in names}

    @property
    def looped(self) -> tuple[str, ...]:
        """Operations and layers that PyTorch cannot map and that go through records one at a time: right, and slow.
        () before the first batch."""
        return tuple(sorted(self._looped))

    @property
    def unreached(self) -> tuple[str, ...]:
        """Trainable parameters on which no record's loss depended so far; () before the first batch."""
        return tuple(name for name, route in self.routes.items() if route is Route.UNREACHED)

    def clipped_sum(
        self,
        inputs: Batch,
        targets: Batch,
        *,
        clip_norm: float,
        taken: Tensor | None = None,
        microbatch_size: int | None = None,
    ) -> ClippedSum:
        """sum_u g_u * min(1, clip_norm / |g_u|), g_u the gradient of unit u over all trainable parameters.

        inputs, targets  tensors [U, ...] where a unit is one record, else [U, k, ...]; or tuples of them (a model with
                         several inputs); U may be 0
        clip_norm        L2 bound on one unit's contribution, above 0; infinite: nothing is clipped
        taken            bool [U, k]: which places hold a record; None for all. What stands in the others, numbers or
                         not, has no influence
        microbatch_size  largest number of units in one pass; changes memory and time, not the sum

        A unit whose gradient is not finite, or whose squared norm overflows, contributes zero and leaves the others as
        they are. So does a record for whose values an operation raises an error: that a step failed would tell of it
        without noise. Raises InvalidValue, Refused.
        """
        if clip_norm != math.inf:
            checks.positive_finite(clip_norm=clip_norm)
        columns, answers = _columns(inputs), _columns(targets)
        self._fit(columns, answers, taken)
        passes: Iterable[tuple[Columns, Columns, Tensor | None]] = [(columns, answers, taken)]
        if microbatch_size is not None:
            checks.count(minimum=1, microbatch_size=microbatch_size)
            masks = itertools.repeat(None) if taken is None else taken.split(microbatch_size)
            passes = zip(_split(columns, microbatch_size), _split(answers, microbatch_size), masks, strict=False)
        if _structure(self._model) != self._structure:
            self._prepare()
        refuse_new_statistics(self._model, self._statistics)
        total: dict[str, Tensor] = {}
        with secret_draws(columns[0].device):
            for one_pass in passes:
                for name, one in self._clipped(*one_pass, clip_norm).items():
                    total[name] = total[name].add_(one) if name in total else one
        tensors = {
            name: total[name] if name in total else one.new_zeros(one.shape, dtype=accumulation_type(one))
            for name, one in self._passes.slots.parameters.items()
        }
        return ClippedSum(tensors=tensors, clip_norm=clip_norm)

    def record_gradients(self, inputs: Batch, targets: Batch) -> Tensor:
        """Every record's own gradient, not clipped: [B, parameters] with all of them side by side in their order.

        inputs, targets  tensors [B, ...], or tuples of them; a gradient that is not finite comes back as zero
        """
        columns, answers = _columns(inputs), _columns(targets)
        passes = Passes(self._model, self._loss_fn, {}, self._precision)
        recorded, size = passes.recorded(columns, answers), len(answers[0])
        rows = [
            recorded.gradients[name].reshape(size, -1)
            if name in recorded.gradients
            else one.new_zeros(size, one.numel(), dtype=accumulation_type(one))
            for name, one in passes.slots.parameters.items()
        ]
        joined = torch.cat(rows, 1)
        return torch.where(torch.isfinite(joined).all(1, keepdim=True), joined, 0.0)

    def _fit(self, columns: Columns, answers: Columns, taken: Tensor | None) -> None:
        """Raises InvalidValue for shapes that do not fit."""
        axes = 1 if self._unit_records == 1 and taken is None else 2
        shapes = [tuple(one.shape[:axes]) for one in (*columns, *answers)]
        lead = (*shapes[0][:1], self._unit_records)[:axes]
        if not shapes[0] or any(shape != lead for shape in shapes):
            expected = "one row per example" if axes == 1 else f"{self._unit_records} records for each unit"
            raise checks.InvalidValue("inputs, targets", shapes, f"tensors with {expected}")
        if taken is not None and (taken.dtype != torch.bool or tuple(taken.shape) != lead):
            raise checks.InvalidValue("taken", (taken.dtype, tuple(taken.shape)), f"a bool tensor of shape {lead}")

    def _clipped(self, inputs: Columns, targets: Columns, taken: Tensor | None, clip_norm: float) -> dict[str, Tensor]:
        units = UnitRows.of(len(targets[0]), self._unit_records, taken)
        inputs = tuple(units.present(one) for one in inputs)
        targets = tuple(units.present(one) for one in targets)
        if not len(targets[0]):
            return {}
        # A caller's own autocast would round the sums after their norms were taken.
        kind = targets[0].device.type
        with torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
            try:
                recorded = self._recorded(inputs, targets)
            except NotComputed:
                fine_N = self._computable(inputs, targets)
                if bool(fine_N.all()) or not (bool(fine_N.any()) or self._checked or self._computes(inputs, targets)):
                    raise
                units = units.only(fine_N)
                inputs, targets = tuple(one[fine_N] for one in inputs), tuple(one[fine_N] for one in targets)
                if not len(targets[0]):
                    return {}
                recorded = self._recorded(inputs, targets)
            self._note(recorded)
            # A model may have entered one and not left it.
            with all_digits(), torch.autocast(kind, enabled=False):
                return clipped_total(Parts.of(recorded, units, self._passes), clip_norm)

    def _recorded(self, inputs: Columns, targets: Columns) -> Recorded:
        self._check(inputs, targets)
        return self._passes.recorded(inputs, targets)

    def _computable(self, inputs: Columns, targets: Columns) -> Tensor:
        """Which records the model and its loss can be computed for, bool [N]: found by halves."""
        size = len(targets[0])
        try:
            self._passes.recorded(inputs, targets)
        except NotComputed:
            if size > 1:
                halves = zip(_split(inputs, -(-size // 2)), _split(targets, -(-size // 2)), strict=True)
                return torch.cat([self._computable(*half) for half in halves])
            return torch.zeros(1, dtype=torch.bool, device=targets[0].device)
        return torch.ones(size, dtype=torch.bool, device=targets[0].device)

    def _computes(self, inputs: Columns, targets: Columns) -> bool:
        """Whether they can be computed for any made-up record of these shapes: else it is no matter of values."""
        for made in (torch.zeros_like, torch.ones_like, _uniform_like):
            one = (tuple(made(column[:1]) for column in columns) for columns in (inputs, targets))
            if bool(self._computable(*one).all()):
                return True
        return False

    def _check(self, inputs: Columns, targets: Columns) -> None:
        """Once for each kind of input, before anything of it is summed up."""
        kind = tuple((one.ndim, one.dtype, one.device) for one in (*inputs, *targets))
        if kind in self._checked:
            return

        def parts_of(inputs: Columns, targets: Columns) -> Parts:
            recorded = self._passes.recorded(inputs, targets, depth=CLOSELY)
            return Parts.of(recorded, UnitRows(len(targets[0]), 1), self._passes)

        first = slice(0, RECORDS)
        few = tuple(one[first] for one in inputs), tuple(one[first] for one in targets)
        with loops_noted(self._looped):
            looked = check_gradients(self._passes, parts_of, *few)
        self._looped |= set(self._passes.in_loops.values())
        if looked:
            self._checked.add(kind)

    def _uncaptured(self, name: str) -> Route:
        return Route.LOOP if name in self._passes.in_loops else Route.PER_RECORD

    def _note(self, recorded: Recorded) -> None:
        reached = (*recorded.uses, *recorded.gradients)
        if reached == self._noted:
            return
        first, self._noted = not self._reached, reached
        for layer in recorded.uses:
            self._reached |= dict.fromkeys(self._passes.owned(layer), Route.ONE_PASS)
        self._reached |= {name: self._uncaptured(name) for name in recorded.gradients}
        if first and self.unreached:
            warnings.warn(
                f"no record's loss depends on {', '.join(self.unreached)}: what is added to them is noise alone. Set "
                "requires_grad to False where that is meant.",
                stacklevel=4,
            )


def clipped_total(parts: Parts, clip_norm: float) -> dict[str, Tensor]:
    """sum_u g_u * min(1, clip_norm / |g_u|), by the parameters' names."""
    return parts.weighted_sum(clip_factors(parts.squared_norms, clip_norm))


def _structure(model: nn.Module) -> list[object]:
    """What a pass is prepared for; changes when a layer, a mode or a trained parameter does."""
    # Looked at in every step: written for speed.
    seen: list[object] = [len(torch_module._global_backward_hooks), len(torch_module._global_backward_pre_hooks)]
    met, waiting = {id(model)}, [model]
    for module in waiting:
        seen += (id(module), type(module), id(module.__dict__.get("forward")), module.training)
        seen += (len(module._forward_hooks), len(module._forward_pre_hooks))
        seen += (len(module._backward_hooks), len(module._backward_pre_hooks))
        for parameter in module._parameters.values():
            if parameter is not None:
                seen += (id(parameter), parameter.requires_grad, bool(parameter._backward_hooks))
        for child in module._modules.values():
            if child is not None and id(child) not in met:
                met.add(id(child))
                waiting.append(child)
    return seen


def _uniform_like(column: Tensor) -> Tensor:
    return torch.rand_like(column) if column.is_floating_point() else torch.zeros_like(column)


def _split(columns: Columns, size: int) -> Iterable[Columns]:
    return zip(*(one.split(size) for one in columns), strict=True)


def _columns(batch: Batch) -> tuple[Tensor, ...]:
    return batch if isinstance(batch, tuple) else (batch,)

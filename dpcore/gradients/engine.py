"""Summed clipped gradients of units of a PyTorch model, beside their bound, and the noisy mean made from them."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from dpcore import checks
from dpcore.gradients.check import RECORDS, Checked, isolation_check
from dpcore.gradients.hooks import Columns, Passes
from dpcore.gradients.isolation import SecretDraws
from dpcore.gradients.layers import KINDS
from dpcore.gradients.layers.protocol import Kinds, accumulation_type
from dpcore.gradients.precision import Name, Precision, all_digits
from dpcore.gradients.refusals import refuse
from dpcore.gradients.units import GhostNorms, UnitRows, automatic_factors, clip_factors
from dpcore.noise import NoiseSource

Batch = Tensor | tuple[Tensor, ...]


class Route(StrEnum):
    """How a parameter's gradient is found for each record."""

    ONE_PASS = "one pass"
    PER_RECORD = "per record"
    LOOP = "per record, one at a time"
    UNREACHED = "unreached"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedSum:
    """Sum over examples of gradients clipped to `clip_norm` over all parameters together. Private: not yet noised.

    tensors    {parameter name: sum, shaped like the parameter}
    clip_norm  L2 bound of one example's contribution to all tensors together; infinite where nothing was clipped: such
               a sum has no sensitivity, and `noisy_mean_gradient` refuses it
    """

    tensors: Mapping[str, Tensor]
    clip_norm: float


class PrivateGradients:
    """Gradients of a model by unit, clipped over all parameters together and summed.

    model         maps inputs [B, ...] to outputs; parameters with requires_grad False are left out
    loss_fn       (outputs, targets) -> losses of shape [B], one per record, reduction "none"
    unit_records  k: a unit is up to k records, and it is the sum of its records' gradients that is clipped. 1: every
                  record is a unit
    precision     "bfloat16" or "float16": forward and backward form their products in it; parameters, losses, norms,
                  clipping and sums are float32 all the same (dpcore.gradients.precision)
    kinds         the kinds of layer that are served by a rule; {} forms every record's gradient
    automatic     every unit's gradient is divided by its norm, and not only the long ones cut: `automatic_factors`

    Records are kept apart by construction: the model passes over them under torch.func.vmap, each as a batch of one
    with random numbers of its own, so that no code of the model or of the loss can see another record. (Where the
    model's structure proves as much, it is called plainly.) Layers with a rule never form a record's gradient; any
    other parameter is given once per record, which costs its size times the number of records in memory. Values are
    those of one record at a time, up to rounding.

    Make it anew where layers, hooks or requires_grad of the model change. `check` looks at made-up records, and tells a
    model that means something else where each record passes alone. What the model draws at random comes from a secret
    stream, whatever seed somebody set.

    Raises Refused, before anything is released, for what cannot be kept apart or seen: see dpcore.gradients.refusals
    and isolation. What remains is code that takes mapped tensors apart by PyTorch's internals, or that hides records in
    attributes, globals or files: that is no mistake but hostile code, and nothing here guards against it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[[Any, Any], Tensor],
        *,
        unit_records: int = 1,
        precision: Name = "float32",
        kinds: Kinds = KINDS,
        automatic: bool = False,
    ) -> None:
        checks.count(minimum=1, unit_records=unit_records)
        self._automatic = automatic
        refuse(model)
        self._unit_records, self._draws = unit_records, SecretDraws()
        self._passes = Passes(model, loss_fn, kinds, Precision.named(precision))
        if not self._passes.slots.parameters:
            raise ValueError("the model has no trainable parameter: set requires_grad on those that are to be trained")
        self._checked: Checked | None = None

    @property
    def routes(self) -> Mapping[str, Route]:
        """{parameter: how its gradient is found}: by structure before `check`, then as it was there."""
        passes, checked = self._passes, self._checked
        captured = passes.captured if checked is None else checked.layers
        owned = {name for layer in captured for name in passes.owned[layer]}
        mapped = passes.slots.parameters if checked is None else checked.parameters
        loops = passes.in_loops

        def route(name: str) -> Route:
            if name in owned:
                return Route.ONE_PASS
            return (Route.LOOP if name in loops else Route.PER_RECORD) if name in mapped else Route.UNREACHED

        return {name: route(name) for name in passes.slots.parameters}

    @property
    def looped(self) -> tuple[str, ...]:
        """Operations and layers that PyTorch cannot map and that go through records one at a time: right, and slow.
        () before `check`."""
        if self._checked is None:
            return ()
        layers = (self._passes.in_loops[name] for name, route in self.routes.items() if route is Route.LOOP)
        return tuple(sorted({*self._checked.looped, *layers}))

    @property
    def unreached(self) -> tuple[str, ...]:
        """Trainable parameters on which no made-up record's loss depends: noise alone would be added to them."""
        return tuple(name for name, route in self.routes.items() if route is Route.UNREACHED)

    def check(self, inputs: Batch, targets: Batch) -> None:
        """Look at `RECORDS` made-up records [B, ...], never at private ones: do they say the same together as alone?

        Raises Refused, MixesExamples: see dpcore.gradients.check. Warns of parameters that no loss depends on.
        """
        columns, answers = (tuple(one[:RECORDS] for one in _columns(batch)) for batch in (inputs, targets))
        with self._draws.inside(columns[0].device), all_digits(), _no_autocast(columns[0].device):
            self._checked = isolation_check(self._passes, columns, answers)
        if self.unreached:
            warnings.warn(
                f"no record's loss depends on {', '.join(self.unreached)}: what is added to them is noise alone. Set "
                "requires_grad to False where that is meant.",
                stacklevel=2,
            )

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

        Of an `automatic` engine: sum_u g_u * clip_norm / (|g_u| + 0.01).

        inputs, targets  tensors [U, ...] where a unit is one record, else [U, k, ...]; or tuples of them (a model with
                         several inputs); U may be 0
        clip_norm        L2 bound on one unit's contribution, above 0; infinite: nothing is clipped
        taken            bool [U, k]: which places hold a record; None for all. What stands in the others, numbers or
                         not, has no influence
        microbatch_size  largest number of units in one pass; changes memory and time, not the sum

        A unit whose gradient is not finite, or whose squared norm overflows, contributes zero and leaves the others as
        they are. Raises InvalidValue, Refused.
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
        total: dict[str, Tensor] = {}
        with self._draws.inside(columns[0].device):
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
        own = self._passes
        passes = Passes(own.model, own.loss_fn, {}, own.precision)
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
        device = targets[0].device
        with _no_autocast(device):
            recorded = self._passes.recorded(inputs, targets)
            # A model may have entered one and not left it.
            with all_digits(), torch.autocast(device.type, enabled=False):
                norms = GhostNorms.of(recorded, units, self._passes)
                return clipped_total(norms, clip_norm, automatic_factors if self._automatic else clip_factors)


def clipped_total(norms: GhostNorms, clip_norm: float, factors: Callable[[Tensor, float], Tensor]) -> dict[str, Tensor]:
    """sum_u g_u * factor of |g_u|, by the parameters' names."""
    return norms.weighted_sum(factors(norms.squared_norms, clip_norm))


def _no_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A caller's own would round the sums after their norms were taken."""
    on = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if on else nullcontext()


def _split(columns: Columns, size: int) -> Iterable[Columns]:
    return zip(*(one.split(size) for one in columns), strict=True)


def _columns(batch: Batch) -> tuple[Tensor, ...]:
    return batch if isinstance(batch, tuple) else (batch,)


def noisy_mean_gradient(
    clipped: ClippedSum, *, noise_multiplier: float, expected_batch_size: float, noise: NoiseSource
) -> dict[str, Tensor]:
    """(sum + noise_multiplier * clip_norm * N(0, I)) / expected_batch_size, shaped like the parameters.

    noise_multiplier     sigma over the clip norm, above 0
    expected_batch_size  rate * n, public and fixed; never the realised size, which is a fact about the
                         data (under add-remove, dividing by it is not covered by the proof)

    An empty batch is noised like any other. Source: Abadi et al. 2016, Algorithm 1, with the public
    divisor; Bu et al. 2020. Raises InvalidValue.
    """
    checks.positive_finite(
        noise_multiplier=noise_multiplier, expected_batch_size=expected_batch_size, clip_norm=clipped.clip_norm
    )
    return noised_mean(clipped.tensors, noise_multiplier * clipped.clip_norm, expected_batch_size, noise)


def noised_mean(
    tensors: Mapping[str, Tensor], deviation: float, expected_batch_size: float, noise: NoiseSource
) -> dict[str, Tensor]:
    """(sum + deviation * N(0, I)) / expected_batch_size, whatever bounds the sum: no claim follows by itself."""
    sums = list(tensors.values())
    # One draw for all parameters: small tensors cost a call each otherwise.
    sizes = [one.numel() for one in sums]
    drawn = noise.fill_(torch.empty(sum(sizes), dtype=sums[0].dtype, device=sums[0].device))
    drawn.mul_(deviation / expected_batch_size)
    parts = [part.view_as(one) for part, one in zip(torch.split_with_sizes(drawn, sizes), sums, strict=True)]
    torch._foreach_add_(parts, sums, alpha=1.0 / expected_batch_size)
    return dict(zip(tensors, parts, strict=True))

"""Summed clipped per-example gradients of a PyTorch model."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from dpcore import checks
from dpcore.gradients.capture import Capture, Use, backward_to, capturing, graph_uses
from dpcore.gradients.clipped import ClippedSum
from dpcore.gradients.clipping import clip_factors
from dpcore.gradients.fallback import PerExample
from dpcore.gradients.layers import RULES, accumulation_type, trainable
from dpcore.gradients.plan import Plan, plan_for
from dpcore.gradients.precision import Name, Precision
from dpcore.gradients.probe import layers_off_the_batch_axis
from dpcore.gradients.refusals import refuse_mixing

Batch = Tensor | tuple[Tensor, ...]


class PrivateGradients:
    """Per-example gradients of one model, clipped over all parameters together and summed.

    model    maps inputs [B, ...] to outputs; parameters with requires_grad False are left out
    loss_fn  (outputs, targets) -> losses of shape [B], one per example, reduction "none"
    method   "auto" takes one pass over forward and backward when every trainable layer has a rule, and
             forms each example's gradient otherwise; the two names force one. Both give the same numbers.
    precision  "bfloat16" or "float16": forward and backward form their products in it; parameters, losses, norms,
             clipping and sums are float32 all the same (dpcore.gradients.precision)

    `method` and `reason` say what was decided at construction. A model whose code turns out at the first
    batch not to keep examples on axis 0, or to use a weight outside its layer, moves to "per-example"
    with a warning. Raises MixesExamples for models in which examples influence each other.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Callable[[Any, Any], Tensor],
        *,
        method: Literal["auto", "one-pass", "per-example"] = "auto",
        precision: Name = "float32",
    ) -> None:
        refuse_mixing(model)
        self._model, self._loss_fn, self._precision = model, loss_fn, Precision.named(precision)
        plan = plan_for(model)
        if method == "one-pass" and plan.method != method:
            raise checks.InvalidValue("method", method, "a model that one pass can serve", f"Here {plan.reason}.")
        if method == "per-example":
            plan = Plan("per-example", plan.layers, "asked for")
        self._plan = plan
        self._per_example = PerExample(model, loss_fn, self._precision)
        self._probed: set[bool] = set()
        # Training mode can be switched on later: such layers are looked at before every batch.
        self._watched = any(isinstance(module, _BatchNorm | _InstanceNorm) for module in model.modules())

    @property
    def method(self) -> Literal["one-pass", "per-example"]:
        return self._plan.method

    @property
    def reason(self) -> str:
        return self._plan.reason

    def clipped_sum(
        self, inputs: Batch, targets: Batch, *, clip_norm: float, microbatch_size: int | None = None
    ) -> ClippedSum:
        """sum_b g_b * min(1, clip_norm / |g_b|), g_b the gradient of example b over all trainable parameters.

        inputs, targets  tensors [B, ...], or tuples of them (a model with several inputs); B may be 0
        clip_norm        L2 bound on one example's contribution, above 0
        microbatch_size  largest number of examples in one pass; changes memory and time, not the sum

        An example whose gradient is not finite, or whose squared norm overflows, contributes zero and
        leaves the others as they are. Raises InvalidValue.
        """
        checks.positive_finite(clip_norm=clip_norm)
        columns, answers = _columns(inputs), _columns(targets)
        batch = len(columns[0])
        if any(len(one) != batch for one in (*columns, *answers)):
            sizes = [len(one) for one in (*columns, *answers)]
            raise checks.InvalidValue("inputs, targets", sizes, "tensors with one row per example")
        if microbatch_size is not None:
            checks.count(minimum=1, microbatch_size=microbatch_size)
        if self._watched:
            refuse_mixing(self._model)
        names = {name: one for name, one in self._model.named_parameters() if one.requires_grad}
        total: dict[str, Tensor] = {}
        step = microbatch_size or max(batch, 1)
        for start in range(0, batch, step):
            rows = slice(start, start + step)
            part = self._clipped(tuple(one[rows] for one in columns), tuple(one[rows] for one in answers), clip_norm)
            if not part.keys() <= names.keys():
                raise RuntimeError("the trainable parameters changed; build a new PrivateGradients")
            for name, one in part.items():
                total[name] = total[name].add_(one) if name in total else one
        total |= _zeros({name: one for name, one in names.items() if name not in total})
        return ClippedSum(tensors={name: total[name] for name in names}, clip_norm=clip_norm)

    def _clipped(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...], clip_norm: float) -> dict[str, Tensor]:
        if self._plan.method == "one-pass":
            self._probe(inputs, targets)
        if self._plan.method == "one-pass":
            with torch.enable_grad(), capturing(self._plan.layers) as capture:
                losses_B = self._losses(inputs, targets)
            if not losses_B.requires_grad:
                return {}
            if obstacle := self._uncaptured(losses_B, capture):
                self._fall_back(obstacle)
            else:
                uses = capture.uses(backward_to(losses_B, capture, scale=self._precision.scale))
                full = {name: [self._precision.use(one) for one in several] for name, several in uses.items()}
                return self._one_pass(full, clip_norm)
        contribution = self._per_example.contribution(inputs, targets)
        return contribution.weighted_sum(clip_factors(contribution.squared_norms, clip_norm))

    def _one_pass(self, uses: dict[str, list[Use]], clip_norm: float) -> dict[str, Tensor]:
        contributions = {
            name: RULES[type(self._plan.layers[name])](self._plan.layers[name], uses[name]) for name in uses
        }
        squared_norms_B = torch.stack([one.squared_norms for one in contributions.values()]).sum(0)
        finite_B = torch.isfinite(squared_norms_B)
        if not bool(finite_B.all()):
            # 0 * inf is NaN: a weight of zero does not remove such a row, so its factors are cleared instead.
            clean = {name: [_without(use, ~finite_B) for use in several] for name, several in uses.items()}
            return self._one_pass(clean, clip_norm)
        factors_B = clip_factors(squared_norms_B, clip_norm)
        return {
            f"{name}.{local}" if name else local: tensor
            for name, one in contributions.items()
            for local, tensor in one.weighted_sum(factors_B).items()
        }

    def _losses(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Tensor:
        with self._precision.products(inputs[0].device):
            outputs = self._precision.full(self._model(*inputs))
        losses_B = self._loss_fn(outputs, targets[0] if len(targets) == 1 else targets)
        if losses_B.shape != (len(inputs[0]),):
            raise checks.InvalidValue(
                "loss_fn",
                tuple(losses_B.shape),
                f"one loss per example, shape ({len(inputs[0])},)",
                'Use reduction="none".',
            )
        return losses_B

    def _probe(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> None:
        if self._model.training in self._probed:
            return
        with torch.enable_grad():
            off = layers_off_the_batch_axis(self._losses, self._plan.layers, inputs, targets)
        self._probed.add(self._model.training)
        if off:
            self._fall_back(f"axis 0 of layer {off[0]!r} is not the batch")

    def _uncaptured(self, losses_B: Tensor, capture: Capture) -> str:
        """Whether some trainable parameter reaches the losses by another way than the captured calls."""
        expected: dict[int, int] = {}
        for call in capture.calls:
            if len(call.inputs) != len(losses_B):
                return f"axis 0 of layer {call.layer!r} is not the batch"
            for one in trainable(self._plan.layers[call.layer]).values():
                expected[id(one)] = expected.get(id(one), 0) + 1
        found = graph_uses(losses_B)
        parameters = {id(one): name for name, one in self._model.named_parameters()}
        for leaf, count in found.items():
            if leaf in parameters and count > expected.get(leaf, 0):
                return f"parameter {parameters[leaf]!r} is used outside its layer"
        return ""

    def _fall_back(self, reason: str) -> None:
        warnings.warn(f"private gradients: {reason}; forming every example's gradient instead", stacklevel=3)
        self._plan = Plan("per-example", self._plan.layers, reason)


def _zeros(parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    return {
        name: torch.zeros(one.shape, dtype=accumulation_type(one), device=one.device)
        for name, one in parameters.items()
    }


def _without(use: Use, bad_B: Tensor) -> Use:
    def cleared(tensor: Tensor) -> Tensor:
        return tensor.masked_fill(bad_B.view(-1, *[1] * (tensor.ndim - 1)), 0)

    return Use(cleared(use.inputs), cleared(use.gradients))


def _columns(batch: Batch) -> tuple[Tensor, ...]:
    return batch if isinstance(batch, tuple) else (batch,)

"""Small engines with a known mistake each, and the same engines without it: what the zoo has to tell apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpcore.gradients import ClippedSum

Loss = Callable[..., Tensor]


def _total(rows: dict[str, Tensor], squared_norms_B: Tensor, clip_norm: float) -> ClippedSum:
    factors_B = (clip_norm / squared_norms_B.double().sqrt().clamp(min=1e-300)).clamp(max=1.0)
    sums = {name: torch.tensordot(factors_B, one.double(), 1).to(one.dtype) for name, one in rows.items()}
    return ClippedSum(tensors=sums, clip_norm=clip_norm)


def _squares(rows: dict[str, Tensor]) -> Tensor:
    return torch.stack([one.double().view(*one.shape, 1).flatten(1).square().sum(1) for one in rows.values()]).sum(0)


@dataclass
class EveryRecord:
    """One backward pass for each record, through the live model.

    together   mistake: one forward pass serves all records
    per_tensor mistake: each tensor is clipped by itself
    """

    model: nn.Module
    loss_fn: Loss
    together: bool = False
    per_tensor: bool = False

    def clipped_sum(self, inputs: Any, targets: Any, *, clip_norm: float) -> ClippedSum:
        columns, answers = (one if isinstance(one, tuple) else (one,) for one in (inputs, targets))
        batch = len(answers[0])
        parameters = {name: one for name, one in self.model.named_parameters() if one.requires_grad}

        def losses(rows: slice) -> Tensor:
            part = tuple(one[rows] for one in answers)
            outputs = self.model(*(one[rows] for one in columns))
            return self.loss_fn(outputs, part if isinstance(targets, tuple) else part[0])

        whole = losses(slice(None)) if self.together and batch else None
        found = [
            torch.autograd.grad(
                (losses(slice(b, b + 1)) if whole is None else whole[b : b + 1]).sum(),
                list(parameters.values()),
                retain_graph=whole is not None,
                allow_unused=True,
                materialize_grads=True,
            )
            for b in range(batch)
        ]
        if not found:
            return ClippedSum(tensors={k: torch.zeros_like(v) for k, v in parameters.items()}, clip_norm=clip_norm)
        rows = {name: torch.stack(column) for name, column in zip(parameters, zip(*found, strict=True), strict=True)}
        if self.per_tensor:
            sums = {}
            for name, one in rows.items():
                sums |= _total({name: one}, _squares({name: one}), clip_norm).tensors
            return ClippedSum(tensors=sums, clip_norm=clip_norm)
        return _total(rows, _squares(rows), clip_norm)


@dataclass
class Unguarded:
    """Gradients mapped over records; what does not go through the parameters handed in is silently missing."""

    model: nn.Module
    loss_fn: Loss

    def clipped_sum(self, inputs: Any, targets: Any, *, clip_norm: float) -> ClippedSum:
        parameters = {name: one.detach() for name, one in self.model.named_parameters() if one.requires_grad}

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return self.loss_fn(functional_call(self.model, parameters, (x[None],)), y[None]).sum()

        if not len(targets):
            return ClippedSum(tensors={k: torch.zeros_like(v) for k, v in parameters.items()}, clip_norm=clip_norm)
        rows = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(parameters, inputs, targets)
        return _total(rows, _squares(rows), clip_norm)


@dataclass
class Hooked:
    """Norms of linear layers from what hooks saw, without mistake unless told to make one.

    uses_apart  the squared norms of a layer's several uses are added
    last_use    a later use of a layer takes the place of an earlier one
    tensors     gradients are asked for by the output tensor, which an activation in place has overwritten
    """

    model: nn.Module
    loss_fn: Loss
    uses_apart: bool = False
    last_use: bool = False
    tensors: bool = False

    def clipped_sum(self, inputs: Any, targets: Any, *, clip_norm: float) -> ClippedSum:
        calls: list[tuple[nn.Module, Tensor, Any]] = []

        def hook(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            edge = output if self.tensors else torch.autograd.graph.get_gradient_edge(output)
            calls.append((layer, args[0].detach().clone(), edge))

        layers = {name: one for name, one in self.model.named_modules() if isinstance(one, nn.Linear)}
        handles = [one.register_forward_hook(hook) for one in layers.values()]
        losses_B = self.loss_fn(self.model(inputs), targets)
        for handle in handles:
            handle.remove()
        gradients = torch.autograd.grad(losses_B.sum(), [edge for _, _, edge in calls])
        uses = [
            (layer, {"weight": torch.einsum("bo,bi->boi", g, x), "bias": g})
            for (layer, x, _), g in zip(calls, gradients, strict=True)
        ]
        rows: dict[str, Tensor] = {}
        for name, layer in layers.items():
            several = [one for seen, one in uses if seen is layer][-1 if self.last_use else 0 :]
            for local in ("weight", "bias"):
                rows[f"{name}.{local}"] = torch.stack([one[local] for one in several]).sum(0)
        squares = sum(_squares(one) for _, one in uses) if self.uses_apart else _squares(rows)
        return _total(rows, squares, clip_norm)  # type: ignore[arg-type]

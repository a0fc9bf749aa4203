"""Per-example gradients of any model, one example at a time: by vmap where it works, else by a loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dpcore.gradients.layers import Materialised
from dpcore.gradients.precision import Precision

_FULL = Precision()
LossFunction = Callable[[object, object], Tensor]


class PerExample:
    """Materialises every example's whole gradient. Works for any model, at B times the memory of one gradient."""

    def __init__(self, model: nn.Module, loss_fn: LossFunction, precision: Precision = _FULL) -> None:
        self._model, self._loss_fn, self._precision = model, loss_fn, precision
        self.uses_loop = False

    def contribution(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> Materialised:
        """inputs and targets are tensors [B, ...]; rows with a gradient that is not finite come back as zero."""
        gradients = self._loop(inputs, targets) if self.uses_loop else self._vectorised(inputs, targets)
        if self._precision.scale != 1.0:
            gradients = {name: one / self._precision.scale for name, one in gradients.items()}
        finite_B = torch.stack([torch.isfinite(one).flatten(1).all(1) for one in gradients.values()]).all(0)
        if not bool(finite_B.all()):
            gradients = {
                name: one.masked_fill(~finite_B.view(-1, *[1] * (one.ndim - 1)), 0.0) for name, one in gradients.items()
            }
        return Materialised(gradients)

    def _loss_of_one(
        self, parameters: dict[str, Tensor], inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]
    ) -> Tensor:
        with self._precision.products(inputs[0].device):
            outputs = functional_call(self._model, parameters, tuple(one.unsqueeze(0) for one in inputs))
            outputs = self._precision.full(outputs)
        target = tuple(one.unsqueeze(0) for one in targets)
        return self._loss_fn(outputs, target[0] if len(target) == 1 else target).sum() * self._precision.scale

    def _parameters(self) -> dict[str, Tensor]:
        return {name: one.detach() for name, one in self._model.named_parameters() if one.requires_grad}

    def _vectorised(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> dict[str, Tensor]:
        per_example = vmap(grad(self._loss_of_one), in_dims=(None, 0, 0), randomness="different")
        try:
            return per_example(self._parameters(), inputs, targets)
        except RuntimeError as error:
            # Operations without a batching rule, or control flow that depends on values.
            warnings.warn(f"vmap cannot serve this model ({error}); computing one example at a time", stacklevel=2)
            self.uses_loop = True
            return self._loop(inputs, targets)

    def _loop(self, inputs: tuple[Tensor, ...], targets: tuple[Tensor, ...]) -> dict[str, Tensor]:
        parameters = {name: one.requires_grad_() for name, one in self._parameters().items()}
        rows: list[tuple[Tensor, ...]] = []
        for example in range(len(targets[0])):
            loss = self._loss_of_one(
                parameters, tuple(one[example] for one in inputs), tuple(one[example] for one in targets)
            )
            if not loss.requires_grad:
                rows.append(tuple(torch.zeros_like(one) for one in parameters.values()))
                continue
            found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
            rows.append(found)
        return {name: torch.stack(column) for name, column in zip(parameters, zip(*rows, strict=True), strict=True)}

"""One forward and one backward pass that keep, for each use of a captured layer, its input and its output's gradient.

A captured layer computes with its parameters as they are, once for all records. Everywhere else in the model the same
parameters are mapped over the records, so that a weight used outside its layer still has a gradient per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpcore.gradients import mapping
from dpcore.gradients.layers import Kinds, NotServed, Use
from dpcore.gradients.refusals import Refused
from dpcore.gradients.slots import Slots, standing_in
from dpcore.gradients.substitutes import computing, forward_of


@dataclass(slots=True)
class _Call:
    layer: str
    part: str
    inputs: Tensor
    version: int
    inputs_axis: int | None
    edge: GradientEdge
    output_axis: int


class Tape:
    """The uses of captured layers seen during one forward pass over N records.

    layers  captured, by name
    owned   names of their trainable parameters
    level   the transformation over records, None outside of it
    """

    def __init__(
        self, layers: Mapping[str, nn.Module], owned: Mapping[str, list[str]], kinds: Kinds, slots: Slots
    ) -> None:
        self._layers, self._owned, self._kinds, self._slots = layers, owned, kinds, slots
        self._calls: list[_Call] = []
        self.level: int | None = None

    @property
    def edges(self) -> list[GradientEdge]:
        return [call.edge for call in self._calls]

    def listening(self) -> AbstractContextManager[None]:
        """Captured layers note their uses for the length of the block."""
        return computing({layer: self._forward_of(name, layer) for name, layer in self._layers.items()})

    def _forward_of(self, name: str, layer: nn.Module) -> Callable[..., Any]:
        own, captured = forward_of(layer), self._kinds[type(layer)].forward
        # An alias: the parameters themselves must not appear in the graph (see Passes._backward).
        held = [
            (place, self._slots.parameters[one].detach().requires_grad_())
            for one in self._owned[name]
            for place in self._slots.places(one)
        ]

        def tap(inputs: Tensor, output: Tensor, part: str = "") -> Tensor:
            return self._tapped(name, part, inputs, output)

        def forward(*args: Any, **kwargs: Any) -> Any:
            # Inside a transformation of the model's own, and without gradients, nothing is captured.
            if mapping.level() != self.level or not torch.is_grad_enabled():
                return own(layer, *args, **kwargs)
            seen = len(self._calls)
            try:
                with standing_in(held):
                    return captured(layer, tap, *args, **kwargs)
            except NotServed:
                del self._calls[seen:]
            return own(layer, *args, **kwargs)

        return forward

    def _tapped(self, name: str, part: str, inputs: Tensor, output: Tensor) -> Tensor:
        # A mapped tensor says nothing of gradients; the memory under it does.
        whole = mapping.whole(output)
        if not whole.requires_grad:
            return output
        at = mapping.axis(output)
        if at is None:
            # Its gradient would be the sum over records.
            raise NotServed
        noted, alias = mapping.whole(inputs).detach(), mapping.apart(whole)
        self._calls.append(_Call(name, part, noted, noted._version, mapping.axis(inputs), get_gradient_edge(alias), at))
        return mapping.mapped(alias, at)

    def uses(self, gradients: Sequence[Tensor | None]) -> dict[str, list[Use]]:
        """Uses by layer, [N, *shape]; an output that no loss depends on has no gradient and counts for nothing."""
        out: dict[str, list[Use]] = {}
        for call, gradient in zip(self._calls, gradients, strict=True):
            if gradient is None:
                continue
            if call.inputs._version != call.version:
                raise Refused(
                    f"layer {call.layer!r}: its input was changed in place after the call, so the gradient of its "
                    "parameters is lost. Use the out-of-place operation in the model."
                )
            gradient = gradient.movedim(call.output_axis, 0)
            if call.inputs_axis is None:
                inputs = call.inputs.expand(len(gradient), *call.inputs.shape)
            else:
                inputs = call.inputs.movedim(call.inputs_axis, 0)
            out.setdefault(call.layer, []).append(Use(inputs, gradient, call.part))
        return out

"""One forward and one backward pass that keep, for each use of a layer, its input and its output's gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a layer. `inputs` is [B, ...]; `gradients` is the gradient of each example's own loss by the
    output, [B, ...]."""

    inputs: Tensor
    gradients: Tensor


@dataclass(slots=True)
class _Call:
    layer: str
    inputs: Tensor
    version: int
    edge: GradientEdge


class Capture:
    """The calls seen during one forward pass."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []

    @property
    def edges(self) -> list[GradientEdge]:
        return [call.edge for call in self.calls]

    def uses(self, gradients: tuple[Tensor | None, ...]) -> dict[str, list[Use]]:
        """Uses by layer; an output that no loss depends on has no gradient and counts for nothing."""
        out: dict[str, list[Use]] = {}
        for call, gradient in zip(self.calls, gradients, strict=True):
            if gradient is None:
                continue
            if call.inputs._version != call.version:
                raise RuntimeError(
                    f"layer {call.layer!r}: its input was changed in place after the call, so the gradient of its "
                    "parameters is lost. Use the out-of-place operation in the model."
                )
            out.setdefault(call.layer, []).append(Use(call.inputs, gradient))
        return out


@contextmanager
def capturing(layers: Mapping[str, nn.Module]) -> Iterator[Capture]:
    """Hooks on `layers` for the length of the block; removed whatever happens inside."""
    capture = Capture()

    def hook_for(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
            inputs = (args[0] if args else kwargs["input"]).detach()
            # The edge, not the tensor: a following in-place activation turns the tensor into its own output.
            capture.calls.append(_Call(name, inputs, inputs._version, get_gradient_edge(output)))

        return hook

    handles = [module.register_forward_hook(hook_for(name), with_kwargs=True) for name, module in layers.items()]
    try:
        yield capture
    finally:
        for handle in handles:
            handle.remove()


def graph_uses(root: Tensor) -> dict[int, int]:
    """How often the graph under `root` uses each leaf: {id(leaf): edges into it}."""
    counts: dict[int, int] = {}
    seen = {root.grad_fn}
    stack = [root.grad_fn]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        for following, _ in node.next_functions:
            if following is None:
                continue
            leaf = getattr(following, "variable", None)
            if leaf is not None:
                counts[id(leaf)] = counts.get(id(leaf), 0) + 1
            elif following not in seen:
                seen.add(following)
                stack.append(following)
    return counts


def backward_to(
    losses_B: Tensor, capture: Capture, *, scale: float = 1.0, **options: bool
) -> tuple[Tensor | None, ...]:
    """Gradients of scale * losses by the captured outputs alone: PyTorch then skips every product for a weight's
    gradient."""
    weights_B = torch.full_like(losses_B, scale)
    return torch.autograd.grad(losses_B, capture.edges, weights_B, allow_unused=True, **options)

"""A pass over layers that follow one another and keep records apart, so that nothing has to be mapped or tapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpcore.gradients import mapping
from dpcore.gradients.layers import Use


def passed(
    layers: Sequence[nn.Module], captured: Mapping[int, str], inputs: Tensor
) -> tuple[Tensor, list[tuple[str, Tensor]], list[GradientEdge]]:
    """The last output; of each use of a captured layer its name and input [N, ...], and where its output's gradient is
    found.

    layers    in their order, the output of one the input of the next (dpcore.gradients.structure.chain_of)
    captured  names of the layers whose uses are noted, by their identity; parameters are used at their ends alone

    Nothing is put in a parameter's place. Gradients are asked for by the captured outputs alone, so that PyTorch skips
    every product for a shared weight's gradient.
    """
    seen: list[tuple[str, Tensor]] = []
    edges: list[GradientEdge] = []
    for layer in layers:
        output = layer.forward(inputs)
        name = captured.get(id(layer))
        if name is not None:
            seen.append((name, inputs.detach()))
            if output._is_view():
                # An operation in place behind a view rewrites the history that the edge belongs to.
                output = mapping.apart(output)
            edges.append(get_gradient_edge(output))
        inputs = output
    return inputs, seen, edges


def uses_of(seen: Sequence[tuple[str, Tensor]], gradients: Sequence[Tensor | None]) -> dict[str, list[Use]]:
    """Uses by layer, as a mapped pass shows them: a batch of one within each record."""
    out: dict[str, list[Use]] = {}
    for (name, inputs), gradient in zip(seen, gradients, strict=True):
        if gradient is not None:
            out.setdefault(name, []).append(Use(inputs.unsqueeze(1), gradient.unsqueeze(1)))
    return out

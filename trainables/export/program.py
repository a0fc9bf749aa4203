"""A module as a program that torch.export writes down: what is read again by torch alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import fx, nn

from trainables.system import Feature

_TRACES = ("stack_trace", "from_node", "custom")
"""What `torch.export.save` writes of an operation besides what it computes."""


class NotExportable(ValueError):
    """A model that `torch.export` cannot write down as a program."""


def program(module: nn.Module, features: Mapping[str, Feature]) -> torch.export.ExportedProgram:
    """`module` in evaluation mode as a program over any number of records. Raises NotExportable, with the reason."""
    examples = tuple(
        torch.zeros((3, *one.shape), dtype=torch.int64 if one.cardinality is not None else torch.float32)
        for one in features.values()
    )
    records, shapes = torch.export.Dim("records"), torch.export.ShapesCollection()
    for one in examples:
        shapes[one] = {0: records}
    try:
        found = torch.export.export(module.eval(), examples, dynamic_shapes=shapes)  # type: ignore[arg-type]
    except Exception as error:
        # torch.export raises whatever its tracers meet in a model of the user's own.
        raise NotExportable(
            f"torch.export cannot write this model down: {str(error).strip().splitlines()[0]}"
        ) from error
    # They would be kept as a pickle, the only one in the folder.
    found.example_inputs = None
    _without_traces(found)
    return found


def _without_traces(found: torch.export.ExportedProgram) -> None:
    """A program would be kept with the file, line and text of code that each operation is from: folders of this
    machine, and lines of whoever wrote the model."""
    for module in found.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            for name in _TRACES:
                node.meta.pop(name, None)

"""A module as a program that torch.export writes down: what is read again by torch alone."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from trainables.system import Feature


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
    return found

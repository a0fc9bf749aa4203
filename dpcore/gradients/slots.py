"""Where a model keeps its parameters, and how others stand in for them during a pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

Place = tuple[dict[str, Any], str]
"""A module's own table of parameters, and the key in it."""


@contextmanager
def standing_in(stand_ins: Sequence[tuple[Place, Any]]) -> Iterator[None]:
    """Inside the block each place holds its stand-in."""
    before = [(table, key, table[key]) for (table, key), _ in stand_ins]
    try:
        for (table, key), one in stand_ins:
            table[key] = one
        yield
    finally:
        for table, key, one in before:
            table[key] = one


class Slots:
    """The places of each trainable parameter, by its name; a tied one has several.

    tied  names of the parameters that stand in more than one place
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        names = {id(one): name for name, one in self.parameters.items()}
        self._places: dict[str, list[Place]] = {name: [] for name in self.parameters}
        for module in model.modules():
            for key, own in module._parameters.items():
                if own is not None and own.requires_grad:
                    self._places[names[id(own)]].append((module._parameters, key))
        self.tied = {name for name, places in self._places.items() if len(places) > 1}
        # Recurrent layers keep a list of their weights beside the table.
        self._recurrent = [module for module in model.modules() if isinstance(module, nn.RNNBase)]

    def places(self, name: str) -> list[Place]:
        return self._places[name]

    @contextmanager
    def holding(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside the block the model computes with `tensors`, {parameter name: stand-in}."""
        try:
            with standing_in([(place, one) for name, one in tensors.items() for place in self._places[name]]):
                yield
        finally:
            for module in self._recurrent:
                module._update_flat_weights()

"""Which systems have a model that may leave: those whose claim covers the weights themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from trainables.system import DatasetSpec, PrivacyPlan, State

if TYPE_CHECKING:
    from torch import nn

Module: TypeAlias = "nn.Module"
"""For rooms that hold no tensors, and pass a model on."""


@runtime_checkable
class ReleasesModel(Protocol):
    """A system whose final state is a model that its claim covers.

    One that answers queries has none: its claim covers its answers, and not the model behind them.
    """

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """The model of a final state, on the CPU. Raises ValueError for the state of another model."""
        ...

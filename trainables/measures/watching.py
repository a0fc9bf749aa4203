"""Where a system lets an audit look: at its model before training, at its noisy gradients, at its answers.

Ordinary runs are not watched, and these calls do nothing for them. A watched run is a twin that is never released:
what it sees is what the claim calls released, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trainables.system import Run, State

if TYPE_CHECKING:
    from torch import Tensor, nn

    Loss = Callable[[Any, Any], Tensor]


@runtime_checkable
class WatchesGradients(Protocol):
    """A run with canaries in gradient space."""

    def attach(self, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
        """The model and loss to train instead."""
        ...

    def saw(self, step: int, gradient: Mapping[str, Tensor]) -> None:
        """Look at the noisy mean gradient of one step."""
        ...


@runtime_checkable
class WatchesReleases(Protocol):
    """A run that looks at what leaves the system."""

    def released(self, arrays: State) -> None:
        """Arrays that the claim covers; called again for what is released later, to be appended."""
        ...


def attach(run: Run, model: nn.Module, loss: Loss) -> tuple[nn.Module, Loss]:
    """The model and loss that `run` trains: with canaries where it is watched, as they are elsewhere."""
    return run.attach(model, loss) if isinstance(run, WatchesGradients) else (model, loss)


def saw(run: Run, step: int, gradient: Mapping[str, Tensor]) -> None:
    """Show the noisy mean gradient of step number `step`, before it is used."""
    if isinstance(run, WatchesGradients):
        run.saw(step, gradient)


def released(run: Run, **arrays: NDArray[np.generic]) -> None:
    """Show what leaves the system, where that is not its final state.

    Of answers: the `labels` [Q] to the validation records `asked` [Q], and whatever leaves besides.
    """
    if isinstance(run, WatchesReleases):
        run.released(arrays)

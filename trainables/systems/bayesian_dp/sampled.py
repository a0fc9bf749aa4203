"""How far records would move the next step: gradients of a few records at the current weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.accountants.bayesian import contribution_norms, pair_distances
from dpcore.gradients import PrivateGradients
from dpcore.gradients.units import clip_factors
from dpcore.randomness import Purpose, Streams
from trainables.system import Dataset, Run, Split
from trainables.systems.bayesian_dp.bayesian_knobs import PAIR, EstimateKnobs
from trainables.training.losses import tensor


@dataclass(frozen=True, slots=True)
class Draws:
    """Which records are looked at: `size` of `present`, without repetition, anew for each step."""

    present: int
    size: int
    rng: np.random.Generator

    @classmethod
    def of(cls, run: Run, knobs: EstimateKnobs, split: Split, pairs: bool) -> Draws:
        """The draws of a run from its first step on."""
        size = knobs.distance_records * (PAIR if pairs else 1)
        return cls(present=len(split), size=size, rng=stream(run.streams, "distances", run.start_step))

    def rows(self) -> NDArray[np.int64]:
        """The next records."""
        return self.rng.choice(self.present, size=self.size, replace=False)


def looked_at(knobs: EstimateKnobs, data: Dataset) -> Split:
    """Whose gradients the distances come from."""
    return data.validation if knobs.held_out else data.train


def stream(streams: Streams, name: str, step: int) -> np.random.Generator:
    """A secret stream of its own, beside those of the batches."""
    return replace(streams, key=f"{streams.key}/{name}").numpy(Purpose.SAMPLING, step=step)


class GradientDistances:
    """Distances of a model's per-record gradients, clipped and masked as the update does it.

    clip_norm  None for gradients that are not clipped
    pairs      between two records each, for batches of fixed size; else each record's own norm
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        split: Split,
        draws: Draws,
        *,
        device: torch.device,
        clip_norm: float | None,
        pairs: bool = False,
    ) -> None:
        self._gradients = PrivateGradients(model, loss)
        self._inputs = tuple(tensor(array, device) for array in split.inputs.values())
        self._targets = tensor(split.targets, device)
        self._draws, self._device, self._clip_norm, self._pairs = draws, device, clip_norm, pairs

    def measure(self, mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Shape [records or pairs]: on the sum's scale, over the coordinates that the step updates."""
        rows = torch.from_numpy(self._draws.rows()).to(self._device)
        gradients = self._gradients.record_gradients(
            tuple(one.index_select(0, rows) for one in self._inputs), self._targets.index_select(0, rows)
        ).double()
        if self._clip_norm is not None:
            gradients *= clip_factors(gradients.square().sum(1), self._clip_norm)[:, None]
        # The update clips whole gradients and then drops coordinates, so they are dropped after the clip here.
        found = gradients if mask is None else gradients[:, torch.from_numpy(mask).to(self._device)]
        array = found.cpu().numpy()
        return pair_distances(array) if self._pairs else contribution_norms(array)

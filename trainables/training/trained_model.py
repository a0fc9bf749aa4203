"""What systems that train a model offer to audits and membership measures (`trainables.measures.protocols`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.mechanisms.sampled_gaussian import SampledGaussian, Sequence
from trainables.planner import PlannedSystem
from trainables.system import PrivacyPlan, PublicFacts, Split, State
from trainables.training.gradient_knobs import ModelKnobs


class ScoredByLoss:
    """A system that releases a model of `trainables.models`."""

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)

    def released_model(self, plan: PrivacyPlan, facts: PublicFacts, state: State) -> nn.Module:
        """See `trainables.export.protocol.ReleasesModel`. Raises ValueError for the state of another model."""
        from trainables.training.released import released_model

        return released_model(plan, facts, state)


if TYPE_CHECKING:
    from torch import nn

Trained = TypeVar("Trained", bound=ModelKnobs)
Noised = TypeVar("Noised", SampledGaussian, Sequence)


class TrainedByNoisedGradients(ScoredByLoss, PlannedSystem[Trained, Noised]):
    """A system that trains it by noisy sums of clipped per-record gradients."""

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """See `trainables.measures.protocols.CanaryTrained`: clip norm and divisor of the noisy sum."""
        released = self.mechanism_of(plan, facts)
        return released.clip_norm, released.expected_batch_size

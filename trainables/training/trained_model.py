"""What systems that train a model offer to audits and membership measures (`trainables.hooks`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore.mechanisms.noisy_sums import SampledGaussian, Sequence
from trainables.metrics import Dependence, Metric, Task, Worst
from trainables.system import DatasetSpec, PrivacyPlan, Split, State

if TYPE_CHECKING:
    from torch import nn


class ScoredByLoss:
    """A system that releases a model, by default one of `trainables.models`."""

    def membership_scores(
        self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.hooks.Scored`: minus each record's loss."""
        from trainables.training.losses import record_losses

        return -record_losses(self.released_model(plan, facts, state), split, facts)

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.hooks.ReleasesModel`. Raises ValueError for the state of another model."""
        from trainables.training.released import released_model

        return released_model(plan, facts, state)


class TrainedByNoisedGradients(ScoredByLoss):
    """A system that trains it by noisy sums of clipped per-record gradients."""

    def canary_scale(self, plan: PrivacyPlan, facts: DatasetSpec) -> tuple[float, float]:
        """See `trainables.hooks.CanaryTrained`: clip norm and divisor of the noisy sum."""
        released = plan.mechanism
        assert isinstance(released, SampledGaussian | Sequence)
        return released.clip_norm, released.expected_batch_size


# What a trained model's predictions on the validation records report, for every system that trains one.

_judged = partial(
    Metric,
    released="the validation records (without noise where they are declared public), and the private model",
    depends=Dependence.VALIDATION,
)
_fine_tuned = partial(
    Metric,
    goal=None,
    released="the weights that the trial releases",
    depends=Dependence.RELEASED,
)
MOVED = "moved_"
"""Before the name of a group of weights."""
CLIPPED = "clipped_made_up"
FINE_TUNED = (
    *(
        _fine_tuned(
            name=MOVED + group,
            doc=f"how far {what} moved: the length of the difference over the length at the start (of models with "
            "weights, adapters or a part that is trained)",
        )
        for group, what in (("head", "the head"), ("adapters", "the adapters"), ("body", "all other trained weights"))
    ),
    _fine_tuned(
        name=CLIPPED,
        doc="share of made-up records whose gradient, at the released weights, is longer than the clip norm (of such "
        "models too; 1 where it is automatic)",
    ),
)
"""Whether anything moved, and what the clip does, of a model that is fine-tuned."""
METRICS = (
    _judged(
        name="accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of validation records whose class is predicted (classes, ratings)",
        tasks=frozenset({Task.CLASSIFICATION, Task.RATING}),
    ),
    _judged(
        name="rmse",
        goal="minimize",
        worst=Worst.TARGET_RANGE,
        doc="root mean squared error on the validation records (regressions; ratings: of the expected class, in steps "
        "from one class to the next)",
        tasks=frozenset({Task.REGRESSION, Task.RATING}),
    ),
    _judged(name="loss", goal="minimize", worst=Worst.GUESSED_LOSS, doc="mean loss on the validation records"),
    _judged(
        name="auc",
        goal="maximize",
        worst=0.0,
        doc="area under the ROC curve on the validation records (more than two classes: mean of one against the rest)",
        tasks=frozenset({Task.CLASSIFICATION}),
    ),
    _judged(
        name="perplexity",
        goal="minimize",
        worst=Worst.GUESSED_PERPLEXITY,
        doc="exp of the mean loss on the validation records, each of which counts once, however many tokens it has",
        tasks=frozenset({Task.TOKENS}),
    ),
    _judged(
        name="token_accuracy",
        goal="maximize",
        worst=0.0,
        doc="mean over the validation records of the share of a record's tokens that is predicted",
        tasks=frozenset({Task.TOKENS}),
    ),
)

"""What a trained model's predictions on the validation records report, for every system that trains one."""

from __future__ import annotations

from trainables.metrics import Dependence, Metric, Task, Worst
from trainables.validation.reports import NOISE_SD

_RELEASED = "the validation records (without noise where they are declared public), and the private model"
_CLASSES, _NUMBERS = frozenset({Task.CLASSIFICATION, Task.RATING}), frozenset({Task.REGRESSION, Task.RATING})
METRICS = (
    Metric(
        name="accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of validation records whose class is predicted (classes, ratings)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        tasks=_CLASSES,
    ),
    Metric(
        name="rmse",
        goal="minimize",
        worst=Worst.TARGET_RANGE,
        doc="root mean squared error on the validation records (regressions; ratings: of the expected class)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        tasks=_NUMBERS,
    ),
    Metric(
        name="loss",
        goal="minimize",
        worst=Worst.GUESSED_LOSS,
        doc="mean loss on the validation records",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
    ),
    Metric(
        name="auc",
        goal="maximize",
        doc="area under the ROC curve on the validation records (more than two classes: mean of one against the rest)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        worst=0.0,
        tasks=frozenset({Task.CLASSIFICATION}),
    ),
)
REPORTED = (
    *METRICS,
    *(
        Metric(
            name=name + NOISE_SD,
            goal="minimize",
            doc=f"standard deviation that the noise on private validation records gives {name}",
            released="the noised histogram of validation records: post-processing of the claim",
            depends=Dependence.RELEASED,
        )
        for name in ("accuracy", "rmse", "loss", "auc")
    ),
)
"""Of systems that report on private validation records too (`trainables.validation.judging.report`)."""

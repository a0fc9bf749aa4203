"""What a trained model's predictions on the validation records report, for every system that trains one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trainables.metrics import Dependence, Metric, Task, Worst
from trainables.validation.reports import NOISE_SD

_judged = partial(
    Metric,
    released="the validation records (without noise where they are declared public), and the private model",
    depends=Dependence.VALIDATION,
)
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
)
REPORTED = (
    *METRICS,
    *(
        replace(
            one,
            name=one.name + NOISE_SD,
            goal="minimize",
            worst=None,
            doc=f"standard deviation that the noise on private validation records gives {one.name}",
            released="the noised histogram of validation records: post-processing of the claim",
            depends=Dependence.RELEASED,
        )
        for one in METRICS
    ),
)
"""Of systems that report on private validation records too (`trainables.validation.judging.report`)."""

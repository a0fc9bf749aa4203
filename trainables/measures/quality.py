"""How good a released model is on validation records that are public, beyond accuracy and loss: what may be asked for.

Each is nan where outputs are no numbers, and left out where its own sentence says so. With two classes class 1 is the
positive one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from trainables.capabilities import capabilities_of
from trainables.metrics import Dependence, Metric, Task, Worst
from trainables.validation.reports import NOISE_SD

CALIBRATION_BINS = 15
"""Of equal width over the confidences 0 to 1, as Guo et al. 2017 have them."""

_quality = partial(
    Metric,
    released="the validation records, without noise (only where they are declared public), and the released model",
    depends=Dependence.VALIDATION,
)
_of_classes = partial(_quality, tasks=frozenset({Task.CLASSIFICATION}))
_of_numbers = partial(_quality, tasks=frozenset({Task.REGRESSION, Task.RATING}))

QUALITY: Mapping[str, Metric] = {
    one.name: one
    for one in (
        _of_classes(
            name="average_precision",
            goal="maximize",
            worst=0.0,
            doc="area under the steps of precision over recall (more than two classes: mean of one against the rest; "
            "left out where every record is of one class)",
        ),
        _of_classes(
            name="f1",
            goal="maximize",
            worst=0.0,
            doc="harmonic mean of precision and recall (more than two classes: mean over those that occur or are "
            "predicted; left out where the positive class of two neither occurs nor is predicted)",
        ),
        _of_classes(
            name="balanced_accuracy",
            goal="maximize",
            worst=0.0,
            doc="mean over the classes that occur of the share of their records that is predicted",
        ),
        _of_classes(
            name="log_loss",
            goal="minimize",
            worst=Worst.GUESSED_LOSS,
            doc="mean of -ln of the probability that the softmax gives a record's class, which counts as 2e-16 or more",
        ),
        _of_classes(
            name="calibration_error",
            goal="minimize",
            worst=1.0,
            doc=f"expected calibration error (Guo et al. 2017): confidence against accuracy in {CALIBRATION_BINS} bins "
            "of equal width, weighted by their records",
        ),
        _of_numbers(
            name="r2",
            goal="maximize",
            doc="1 - squared error / variance of the targets (ratings: of the expected class; left out where all "
            "targets are one value)",
        ),
        _of_numbers(
            name="mae",
            goal="minimize",
            worst=Worst.TARGET_RANGE,
            doc="mean absolute error (ratings: of the expected class, in steps from one class to the next)",
        ),
    )
}
_GROUPED = (
    _of_classes(
        name="worst_group_accuracy",
        goal="maximize",
        worst=0.0,
        released="the validation records (without noise where they are declared public), and the released model",
        doc="accuracy on the group of data.groups that has the least of it (groups without a record are left out; "
        "of noised counts those whose count is below twice its noise; itself left out where none is left)",
    ),
    _of_classes(
        name="smallest_group",
        goal="maximize",
        released="the validation records (without noise where they are declared public): no model",
        doc="number of validation records in the smallest group of data.groups, which worst_group_accuracy may rest on",
    ),
)
GROUPED: Mapping[str, Metric] = {
    one.name: one
    for one in (
        *_GROUPED,
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
            for one in _GROUPED
        ),
    )
}
"""Told of data that declare groups."""


def why_not(system: object) -> str:
    """Why the quality of what `system` releases cannot be measured; empty if it can."""
    if capabilities_of(system).judged_as_released:
        return ""
    return "it declares no released model that may be judged by more than its own metrics"

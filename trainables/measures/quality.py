"""How good a released model is on validation records that are public, beyond accuracy and loss.

Each is nan where outputs are no numbers, and left out where its own sentence says so. With two classes class 1 is the
positive one. Sources: scikit-learn where it has the metric; the expected calibration error of Guo et al. 2017.

A spec may also name a metric of the user's own, `module:function`: it is called as function(targets, scores) with what
a released model says of public validation records, and returns one finite number. Scores are probabilities [n, C] of
classes, the expected class [n] of ratings, the predicted value [n] of a regression. What it computes was read by nobody
here: it is asserted by its module. No plan counts a look of it at private records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainables import plugins
from trainables.metrics import STANDARD_ERROR, Dependence, Metric, Task, Worst, share_error
from trainables.system import Dataset, DatasetSpec, Split, State, System, TrialRun, traits_of

if TYPE_CHECKING:
    from torch import nn

CALIBRATION_BINS = 15
"""Of equal width over the confidences 0 to 1, as Guo et al. 2017 have them."""

Floats = NDArray[np.float64]
Targets = NDArray[np.generic]

_quality = partial(
    Metric,
    released="the validation records, without noise (only where they are declared public), and the released model",
    depends=Dependence.VALIDATION,
)
_of_classes = partial(_quality, tasks=frozenset({Task.CLASSIFICATION}))
_of_numbers = partial(_quality, tasks=frozenset({Task.REGRESSION, Task.RATING}))


def _sklearn() -> Any:
    """It takes longer to import than all else here: not for every trial."""
    from sklearn import metrics

    return metrics


Computed = Callable[[Targets, Floats], float]
COMPUTED: dict[str, Computed] = {}
"""{name of the metric: its value for targets [n] and scores}"""
QUALITY: dict[str, Metric] = {}
"""Those of COMPUTED, as they are declared: what each is stands in its function's text."""


def _declared(
    of: Callable[..., Metric], goal: Literal["maximize", "minimize"], worst: float | Worst | None
) -> Callable[[Computed], Computed]:
    """Declares a function as the metric of its name."""

    def declare(function: Computed) -> Computed:
        name, doc = function.__name__, " ".join((function.__doc__ or "").split())
        COMPUTED[name], QUALITY[name] = function, of(name=name, goal=goal, worst=worst, doc=doc)
        return function

    return declare


@_declared(_of_classes, "maximize", 0.0)
def average_precision(labels: Targets, shares: Floats) -> float:
    """area under the steps of precision over recall (more than two classes: mean of one against the rest; left out
    where every record is of one class)"""
    classes = shares.shape[1]
    found = []
    for one in range(1, 2) if classes == 2 else range(classes):
        positive = labels == one
        if positive.any() and not positive.all():
            found.append(_sklearn().average_precision_score(positive, shares[:, one]))
    return float(np.mean(found)) if found else math.nan


@_declared(_of_classes, "maximize", 0.0)
def f1(labels: Targets, shares: Floats) -> float:
    """harmonic mean of precision and recall (more than two classes: mean over those that occur or are predicted; left
    out where the positive class of two neither occurs nor is predicted)"""
    classes = shares.shape[1]
    counted = [1] if classes == 2 else list(range(classes))
    # A class that neither occurs nor is predicted has none, and is left out of the mean.
    found = _sklearn().f1_score(labels, shares.argmax(1), labels=counted, average="macro", zero_division=np.nan)
    return float(found)


@_declared(_of_classes, "maximize", 0.0)
def balanced_accuracy(labels: Targets, shares: Floats) -> float:
    """mean over the classes that occur of the share of their records that is predicted"""
    return float(_sklearn().recall_score(labels, shares.argmax(1), labels=np.unique(labels), average="macro"))


@_declared(_of_classes, "minimize", Worst.GUESSED_LOSS)
def log_loss(labels: Targets, shares: Floats) -> float:
    """mean of -ln of the probability that the softmax gives a record's class, which counts as 2e-16 or more"""
    return float(_sklearn().log_loss(labels, shares, labels=list(range(shares.shape[1]))))


@_declared(_of_classes, "minimize", 1.0)
def calibration_error(labels: Targets, shares: Floats) -> float:
    """expected calibration error (Guo et al. 2017): confidence against accuracy in 15 bins of equal width, weighted by
    their records"""
    confidences, right = shares.max(1), shares.argmax(1) == labels
    # Bin b holds confidences above b / bins and up to (b + 1) / bins.
    bins = np.clip(np.ceil(confidences * CALIBRATION_BINS).astype(int) - 1, 0, CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=right - confidences, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


@_declared(_of_numbers, "maximize", None)
def r2(targets: Targets, values: Floats) -> float:
    """1 - squared error / variance of the targets (ratings: of the expected class; left out where all targets are one
    value)"""
    return float(_sklearn().r2_score(targets, values)) if len(np.unique(targets)) > 1 else math.nan


@_declared(_of_numbers, "minimize", Worst.TARGET_RANGE)
def mae(targets: Targets, values: Floats) -> float:
    """mean absolute error (ratings: of the expected class, in steps from one class to the next)"""
    return float(_sklearn().mean_absolute_error(targets, values))


GROUPED: Mapping[str, Metric] = plugins.ByName(
    "metric",
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
"""Told of data that declare groups."""


def why_not(system: object) -> str:
    """Why the quality of what `system` releases cannot be measured; empty if it can."""
    if traits_of(system).judged_as_released:
        return ""
    return "it declares no released model that may be judged by more than its own metrics"


_TASKS = frozenset({Task.CLASSIFICATION, Task.RATING, Task.REGRESSION})


class NoFiniteNumber(ValueError):
    """What an own metric returned; the text quotes public records alone."""


def own_metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Those of `names` that are written as functions, by name. Imports nothing."""
    asked = [(name, *name.split(":")) for name in names if plugins.OBJECT.fullmatch(name)]
    return {
        name: _quality(
            name=name,
            goal=None,
            doc=f"{function}(targets, scores) of the validation records, asserted by {module}: nobody read it here",
            released="the validation records (only where they are declared public) and the released model, as asserted "
            f"by {module}",
            tasks=_TASKS,
        )
        for name, module, function in asked
    }


def own_value(name: str, targets: NDArray[np.generic], scores: NDArray[np.float64]) -> float:
    """What the function `name` makes of targets [n] and scores. Raises InvalidValue, NoFiniteNumber."""
    # Copies: what it does to them is seen by no other metric and no other trial.
    value = own_function("metric", name)(targets.copy(), scores.copy())
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        shape = f" of shape {value.shape}" if isinstance(value, np.ndarray) else ""
        raise NoFiniteNumber(f"{name} returned a {type(value).__name__}{shape}: expected one finite number")
    if not math.isfinite(value):
        raise NoFiniteNumber(f"{name} returned {float(value)}: expected a finite number, for every model")
    return float(value)


def own_function(path: str, name: str) -> Callable[..., Any]:
    """Imports it. Raises InvalidValue at `path` of a spec where there is no such function, or it may not run."""
    remedy = "A metric of your own is a function of targets and scores that returns one number."
    return plugins.function(path, name, remedy)


def quality(names: Sequence[str], system: System, member: TrialRun, state: State, data: Dataset) -> dict[str, float]:
    """The named ones of the model that `state` releases; without those that these records leave undefined.

    Raises UncountedReport where the validation records are private: no plan counts such a look at them; InvalidValue
    and NoFiniteNumber for a function of the user's own.
    """
    from trainables.hooks import ReleasesModel
    from trainables.validation.evaluate import UncountedReport

    if data.facts.private_validation is not None:
        raise UncountedReport(f"{', '.join(names)}: the plan counts no look at private validation records for it")
    assert isinstance(system, ReleasesModel)
    model = system.released_model(member.plan, data.facts, state)
    scores, targets = predicted(model, data.validation, data.facts), data.validation.targets
    found: dict[str, float] = {}
    for name in [one for one in names if one not in GROUPED]:
        found[name] = value_of(name, targets, scores)
        error = jackknife_error(partial(value_of, name), targets, scores, data.facts.unit_records)
        if math.isfinite(error):
            found[name + STANDARD_ERROR] = error
    if any(name in GROUPED for name in names):
        grouped = of_groups(data, scores)
        found |= {name: value for name, value in grouped.items() if name.removesuffix(STANDARD_ERROR) in names}
    if not np.isfinite(scores).all():
        # The model is none: what it reports says so.
        return found
    return {name: value for name, value in found.items() if not math.isnan(value)}


PARTS = 20
"""Of the records, each left out once for an error."""


def jackknife_error(value: Callable[[Targets, Floats], float], targets: Targets, scores: Floats, alike: int) -> float:
    """Standard error of `value` of n records, of drawing others: by leaving out one of `PARTS` parts of them at a time.

    alike  largest number of records that belong together; the variance is at most so many times as large

    Source  Efron & Tibshirani (1993), An Introduction to the Bootstrap, section 11.5 (the jackknife by groups). nan
            where fewer than two records are there, or a value without some of them is none.
    """
    parts = min(PARTS, len(targets))
    if parts < 2:
        return math.nan
    # Records may lie in an order: neighbours go to different parts.
    of_record = np.arange(len(targets)) % parts
    values = np.array([value(targets[of_record != one], scores[of_record != one]) for one in range(parts)])
    return math.sqrt(alike * (parts - 1) * float(np.var(values)))


def predicted(model: nn.Module, split: Split, facts: DatasetSpec) -> Floats:
    """Probabilities [n, C] of classes; of ratings the expected class [n], of a regression the predicted value [n]."""
    import torch

    from trainables.training.losses import answers

    parts = [outputs.double() for _, outputs in answers(model, split, torch.device("cpu"))]
    outputs = torch.cat(parts)
    if facts.task is Task.REGRESSION:
        return np.asarray(outputs.squeeze(1).numpy())
    shares = outputs.softmax(1)
    if facts.task is Task.RATING:
        return np.asarray((shares @ torch.arange(shares.shape[1], dtype=shares.dtype)).numpy())
    return np.asarray(shares.numpy())


def of_groups(data: Dataset, shares: Floats) -> dict[str, float]:
    """Those of `GROUPED`, with errors, from probabilities [n, C] of public validation records with groups."""
    groups, codes = data.facts.groups, data.validation.groups
    assert groups is not None
    assert codes is not None
    counts = np.bincount(codes, minlength=len(groups.categories))
    right = np.bincount(codes, weights=shares.argmax(1) == data.validation.targets, minlength=len(counts))
    there = counts > 0
    found = {"smallest_group": float(counts.min())}
    if not there.any() or not np.isfinite(shares).all():
        return found | {"worst_group_accuracy": math.nan}
    least = np.flatnonzero(there)[int(np.argmin(right[there] / counts[there]))]
    worst = float(right[least] / counts[least])
    error = share_error(worst, int(counts[least]), data.facts.unit_records)
    return found | {"worst_group_accuracy": worst, "worst_group_accuracy" + STANDARD_ERROR: error}


def value_of(name: str, targets: Targets, scores: Floats) -> float:
    """One metric of targets [n] and scores as `predicted` gives them; nan where a score is no number.

    Raises InvalidValue and NoFiniteNumber for a function of the user's own.
    """
    if not np.isfinite(scores).all():
        return math.nan
    return COMPUTED[name](targets, scores) if name in COMPUTED else own_value(name, targets, scores)

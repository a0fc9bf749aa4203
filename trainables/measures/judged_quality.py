"""The values of `trainables.measures.quality`, from a released model and validation records that are public.

Sources: scikit-learn where it has the metric; the expected calibration error of Guo et al. 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trainables.export.protocol import ReleasesModel
from trainables.measures.own_metrics import own_value
from trainables.measures.quality import CALIBRATION_BINS, GROUPED
from trainables.system import Dataset, Member, PublicFacts, Split, State, System, Task
from trainables.training.losses import answers
from trainables.validation.judging import UncountedReport

Floats = NDArray[np.float64]
Targets = NDArray[np.generic]


def quality(names: Sequence[str], system: System, member: Member, state: State, data: Dataset) -> dict[str, float]:
    """The named ones of the model that `state` releases; without those that these records leave undefined.

    Raises UncountedReport where the validation records are private: no plan counts such a look at them; InvalidValue
    and NoFiniteNumber for a function of the user's own.
    """
    if data.facts.private_validation is not None:
        raise UncountedReport(f"{', '.join(names)}: the plan counts no look at private validation records for it")
    assert isinstance(system, ReleasesModel)
    model = system.released_model(member.plan, data.facts, state)
    scores = predicted(model, data.validation, data.facts)
    plain = {name: value_of(name, data.validation.targets, scores) for name in names if name not in GROUPED}
    grouped = of_groups(data, scores) if any(name in GROUPED for name in names) else {}
    found = plain | {name: value for name, value in grouped.items() if name in names}
    if not np.isfinite(scores).all():
        # The model is none: what it reports says so.
        return found
    return {name: value for name, value in found.items() if not math.isnan(value)}


def predicted(model: nn.Module, split: Split, facts: PublicFacts) -> Floats:
    """Probabilities [n, C] of classes; of ratings the expected class [n], of a regression the predicted value [n]."""
    parts = [outputs.double() for _, outputs in answers(model, split, torch.device("cpu"))]
    outputs = torch.cat(parts)
    if facts.task is Task.REGRESSION:
        return _array(outputs.squeeze(1))
    shares = outputs.softmax(1)
    if facts.task is Task.RATING:
        return _array(shares @ torch.arange(shares.shape[1], dtype=shares.dtype))
    return _array(shares)


def of_groups(data: Dataset, shares: Floats) -> dict[str, float]:
    """Those of `GROUPED` from probabilities [n, C] of public validation records whose groups are known."""
    groups, codes = data.facts.groups, data.validation.groups
    assert groups is not None
    assert codes is not None
    counts = np.bincount(codes, minlength=len(groups.categories))
    right = np.bincount(codes, weights=shares.argmax(1) == data.validation.targets, minlength=len(counts))
    there = counts > 0
    worst = float((right[there] / counts[there]).min()) if there.any() and np.isfinite(shares).all() else math.nan
    return {"worst_group_accuracy": worst, "smallest_group": float(counts.min())}


def value_of(name: str, targets: Targets, scores: Floats) -> float:
    """One metric of targets [n] and scores as `predicted` gives them; nan where a score is no number.

    Raises InvalidValue and NoFiniteNumber for a function of the user's own.
    """
    if not np.isfinite(scores).all():
        return math.nan
    return COMPUTED[name](targets, scores) if name in COMPUTED else own_value(name, targets, scores)


def _average_precision(labels: Targets, shares: Floats) -> float:
    from sklearn.metrics import average_precision_score

    classes = shares.shape[1]
    found = []
    for one in range(1, 2) if classes == 2 else range(classes):
        positive = labels == one
        if positive.any() and not positive.all():
            found.append(float(average_precision_score(positive, shares[:, one])))
    return float(np.mean(found)) if found else math.nan


def _f1(labels: Targets, shares: Floats) -> float:
    from sklearn.metrics import f1_score

    classes = shares.shape[1]
    counted = [1] if classes == 2 else list(range(classes))
    # A class that neither occurs nor is predicted has none, and is left out of the mean.
    return float(f1_score(labels, shares.argmax(1), labels=counted, average="macro", zero_division=np.nan))


def _balanced_accuracy(labels: Targets, shares: Floats) -> float:
    from sklearn.metrics import recall_score

    return float(recall_score(labels, shares.argmax(1), labels=np.unique(labels), average="macro"))


def _log_loss(labels: Targets, shares: Floats) -> float:
    from sklearn.metrics import log_loss

    return float(log_loss(labels, shares, labels=list(range(shares.shape[1]))))


def _calibration_error(labels: Targets, shares: Floats) -> float:
    confidences, right = shares.max(1), shares.argmax(1) == labels
    # Bin b holds confidences above b / bins and up to (b + 1) / bins.
    bins = np.clip(np.ceil(confidences * CALIBRATION_BINS).astype(int) - 1, 0, CALIBRATION_BINS - 1)
    gaps = np.bincount(bins, weights=right - confidences, minlength=CALIBRATION_BINS)
    return float(np.abs(gaps).sum() / len(labels))


def _r2(targets: Targets, values: Floats) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(targets, values)) if len(np.unique(targets)) > 1 else math.nan


def _mae(targets: Targets, values: Floats) -> float:
    from sklearn.metrics import mean_absolute_error

    return float(mean_absolute_error(targets, values))


COMPUTED: Mapping[str, Callable[[Targets, Floats], float]] = {
    "average_precision": _average_precision,
    "f1": _f1,
    "balanced_accuracy": _balanced_accuracy,
    "log_loss": _log_loss,
    "calibration_error": _calibration_error,
    "r2": _r2,
    "mae": _mae,
}
"""{name of the metric: its value for targets [n] and scores}"""


def _array(values: torch.Tensor) -> Floats:
    array: Floats = values.numpy()
    return array

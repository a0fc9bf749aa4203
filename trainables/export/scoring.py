"""How good a released model is on test records: as they are, or by one noised histogram."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from trainables.reports import Bins, share_error
from trainables.system import DatasetSpec, Split, Task
from trainables.training.noise import unseeded_noise
from trainables.validation.evaluate import judgements, metrics_of, noised
from trainables.validation.histogram_bins import Judgements

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a model does on test records.

    metrics         by name; noised ones with the standard deviation of their noise beside them
    standard_error  {metric: of drawing other records, and of its noise}, where it is known
    """

    metrics: Mapping[str, float]
    standard_error: Mapping[str, float]


def score(model: nn.Module, split: Split, facts: DatasetSpec) -> Score:
    """The metrics of validation, of public test records as they are."""
    judged = judgements(model, split, facts, _CPU)
    metrics = dict(metrics_of(judged, facts))
    return Score(metrics=metrics, standard_error={} if facts.unit is not None else _spread(judged, metrics, facts))


def noised_score(
    model: nn.Module, split: Split, facts: DatasetSpec, units: int, histogram: NoisyHistogram, bins: Bins
) -> Score:
    """The same of private ones, by one release of `histogram`, whose noise nobody can seed.

    units  declared number of test records, or of their units
    """
    # One at a time: what a record adds must not depend on its companions.
    judged = judgements(model, split, facts, _CPU, batch=1)
    metrics = noised(judged, facts, units, histogram, bins, unseeded_noise())
    return Score(metrics=metrics, standard_error=dict(share_error(metrics, 0 if facts.unit else units)))


def _spread(judged: Judgements, metrics: Mapping[str, float], facts: DatasetSpec) -> dict[str, float]:
    """Of means over records, that of their values; of a root of one, by the delta method. Of one record, or of records
    that are all alike, nobody knows how much others differ: nothing is said.
    """
    n = len(judged)
    found = {} if facts.task is Task.REGRESSION else dict(share_error(metrics, n))
    if n > 1:
        spread = {"loss": _deviation(judged.losses)}
        if (root := metrics.get("rmse")) is not None and root > 0:
            spread["rmse"] = _deviation(judged.squared_errors) / (2 * root)
        found |= {name: one / math.sqrt(n) for name, one in spread.items() if one > 0}
    return found


def _deviation(values: NDArray[np.float64]) -> float:
    """Standard deviation, unbiased in its square."""
    return float(np.std(values, ddof=1))

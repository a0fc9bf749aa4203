"""How good a released model is on test records: as they are, or by one noised histogram."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from trainables.reports import Bins
from trainables.system import DatasetSpec, Split
from trainables.training.noise import unseeded_noise
from trainables.validation.evaluate import judge, judgements, noised

_CPU = torch.device("cpu")


def score(model: nn.Module, split: Split, facts: DatasetSpec) -> Mapping[str, float]:
    """The metrics of validation with their errors, of public test records as they are."""
    return judge(model, split, facts, _CPU)


def noised_score(
    model: nn.Module, split: Split, facts: DatasetSpec, units: int, histogram: NoisyHistogram, bins: Bins
) -> Mapping[str, float]:
    """The same of private ones, by one release of `histogram`, whose noise nobody can seed.

    units  declared number of test records, or of their units
    """
    # One at a time: what a record adds must not depend on its companions.
    judged = judgements(model, split, facts, _CPU, batch=1)
    return noised(judged, facts, units, histogram, bins, unseeded_noise())

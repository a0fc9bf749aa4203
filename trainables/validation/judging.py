"""The metrics of one report: from the validation records as they are, or from a noised histogram of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from dpcore.noise import NoiseSource
from trainables.system import Dataset, Execution, PublicFacts, Run, Split, Task
from trainables.training.noise import report_noise
from trainables.validation.declaration import Bins
from trainables.validation.judgements import Judgements, judgements
from trainables.validation.layouts import cells_for
from trainables.validation.reports import NOISE_SD

MISCOUNTED = 2.0
"""The declared number of validation records and the one that is there differ by less than this factor."""


class UncountedReport(RuntimeError):
    """A report that the plan did not count; nothing was drawn."""


def report(
    run: Run, model: nn.Module, data: Dataset, device: torch.device, execution: Execution, step: int
) -> Mapping[str, float]:
    """What a run tells of its validation records once, after `step` steps; {} without such records.

    Raises UncountedReport when the plan has private reports and none after this step.
    """
    reports = run.member.plan.validation
    if reports is None:
        return judge(model, data.validation, data.facts, device)
    if step not in reports.at:
        raise UncountedReport(f"{run.member.key}: the plan counted reports after {reports.at} steps, not after {step}")
    # One at a time: what a record adds must not depend on its companions.
    judged = judgements(model, data.validation, data.facts, device, batch=1)
    noise = report_noise(run, execution, step)
    return noised(judged, data.facts, data.facts.n_validation, reports.histogram, reports.bins, noise)


def noised(
    judged: Judgements, facts: PublicFacts, units: int, histogram: NoisyHistogram, bins: Bins, noise: NoiseSource
) -> Mapping[str, float]:
    """What one release of `histogram` says of judged records, each judged by itself; with the noise of each number.

    units  declared number of these records, or of their units
    """
    cells = cells_for(facts, bins)
    counts = histogram.release(cells.of(judged), noise)
    between = (units / MISCOUNTED, units * histogram.unit_records * MISCOUNTED)
    found = cells.estimates(counts, histogram.deviation, between)
    values = {name: one.value for name, one in found.items()}
    return values | {name + NOISE_SD: one.standard_error for name, one in found.items()}


def judge(model: nn.Module, split: Split, facts: PublicFacts, device: torch.device) -> Mapping[str, float]:
    """Metrics on `split` as it is: the loss; of classes accuracy and auc, of ratings accuracy and rmse, else rmse.

    {} without records. The auc is that of `trainables.validation.cells`, without bins; it is left out where
    every record is of one class.
    """
    if not len(split):
        return {}
    return metrics_of(judgements(model, split, facts, device), facts)


def metrics_of(judged: Judgements, facts: PublicFacts) -> Mapping[str, float]:
    """The metrics of `judge`, of one record or more that were judged."""
    metrics = {"loss": float(judged.losses.mean())}
    if facts.task is not Task.REGRESSION:
        metrics["accuracy"] = float((judged.predictions == judged.labels).mean())
    if facts.task is not Task.CLASSIFICATION:
        metrics["rmse"] = float(judged.squared_errors.mean() ** 0.5)
    elif (
        area := area_under_curve(judged.labels, judged.predictions, judged.confidences, facts.classes or 0)
    ) is not None:
        metrics["auc"] = area
    return metrics


def area_under_curve(
    labels: NDArray[np.int64], predictions: NDArray[np.int64], confidences: NDArray[np.float64], classes: int
) -> float | None:
    """The auc of `trainables.validation.cells` without bins; arrays [n]. None where every record is of one class."""
    # It takes longer to import than all else here: not for every trial.
    from scipy.stats import rankdata

    areas = []
    for one in range(1 if classes == 2 else classes):
        positive = labels == one
        inside, outside = int(positive.sum()), int((~positive).sum())
        if inside and outside:
            scores = np.where(predictions == one, confidences, -confidences)
            # Mann & Whitney (1947): the ranks of the positives, ties halved.
            won = rankdata(scores)[positive].sum() - inside * (inside + 1) / 2
            areas.append(float(won) / (inside * outside))
    return float(np.mean(areas)) if areas else None

"""What a model does on each of n records: predicted class of C, confidence, loss, squared error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.mechanisms.noisy_histogram import Estimate, NoisyHistogram, area_error
from dpcore.noise import NoiseSource
from trainables.metrics import NEXT_TOKEN, STANDARD_ERROR, share_error
from trainables.reports import Bins
from trainables.system import IGNORED, Dataset, DatasetSpec, Run, RunSettings, Split, Task
from trainables.training.losses import answers, evaluation_batch, loss_function, tensor
from trainables.training.noise import noise_source, unseeded_noise
from trainables.validation.histogram_bins import Judgements, cells_for

Floats = NDArray[np.float64]
CPU = torch.device("cpu")


def judgements(model: nn.Module, split: Split, facts: DatasetSpec, device: torch.device, batch: int = 0) -> Judgements:
    """Judge every record of `split`, `batch` at a time (0: many), without gradients and in evaluation mode.

    A rating is predicted as the expected class under the softmax, as Bu et al.'s released code does. With a `batch` of
    1 a record that the model has no answer to is one with outputs that are no numbers.
    """
    loss_fn = loss_function(facts)
    none, codes = np.zeros(0), np.zeros(0, dtype=np.int64)
    parts = [Judgements(codes, codes, none, none, none)]
    for rows, outputs in answers(model, split, device, batch or evaluation_batch(facts)):
        parts.append(_judged(outputs, tensor(split.targets[rows], device), facts, loss_fn))
    columns = ("labels", "predictions", "confidences", "losses", "squared_errors")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return Judgements(**joined, groups=split.groups)


def _judged(
    outputs: Tensor, targets_B: Tensor, facts: DatasetSpec, loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> Judgements:
    zeros = np.zeros(len(targets_B))
    codes = zeros.astype(np.int64)
    found = Judgements(codes, codes, zeros, _array(loss_fn(outputs, targets_B)), zeros)
    if facts.task is Task.REGRESSION:
        return replace(found, squared_errors=_array((outputs.squeeze(1) - targets_B).square()))
    if facts.task is Task.TOKENS:
        return replace(found, confidences=_array(_right_share(outputs, targets_B, facts.loss)))
    shares_BC, predicted_B = outputs.softmax(1), outputs.argmax(1)
    if facts.task is Task.RATING:
        codes_C = torch.arange(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        found = replace(found, squared_errors=_array((shares_BC @ codes_C - targets_B).square()))
    labels, predictions = (one.cpu().numpy().astype(np.int64) for one in (targets_B, predicted_B))
    confidences = _array(shares_BC.gather(1, predicted_B[:, None])[:, 0])
    return replace(found, labels=labels, predictions=predictions, confidences=confidences)


def _right_share(outputs_BLC: Tensor, targets_BL: Tensor, loss: str) -> Tensor:
    """[B]: of the tokens of each record that count, the share that is predicted; 0 of none."""
    if loss == NEXT_TOKEN:
        outputs_BLC, targets_BL = outputs_BLC[:, :-1], targets_BL[:, 1:]
    counted_B = (targets_BL != IGNORED).sum(1)
    return (outputs_BLC.argmax(2) == targets_BL).sum(1) / counted_B.clamp(min=1)


def _array(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array


MISCOUNTED = 2.0
"""The declared number of validation records and the one that is there differ by less than this factor."""


class UncountedReport(RuntimeError):
    """A report that the plan did not count; nothing was drawn."""


def report(
    run: Run, model: nn.Module, data: Dataset, device: torch.device, execution: RunSettings, step: int
) -> Mapping[str, float]:
    """What a run tells of its validation records once, after `step` steps; {} without such records.

    Raises UncountedReport when the plan has private reports and none after this step.
    """
    reports = run.member.plan.validation
    if reports is None:
        return judge(model, data.validation, data.facts, device)
    if step not in reports.at:
        raise UncountedReport(f"{run.member.key}: the plan counted reports after {reports.at} steps, not after {step}")
    noise = noise_source(run, execution, report_at=step)
    return noised_judge(
        model, data.validation, data.facts, data.facts.n_validation, reports.histogram, reports.bins, noise, device
    )


def noised_judge(
    model: nn.Module,
    split: Split,
    facts: DatasetSpec,
    units: int,
    histogram: NoisyHistogram,
    bins: Bins,
    noise: NoiseSource | None = None,
    device: torch.device = CPU,
) -> Mapping[str, float]:
    """What one release of `histogram` says of the records of `split`, each judged by itself; with each number's error.

    units  declared number of these records, or of their units
    noise  None: one that nobody can seed
    """
    # One at a time: what a record adds must not depend on its companions.
    judged = judgements(model, split, facts, device, batch=1)
    cells = cells_for(facts, bins)
    counts = histogram.release(cells.of(judged), unseeded_noise() if noise is None else noise)
    between = (units / MISCOUNTED, units * histogram.unit_records * MISCOUNTED)
    return _told(cells.estimates(counts, histogram.deviation, between, histogram.unit_records))


def _told(found: Mapping[str, Estimate]) -> dict[str, float]:
    values = {name: one.value for name, one in found.items()}
    # Of a single record, or of equal ones, nobody knows how much others differ: nothing is said.
    errors = {name + STANDARD_ERROR: one.standard_error for name, one in found.items()}
    return values | {name: error for name, error in errors.items() if 0 < error < math.inf}


def judge(model: nn.Module, split: Split, facts: DatasetSpec, device: torch.device = CPU) -> Mapping[str, float]:
    """Metrics on `split` as it is: the loss; of classes accuracy and auc, of ratings accuracy and rmse, of tokens
    perplexity and token_accuracy (but with a loss of one's own), else rmse.

    Each with its standard error. {} without records. The auc is that of `trainables.validation.histogram_bins`, without
    bins; it is left out where every record is of one class.
    """
    if not len(split):
        return {}
    judged, alike = judgements(model, split, facts, device), facts.unit_records
    found = {"loss": mean_of(judged.losses, alike)}
    if facts.task is Task.TOKENS:
        if not facts.own_loss:
            found |= {"perplexity": found["loss"].exp(), "token_accuracy": mean_of(judged.confidences, alike)}
        return _told(found)
    if facts.task is not Task.REGRESSION:
        share = float((judged.predictions == judged.labels).mean())
        found["accuracy"] = Estimate(share, share_error(share, len(judged), alike))
    if facts.task is not Task.CLASSIFICATION:
        found["rmse"] = mean_of(judged.squared_errors, alike).root()
    elif (
        area := area_under_curve(judged.labels, judged.predictions, judged.confidences, facts.classes or 0, alike)
    ) is not None:
        found["auc"] = area
    return _told(found)


def mean_of(values: NDArray[np.float64], alike: int = 1) -> Estimate:
    """Of n >= 1 values, with the error of drawing others; infinite for a single one, which says nothing of it.

    alike  largest number of values that belong together: their mean varies at most as if they were equal
    """
    error = math.sqrt(alike * float(np.var(values, ddof=1)) / len(values)) if len(values) > 1 else math.inf
    return Estimate(float(values.mean()), error)


def area_under_curve(
    labels: NDArray[np.int64],
    predictions: NDArray[np.int64],
    confidences: NDArray[np.float64],
    classes: int,
    alike: int = 1,
) -> Estimate | None:
    """The auc of `trainables.validation.histogram_bins`, without bins; arrays [n]. None for records of one class.

    Of several classes the error is the mean of each area's, which it is at most however these depend on each other.
    """
    # It takes longer to import than all else here: not for every trial.
    from scipy.stats import rankdata

    areas, errors = [], []
    for one in range(1 if classes == 2 else classes):
        positive = labels == one
        inside, outside = int(positive.sum()), int((~positive).sum())
        if inside and outside:
            scores = np.where(predictions == one, confidences, -confidences)
            # Mann & Whitney (1947): the ranks of the positives, ties halved.
            won = rankdata(scores)[positive].sum() - inside * (inside + 1) / 2
            areas.append(float(won) / (inside * outside))
            errors.append(area_error(areas[-1], inside, outside, alike))
    return Estimate(float(np.mean(areas)), float(np.mean(errors))) if areas else None

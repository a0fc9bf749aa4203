"""What a model does on each of n records: predicted class of C, confidence, loss, squared error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables import models
from trainables.system import PublicFacts, Split, Task
from trainables.training.losses import EVALUATION_BATCH, answers, loss_function, tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Judgements:
    """One entry [n] for each record; each depends on that record and the model alone.

    labels, predictions  class codes; zeros for a regression
    confidences          of the predicted class under the softmax; zeros for a regression
    losses               what is trained on: cross-entropy, or squared error of a regression
    squared_errors       of a regression, or of a rating's expected class; zeros for classes
    groups               position of its group among the declared ones; None where records have no groups
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    confidences: Floats
    losses: Floats
    squared_errors: Floats
    groups: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the record's; outputs that are no numbers predict nothing."""
        right: NDArray[np.bool_] = (self.predictions == self.labels) & np.isfinite(self.confidences)
        return right


def judgements(
    model: nn.Module, split: Split, facts: PublicFacts, device: torch.device, batch: int = EVALUATION_BATCH
) -> Judgements:
    """Judge every record of `split`, `batch` at a time, without gradients and in evaluation mode.

    A rating is predicted as the expected class under the softmax, as Bu et al.'s released code does. With a `batch` of
    1 a record that the model has no answer to is one with outputs that are no numbers.
    """
    unanswered = models.outputs(facts) if batch == 1 else None
    loss_fn = loss_function(facts)
    parts: list[Judgements] = []
    for rows, outputs in answers(model, split, device, batch, unanswered):
        parts.append(_judged(outputs, tensor(split.targets[rows], device), facts, loss_fn))
    if not parts:
        none, codes = np.zeros(0), np.zeros(0, dtype=np.int64)
        return Judgements(codes, codes, none, none, none, split.groups)
    columns = ("labels", "predictions", "confidences", "losses", "squared_errors")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
    return Judgements(**joined, groups=split.groups)


def _judged(
    outputs: Tensor, targets_B: Tensor, facts: PublicFacts, loss_fn: Callable[[Tensor, Tensor], Tensor]
) -> Judgements:
    losses_B = loss_fn(outputs, targets_B)
    zeros = np.zeros(len(targets_B))
    if facts.task is Task.REGRESSION:
        codes = np.zeros(len(targets_B), dtype=np.int64)
        return Judgements(codes, codes, zeros, _array(losses_B), _array((outputs.squeeze(1) - targets_B).square()))
    shares_BC = outputs.softmax(1)
    predicted_B = outputs.argmax(1)
    squared = zeros
    if facts.task is Task.RATING:
        codes_C = torch.arange(outputs.shape[1], dtype=outputs.dtype, device=outputs.device)
        squared = _array((shares_BC @ codes_C - targets_B).square())
    return Judgements(
        targets_B.cpu().numpy().astype(np.int64),
        predicted_B.cpu().numpy(),
        _array(shares_BC.gather(1, predicted_B[:, None])[:, 0]),
        _array(losses_B),
        squared,
    )


def _array(values: Tensor) -> Floats:
    array: Floats = values.double().cpu().numpy()
    return array

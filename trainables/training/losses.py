"""What is minimised per record, and its value for every record. B batch, L places, C classes or codes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.gradients import isolated
from dpcore.gradients.chain import cross_entropy, squared_error
from trainables import plugins
from trainables.metrics import LOSS, NEXT_TOKEN
from trainables.system import IGNORED, DatasetSpec, Split, Task

EVALUATION_BATCH, MOST_NUMBERS = 1024, 1 << 26
CANARY = "canary"
"""The input that says which canary of an audit a record is, negative for the opposite way (`measures.canaries`)."""


def loss_function(facts: DatasetSpec) -> Callable[[Tensor, Tensor], Tensor]:
    """(outputs, targets) -> losses [B]: cross-entropy for classes and ratings, squared error for a regression; of
    tokens the mean over those of a record; the user's own where the facts name one. Raises InvalidValue."""
    if facts.own_loss:
        return _own_loss(facts.loss)
    if facts.task is Task.TOKENS:
        return next_token_losses if facts.loss == NEXT_TOKEN else token_losses
    if facts.task in (Task.CLASSIFICATION, Task.RATING):
        return cross_entropy
    return squared_error


def token_losses(outputs_BLC: Tensor, targets_BL: Tensor) -> Tensor:
    """[B]: the mean cross-entropy of each record's own tokens that are not `IGNORED`; 0 of one without any."""
    losses_BL = F.cross_entropy(outputs_BLC.transpose(1, 2), targets_BL, ignore_index=IGNORED, reduction="none")
    counted_B = (targets_BL != IGNORED).sum(1)
    return losses_BL.sum(1) / counted_B.clamp(min=1)


def next_token_losses(outputs_BLC: Tensor, targets_BL: Tensor) -> Tensor:
    """[B]: the same of outputs that each say the token behind their own place."""
    return token_losses(outputs_BLC[:, :-1], targets_BL[:, 1:])


@lru_cache(maxsize=8)
def _own_loss(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    remedy = "A loss of your own is a function of outputs [B, ...] and targets [B, ...] that returns [B]."
    function = plugins.function(LOSS, name, remedy)

    def losses(outputs: Tensor, targets: Tensor) -> Tensor:
        found = function(outputs, targets)
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if shape != (len(targets),):
            raise InvalidValue(LOSS, name, f"one number a record: shape ({len(targets)},), not {shape}", remedy)
        return cast(Tensor, found)

    return losses


def evaluation_batch(facts: DatasetSpec) -> int:
    """How many records are asked about at once: fewer where a model says much of each."""
    if facts.task is not Task.TOKENS:
        return EVALUATION_BATCH
    return max(1, min(EVALUATION_BATCH, MOST_NUMBERS // (math.prod(facts.target_shape) * (facts.classes or 1))))


def answers(
    model: nn.Module, split: Split, device: torch.device, batch: int = EVALUATION_BATCH
) -> Iterator[tuple[slice, Tensor]]:
    """(rows, outputs [rows, ...]) over all of `split`, `batch` at a time, in evaluation mode and without gradients.

    No record sees another: what a model says of one does not depend on which others it is asked about beside it, so a
    record moves its own answer alone; with a `batch` of 1 not even in its rounding. Raises Refused for a model that
    cannot be asked so.
    """
    training = model.training
    model.eval()
    try:
        apart = isolated(model)
        for start in range(0, len(split), batch):
            rows = slice(start, min(start + batch, len(split)))
            # Copies: a model may work on its inputs in place.
            inputs = [tensor(array[rows], device).clone() for array in split.inputs.values()]
            with torch.no_grad():
                outputs = apart(*inputs)
            yield rows, outputs
    finally:
        model.train(training)


def record_losses(model: nn.Module, split: Split, facts: DatasetSpec) -> NDArray[np.float64]:
    """The loss of every record, in float64, shape [len(split)]; +inf where it is not a number."""
    loss_fn, device = loss_function(facts), next(model.parameters()).device
    parts = [np.zeros(0)]
    for rows, outputs in answers(model, split, device, evaluation_batch(facts)):
        parts.append(loss_fn(outputs, tensor(split.targets[rows], device)).double().cpu().numpy())
    return np.nan_to_num(np.concatenate(parts), nan=np.inf, posinf=np.inf)


def tensor(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """`array` on `device` as models take it, without a copy on the CPU where it is so. Nothing may write to it."""
    return as_taken(as_stored(array), device)


Records = tuple[tuple[Tensor, ...], Tensor]
"""Inputs and targets."""


def tensors(split: Split, device: torch.device) -> Records:
    """All records of a split, as `tensor` has them."""
    return tuple(tensor(array, device) for array in split.inputs.values()), tensor(split.targets, device)


def chosen(records: Records, rows: NDArray[np.int64]) -> Records:
    """Those at these positions."""
    inputs, targets = records
    places = torch.from_numpy(rows).to(targets.device)
    return tuple(one.index_select(0, places) for one in inputs), targets.index_select(0, places)


def as_stored(array: NDArray[np.generic]) -> Tensor:
    """`array` where it lies, without a copy. Nothing may write to it."""
    with warnings.catch_warnings():
        # Arrays mapped from a shared store are read-only, which torch cannot express.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array)


def as_taken(stored: Tensor, device: torch.device) -> Tensor:
    """On `device`, codes as int64: what is mapped from a file has them in fewer bytes."""
    moved = stored.to(device)
    return moved.long() if moved.dtype in (torch.int8, torch.int16, torch.int32) else moved


# The weight of each record in the loss that a system trains by. B batch.

LossFunction = Callable[[Any, Any], Tensor]


def record_weights(facts: DatasetSpec, split: Split) -> NDArray[np.float32] | None:
    """[n] of the records of `split`; None where nothing is weighted. An audit's canaries have the largest weight that a
    record can have, 1 at least: a light one would be no longer than the clip, and the audit blind.

    Raises InvalidValue where the facts name a column of weights and the records have none.
    """
    declared = facts.weights
    if declared is None:
        return None
    weights = np.ones(len(split), dtype=np.float32)
    if declared.classes:
        weights = weights * np.array(declared.classes, dtype=np.float32)[split.targets]
    if declared.column:
        if split.weights is None:
            raise InvalidValue("weights", None, f"the column {declared.column} of every record that is trained on")
        weights = weights * split.weights
    if CANARY in split.inputs and CANARY not in facts.features:
        weights[split.inputs[CANARY] != 0] = max(1.0, declared.largest)
    return weights


def weighted(loss: LossFunction) -> LossFunction:
    """(outputs, (targets [B], weights [B])) -> losses [B], each times its weight: what is clipped is their gradient."""

    def of_records(outputs: Any, answers: tuple[Tensor, Tensor]) -> Tensor:
        targets_B, weights_B = answers
        return weights_B * loss(outputs, targets_B)

    return of_records


def averaged(loss: LossFunction, copies: int) -> LossFunction:
    """A share of each loss: the sum over the copies of a record is then their mean."""
    return lambda outputs, answers: loss(outputs, answers) / copies

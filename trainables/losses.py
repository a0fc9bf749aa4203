"""What is minimised per record, and how a trained model is judged. B batch, C classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from trainables.system import PublicFacts, Split, Task

EVALUATION_BATCH = 1024


def loss_function(facts: PublicFacts) -> Callable[[Tensor, Tensor], Tensor]:
    """(outputs, targets) -> losses [B]: cross-entropy for classes and ratings, squared error for a regression."""
    if facts.task in (Task.CLASSIFICATION, Task.RATING):
        return _cross_entropy
    return _squared_error


def _cross_entropy(outputs_BC: Tensor, targets_B: Tensor) -> Tensor:
    return F.cross_entropy(outputs_BC, targets_B, reduction="none")


def _squared_error(outputs_B1: Tensor, targets_B: Tensor) -> Tensor:
    return (outputs_B1.squeeze(1) - targets_B).square()


def judge(model: nn.Module, split: Split, facts: PublicFacts, device: torch.device) -> Mapping[str, float]:
    """Metrics on `split`: loss; accuracy of classes and ratings; rmse of ratings and regressions. {} without records.

    A rating is predicted as the expected class under the softmax, as Bu et al.'s released code does.
    """
    if not len(split):
        return {}
    loss_fn = loss_function(facts)
    loss = correct = squared = 0.0
    training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(split), EVALUATION_BATCH):
            rows = slice(start, start + EVALUATION_BATCH)
            inputs = [tensor(array[rows], device) for array in split.inputs.values()]
            targets_B = tensor(split.targets[rows], device)
            outputs = model(*inputs)
            loss += float(loss_fn(outputs, targets_B).double().sum())
            if facts.task is Task.REGRESSION:
                squared += float((outputs.squeeze(1) - targets_B).double().square().sum())
                continue
            correct += float((outputs.argmax(1) == targets_B).sum())
            if facts.task is Task.RATING:
                expected_B = outputs.softmax(1) @ torch.arange(outputs.shape[1], dtype=outputs.dtype, device=device)
                squared += float((expected_B - targets_B).double().square().sum())
    model.train(training)
    metrics = {"loss": loss / len(split)}
    if facts.task is not Task.REGRESSION:
        metrics["accuracy"] = correct / len(split)
    if facts.task is not Task.CLASSIFICATION:
        metrics["rmse"] = (squared / len(split)) ** 0.5
    return metrics


def record_losses(model: nn.Module, split: Split, facts: PublicFacts) -> NDArray[np.float64]:
    """The loss of every record, in float64, shape [len(split)]; +inf where it is not a number."""
    loss_fn, device = loss_function(facts), next(model.parameters()).device
    parts = [np.zeros(0)]
    training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, len(split), EVALUATION_BATCH):
            rows = slice(start, start + EVALUATION_BATCH)
            outputs = model(*(tensor(array[rows], device) for array in split.inputs.values()))
            parts.append(loss_fn(outputs, tensor(split.targets[rows], device)).double().cpu().numpy())
    model.train(training)
    return np.nan_to_num(np.concatenate(parts), nan=np.inf, posinf=np.inf)


def tensor(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """`array` on `device`, without a copy on the CPU. Nothing may write to the result."""
    with warnings.catch_warnings():
        # Arrays mapped from a shared store are read-only, which torch cannot express.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array).to(device)

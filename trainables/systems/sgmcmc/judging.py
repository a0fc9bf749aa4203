"""What the published table holds about a predictor: accuracy on both sides, the gap, and the threshold attack."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dpcore.audit.attacks import auc, decide, mean_training_loss_threshold, negative_loss
from trainables.system import Dataset
from trainables.systems.sgmcmc.leakage import leakage_metrics
from trainables.systems.sgmcmc.sampler_metrics import LAST
from trainables.training.losses import answers

Probabilities = NDArray[np.float32]


def predicted(model: nn.Module, data: Dataset, device: torch.device) -> Probabilities:
    """Softmax of the model in evaluation mode: training records, then validation records, [n + n_validation, C]."""
    parts = [
        outputs.softmax(1).cpu().numpy()
        for split in (data.train, data.validation)
        for _, outputs in answers(model, split, device)
    ]
    return np.concatenate(parts)


def losses(probabilities: Probabilities, targets: NDArray[np.generic]) -> NDArray[np.float64]:
    """-ln of the true class's probability, [..., N]; a probability of 0 counts as the smallest positive one."""
    true = probabilities[..., np.arange(len(targets)), targets].astype(np.float64)
    return -np.log(np.maximum(true, np.finfo(np.float32).tiny))


def table_metrics(probabilities: Probabilities, data: Dataset) -> dict[str, float]:
    """The metrics of one predictor, from its probabilities [n + n_validation, C]."""
    members, outsiders = np.split(probabilities, [len(data.train)])
    inside, outside = losses(members, data.train.targets), losses(outsiders, data.validation.targets)
    attack = decide(negative_loss(inside), negative_loss(outside), mean_training_loss_threshold(inside))
    train_accuracy = float((members.argmax(1) == data.train.targets).mean())
    accuracy = float((outsiders.argmax(1) == data.validation.targets).mean())
    return {
        "accuracy": accuracy,
        "loss": float(outside.mean()),
        "train_accuracy": train_accuracy,
        "gap": train_accuracy - accuracy,
        "attack_auc": auc(negative_loss(inside), negative_loss(outside)),
        "attack_f1": attack.f1,
        "attack_accuracy": attack.accuracy,
        "loss_bound": float(max(inside.max(), outside.max())),
    }


def judged(draws: Probabilities, data: Dataset, *, average: int, samples: bool) -> Mapping[str, float]:
    """Every metric of a finished run, from the probabilities of its last iterates [K, n + n_validation, C]."""
    averaged = draws[-average:].mean(axis=0)
    metrics = table_metrics(averaged, data)
    metrics |= {f"{LAST}{name}": value for name, value in table_metrics(draws[-1], data).items()}
    if samples:
        members = slice(0, len(data.train))
        under_draws = losses(draws[:, members], data.train.targets)
        metrics |= leakage_metrics(under_draws, under_draws[-1], losses(averaged[members], data.train.targets))
    return metrics

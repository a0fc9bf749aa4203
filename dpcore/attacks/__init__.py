"""Membership inference: scores of examples, and how well they tell members from others.

scores = lira.online(target, confidences, membership)       # or negative_loss(losses), or canaries' responses
tpr_at_fpr(scores[member], scores[~member], 0.001)          # describes these scores
decide(members, non_members, threshold)                     # a threshold from other data

On real members every number here is a new private release; `dpcore.audit` turns scores of synthetic canaries into
bounds.
"""

from dpcore.attacks import lira
from dpcore.attacks.canaries import sampled_log_likelihood_ratio
from dpcore.attacks.decisions import Decisions, advantage_bound, decide, mean_training_loss_threshold
from dpcore.attacks.roc import auc, threshold_at_fpr, tpr_at_fpr
from dpcore.attacks.scores import negative_loss
from dpcore.attacks.shadow import (
    AttackExamples,
    ShadowSplits,
    attack_examples,
    balanced_splits,
    disjoint_splits,
    prediction_features,
)

__all__ = [
    "AttackExamples",
    "Decisions",
    "ShadowSplits",
    "advantage_bound",
    "attack_examples",
    "auc",
    "balanced_splits",
    "decide",
    "disjoint_splits",
    "lira",
    "mean_training_loss_threshold",
    "negative_loss",
    "prediction_features",
    "sampled_log_likelihood_ratio",
    "threshold_at_fpr",
    "tpr_at_fpr",
]

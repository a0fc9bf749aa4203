"""What Lu et al. (2021) plot: accuracy lost to the mechanism, and what a membership attack gains."""

from __future__ import annotations

import math

from dpcore import checks


def accuracy_loss(accuracy: float, baseline: float) -> float:
    """Acc_Loss = 1 - accuracy / baseline; the baseline is trained on the same risk-averse loss without noise.

    Accuracies in [0, 1], the baseline above 0. Below 0 where the private model does better. Raises InvalidValue.
    """
    if not 0 <= accuracy <= 1:
        raise checks.InvalidValue("accuracy", accuracy, "a number in [0, 1]")
    checks.rate(baseline=baseline)
    return 1 - accuracy / baseline


def plotted_leakage_bound(epsilon: float) -> float:
    """exp(epsilon) - 1: the bound in the publication's figures, above 1 from epsilon 0.69.

    The most that an attack gains is `dpcore.attacks.advantage_bound`. Raises InvalidValue.
    """
    checks.non_negative_finite(epsilon=epsilon)
    return math.expm1(epsilon) if epsilon < 700 else math.inf

"""An attack that decides: members and non-members at one threshold (Yeom, Giacomelli, Fredrikson & Jha 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpcore import checks
from dpcore.attacks.roc import samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What one threshold said about examples whose membership is known.

    true_positives   members that were called members, of `members`
    false_positives  non-members that were called members, of `non_members`
    threshold        "member" is said at or above it; it must not have been chosen on these examples
    """

    true_positives: int
    members: int
    false_positives: int
    non_members: int
    threshold: float

    @property
    def tpr(self) -> float:
        """Share of the members that were called members."""
        return self.true_positives / self.members

    @property
    def fpr(self) -> float:
        """Share of the non-members that were called members."""
        return self.false_positives / self.non_members

    @property
    def advantage(self) -> float:
        """TPR - FPR, in [-1, 1] (Yeom et al. 2018, Definition 4); Lu et al. (2021) call it Priv_Leak."""
        return self.tpr - self.fpr

    @property
    def accuracy(self) -> float:
        """Share of right decisions over members and non-members together; it moves with their proportion."""
        right = self.true_positives + self.non_members - self.false_positives
        return right / (self.members + self.non_members)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and TPR; 0 where nobody was called a member."""
        return 2 * self.true_positives / (self.true_positives + self.false_positives + self.members)


def decide(members: ArrayLike, non_members: ArrayLike, threshold: float) -> Decisions:
    """Call everybody with a score of at least `threshold` a member. Scores are [N], higher for likelier members.

    Raises InvalidValue.
    """
    in_, out = samples("members", members), samples("non_members", non_members)
    if math.isnan(threshold):
        raise checks.InvalidValue("threshold", threshold, "a number")
    return Decisions(
        true_positives=int(np.count_nonzero(in_ >= threshold)),
        members=len(in_),
        false_positives=int(np.count_nonzero(out >= threshold)),
        non_members=len(out),
        threshold=float(threshold),
    )


def mean_training_loss_threshold(training_losses: ArrayLike) -> float:
    """Minus the mean training loss, for scores that are -loss: Yeom et al. (2018), Adversary 2; Wu et al. (2020).

    An attacker is given this number with the model; one who is not must use `roc.threshold_at_fpr` on data of its own.
    """
    return -float(np.mean(samples("training_losses", training_losses)))


def advantage_bound(epsilon: float, delta: float = 0.0) -> float:
    """The largest TPR - FPR of any attack on an (epsilon, delta)-DP mechanism: (exp(eps)-1+2 delta)/(exp(eps)+1).

    epsilon at least 0, infinity included; delta in [0, 1). From Kairouz, Oh & Viswanath (2015): the error region of
    (epsilon, delta)-DP; at delta 0 it is tanh(epsilon/2), reached by randomised response. Raises InvalidValue.
    """
    checks.non_negative(epsilon=epsilon)
    checks.probability_below_one(delta=delta)
    # The rest divided by exp(epsilon), so that it does not overflow.
    return math.tanh(epsilon / 2) + 2 * delta * math.exp(-epsilon) / (1 + math.exp(-epsilon))

"""Evidence from many independent runs of a mechanism, with one target record in or out of each.

Every run is its own execution with its own noise. Several canaries inside one run are not independent of each
other, and this bound is invalid there: see `one_run`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import ndtri

from dpcore import checks
from dpcore.audit import clopper_pearson
from dpcore.tradeoff import TradeOff


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiRun:
    """How often an attack, fixed before these runs, said "in".

    true_positives   runs with the target in which it said "in", of `runs_in`
    false_positives  runs without the target in which it said "in", of `runs_out`
    tried            attacks or thresholds from which this one was picked after seeing these runs; each is held
                     to 1/tried of the error (Bonferroni)

    Source: Jagielski, Ullman & Oprea (2020); Nasr et al. (2021, 2023). Raises InvalidValue.
    """

    true_positives: int
    runs_in: int
    false_positives: int
    runs_out: int
    tried: int = 1

    method: ClassVar[str] = "multi-run"
    theorem: ClassVar[str] = "Clopper & Pearson (1934); Jagielski, Ullman & Oprea (2020)"

    def __post_init__(self) -> None:
        checks.count(minimum=1, runs_in=self.runs_in, runs_out=self.runs_out, tried=self.tried)
        checks.count(true_positives=self.true_positives, false_positives=self.false_positives)
        if self.true_positives > self.runs_in:
            raise checks.InvalidValue("true_positives", self.true_positives, f"at most runs_in={self.runs_in}")
        if self.false_positives > self.runs_out:
            raise checks.InvalidValue("false_positives", self.false_positives, f"at most runs_out={self.runs_out}")

    @property
    def counts(self) -> str:
        """The observation as it is printed."""
        return f"{self.true_positives}/{self.runs_in} in, {self.false_positives}/{self.runs_out} out"

    def rates(self, level: float) -> tuple[float, float]:
        """(lower limit of the true positive rate, upper limit of the false positive rate), jointly at 1 - level.

        Raises InvalidValue.
        """
        checks.probability_open(level=level)
        each = level / (2 * self.tried)
        return (
            float(clopper_pearson.lower(self.true_positives, self.runs_in, each)),
            float(clopper_pearson.upper(self.false_positives, self.runs_out, each)),
        )

    def epsilon_lower(self, delta: float, level: float) -> float:
        """With probability 1 - level, no mechanism that is (epsilon, delta)-DP has a smaller epsilon. At least 0.

        Both directions of the pair count: log((TPR - delta) / FPR) and log((1 - FPR - delta) / (1 - TPR)).
        Raises InvalidValue.
        """
        checks.probability_below_one(delta=delta)
        tpr, fpr = self.rates(level)
        return max(0.0, _log_ratio(tpr - delta, fpr), _log_ratio(1 - fpr - delta, 1 - tpr))

    def mu_lower(self, level: float) -> float:
        """The same for the mu of Gaussian DP: Phi^-1(1 - FPR) - Phi^-1(1 - TPR). Refutes claims of GDP only."""
        tpr, fpr = self.rates(level)
        if tpr == 0 or fpr == 1:
            return 0.0
        return max(0.0, float(-ndtri(fpr) + ndtri(tpr)))

    def rejects(self, hypothesis: TradeOff, level: float) -> bool:
        """Whether the mechanism cannot have trade-off function `hypothesis` (symmetric), with error at most `level`."""
        tpr, fpr = self.rates(level)
        return 1 - tpr < hypothesis(fpr)

    def rejects_dp(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the mechanism cannot be (epsilon, delta)-DP, with error at most `level`."""
        return self.epsilon_lower(delta, level) > epsilon


def _log_ratio(above: float, below: float) -> float:
    # An upper limit is never 0, nor is one minus a lower limit, so the ratio is finite.
    return math.log(above / below) if above > 0 else -math.inf

"""Evidence from one run, tested against a whole trade-off function (Mahloujifar, Melis & Chaudhuri 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpcore import checks, tradeoff
from dpcore.audit.one_run import FromOneRun, largest
from dpcore.tradeoff import TradeOff

# How closely the largest rejected value is found.
_CLOSE = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunFDP(FromOneRun):
    """The test of f-DP of Mahloujifar, Melis & Chaudhuri (2025), "Auditing f-differential privacy in one run".

    It uses the whole trade-off function: against a Gaussian-shaped claim it finds more than `OneRun`, which sees
    one (epsilon, delta) of it. `rejects_dp` and `epsilon_lower` assume no shape; `mu_lower` says something about claims
    of Gaussian DP only.
    """

    method: ClassVar[str] = "one-run-f-dp"
    theorem: ClassVar[str] = "Mahloujifar, Melis & Chaudhuri (2025), bounded number of guesses"

    def rejects(self, hypothesis: TradeOff, level: float) -> bool:
        """Whether the mechanism cannot have trade-off function `hypothesis` (symmetric), with error at most `level`.

        Suppose v or more of the r guesses were right with probability `level`. Going down one right guess at a time,
        f-DP forces a least expected number of right and of wrong guesses (`right`, `wrong`, per canary); if the two
        together exceed r/m, the supposition was false, and seeing v has probability below `level`. Raises InvalidValue.
        """
        checks.probability_open(level=level)
        m, r, v = self.observed.canaries, self.observed.guesses, self.observed.correct
        probability = level / self.tried
        right, wrong, whole = probability * v / m, probability * (r - v) / m, r / m
        for i in range(v - 1, -1, -1):
            # A symmetric f has a -> 1 - f(a), whose inverse is x -> f(1 - x).
            more = max(wrong, hypothesis(1 - right))
            right += i / (r - i) * (more - wrong)
            wrong = more
            if right + wrong > whole:
                return True
        return False

    def rejects_dp(self, epsilon: float, delta: float, level: float) -> bool:
        """Whether the mechanism cannot be (epsilon, delta)-DP, with error at most `level`."""
        if epsilon > tradeoff.LARGEST_EPSILON:
            return False
        return self.rejects(tradeoff.epsilon_delta(epsilon, delta), level)

    def epsilon_lower(self, delta: float, level: float) -> float:
        """The largest epsilon whose (epsilon, delta)-DP is rejected (found to 1e-8, from below); 0 if there is none."""
        return largest(lambda epsilon: self.rejects_dp(epsilon, delta, level), _CLOSE)

    def mu_lower(self, level: float) -> float:
        """The largest mu whose mu-GDP is rejected (found to 1e-8, from below); 0 if there is none."""
        return largest(lambda mu: self.rejects(tradeoff.gaussian(mu), level), _CLOSE)

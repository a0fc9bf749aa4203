"""A stopping rule that keeps a run within a Bayesian budget although its costs depend on what was already released.

The published composition (Triastcyn & Faltings 2020, Theorem 1) averages over the unknown record x' inside every step.
Once a step's cost depends on earlier outputs this fails: outputs that lean towards x' make the steps that are dear for
x' more likely than the average knows (the tests compute an example). The filter bounds the sum all the same:

    Let D be the run without x', D' with it, T the planned steps, and k = 2 lambda + 1. Under the law of D the weights
    do not depend on x', and the product of exp((k+1) L'_t - k D_{k+1,t}(x')) has mean at most 1 for every x', L' being
    the loss of D' against D. Cauchy-Schwarz splits E exp(lambda L') = E_D exp((lambda+1) L') into the root of that mean
    and the root of E_D E_{x'} exp(sum_t k D_{k+1,t}(x')), which Hoelder bounds along each path by
    exp(sum_t c_t(k; T)). The other direction takes k = 2 lambda in the same way, which is less. So
    E exp(lambda L) <= exp(budget / 2) as long as no path lets sum_t c_t(2 lambda + 1; T) exceed the budget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from dpcore import checks
from dpcore.accountants.bayesian import average_case, log_left
from dpcore.accountants.bayesian_estimator import step_cost
from dpcore.guarantee import Guarantee

STOPPED = "No step ran whose cost did not fit; whether one ran is visible."


@dataclass(frozen=True)
class BayesianFilter:
    """A budget (epsilon, delta_mu) fixed before training, of which every step asks its share before it runs.

    epsilon   target, above 0
    delta_mu  target, in (0, 1), the estimates' failures included
    steps     T, the most steps that may run, fixed before training
    order     lambda, a single one, fixed before training
    failure   gamma of one estimate, in (0, 0.5); T of them are charged to delta_mu
    spent     sum of the costs at order 2 lambda + 1 so far, in nats
    taken     steps so far

    Raises InvalidValue where epsilon, delta_mu and order leave no budget.
    """

    epsilon: float
    delta_mu: float
    steps: int
    order: int
    failure: float = 1e-15
    spent: float = 0.0
    taken: int = 0

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon)
        checks.count(1, steps=self.steps, order=self.order)
        checks.probability_open(failure=self.failure)
        if self.budget <= 0:
            remedy = f"At delta_mu={self.delta_mu:g} the order must exceed ln(1/delta_mu) / epsilon."
            raise checks.InvalidValue("order", self.order, "an order whose bound can fall to epsilon", remedy)

    @property
    def budget(self) -> float:
        """Largest sum of costs at order 2 lambda + 1: 2 (lambda epsilon + ln(delta_mu - T gamma)), in nats."""
        return 2 * (self.order * self.epsilon + log_left(self.delta_mu, self.steps * self.failure))

    def admit(
        self, distances: ArrayLike, rate: float, sigma: float, largest: float | None = None
    ) -> BayesianFilter | None:
        """The filter after one more step, or None where the step must not run and the run ends.

        Arguments as in `BayesianAccountant.observe`, measured at the current weights before the step's noise is drawn.
        """
        if self.taken == self.steps:
            return None
        order = 2 * self.order + 1
        cost = step_cost(distances, rate, sigma, order, steps=self.steps, failure=self.failure, largest=largest)
        spent = self.spent + cost
        return replace(self, spent=spent, taken=self.taken + 1) if spent <= self.budget else None

    def guarantee(self, unit: str = "record") -> Guarantee:
        """The claim for everything released under the filter: its target, known before training."""
        return average_case(
            self.epsilon, self.delta_mu, "Corollary 1 and Theorem 4, with a stopping rule", unit, STOPPED
        )

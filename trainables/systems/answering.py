"""Systems on classes that train once and answer with noise that a closed form solves. A query is a step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.protocol import Mechanism
from dpcore.mechanisms.query_budget import QueryBudget
from trainables.knobs import knob, knobs, read
from trainables.planner import PlannedSystem
from trainables.system import (
    Config,
    Dataset,
    Execution,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Scalar,
)
from trainables.systems.linear import classes_of

# Outweighs what the accountants charge for round-off.
_UP = 1 + 1e-9


@knobs
class AnswerKnobs:
    """What every such system reads."""

    queries: int = knob(
        low=1,
        high=1_000_000,
        default=100,
        unit="queries",
        doc="number B of answers under the claim, asked of validation records; query B+1 is refused",
    )
    noise_multiplier: float = knob(doc="noise of an answer; solved from epsilon by default")


Asked = TypeVar("Asked", bound=AnswerKnobs)
Released = TypeVar("Released", bound=Mechanism)
Trained = TypeVar("Trained")


class AnsweringSystem(PlannedSystem[Asked, Released], Generic[Asked, Released, Trained]):
    """A subclass says what it trains and answers, how the noise is solved, and what all answers together claim.

    noise_range  of noise multipliers that a plan may ask for
    """

    noise_range: ClassVar[tuple[float, float]]
    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "queries"})

    def check_target(self, facts: PublicFacts, target: PrivacyTarget) -> None:
        """See `PlannedSystem.check_target`. Raises InvalidValue (task, adjacency)."""
        classes_of(facts)
        super().check_target(facts, target)

    def check(self, knobs: Asked, facts: PublicFacts, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (more queries than there are to ask)."""
        if knobs.queries > self.askable(knobs, facts):
            expected = f"at most {self.askable(knobs, facts)}, the records of {facts.dataset} to be asked"
            raise InvalidValue("queries", knobs.queries, expected)
        return None

    def askable(self, knobs: Asked, facts: PublicFacts) -> int:
        """How many records may be asked about."""
        return facts.n_validation

    @abstractmethod
    def noise(self, knobs: Asked, target: PrivacyTarget) -> float:
        """The noise multiplier that meets the target, but for round-off."""

    def solve(
        self, knobs: Asked, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise, or the queries."""
        if target.solve == "noise":
            return {"noise_multiplier": max(self.noise(knobs, target) * _UP, self.noise_range[0])}
        return {"queries": max(1, self._most(knobs, facts, target))} if target.solve == "steps" else {}

    def _most(self, knobs: Asked, facts: PublicFacts, target: PrivacyTarget) -> int:
        """The largest number of queries within the target, at most all there are to ask; 0 if not even one."""

        def fits(queries: int) -> bool:
            asked = replace(knobs, queries=queries)
            return self.claim(asked, self.mechanism(asked, facts), facts, target).epsilon <= target.epsilon

        low, high = 0, self.askable(knobs, facts) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def check_solved(self, knobs: Asked, facts: PublicFacts, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`."""
        noise, largest = knobs.noise_multiplier, self.noise_range[1]
        if noise <= largest:
            return None
        return Refusal(
            violations={"noise": math.log(noise / largest)},
            reason=f"noise_multiplier={noise:.6g} needed for epsilon={target.epsilon}: expected at most {largest:g}. "
            "Raise epsilon, or take fewer queries.",
        )

    def exceeded(self, claim: Guarantee, target: PrivacyTarget) -> str:
        """See `PlannedSystem.exceeded`."""
        return (
            f"epsilon={claim.epsilon:.6g} at delta={target.delta}: expected at most {target.epsilon}. "
            "Raise noise_multiplier or epsilon, or take fewer queries."
        )

    def queries(self, plan: PrivacyPlan) -> int:
        """How many answers one trial releases (see `trainables.measures.protocols.Answering`)."""
        return plan.steps

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; runs that differ in noise alone share their training."""
        group, trained = None, None
        for run in runs:
            plan = run.member.plan
            knobs = read(self.knobs, plan.config)
            if trained is None or group != plan.group:
                group, trained = plan.group, self.trained(knobs, data, execution)
            self.answer(run, knobs, self.mechanism_of(plan, data.facts), trained, data, execution)

    def train(self, run: Run, knobs: Asked, released: Released, data: Dataset, execution: Execution) -> None:
        """See `PlannedSystem.train`: a run that shares its training with nobody."""
        self.answer(run, knobs, released, self.trained(knobs, data, execution), data, execution)

    @abstractmethod
    def trained(self, knobs: Asked, data: Dataset, execution: Execution) -> Trained:
        """What is trained before any noise: a function of `group(knobs)` and the records alone."""

    @abstractmethod
    def answer(
        self, run: Run, knobs: Asked, released: Released, trained: Trained, data: Dataset, execution: Execution
    ) -> None:
        """The run's next answers, up to its `member.to_step`."""


def next_answers(run: Run, limit: int, answered: int) -> range:
    """The queries that `run` answers now, which it may from here on; `answered` of `limit` were before.

    Raises ValueError where its records say another number than its first step, QueriesSpent beyond the limit.
    """
    if answered != run.start_step:
        raise ValueError(f"{run.member.key}: {answered} queries answered in its records, expected {run.start_step}")
    until = QueryBudget(limit=limit, answered=answered).take(run.member.to_step - answered).answered
    run.may_execute(until)
    return range(answered, until)

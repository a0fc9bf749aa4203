"""Systems on classes whose noise a closed form solves, and that train once, before any noise. A query is a step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.protocol import Mechanism
from dpcore.mechanisms.query_budget import QueryBudget
from dpcore.randomness import Purpose
from dpcore.rounding import epsilon_text
from trainables.data.records import fingerprint
from trainables.hyperparameters import knob, knobs, read
from trainables.measures import hooks
from trainables.planning import PlannedSystem, terms_of
from trainables.system import (
    Config,
    Dataset,
    DatasetSpec,
    Dependence,
    Metric,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    Scalar,
)
from trainables.systems.linear import classes_of

# Outweighs what the accountants charge for round-off.
_UP = 1 + 1e-9
_ANSWERED, _CORRECT = "answered", "correct"

ACCURACY = Metric(
    name="accuracy",
    goal="maximize",
    worst=0.0,
    doc="share of validation records (of the queried ones, where queries are counted) whose class is answered",
    released="the validation records, without noise, and the private answers or model",
    depends=Dependence.VALIDATION,
)


@knobs
class QueryKnobs:
    """What every system reads that answers."""

    queries: int = knob(
        low=1,
        high=1_000_000,
        default=100,
        unit="queries",
        doc="number B of answers under the claim, asked of validation records; query B+1 is refused",
    )


Solved = TypeVar("Solved")
Asked = TypeVar("Asked", bound=QueryKnobs)
Released = TypeVar("Released", bound=Mechanism)
Trained = TypeVar("Trained")


class SolvedSystem(PlannedSystem[Solved, Released], Generic[Solved, Released]):
    """A subclass says how much noise meets a target.

    noise_range  of its noise parameter that a plan may ask for
    """

    noise_range: ClassVar[tuple[float, float]]
    solves = MappingProxyType({"noise": "noise_multiplier"})

    def check_target(self, facts: DatasetSpec, target: PrivacyTarget) -> None:
        """See `PlannedSystem.check_target`. Raises InvalidValue (task, adjacency, solve)."""
        classes_of(facts)
        super().check_target(facts, target)
        if target.solve not in (*self.solves, "none"):
            raise InvalidValue("privacy.solve", target.solve, f"one of {', '.join(self.solves)}, none for {self.name}")

    @abstractmethod
    def noise(self, knobs: Solved, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """The noise parameter that meets the target, but for round-off."""

    def solve(
        self, knobs: Solved, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise."""
        if target.solve != "noise":
            return {}
        return {self.solves["noise"]: max(self.noise(knobs, facts, target) * _UP, self.noise_range[0])}

    def check_solved(self, knobs: Solved, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`."""
        name, largest = self.solves["noise"], self.noise_range[1]
        noise = getattr(knobs, name)
        if noise <= largest:
            return None
        return Refusal(
            violations={"noise": math.log(noise / largest)},
            reason=f"{name}={noise:.6g} needed for epsilon={target.epsilon}: expected at most {largest:g}. "
            "Raise epsilon, or take fewer queries.",
        )

    def exceeded(self, claim: Guarantee, target: PrivacyTarget) -> str:
        """See `PlannedSystem.exceeded`."""
        spent = epsilon_text(claim.epsilon, digits=6)
        return (
            f"epsilon={spent} at delta={target.delta}: expected at most {target.epsilon}. "
            f"Raise {self.solves['noise']} or epsilon, or take fewer queries."
        )


class TrainedOnce(SolvedSystem[Solved, Released], Generic[Solved, Released, Trained]):
    """A subclass says what it trains before any noise, and what it releases of it.

    deciding  the knobs that decide the training: runs that are alike in these share it
    """

    deciding: ClassVar[tuple[str, ...]]

    def group(self, knobs: Solved) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone."""
        return group_of(knobs, *self.deciding)

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `System.fit`; runs that differ in noise alone share their training, launch after launch.

        Raises InvalidValue where n is not the facts' n under replace-one.
        """
        # Of the records as they are: a neighbour's model must never be taken for this one's.
        digest = fingerprint(data.train, data.validation, units=data.units)
        for run in runs:
            plan = run.member.plan
            check_present(plan, data)
            knobs = read(self.knobs, plan.config)
            trained = _TRAINED.of(
                (type(self).trained, plan.group, data.facts.n, digest),
                partial(self.trained, knobs, data, execution),
            )
            self.answer(run, knobs, self.mechanism_of(plan, data.facts), trained, data, execution)

    def train(self, run: Run, knobs: Solved, released: Released, data: Dataset, execution: RunSettings) -> None:
        """See `PlannedSystem.train`: a run that shares its training with nobody."""
        self.answer(run, knobs, released, self.trained(knobs, data, execution), data, execution)

    @abstractmethod
    def trained(self, knobs: Solved, data: Dataset, execution: RunSettings) -> Trained:
        """What is trained before any noise: a function of `group(knobs)` and the data alone."""

    @abstractmethod
    def answer(
        self, run: Run, knobs: Solved, released: Released, trained: Trained, data: Dataset, execution: RunSettings
    ) -> None:
        """What the run releases, up to its `member.to_step`."""


class AnsweringSystem(TrainedOnce[Asked, Released, Trained]):
    """It releases an answer to each of `queries` queries."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "queries"})

    def check(self, knobs: Asked, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (more queries than there are to ask)."""
        if knobs.queries > self.askable(knobs, facts):
            has = f"{facts.dataset} has {facts.n_validation} validation records that serve as queries"
            raise InvalidValue("queries", knobs.queries, f"at most {self.askable(knobs, facts)}, since {has}")
        return None

    def askable(self, knobs: Asked, facts: DatasetSpec) -> int:
        """How many records may be asked about."""
        return facts.n_validation

    def solve(
        self, knobs: Asked, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise, or the queries."""
        if target.solve == "steps":
            return {"queries": max(1, self._most(knobs, facts, target))}
        return super().solve(knobs, facts, target, calibrations)

    def _most(self, knobs: Asked, facts: DatasetSpec, target: PrivacyTarget) -> int:
        """The largest number of queries within the target, at most all there are to ask; 0 if not even one."""

        def fits(queries: int) -> bool:
            asked = replace(knobs, queries=queries)
            released = self.mechanism(asked, facts, terms_of(target))
            return self.claim(asked, released, facts, target).epsilon <= target.epsilon

        low, high = 0, self.askable(knobs, facts) + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def queries(self, plan: PrivacyPlan) -> int:
        """How many answers one trial releases (see `trainables.measures.hooks.Answering`)."""
        return plan.steps


def group_of(knobs: object, *names: str) -> str:
    """What decides a training before any noise: equal texts, equal models."""
    return ",".join(f"{name}={getattr(knobs, name)!r}" for name in names)


def check_present(plan: PrivacyPlan, data: Dataset) -> None:
    """Raises InvalidValue where n is not the facts' n under replace-one.

    A record more or less is possible under add-remove alone: the divisor stays the public n.
    """
    if plan.guarantee.adjacency is Adjacency.REPLACE_ONE and len(data.train) != data.facts.n:
        raise InvalidValue("n", data.facts.n, f"the number of records, {len(data.train)}, under replace-one")


class _Kept:
    """The latest trainings of this process."""

    def __init__(self, size: int) -> None:
        self._size, self._kept = size, dict[Hashable, Any]()

    def of(self, key: Hashable, train: Callable[[], Any]) -> Any:
        """What `train` made when it was first asked for under `key`."""
        if key not in self._kept:
            while len(self._kept) >= self._size:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = train()
        return self._kept[key]


_TRAINED = _Kept(size=8)


def next_answers(run: Run, limit: int, answered: int) -> range:
    """The queries that `run` answers now, which it may from here on; `answered` of `limit` were before.

    Raises ValueError where its records say another number than its first step, QueriesSpent beyond the limit.
    """
    if answered != run.start_step:
        raise ValueError(f"{run.member.key}: {answered} queries answered in its records, expected {run.start_step}")
    until = QueryBudget(limit=limit, answered=answered).take(run.member.to_step - answered).answered
    run.reserve_until(until)
    return range(answered, until)


def answer_next(
    run: Run, data: Dataset, limit: int, answers: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]]
) -> None:
    """Answer the run's next queries, validation records of a publicly seeded order; no model is kept, counts are.

    limit    of all answers together
    answers  from positions of validation records [Q] to all that leaves: `labels` [Q], and whatever they come from
    Raises as `next_answers` does.
    """
    spent, correct = (0 if run.state is None else int(run.state[name]) for name in (_ANSWERED, _CORRECT))
    order = run.streams.numpy(Purpose.INITIALISATION).permutation(len(data.validation))
    asked = order[next_answers(run, limit, spent)]
    shown = answers(asked)
    hooks.released(run, asked=asked, **shown)
    correct += int((shown["labels"] == data.validation.targets[asked]).sum())
    answered = run.member.to_step
    state = {_ANSWERED: np.asarray(answered), _CORRECT: np.asarray(correct)}
    run.checkpoint(answered, state, {"accuracy": correct / answered})

"""Systems on classes whose noise a closed form solves, and that train once, before any noise. A query is a step."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, MutableMapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.mechanisms.protocol import Mechanism
from dpcore.randomness import Purpose
from trainables.data.records import fingerprint
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric, Scalar, share_error
from trainables.planning import Case, Fit, PlannedSystem, check_at_most
from trainables.system import Dataset, DatasetSpec, Hyperparameter, PrivacyPlan, Run, RunSettings
from trainables.systems.linear import classes_of

# Outweighs what the accountants charge for round-off.
_UP = 1 + 1e-9
_ANSWERED, _CORRECT = "answered", "correct"
Positions = NDArray[np.int64]

ACCURACY = Metric(
    name="accuracy",
    goal="maximize",
    worst=0.0,
    doc="share of validation records (of the queried ones, where queries are counted) whose class is answered",
    released="the validation records, without noise, and the private answers or model",
    depends=Dependence.VALIDATION,
)


@hyperparameters
class QueryHyperparameters:
    """What every system reads that answers.

    queries  number B of answers under the claim, asked of validation records; query B+1 is refused
    """

    queries: int = hyperparameter(low=1, high=1_000_000, default=100, unit="queries")


Solved = TypeVar("Solved")
Asked = TypeVar("Asked", bound=QueryHyperparameters)
Released = TypeVar("Released", bound=Mechanism)
Trained = TypeVar("Trained")


class SolvedSystem(PlannedSystem[Solved, Released], Generic[Solved, Released]):
    """A subclass says how much noise meets a target; a plan may ask for as much as its noise parameter may be."""

    solves = MappingProxyType({"noise": "noise_multiplier"})
    remedy = "Raise noise_multiplier or epsilon, or take fewer queries."

    def check(self, case: Case[Solved]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (task)."""
        classes_of(case.facts)

    @abstractmethod
    def noise(self, case: Case[Solved]) -> float:
        """The noise parameter that meets the target, but for round-off."""

    def solve(self, case: Case[Solved], calibrations: MutableMapping[str, float]) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise."""
        if case.target.solve != "noise":
            return {}
        noise = self._noise_parameter
        return {noise.name: max(self.noise(case) * _UP, noise.low or 0.0)}

    @property
    def _noise_parameter(self) -> Hyperparameter:
        return next(one for one in self.hyperparameters if one.name == self.solves["noise"])

    def check_solved(self, case: Case[Solved]) -> None:
        """See `PlannedSystem.check_solved`."""
        noise, needed = self._noise_parameter, f" needed for epsilon={case.target.epsilon}"
        found = {noise.name: getattr(case.params, noise.name)}
        check_at_most(noise.high or math.inf, "Raise epsilon, or take fewer queries.", needed, **found)


class TrainedOnce(SolvedSystem[Solved, Released], Generic[Solved, Released, Trained]):
    """A subclass says what it trains before any noise, and what it releases of it.

    deciding  the hyperparameters that decide the training: runs that are alike in these share it
    """

    deciding: ClassVar[tuple[str, ...]]

    def group(self, params: Solved) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone."""
        return group_of(params, *self.deciding)

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `System.fit`; runs that differ in noise alone share their training, launch after launch.

        Raises InvalidValue where n is not the facts' n under replace-one.
        """
        # Of the records as they are: a neighbour's model must never be taken for this one's.
        digest = fingerprint(data.train, data.validation, units=data.units)
        for run in runs:
            plan = run.member.plan
            check_present(plan, data)
            fit = self.fit_of(run, data, execution)
            key = (type(self).trained, plan.group, data.facts.n, digest)
            self.answer(fit, _once(key, partial(self.trained, fit.params, data, execution)))

    def train(self, fit: Fit[Solved, Released]) -> None:
        """See `PlannedSystem.train`: a run that shares its training with nobody."""
        self.answer(fit, self.trained(fit.params, fit.data, fit.settings))

    @abstractmethod
    def trained(self, params: Solved, data: Dataset, settings: RunSettings) -> Trained:
        """What is trained before any noise: a function of `group(params)` and the data alone."""

    @abstractmethod
    def answer(self, fit: Fit[Solved, Released], trained: Trained) -> None:
        """What the run releases, up to its `member.to_step`."""


class AnsweringSystem(TrainedOnce[Asked, Released, Trained]):
    """It releases an answer to each of `queries` queries."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "queries"})

    def check(self, case: Case[Asked]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (more queries than there are to ask)."""
        super().check(case)
        most = self.askable(case.params, case.facts)
        if case.params.queries > most:
            has = f"{case.facts.dataset} has {case.facts.n_validation} validation records that serve as queries"
            raise InvalidValue("queries", case.params.queries, f"at most {most}, since {has}")

    def askable(self, params: Asked, facts: DatasetSpec) -> int:
        """How many records may be asked about."""
        return facts.n_validation

    def solve(self, case: Case[Asked], calibrations: MutableMapping[str, float]) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise, or the queries, at most all that there are to ask."""
        if case.target.solve != "steps":
            return super().solve(case, calibrations)
        low, high = 0, self.askable(case.params, case.facts) + 1
        while high - low > 1:
            middle = (low + high) // 2
            asked = case.having(queries=middle)
            fits = self.claims(asked, self.mechanism(asked))[0].epsilon <= case.target.epsilon
            low, high = (middle, high) if fits else (low, middle)
        return {"queries": max(1, low)}

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """See `trainables.hooks.Answering`: it has none."""
        return plan


def group_of(params: object, *names: str) -> str:
    """What decides a training before any noise: equal texts, equal models."""
    return ",".join(f"{name}={getattr(params, name)!r}" for name in names)


def check_present(plan: PrivacyPlan, data: Dataset) -> None:
    """Raises InvalidValue where n is not the facts' n under replace-one.

    A record more or less is possible under add-remove alone: the divisor stays the public n.
    """
    if plan.guarantee.adjacency is Adjacency.REPLACE_ONE and len(data.train) != data.facts.n:
        raise InvalidValue("n", data.facts.n, f"the number of records, {len(data.train)}, under replace-one")


_TRAINED: dict[Hashable, Any] = {}
"""The latest trainings of this process, at most `_KEPT` of them."""
_KEPT = 8


def _once(key: Hashable, train: Callable[[], Trained]) -> Trained:
    """What `train` made when it was first asked for under `key`."""
    if key not in _TRAINED:
        while len(_TRAINED) >= _KEPT:
            del _TRAINED[next(iter(_TRAINED))]
        _TRAINED[key] = train()
    found: Trained = _TRAINED[key]
    return found


class QueriesSpent(RuntimeError):
    """More answers were asked for than the claim counts; nothing was answered."""


def next_answers(run: Run, limit: int, answered: int) -> range:
    """The queries that `run` answers now, reserved before any of their noise; `answered` of `limit` were before.

    A process that is killed after this has spent them without answering, which errs on the side of privacy. Raises
    ValueError where its records say another number than its first step, QueriesSpent beyond the limit.
    """
    if answered != run.start_step:
        raise ValueError(f"{run.member.key}: {answered} queries answered in its records, expected {run.start_step}")
    until = run.member.to_step
    if until > limit:
        raise QueriesSpent(
            f"queries={until - answered}: expected at most {limit - answered}, since {answered} of {limit} are "
            "answered. Another answer would exceed the claim; train anew under a budget of its own."
        )
    run.reserve_until(until)
    return range(answered, until)


def accuracy_of(right: int, asked: int) -> dict[str, float]:
    """The share of `asked` records that was answered `right`, with its error; {} without any."""
    if not asked:
        return {}
    return {"accuracy": right / asked, "accuracy_se": share_error(right / asked, asked)}


def answer_queries(fit: Fit[Any, Any], answers: Callable[[Positions], Mapping[str, NDArray[Any]]]) -> None:
    """Answer the run's next queries, validation records of a publicly seeded order; no model is kept, counts are.

    answers  from positions of validation records [Q] to all that leaves: `labels` [Q], and whatever they come from

    Raises as `next_answers` does.
    """
    run, validation = fit.run, fit.data.validation
    spent, correct = (0 if run.state is None else int(run.state[name]) for name in (_ANSWERED, _CORRECT))
    order = run.streams.numpy(Purpose.INITIALISATION).permutation(len(validation))
    asked = order[next_answers(run, fit.mechanism.steps, spent)]
    shown = answers(asked)
    run.released(asked=asked, **shown)
    correct += int((shown["labels"] == validation.targets[asked]).sum())
    answered = run.member.to_step
    state = {_ANSWERED: np.asarray(answered), _CORRECT: np.asarray(correct)}
    run.checkpoint(answered, state, accuracy_of(correct, answered))

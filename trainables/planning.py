"""The one planner: complete the configuration, check it, solve what is to be solved, count, admit what is in budget.

A system says what only it knows, as methods of a `PlannedSystem`; what it leaves out is done as most do it:

    params                   the typed record of its hyperparameters
    check, check_solved      what makes no sense (InvalidValue), and what is not launched (NotLaunched)
    solve                    the values that meet the target; by default the noise, by calibration
    mechanism                what is released, as a value: counted here, and run by `train`
    claims                   by default the headline of the mechanism's whole event
    sentence                 the mechanism for people, with {params...}, {released...} and {facts...} in it
    work, group
    train                    one run by its mechanism
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar

from dpcore import calibrate
from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status, epsilon_text, weakest
from dpcore.mechanisms import protocol
from dpcore.mechanisms.protocol import Mechanism
from trainables import models
from trainables.hyperparameters import complete, parameters, read
from trainables.metrics import Config, Metric, Scalar, Task
from trainables.plugins import OBJECT
from trainables.reports import PUBLIC_VALIDATION
from trainables.system import (
    Dataset,
    DatasetSpec,
    Hyperparameter,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    System,
    Traits,
    traits_of,
)
from trainables.units import RECORD

NOISE_MIN, NOISE_MAX = 0.2, 1000.0
"""Range of noise multipliers that a plan may ask for. Below it a single unsampled step spends epsilon 33 at delta 1e-5;
above it the gradient is noise in all but name."""
STEPS_MAX = 10_000_000

Params = TypeVar("Params")
Released = TypeVar("Released", bound=Mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Generic[Params]):
    """One configuration on some data at one budget: all that a plan is made of.

    params  the hyperparameters; what the calibration solves for is no number before it is solved
    given   the configuration without its defaults
    """

    params: Params
    facts: DatasetSpec
    target: PrivacyTarget
    given: Config

    def having(self, **values: Scalar) -> Self:
        """The same with other hyperparameters."""
        return replace(self, params=replace(self.params, **values))  # type: ignore[type-var]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(Generic[Params, Released]):
    """One run of a planned system, with all that it is trained from."""

    run: Run
    params: Params
    mechanism: Released
    data: Dataset
    settings: RunSettings


class NotLaunched(Exception):
    """What is asked for makes sense, and is not launched. See `Refusal`, whose fields these are."""

    def __init__(self, reason: str, **violations: float) -> None:
        super().__init__(reason)
        self.refusal = Refusal(violations=violations, reason=reason)


class PlannedSystem(ABC, Generic[Params, Released]):
    """A `System` whose plans this planner makes. Stateless.

    adjacencies   the neighbouring relations that it can claim under
    bounded       whether a claim beyond the target is refused; False where nothing is claimed
    remedy        the way out of a claim beyond the target
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    params: type[Params]
    traits: Traits = Traits()
    solves: Mapping[str, str] = MappingProxyType({})
    adjacencies: ClassVar[tuple[Adjacency, ...]] = tuple(Adjacency)
    why_adjacency: str = ""
    bounded: bool = True
    remedy: str = "Raise noise_multiplier or epsilon, or take fewer epochs."
    sentence: str

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """See `System.hyperparameters`."""
        return parameters(self.params)  # type: ignore[arg-type]

    def plan(
        self, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue for a target that no configuration of this system has."""
        able = self.adjacencies_on(facts)
        if target.adjacency not in able:
            expected = f"{' or '.join(able)} for {self.name}"
            raise InvalidValue("privacy.adjacency", str(target.adjacency), expected, self.why_adjacency)
        wanted = self.solves.get(target.solve)
        full = complete(self.params, config)
        case = Case(params=read(self.params, full, wanted), facts=facts, target=target, given=config)
        try:
            self.check(case)
            solved = self.solve(case, calibrations)
            full |= solved
            return self._counted(replace(case, params=read(self.params, full)), full, tuple(solved))
        except NotLaunched as refused:
            return refused.refusal
        except calibrate.CannotCalibrate as error:
            # How far the best that can be done is from the target: what a searcher needs to turn round.
            return Refusal(violations={"epsilon": math.log(error.nearest_epsilon / target.epsilon)}, reason=str(error))
        except ToleranceNotReached as error:
            # Nothing can be claimed of it, so it is not launched; other points of the space go on.
            return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")

    def _counted(self, case: Case[Params], full: dict[str, Scalar], solved: tuple[str, ...]) -> PrivacyPlan:
        self.check_solved(case)
        released, target = self.mechanism(case), case.target
        claim, *beside = self.claims(case, released)
        if self.bounded and claim.epsilon > target.epsilon:
            spent = epsilon_text(claim.epsilon, digits=6)
            reason = f"epsilon={spent} at delta={target.delta}: expected at most {target.epsilon}. {self.remedy}"
            raise NotLaunched(reason, epsilon=math.log(claim.epsilon / target.epsilon))
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=solved,
            mechanism=released,
            description=self.describe(case, released),
            guarantee=replace(claim, assumptions=(*claim.assumptions, *self.rests_on(case))),
            beside=tuple(beside),
            work=self.work(case, released),
            group=self.group(case.params),
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `System.fit`; one run after the other, each by the mechanism that its plan carries."""
        for run in runs:
            self.train(self.fit_of(run, data, execution))

    def fit_of(self, run: Run, data: Dataset, settings: RunSettings) -> Fit[Params, Released]:
        """What one run is trained from."""
        params, released = self.read(run.member.plan)
        return Fit(run=run, params=params, mechanism=released, data=data, settings=settings)

    def read(self, plan: PrivacyPlan) -> tuple[Params, Released]:
        """The hyperparameters and the mechanism of a plan of this system."""
        return read(self.params, plan.config), plan.mechanism  # type: ignore[return-value]

    def adjacencies_on(self, facts: DatasetSpec) -> tuple[Adjacency, ...]:
        """The neighbouring relations that it can claim under on such data."""
        return self.adjacencies

    def check(self, case: Case[Params]) -> None:
        """Raises InvalidValue for what makes no sense; NotLaunched for what is not launched, whatever is solved.

        By default: that a model which is asked for serves the data, and that a batch has no more than there are.
        """
        params: Any = case.params
        if hasattr(params, "adaptation"):
            models.check(params.model, case.facts, params.arguments, params.adaptation, params.hidden)
        if hasattr(params, "batch_size"):
            check_batch(params.batch_size, case.facts)

    def solve(self, case: Case[Params], calibrations: MutableMapping[str, float]) -> dict[str, Scalar]:
        """The solved values by name. Raises CannotCalibrate, ToleranceNotReached."""
        name = self.solves.get("noise")
        if case.target.solve != "noise" or name is None:
            return {}
        return {
            name: calibrate.solve(
                goal_of(case.target),
                replace(calibrate.NOISE, low=NOISE_MIN),
                lambda value: self.mechanism(case.having(**{name: value})).event(),
                cache=calibrations,
            )
        }

    def check_solved(self, case: Case[Params]) -> None:
        """Raises NotLaunched for what is not launched, once everything is known."""

    @abstractmethod
    def mechanism(self, case: Case[Params]) -> Released:
        """What a trial releases. A function of public values alone."""

    def claims(self, case: Case[Params], released: Released) -> list[Guarantee]:
        """What the whole path claims; behind it the same under other notions and accountants.

        Raises ToleranceNotReached.
        """
        target = case.target
        return [headline(released.event(), target.delta, target.adjacency, unit=target.unit)]

    def rests_on(self, case: Case[Params]) -> tuple[str, ...]:
        """What a claim rests on besides what its accountant says, one sentence each."""
        return (PUBLIC_VALIDATION, *case.facts.assumptions)

    def describe(self, case: Case[Params], released: Released) -> str:
        """The mechanism in one sentence for people."""
        return self.sentence.format(params=case.params, released=released, facts=case.facts)

    def work(self, case: Case[Params], released: Released) -> float:
        """See `PrivacyPlan.work`; by default gradients of records."""
        params: Any = case.params
        return float(released.steps) * params.batch_size * case.facts.unit_records

    def group(self, params: Params) -> str:
        """See `PrivacyPlan.group`."""
        return ""

    @abstractmethod
    def train(self, fit: Fit[Params, Released]) -> None:
        """Execute one run up to its `member.to_step`, by its mechanism."""


def goal_of(target: PrivacyTarget) -> calibrate.Target:
    """A budget as calibration takes it."""
    return calibrate.Target(epsilon=target.epsilon, delta=target.delta, adjacency=target.adjacency)


def stated(target: PrivacyTarget, epsilon: float, **said: Any) -> Guarantee:
    """A claim at the delta, the relation and the unit of a target."""
    return Guarantee(epsilon=epsilon, delta=target.delta, adjacency=target.adjacency, unit=target.unit, **said)


def check_batch(batch_size: int, facts: DatasetSpec) -> None:
    """Raises InvalidValue for more than there are."""
    if batch_size > facts.n:
        raise InvalidValue(
            "batch_size", batch_size, f"at most n={facts.n} {facts.counted} of {facts.dataset}", "Lower batch_size."
        )


def check_at_most(largest: float, remedy: str, needed: str = "", **named: float) -> None:
    """Raises NotLaunched where a value is above `largest`."""
    for name, value in named.items():
        if value > largest:
            reason = f"{name}={value:.6g}{needed}: expected at most {largest:g}. {remedy}"
            raise NotLaunched(reason, **{name: math.log(value / largest)})


# Whose word a claim is: every plan of a sweep is made here, and one of another package says so itself.
#
# What a system of this package plans stands as its proof does. Of a system from elsewhere, none of whose code was
# read here, the claim is the word of its module: its status is `asserted`, and it names the module. Where the count
# is this project's own all the same (counting a mechanism of `dpcore` again gives no more than is claimed), the number
# is ours, and rests on one assumption more: that the module releases that mechanism and nothing else.
#
# What trains may be the user's own too, a model. Whatever it does with records is bounded (`dpcore.gradients`); what
# it begins with is not looked at, and was released by no step: weights that were fitted to the same records, without
# noise, leave in the model as they came. So every claim on such a model says that they were not.

OURS = frozenset({"dpcore", "trainables"})
_LANGUAGE = ("builtins", "abc", "typing")


def attributed_plan(
    system: System, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
) -> PrivacyPlan | Refusal:
    """`system.plan`, with claims that stand as firmly as whoever makes them, their data and their model.

    Raises what it raises.
    """
    plan = system.plan(config, facts, target, calibrations)
    if isinstance(plan, Refusal):
        return plan
    module = stranger(system)
    if module is not None:
        plan = _on_word_of(module, plan, facts)
    # Of records whose source is the user's own its facts say so themselves.
    theirs = facts.assumptions if facts.asserted_by else ()
    models = of_their_models(value for value in plan.config.values() if isinstance(value, str))
    return resting_on_word(plan, (*theirs, *models))


def resting_on_word(plan: PrivacyPlan, lines: Sequence[str]) -> PrivacyPlan:
    """The plan, whose claims rest on these sentences too: somebody's word, so that none is more than proved under
    assumptions. As it is without any."""
    return _weaker(plan, Status.PROVED_UNDER_ASSUMPTIONS, lambda claim: lines) if lines else plan


def of_their_models(texts: Iterable[str]) -> tuple[str, ...]:
    """What claims rest on where hyperparameters have these texts as values: a sentence for each `module:function` not
    ours."""
    own = sorted({one for one in texts if OBJECT.fullmatch(one) and _root(one.partition(":")[0]) not in OURS})
    return tuple(
        f"What {one} brings, starting weights and parts that are never trained, was fitted to none of these "
        "records: its code is not ours, and no epsilon counts what it brings."
        for one in own
    )


def of_their_metrics(asked: Iterable[str]) -> tuple[str, ...]:
    """What claims rest on where a spec asks for these metrics: a sentence for each `module:function`.

    What it returns leaves, and may lead the search: of what it is given that is free, and of anything else not counted.
    """
    return tuple(
        f"{one} looks at nothing but what it is given, targets and scores of public validation records: its code is "
        "not ours."
        for one in sorted(set(asked))
        if OBJECT.fullmatch(one)
    )


def stranger(system: System) -> str | None:
    """The module of a system that has code from outside of this project; None for our own."""
    modules = (one.__module__ for one in type(system).__mro__)
    return next((one for one in modules if _root(one) not in (*OURS, *_LANGUAGE)), None)


def _on_word_of(module: str, plan: PrivacyPlan, facts: DatasetSpec) -> PrivacyPlan:
    """What code that is not ours is trusted to release, or its word alone where the number is not ours either."""
    if _is_counted_here(plan):
        line = f"{module} releases the counted mechanism, as it was counted, and nothing else: its code is not ours."
        plan = resting_on_word(plan, (line,))
    else:
        said = f"{module} says that this epsilon holds, by %s: nothing of it was counted or checked here."
        plan = _weaker(plan, Status.ASSERTED, lambda claim: (said % claim.theorem,), asserted_by=module)
    validation = [PUBLIC_VALIDATION] if facts.n_validation else []
    claim = plan.guarantee
    needed = dict.fromkeys((*claim.assumptions, *validation, *facts.assumptions))
    return replace(plan, guarantee=replace(claim, assumptions=tuple(needed)))


def _is_counted_here(plan: PrivacyPlan) -> bool:
    claim = plan.guarantee
    if not protocol.is_ours(plan.mechanism):
        return False
    try:
        return headline(plan.event(), claim.delta, claim.adjacency, unit=claim.unit).epsilon <= claim.epsilon
    except (ToleranceNotReached, InvalidValue):
        return False


def _weaker(
    plan: PrivacyPlan, status: Status, lines: Callable[[Guarantee], Sequence[str]], **changes: str
) -> PrivacyPlan:
    """The plan, whose claims are of that status at most, and rest on these lines too."""

    def changed(claim: Guarantee) -> Guarantee:
        assumptions = tuple(dict.fromkeys((*claim.assumptions, *lines(claim))))
        return replace(claim, status=weakest(claim.status, status), assumptions=assumptions, **changes)  # type: ignore[arg-type]

    return replace(plan, guarantee=changed(plan.guarantee), beside=tuple(map(changed, plan.beside)))


def _root(module: str) -> str:
    return module.partition(".")[0]


# Who may claim anything on data with units or weights: a system whose proof covers them.

_REMEDY = "Declare `data.unit: {column: NAME, max_records: k}` and call it by its name in `privacy.unit`."


def check_unit(system: System, facts: DatasetSpec, word: str) -> None:
    """Raises InvalidValue unless `system` can make a claim per `word` on these data true."""
    if (word == RECORD) != (facts.unit is None):
        expected = f"{RECORD}, or a word for what data.unit groups" if facts.unit is None else "another word"
        raise InvalidValue("privacy.unit", word, expected, _REMEDY)
    if facts.unit is not None and not traits_of(system).units:
        expected = f"{RECORD} with {system.name}: it counts and bounds single records"
        remedy = "Use a system that enforces units, or make the claim per record."
        raise InvalidValue("privacy.unit", word, expected, remedy)


def check_weights(system: System, facts: DatasetSpec) -> None:
    """Raises InvalidValue where records have weights, or a loss that is not the task's, and `system` no proof with it.

    One that has, says so: `Traits.weights`.
    """
    if traits_of(system).weights:
        return
    remedy, no = "Sweep noisy-sgd, noisy-adam, clipped-sgld or dp-sgld, which clip", f"with {system.name}: its claim"
    if facts.loss or facts.task is Task.TOKENS:
        expected = f"no other loss {no}, or what it reports, is of the loss of classes or numbers"
        raise InvalidValue("data.loss", facts.loss, expected, f"{remedy} the gradient of any loss.")
    if facts.weights is not None:
        name = "data.weight" if facts.weights.column else "data.class_weights"
        expected = f"no weights {no} is proved for a loss that counts every record once"
        raise InvalidValue(name, str(facts.weights), expected, f"{remedy} after the weight, or drop the weights.")

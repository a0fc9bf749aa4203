"""The one planner: complete the configuration, check it, solve what is to be solved, count, admit what is in budget.

A system says what only it knows, as methods of a `PlannedSystem`; what it leaves out is done as most do it:

    knobs                    the typed record of its hyperparameters
    check, check_solved      what makes no sense (InvalidValue), and what is not launched (Refusal)
    solve                    the values that meet the target; by default the noise, by calibration
    mechanism                what is released, as a value: counted here, and run by `fit`
    claim                    by default the headline of the mechanism's whole event
    describe, work, beside, group, recorded
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from dpcore import calibrate, checks
from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status, weakest
from dpcore.mechanisms import protocol
from dpcore.mechanisms.protocol import Mechanism, Scheduled
from dpcore.rounding import epsilon_text
from trainables.hyperparameters import complete, parameters, read
from trainables.metrics import Config, Metric, Scalar
from trainables.plugins import OBJECT
from trainables.system import NO_HINTS as NOTHING_SAID
from trainables.system import (
    NO_TRAITS,
    Dataset,
    DatasetSpec,
    Hyperparameter,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    SearchHints,
    System,
    Traits,
    traits_of,
)
from trainables.units import RECORD
from trainables.validation.declaration import PUBLIC_VALIDATION

NOISE_MIN, NOISE_MAX = 0.2, 1000.0
"""Range of noise multipliers that a plan may ask for. Below it a single unsampled step spends epsilon 33 at delta 1e-5;
above it the gradient is noise in all but name."""
STEPS_MAX = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTerms:
    """What a claim is stated at, of which a mechanism may be a function besides its knobs and public facts."""

    delta: float
    adjacency: Adjacency


Knobs = TypeVar("Knobs")
Released = TypeVar("Released", bound=Mechanism)


class PlannedSystem(ABC, Generic[Knobs, Released]):
    """A `System` whose plans this planner makes. Stateless.

    adjacencies   the neighbouring relations that it can claim under
    bounded       whether a claim beyond the target is refused; False where nothing is claimed
    """

    name: str
    source: str
    metrics: tuple[Metric, ...]
    knobs: type[Knobs]
    traits: Traits = NO_TRAITS
    hints: SearchHints = NOTHING_SAID
    solves: Mapping[str, str] = MappingProxyType({})
    adjacencies: ClassVar[tuple[Adjacency, ...]] = tuple(Adjacency)
    why_adjacency: str = ""
    bounded: bool = True

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """See `System.hyperparameters`."""
        return parameters(self.knobs)  # type: ignore[arg-type]

    def plan(
        self, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`."""
        self.check_target(facts, target)
        wanted = self.solves.get(target.solve)
        full = complete(self.knobs, config, wanted) | self.recorded(target)
        knobs = read(self.knobs, full, wanted)
        if refused := self.check(knobs, facts, target, config):
            return refused
        try:
            solved = self.solve(knobs, facts, target, calibrations)
            full |= solved
            return self._counted(full, tuple(solved), facts, target)
        except calibrate.CannotCalibrate as error:
            # How far the best that can be done is from the target: what a searcher needs to turn round.
            return Refusal(violations={"epsilon": math.log(error.nearest_epsilon / target.epsilon)}, reason=str(error))
        except ToleranceNotReached as error:
            # Nothing can be claimed of it, so it is not launched; other points of the space go on.
            return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")

    def _counted(
        self, full: dict[str, Scalar], solved: tuple[str, ...], facts: DatasetSpec, target: PrivacyTarget
    ) -> PrivacyPlan | Refusal:
        knobs = read(self.knobs, full)
        if refused := self.check_solved(knobs, facts, target):
            return refused
        released = self.mechanism(knobs, facts, terms_of(target))
        claim = self.claim(knobs, released, facts, target)
        if self.bounded and claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)}, reason=self.exceeded(claim, target)
            )
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=solved,
            mechanism=released,
            description=self.describe(knobs, released, facts),
            guarantee=replace(claim, assumptions=(*claim.assumptions, *self.rests_on(knobs, facts))),
            beside=self.beside(knobs, released, claim, facts, target),
            work=self.work(knobs, released, facts),
            group=self.group(knobs),
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `System.fit`; one run after the other, each by the mechanism that its plan carries."""
        for run in runs:
            plan = run.member.plan
            self.train(run, read(self.knobs, plan.config), self.mechanism_of(plan, data.facts), data, execution)

    def mechanism_of(self, plan: PrivacyPlan, facts: DatasetSpec) -> Released:
        """What `plan` carries; of a plan that kept events alone, as earlier versions did, its configuration's.

        Raises InvalidValue where that is not what the plan counted.
        """
        if not isinstance(plan.mechanism, Scheduled):
            return plan.mechanism  # type: ignore[return-value]
        made = self.mechanism(read(self.knobs, plan.config), facts, terms_of(plan.guarantee))
        if made.event() != plan.event():
            remedy = "The plan is of another version or of other data: run the trial again."
            raise InvalidValue("plan", plan.event(), f"what its configuration releases, {made.event()}", remedy)
        return made

    def check_target(self, facts: DatasetSpec, target: PrivacyTarget) -> None:
        """Raises InvalidValue for a target that no configuration of this system has."""
        able = self.adjacencies_on(facts)
        if target.adjacency not in able:
            expected = f"{' or '.join(able)} for {self.name}"
            raise InvalidValue("privacy.adjacency", str(target.adjacency), expected, self.why_adjacency)

    def adjacencies_on(self, facts: DatasetSpec) -> tuple[Adjacency, ...]:
        """The neighbouring relations that it can claim under on such data."""
        return self.adjacencies

    def check(self, knobs: Knobs, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """Raises InvalidValue for what makes no sense; a Refusal for what is not launched, whatever is solved.

        given  the configuration without its defaults
        """
        return None

    def solve(
        self, knobs: Knobs, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """The solved values by name. Raises CannotCalibrate, ToleranceNotReached."""
        name = self.solves.get(target.solve)
        if target.solve != "noise" or name is None:
            return {}
        noise, terms = replace(calibrate.NOISE, low=NOISE_MIN), terms_of(target)
        return {
            name: calibrate.solve(
                goal_of(target),
                noise,
                lambda value: self.mechanism(replace(knobs, **{name: value}), facts, terms).event(),  # type: ignore[type-var]
                cache=calibrations,
            )
        }

    def check_solved(self, knobs: Knobs, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
        """A Refusal for what is not launched, once everything is known."""
        return None

    @abstractmethod
    def mechanism(self, knobs: Knobs, facts: DatasetSpec, terms: ClaimTerms) -> Released:
        """What a trial releases. A function of public values alone."""

    def claim(self, knobs: Knobs, released: Released, facts: DatasetSpec, target: PrivacyTarget) -> Guarantee:
        """What the whole path claims. Raises ToleranceNotReached."""
        return headline(released.event(), target.delta, target.adjacency, unit=target.unit)

    def rests_on(self, knobs: Knobs, facts: DatasetSpec) -> tuple[str, ...]:
        """What a claim rests on besides what its accountant says, one sentence each."""
        return (PUBLIC_VALIDATION, *facts.assumptions)

    def exceeded(self, claim: Guarantee, target: PrivacyTarget) -> str:
        """Why a claim beyond the target is not launched, and the way out."""
        spent = epsilon_text(claim.epsilon, digits=6)
        return (
            f"epsilon={spent} at delta={target.delta}: expected at most {target.epsilon}. "
            "Raise noise_multiplier or epsilon, or take fewer epochs."
        )

    @abstractmethod
    def describe(self, knobs: Knobs, released: Released, facts: DatasetSpec) -> str:
        """The mechanism in one sentence for people."""

    @abstractmethod
    def work(self, knobs: Knobs, released: Released, facts: DatasetSpec) -> float:
        """See `PrivacyPlan.work`."""

    def beside(
        self, knobs: Knobs, released: Released, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """The same release under other notions and accountants."""
        return ()

    def group(self, knobs: Knobs) -> str:
        """See `PrivacyPlan.group`."""
        return ""

    def recorded(self, target: PrivacyTarget) -> dict[str, Scalar]:
        """What plans record of the target among the configuration, for a system whose mechanism follows from it."""
        return {}

    @abstractmethod
    def train(self, run: Run, knobs: Knobs, released: Released, data: Dataset, execution: RunSettings) -> None:
        """Execute one run up to its `member.to_step`, by `released`."""


def terms_of(stated: PrivacyTarget | Guarantee) -> ClaimTerms:
    """Those of a target, or of the claim that was made for it."""
    return ClaimTerms(delta=stated.delta, adjacency=stated.adjacency)


def goal_of(target: PrivacyTarget) -> calibrate.Target:
    """A budget as calibration takes it."""
    return calibrate.Target(epsilon=target.epsilon, delta=target.delta, adjacency=target.adjacency)


def check_batch(batch_size: int, facts: DatasetSpec) -> None:
    """Raises InvalidValue for more than there are."""
    if batch_size > facts.n:
        raise InvalidValue(
            "batch_size", batch_size, f"at most n={facts.n} {facts.counted} of {facts.dataset}", "Lower batch_size."
        )


def too_large(name: str, value: float, largest: float, remedy: str, needed: str = "") -> Refusal | None:
    """A Refusal where `value` is above `largest`."""
    if value <= largest:
        return None
    return Refusal(
        violations={name: math.log(value / largest)},
        reason=f"{name}={value:.6g}{needed}: expected at most {largest:g}. {remedy}",
    )


# Whose word a claim is: every plan of a sweep is made here, and one of another package says so itself.
#
# What a system of this package plans stands as its proof does. Of a system from elsewhere, none of whose code was
# read here, the claim is the word of its module: its status is `asserted`, and it names the module. Where the count
# is this project's own all the same (`trainables.planning` counted a mechanism of `dpcore`, and hands that very value
# to the training), the number is ours, and rests on one assumption more: that the module releases that mechanism and
# nothing else.
#
# What trains may be the user's own too, a model. Whatever it does with records is bounded (`dpcore.gradients`); what
# it begins with is not looked at, and was released by no step: weights that were fitted to the same records, without
# noise, leave in the model as they came. So every claim on such a model says that they were not.

OURS = frozenset({"dpcore", "trainables"})
_COUNTING = ("plan", "_counted", "claim", "mechanism_of", "fit")
"""Methods that count a mechanism and hand it to the training."""

_LANGUAGE = ("builtins", "abc", "typing")


def attributed_plan(
    system: System,
    config: Config,
    facts: DatasetSpec,
    target: PrivacyTarget,
    calibrations: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    """`system.plan`, with claims that stand as firmly as whoever makes them, their data and their model.

    Raises what it raises.
    """
    plan = _planned(system, config, facts, target, calibrations)
    if isinstance(plan, Refusal):
        return plan
    # Of records whose source is the user's own its facts say so themselves.
    theirs = facts.assumptions if facts.asserted_by else ()
    models = of_their_models(value for value in plan.config.values() if isinstance(value, str))
    return resting_on_word(plan, (*theirs, *models))


def resting_on_word(plan: PrivacyPlan, lines: Sequence[str]) -> PrivacyPlan:
    """The plan, whose claims rest on these sentences too: somebody's word, so that none is more than proved under
    assumptions. As it is without any."""
    if not lines:
        return plan
    return replace(
        plan,
        guarantee=_resting_on(plan.guarantee, lines),
        beside=tuple(_resting_on(one, lines) for one in plan.beside),
    )


def of_their_models(texts: Iterable[str]) -> tuple[str, ...]:
    """What claims rest on where knobs have these texts as values: a sentence for each `module:function` not ours."""
    own = sorted({one for one in texts if OBJECT.fullmatch(one) and _root(one.partition(":")[0]) not in OURS})
    return tuple(
        f"What {one} begins with, starting weights and parts that are never trained, was fitted to none of these "
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


def _resting_on(claim: Guarantee, lines: Iterable[str]) -> Guarantee:
    status = weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS)
    return replace(claim, status=status, assumptions=tuple(dict.fromkeys((*claim.assumptions, *lines))))


def _planned(
    system: System,
    config: Config,
    facts: DatasetSpec,
    target: PrivacyTarget,
    calibrations: MutableMapping[str, float],
) -> PrivacyPlan | Refusal:
    plan = system.plan(config, facts, target, calibrations)
    module = stranger(system)
    if module is None or isinstance(plan, Refusal):
        return plan
    counted = _is_counted_here(system, plan)
    claim = _trusting(plan.guarantee, module) if counted else _asserted(plan.guarantee, module)
    validation = [PUBLIC_VALIDATION] if facts.n_validation else []
    needed = dict.fromkeys((*claim.assumptions, *validation, *facts.assumptions))
    beside = counted and _is_ours(system, "beside")
    return replace(
        plan,
        guarantee=replace(claim, assumptions=tuple(needed)),
        beside=tuple(_trusting(one, module) if beside else _asserted(one, module) for one in plan.beside),
    )


def stranger(system: System) -> str | None:
    """The module of a system that has code from outside of this project; None for our own."""
    modules = (one.__module__ for one in type(system).__mro__)
    return next((one for one in modules if _root(one) not in (*OURS, *_LANGUAGE)), None)


def _is_counted_here(system: System, plan: PrivacyPlan) -> bool:
    return (
        isinstance(system, PlannedSystem)
        and all(_is_ours(system, name) for name in _COUNTING)
        and protocol.is_ours(plan.mechanism)
        # Events alone are counted, and run nothing.
        and not isinstance(plan.mechanism, Scheduled)
    )


def _is_ours(system: System, name: str) -> bool:
    found = getattr(system, name, None)
    return _root(getattr(getattr(found, "__func__", found), "__module__", None) or "") in OURS


def _trusting(claim: Guarantee, module: str) -> Guarantee:
    """Counted here, of what code that is not ours is trusted to release."""
    line = f"{module} releases the counted mechanism, as it was counted, and nothing else: its code is not ours."
    status = weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS)
    return replace(claim, status=status, assumptions=(*claim.assumptions, line))


def _asserted(claim: Guarantee, module: str) -> Guarantee:
    """On the module's word alone."""
    # Without the status that it gave itself: nobody is to read that word as ours.
    line = f"{module} says that this epsilon holds, by {claim.theorem}: nothing of it was counted or checked here."
    status = weakest(claim.status, Status.ASSERTED)
    return replace(claim, status=status, asserted_by=module, assumptions=(*claim.assumptions, line))


def _root(module: str) -> str:
    return module.partition(".")[0]


# Who may claim anything on data with units or weights: a system whose proof covers them.

_REMEDY = "Declare `data.unit: {column: NAME, max_records: k}` and call it by its name in `privacy.unit`."


def check_unit(system: System, facts: DatasetSpec, word: str) -> None:
    """Raises InvalidValue unless `system` can make a claim per `word` on these data true."""
    if (word == RECORD) != (facts.unit is None):
        expected = f"{RECORD}, or a word for what data.unit groups" if facts.unit is None else "another word"
        raise checks.InvalidValue("privacy.unit", word, expected, _REMEDY)
    if facts.unit is not None and not traits_of(system).units:
        raise checks.InvalidValue(
            "privacy.unit",
            word,
            f"{RECORD} with {system.name}: it counts and bounds single records",
            "Use a system that enforces units, or make the claim per record.",
        )


def check_weights(system: System, facts: DatasetSpec) -> None:
    """Raises InvalidValue where the records have weights and `system` has no proof with them.

    One that has, says so: `Traits.weights`.
    """
    if facts.weights is not None and not traits_of(system).weights:
        raise checks.InvalidValue(
            "data.weight" if facts.weights.column else "data.class_weights",
            str(facts.weights),
            f"no weights with {system.name}: its claim is proved for a loss that counts every record once",
            "Sweep noisy-sgd, noisy-adam, clipped-sgld or dp-sgld, which clip after the weight, or drop the weights.",
        )

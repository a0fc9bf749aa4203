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
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Generic, TypeVar

from dpcore import calibrate
from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.protocol import Mechanism, Scheduled
from dpcore.rounding import epsilon_text
from trainables.capabilities import NONE, Capabilities
from trainables.knobs import complete, parameters, read
from trainables.metrics import Config, Metric, Scalar
from trainables.natural import NONE as NOTHING_SAID
from trainables.natural import Natural
from trainables.system import Dataset, Execution, Parameter, PrivacyPlan, PrivacyTarget, PublicFacts, Refusal, Run
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
    capabilities: Capabilities = NONE
    natural: Natural = NOTHING_SAID
    solves: Mapping[str, str] = MappingProxyType({})
    adjacencies: ClassVar[tuple[Adjacency, ...]] = tuple(Adjacency)
    why_adjacency: str = ""
    bounded: bool = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """See `System.parameters`."""
        return parameters(self.knobs)  # type: ignore[arg-type]

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
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
        self, full: dict[str, Scalar], solved: tuple[str, ...], facts: PublicFacts, target: PrivacyTarget
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

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other, each by the mechanism that its plan carries."""
        for run in runs:
            plan = run.member.plan
            self.train(run, read(self.knobs, plan.config), self.mechanism_of(plan, data.facts), data, execution)

    def mechanism_of(self, plan: PrivacyPlan, facts: PublicFacts) -> Released:
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

    def check_target(self, facts: PublicFacts, target: PrivacyTarget) -> None:
        """Raises InvalidValue for a target that no configuration of this system has."""
        able = self.adjacencies_on(facts)
        if target.adjacency not in able:
            expected = f"{' or '.join(able)} for {self.name}"
            raise InvalidValue("privacy.adjacency", str(target.adjacency), expected, self.why_adjacency)

    def adjacencies_on(self, facts: PublicFacts) -> tuple[Adjacency, ...]:
        """The neighbouring relations that it can claim under on such data."""
        return self.adjacencies

    def check(self, knobs: Knobs, facts: PublicFacts, target: PrivacyTarget, given: Config) -> Refusal | None:
        """Raises InvalidValue for what makes no sense; a Refusal for what is not launched, whatever is solved.

        given  the configuration without its defaults
        """
        return None

    def solve(
        self, knobs: Knobs, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
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

    def check_solved(self, knobs: Knobs, facts: PublicFacts, target: PrivacyTarget) -> Refusal | None:
        """A Refusal for what is not launched, once everything is known."""
        return None

    @abstractmethod
    def mechanism(self, knobs: Knobs, facts: PublicFacts, terms: ClaimTerms) -> Released:
        """What a trial releases. A function of public values alone."""

    def claim(self, knobs: Knobs, released: Released, facts: PublicFacts, target: PrivacyTarget) -> Guarantee:
        """What the whole path claims. Raises ToleranceNotReached."""
        return headline(released.event(), target.delta, target.adjacency, unit=target.unit)

    def rests_on(self, knobs: Knobs, facts: PublicFacts) -> tuple[str, ...]:
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
    def describe(self, knobs: Knobs, released: Released, facts: PublicFacts) -> str:
        """The mechanism in one sentence for people."""

    @abstractmethod
    def work(self, knobs: Knobs, released: Released, facts: PublicFacts) -> float:
        """See `PrivacyPlan.work`."""

    def beside(
        self, knobs: Knobs, released: Released, claim: Guarantee, facts: PublicFacts, target: PrivacyTarget
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
    def train(self, run: Run, knobs: Knobs, released: Released, data: Dataset, execution: Execution) -> None:
        """Execute one run up to its `member.to_step`, by `released`."""


def terms_of(stated: PrivacyTarget | Guarantee) -> ClaimTerms:
    """Those of a target, or of the claim that was made for it."""
    return ClaimTerms(delta=stated.delta, adjacency=stated.adjacency)


def goal_of(target: PrivacyTarget) -> calibrate.Target:
    """A budget as calibration takes it."""
    return calibrate.Target(epsilon=target.epsilon, delta=target.delta, adjacency=target.adjacency)


def check_batch(batch_size: int, facts: PublicFacts) -> None:
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

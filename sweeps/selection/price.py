"""Plans of all configurations of a prior under one price of what leaves: by a public rule that each of them meets.

The price of the best, and of a first success, looks at a trial's profile at two points and more (`dpcore.selection.
best`, `ladder`). They are fixed in public: by the plan in the middle of the space, which is given as much of the
budget as it can have alone. That of a front holds for trials that one Gaussian covers, which follows from the
budget (`dpcore.selection.front`). Every configuration is then given the least noise, or the most steps, at which it
meets the rule. So each claims the same: the budget, for the whole procedure. Which of them was drawn, or won, changes
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain

from dpcore.calibrate import Target
from dpcore.guarantee import Guarantee, Notion, Status, weakest
from dpcore.selection.best import TIGHT, ByReference, HeterogeneousTrials
from dpcore.selection.counts import Capped
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import Climbing, LadderPoints
from dpcore.selection.profiles import TrialProfile
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.charge import fitted, trial_profile
from sweeps.privacy.ledger import ONE_TRIAL, PRIVATE_SELECTION
from sweeps.search.space import Space
from sweeps.spec.sections import Selection, SweepSpec
from sweeps.spec.sweep_budget import law_of, law_text
from sweeps.store.records import TARGET_EPSILON
from trainables.planning import of_their_models
from trainables.system import Config, DatasetSpec, PrivacyPlan, Refusal


@dataclass(frozen=True)
class SealedPrior:
    """What one sealed search draws from.

    facts         of the spec's data
    calibrations  solved before, in public; what planning solves is added to them
    """

    spec: SweepSpec
    facts: DatasetSpec
    calibrations: MutableMapping[str, float] = field(default_factory=dict)

    @cached_property
    def space(self) -> Space:
        """The spec's."""
        return Space.of(self.spec)

    @property
    def selection(self) -> Selection:
        """The spec's: no other sweep has a price for its search."""
        assert self.spec.selection is not None
        return self.spec.selection

    @cached_property
    def law(self) -> Capped:
        """Of the number of trials, as it is drawn."""
        return law_of(self.selection, self.spec.search.trials)

    def fitted(self, config: Config, exceeds: Callable[[TrialProfile], float], start: float) -> PrivacyPlan | Refusal:
        """The plan of a configuration whose profile just does not exceed what a trial may cost; or why there is none.

        exceeds  by how much a trial is too dear, in logarithms
        start    a guess at its epsilon by itself
        """

        def plan_at(target: float) -> PrivacyPlan | Refusal:
            held_to = self.spec.privacy.model_copy(update={"epsilon": (target,)})
            one = self.spec.model_copy(update={"privacy": held_to})
            return plan_proposal(one, {**config, TARGET_EPSILON: target}, self.facts, self.calibrations)

        return fitted(plan_at, lambda plan: exceeds(trial_profile(plan)), start)

    def price(self, fit: Fit) -> Pricing | Refusal:
        """What leaves costs, by one configuration of the space."""
        privacy, law = self.spec.privacy, self.law
        if self.selection.target is not None:
            return first_price(law, privacy.epsilon, privacy.delta, fit)
        (epsilon,) = privacy.epsilon
        if privacy.release == "front":
            return front_price(law, len(self.spec.orders), epsilon, privacy.delta, fit)
        return best_price(law, epsilon, privacy.delta, fit)


_PLACES = (0.5, 0.1, 0.9)
"""In the domains of a system, where it is asked what its claim rests on until it has a plan: in public."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """One price for what leaves of a random number of trials: the best by one order or several, or the first success
    and word of none.

    rule        what each configuration has to meet; of a ladder of budgets, in its rung
    references  plans in the middle of the space, one for each budget, by which points were chosen in public; each
                claims what it would alone
    """

    rule: HeterogeneousTrials | LadderPoints | FrontPoints
    references: tuple[PrivacyPlan, ...]

    @property
    def law(self) -> Capped:
        """Of the number of trials, as it is drawn."""
        assert isinstance(self.rule.law, Capped)
        return self.rule.law

    @property
    def reference(self) -> PrivacyPlan:
        """That of the dearest budget."""
        return self.references[-1]

    def exceeds(self, rung: int, trial: TrialProfile) -> float:
        """By how much a trial is too dear for its budget, in logarithms; at most 0 where it may run.

        rung  of a ladder of budgets, from 0
        """
        return self.rule.exceeds(rung, trial) if isinstance(self.rule, LadderPoints) else self.rule.exceeds(trial)


@dataclass(frozen=True)
class SealedPlanner:
    """Plans the configurations of one sweep. Raises InvalidValue where no configuration can be priced."""

    prior: SealedPrior
    pricing: Pricing

    @classmethod
    def of(cls, prior: SealedPrior, further: Iterable[Config] = ()) -> SealedPlanner | Refusal:
        """The planner of a prior; a Refusal where nothing in its middle has a plan, tried in turn, nor `further`."""
        refusal: Refusal | None = None
        for config in chain(prior.space.middles(), further):
            found = prior.price(partial(prior.fitted, config))
            if isinstance(found, Pricing):
                return cls(prior, found)
            refusal = refusal or found
        assert refusal is not None
        return refusal

    def plan(self, config: Config) -> PrivacyPlan | Refusal:
        """The plan of one configuration, which claims the price of the whole procedure; or why it is not in the prior.

        `config` is canonical, its `target_epsilon` the budget, or that of its rung.
        """
        rung = self.prior.spec.privacy.epsilon.index(config[TARGET_EPSILON])
        found = self._within(config, rung)
        if isinstance(found, Refusal):
            return found
        return replace(found, guarantee=self.claim(found), beside=self.afterwards(found, rung))

    def _within(self, config: Config, rung: int) -> PrivacyPlan | Refusal:
        """The plan that meets the rule of its rung, with what it would claim alone."""
        start = self.pricing.references[rung].guarantee.epsilon
        return self.prior.fitted(config, partial(self.pricing.exceeds, rung), start)

    @cached_property
    def _of_the_space(self) -> tuple[str, ...]:
        """What the claims of all systems and models of the space rest on: whichever won, trials of all of them may have
        run."""
        space, plans = self.prior.space, [self.pricing.reference]
        for branch in space.branches if len(space.branches) > 1 else ():
            places = (space.config(branch, space.epsilons[-1], branch.drawn(partial(float, u))) for u in _PLACES)
            found = (self._within(config, len(space.epsilons) - 1) for config in places)
            plan = next((one for one in found if isinstance(one, PrivacyPlan)), None)
            plans += [] if plan is None else [plan]
        lines = [line for plan in plans for line in plan.guarantee.assumptions]
        spec = self.prior.spec
        return (*lines, *of_their_models(spec.texts()), *spec.weight_lines(spec.weight_places))

    def claim(self, plan: PrivacyPlan) -> Guarantee:
        """What the winner claims, whichever it is: the budget, for everything that leaves."""
        own, rule, selection = plan.guarantee, self.pricing.rule, self.prior.selection
        law = law_text(selection, self.pricing.law.cap)
        lines = dict.fromkeys((*own.assumptions, *self._of_the_space))
        assumptions = [line for line in lines if line != ONE_TRIAL]
        return Guarantee(
            epsilon=rule.epsilon,
            delta=rule.delta,
            adjacency=own.adjacency,
            unit=own.unit,
            accountant=PRIVATE_SELECTION,
            status=weakest(own.status, Status.PROVED_UNDER_ASSUMPTIONS),
            theorem=self._theorem(law, selection),
            assumptions=(*assumptions, *rests_on(selection)),
            aimed_at=rule.epsilon,
        )

    def _theorem(self, law: str, selection: Selection) -> str:
        """The argument of the search, in words: a claim names its own.  law  in words"""
        secret, orders, budgets = (
            f"of a secret number of trials ({law})",
            self.prior.spec.orders,
            self.pricing.references,
        )
        if isinstance(self.pricing.rule, FrontPoints):
            return f"The best {secret} by each of {len(orders)} orders ({'; '.join(map(str, orders))}): {_FRONT}"
        if selection.target is None:
            return f"The best {secret}: {_BEST}"
        first = f"The first {secret} with {selection.target},"
        if len(budgets) == 1:
            return f"{first} or word of none: {_FIRST}"
        return f"{first} of the cheapest of {len(budgets)} budgets that has one, or word of none: {_LADDER}"

    def afterwards(self, plan: PrivacyPlan, rung: int) -> tuple[Guarantee, ...]:
        """What a success of a ladder claims besides, once it is known from which rung it left; else nothing."""
        rule = self.pricing.rule
        if not isinstance(rule, LadderPoints) or len(rule.epsilons) == 1:
            return ()
        whole = self.claim(plan)
        return (replace(whole, notion=Notion.EX_POST, epsilon=rule.epsilons[rung], aimed_at=None),)


# The price by one reference, given as much of each budget as it can have alone. Each raises InvalidValue.

Fit = Callable[[Callable[[TrialProfile], float], float], PrivacyPlan | Refusal]
"""Of a configuration: the plan whose profile just does not exceed what a trial may cost; or why there is none.

Asked with by how much a trial is too dear, in logarithms, and a guess at its epsilon by itself.
"""


def best_price(law: Capped, epsilon: float, delta: float, fit: Fit) -> Pricing | Refusal:
    """The price of the best, by the points of the reference."""
    reference = ByReference(law=law, delta=delta)
    found = fit(lambda trial: math.log(reference.price(trial) / epsilon), epsilon / 3)
    if isinstance(found, Refusal):
        return found
    return Pricing(rule=reference.points(trial_profile(found), epsilon), references=(found,))


def front_price(law: Capped, orders: int, epsilon: float, delta: float, fit: Fit) -> Pricing | Refusal:
    """The price of the best by each order, which follows from the budget; the reference is planned within it."""
    rule = FrontPoints.solved(law, orders, Target(epsilon=epsilon, delta=delta))
    found = fit(rule.exceeds, epsilon / 3)
    return found if isinstance(found, Refusal) else Pricing(rule=rule, references=(found,))


def first_price(law: Capped, epsilons: Sequence[float], delta: float, fit: Fit) -> Pricing | Refusal:
    """The same for every budget, from the cheapest on: a rung's price does not depend on dearer ones."""
    climbing = Climbing(law=law, weights=(1 / len(epsilons),) * len(epsilons), delta=delta)
    references: list[PrivacyPlan] = []
    for epsilon in epsilons:
        known = climbing

        def exceeds(trial: TrialProfile, epsilon: float = epsilon, known: Climbing = known) -> float:
            return math.log(known.price(trial) / epsilon)

        found = fit(exceeds, epsilon / 3)
        if isinstance(found, Refusal):
            return found
        references.append(found)
        climbing = climbing.with_rung(trial_profile(found))
    return Pricing(rule=climbing.points(epsilons), references=tuple(references))


# What the claim of a private selection rests on besides what its trials' claims do: one sentence each.

SEALED = (
    "The number of trials, the other trials, and which of them won stay inside the release boundary for ever: nobody "
    "outside sees the load, memory, power or bill of the machines, Ray's dashboard, logs, object store and what that "
    "spills to disk, or the sweep's folder while it runs."
)
FAILURES = (
    "Whether a trial fails or is late does not depend on the records but through its private state: nothing is added "
    "to delta for memory that ran out, an exception, or a deadline that was missed."
)
LOSSES = (
    "Workers are lost independently of the records; what they ran is run again with the same randomness, on machines "
    "that compute alike."
)
OF_THE_PRIOR = "The space and its prior were"
"""As every sentence on it begins."""
PRIOR = f"{OF_THE_PRIOR} not chosen by looking at these records."
TARGET = "The target was fixed before the search, and not by looking at these records."
OF_EVERY_SEARCH = (SEALED, FAILURES, LOSSES)
"""Whatever its prior was chosen by."""


def rests_on(selection: Selection) -> tuple[str, ...]:
    """What the claim of a private selection rests on, or leaves out, besides what its trials' claims do."""
    said = selection.chosen_by
    chosen = (
        PRIOR
        if said is None
        else f"{OF_THE_PRIOR} chosen by looking at these records, which this claim does not cover: {said}"
    )
    return *OF_EVERY_SEARCH, chosen, *(() if selection.target is None else (TARGET,))


# The arguments of sealed searches, in words.

_BEST = f"{TIGHT}; two-point calibration: dpcore.selection.best"
_FRONT = (
    "one shift for all orders: dpcore.selection.front; configurations that differ, by a Gaussian that covers each: "
    "dpcore.selection.front"
)
_FIRST = (
    "Liu & Talwar (2019), algorithm 1; profile form, word of none and configurations that differ: "
    "dpcore.selection.ladder"
)
_LADDER = f"after Ghazi, Kamath, Knop, Kumar, Manurangsi & Zhang (2025) and {_FIRST}"

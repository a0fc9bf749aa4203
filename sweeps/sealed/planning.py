"""Plans of all configurations of a prior under one price of the best of them: two-point calibration.

The price of a selection looks at a trial's profile at two points (`dpcore.selection.two_point`). They are fixed in
public: by the plan in the middle of the space, which is given as much of the budget as it can have alone. Every
configuration is then given the least noise, or the most steps, at which it meets both. So each claims the same: the
budget, for the whole procedure. Which of them was drawn, or won, changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace

from dpcore.guarantee import Guarantee, Status, weakest
from dpcore.selection import (
    Capped,
    Ladder,
    ThresholdTwoPoint,
    TrialProfile,
    TwoPoint,
    penalties,
    price_best,
    price_ladder,
    threshold_law,
)
from dpcore.selection.best import TIGHT
from dpcore.selection.penalties import Shift
from dpcore.selection.profiles import epsilon_at
from dpcore.selection.threshold import threshold_shift
from sweeps.budget.fitting import fitted
from sweeps.budget.trial_profiles import trial_profile
from sweeps.control.planning import plan_proposal
from sweeps.ledger.assumptions import OF_ONE_TRIAL, PRIVATE_SELECTION
from sweeps.records import TARGET_EPSILON
from sweeps.sealed.assumptions import rests_on
from sweeps.sealed.law import law_of, law_text
from sweeps.search.space import Space
from sweeps.spec.model import Selection, SweepSpec
from trainables.system import Config, PrivacyPlan, PublicFacts, Refusal, System

THEOREM = f"{TIGHT}; two-point calibration: dpcore.selection.two_point"
OF_FIRST = (
    "Liu & Talwar (2019), algorithm 1; profile form: dpcore.selection.threshold, and of word of none: "
    "dpcore.selection.ladder; two-point calibration: dpcore.selection.two_point"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """One price for what leaves of a random number of trials: the best, or the first success and word of none.

    rule       what each configuration has to meet
    reference  the plan by which it was chosen, in public; its claim is that of one trial, alone
    """

    rule: TwoPoint
    reference: PrivacyPlan

    @property
    def law(self) -> Capped:
        """Of the number of trials, as it is drawn."""
        assert isinstance(self.rule.law, Capped)
        return self.rule.law

    @property
    def of_first(self) -> bool:
        """Whether the first success leaves, not the best."""
        return isinstance(self.rule, ThresholdTwoPoint)

    def routes(self) -> Mapping[str, float]:
        """Epsilon for trials that are all like the reference, by every route, or of either end: the claim is `rule`'s.

        At its delta; a success and word of none share it.
        """
        trial, rule = trial_profile(self.reference), self.rule
        if not self.of_first:
            return {one.name: one.epsilon for one in price_best(self.law, trial, rule.delta).routes}
        ladder = Ladder(law=self.law, rungs=(trial,), weights=(1.0,))
        price = price_ladder(ladder, (rule.delta - rule.d_hat,), rule.d_hat, points=2)
        return {"success": price.rungs[0], "none": price.failure}


@dataclass(frozen=True, slots=True)
class SealedPlanner:
    """Plans the configurations of one sweep. Raises InvalidValue where no configuration can be priced."""

    spec: SweepSpec
    facts: PublicFacts
    calibrations: MutableMapping[str, float]
    pricing: Pricing
    systems: Mapping[str, System] | None = None

    @classmethod
    def of(
        cls,
        spec: SweepSpec,
        facts: PublicFacts,
        calibrations: MutableMapping[str, float],
        references: Iterator[Config],
        systems: Mapping[str, System] | None = None,
    ) -> SealedPlanner | Refusal:
        """The planner of a spec; a Refusal where none of the `references`, tried in turn, has a plan."""
        assert spec.selection is not None
        law = law_of(spec.selection, spec.search.trials)
        refusal: Refusal | None = None
        for config in references:
            found = _reference(spec, config, facts, calibrations, law, systems)
            if isinstance(found, Pricing):
                return cls(spec, facts, calibrations, found, systems)
            refusal = refusal or found
        assert refusal is not None
        return refusal

    def plan(self, config: Config) -> PrivacyPlan | Refusal:
        """The plan of one configuration, which claims the price of the whole procedure; or why it is not in the prior.

        `config` is canonical, its `target_epsilon` the budget.
        """
        rule = self.pricing.rule
        found = _fitted(
            self.spec,
            config,
            self.facts,
            self.calibrations,
            rule.exceeds,
            self.pricing.reference.guarantee.epsilon,
            self.systems,
        )
        return found if isinstance(found, Refusal) else replace(found, guarantee=self.claim(found), beside=())

    def claim(self, plan: PrivacyPlan) -> Guarantee:
        """What the winner claims, whichever it is: the budget, for everything that leaves."""
        own, rule, selection = plan.guarantee, self.pricing.rule, self.spec.selection
        assert selection is not None
        law = law_text(selection, self.pricing.law.cap)
        assumptions = [line for line in own.assumptions if line not in OF_ONE_TRIAL]
        return Guarantee(
            epsilon=rule.epsilon,
            delta=rule.delta,
            adjacency=own.adjacency,
            unit=own.unit,
            accountant=PRIVATE_SELECTION,
            status=weakest(own.status, Status.PROVED_UNDER_ASSUMPTIONS),
            theorem=_theorem(selection, law),
            assumptions=(*assumptions, *rests_on(selection)),
            aimed_at=rule.epsilon,
        )


def _theorem(selection: Selection, law: str) -> str:
    if selection.target is None:
        return f"The best of a secret number of trials ({law}): {THEOREM}"
    return f"The first of a secret number of trials ({law}) with {selection.target}, or word of none: {OF_FIRST}"


def middles(spec: SweepSpec) -> Iterator[Config]:
    """The middle of the space, for each system of it: public, and valid as a reference whatever it is."""
    space = Space.of(spec)
    for branch in space.branches:
        yield space.config(branch, space.epsilons[0], branch.drawn(lambda: 0.5))


def _reference(
    spec: SweepSpec,
    config: Config,
    facts: PublicFacts,
    calibrations: MutableMapping[str, float],
    law: Capped,
    systems: Mapping[str, System] | None,
) -> Pricing | Refusal:
    (epsilon,), delta = spec.privacy.epsilon, spec.privacy.delta
    assert spec.selection is not None
    kind = TwoPoint if spec.selection.target is None else ThresholdTwoPoint
    own_delta = delta / (law.priced.mean + (kind is ThresholdTwoPoint))

    def shift_of(trial: TrialProfile) -> Shift:
        return penalties.tight(law, trial) if kind is TwoPoint else threshold_shift(threshold_law(law), trial)

    def exceeds(trial: TrialProfile) -> float:
        price = epsilon_at(trial, own_delta) + shift_of(trial).penalty
        return math.log(price / epsilon)

    found = _fitted(spec, config, facts, calibrations, exceeds, epsilon / 3, systems)
    if isinstance(found, Refusal):
        return found
    shift = shift_of(trial_profile(found))
    # A little below the root, so that rounding leaves it on the safe side, as in `dpcore.selection.two_point`.
    rule = kind(law=law, epsilon=epsilon, delta=delta, e1=shift.e1, d1=min(1.0, shift.d1 * (1 - 1e-11)))
    return Pricing(rule=rule, reference=found)


def _fitted(
    spec: SweepSpec,
    config: Config,
    facts: PublicFacts,
    calibrations: MutableMapping[str, float],
    exceeds: Callable[[TrialProfile], float],
    start: float,
    systems: Mapping[str, System] | None,
) -> PrivacyPlan | Refusal:
    def plan_at(target: float) -> PrivacyPlan | Refusal:
        held_to = spec.privacy.model_copy(update={"epsilon": (target,)})
        one = spec.model_copy(update={"privacy": held_to})
        return plan_proposal(one, {**config, TARGET_EPSILON: target}, facts, calibrations, systems)

    return fitted(plan_at, lambda plan: exceeds(trial_profile(plan)), start)

"""The prior of a sealed search, and all that its configurations are planned from: one public value, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field

from dpcore.checks import InvalidValue
from dpcore.selection import Capped, TrialProfile
from sweeps.budget.fitting import fitted
from sweeps.budget.trial_profiles import trial_profile
from sweeps.planning.plan import plan_proposal
from sweeps.sealed.law import law_of
from sweeps.search.space import Space
from sweeps.spec.sections import Selection, SweepSpec
from sweeps.store.records import TARGET_EPSILON
from trainables.system import Config, PrivacyPlan, PublicFacts, Refusal, System


@dataclass(frozen=True)
class SealedPrior:
    """What one sealed search draws from.

    facts         of the spec's data
    calibrations  solved before, in public; what planning solves is added to them
    systems       by name, where they are not those of the registry
    space, selection  the spec's
    law           of the number of trials, as it is drawn

    Raises InvalidValue where the spec has no selection, or its number of trials no law.
    """

    spec: SweepSpec
    facts: PublicFacts
    calibrations: MutableMapping[str, float] = field(default_factory=dict)
    systems: Mapping[str, System] | None = None
    space: Space = field(init=False)
    selection: Selection = field(init=False)
    law: Capped = field(init=False)

    def __post_init__(self) -> None:
        selection = self.spec.selection
        if selection is None:
            expected = "that of a sealed search: privacy.scope: sweep and release: best, first or front"
            raise InvalidValue("selection", None, expected, "No other sweep has a price for its search.")
        object.__setattr__(self, "space", Space.of(self.spec))
        object.__setattr__(self, "selection", selection)
        object.__setattr__(self, "law", law_of(selection, self.spec.search.trials))

    def fitted(self, config: Config, exceeds: Callable[[TrialProfile], float], start: float) -> PrivacyPlan | Refusal:
        """The plan of a configuration whose profile just does not exceed what a trial may cost; or why there is none.

        exceeds  by how much a trial is too dear, in logarithms
        start    a guess at its epsilon by itself
        """

        def plan_at(target: float) -> PrivacyPlan | Refusal:
            held_to = self.spec.privacy.model_copy(update={"epsilon": (target,)})
            one = self.spec.model_copy(update={"privacy": held_to})
            return plan_proposal(one, {**config, TARGET_EPSILON: target}, self.facts, self.calibrations, self.systems)

        return fitted(plan_at, lambda plan: exceeds(trial_profile(plan)), start)

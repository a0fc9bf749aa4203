"""The configuration that modes are compared by, and its plan for any budget of one trial."""

from __future__ import annotations

import math
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.selection import TrialProfile
from sweeps.budget.fitting import Rule, fitted
from sweeps.budget.trial_profiles import trial_profile
from sweeps.planning.plan import plan_proposal
from sweeps.planning.rehearsal import corners, first_plan
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TARGET_EPSILON
from trainables.registry import SYSTEMS
from trainables.system import Config, PrivacyPlan, PublicFacts, Refusal

_BY_ITSELF = 0.4
"""Of the whole budget, about what a trial of a sealed search may spend: where fitting begins."""


class NotPlanned(ValueError):
    """No plan of the middle of the space meets what a mode asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """One configuration under the budget of the whole procedure.

    epsilon       of the procedure: the largest of the spec
    calibrations  as planning keeps them
    """

    spec: SweepSpec
    facts: PublicFacts
    config: Config
    epsilon: float
    calibrations: MutableMapping[str, float]

    @classmethod
    def of(cls, spec: SweepSpec, facts: PublicFacts, calibrations: MutableMapping[str, float]) -> Middle:
        """That of the first system that has one, in the order of the alphabet. Raises InvalidValue where none has."""
        # Modes are asked of a trial by itself, whatever the spec's own mode is.
        alone = spec.privacy.model_copy(update={"scope": "trial", "release": "all"})
        spec, tried = spec.model_copy(update={"privacy": alone, "selection": None}), set[str]()
        for corner in corners(spec):
            if corner.system in tried:
                continue
            tried.add(corner.system)
            found = first_plan(spec, corner, facts, calibrations)
            if found is not None and math.isfinite(found[1].guarantee.epsilon):
                return cls(
                    spec=spec,
                    facts=facts,
                    config=found[0],
                    epsilon=max(spec.privacy.epsilon),
                    calibrations=calibrations,
                )
        raise InvalidValue(
            "systems",
            ", ".join(sorted(tried)),
            "a system of which the middle of the space, or a draw near it, may be launched under a finite budget",
            "Raise privacy.epsilon or `limits`, or narrow the space.",
        )

    @property
    def delta(self) -> float:
        """Of the whole procedure."""
        return self.spec.privacy.delta

    @property
    def adjacency(self) -> Adjacency:
        """Of every number."""
        return self.spec.privacy.adjacency

    @property
    def trials(self) -> int:
        """As many as the spec asks for."""
        return self.spec.search.trials

    @property
    def parameter(self) -> str:
        """The knob that is the solved noise; "" where the spec solves something else."""
        return SYSTEMS[str(self.config["system"])].solves.get("noise", "") if self.spec.privacy.solve == "noise" else ""

    def on(self, share: float) -> Middle:
        """The same configuration on a part of the training records, of which there are about `share`."""
        return replace(self, facts=replace(self.facts, n=max(1, round(self.facts.n * share))))

    def planned(self, epsilon: float) -> PrivacyPlan | Refusal:
        """The plan whose claim is within `epsilon` by itself."""
        return plan_proposal(self.spec, {**self.config, TARGET_EPSILON: epsilon}, self.facts, self.calibrations)

    def plan(self, epsilon: float) -> PrivacyPlan:
        """See `planned`. Raises NotPlanned."""
        return made(self.planned(epsilon))

    def meeting(self, rule: Rule, start: float | None = None) -> PrivacyPlan:
        """The plan that spends as much as `rule` allows (`sweeps.budget.fitting`). Raises NotPlanned.

        start  a guess at its epsilon by itself
        """
        return made(fitted(self.planned, rule, start or self.epsilon * _BY_ITSELF))

    def costing(self, price: Callable[[TrialProfile], float], allowed: float | None = None) -> PrivacyPlan:
        """The plan whose profile has a price just within `allowed`, the whole epsilon by default. Raises NotPlanned."""
        most = self.epsilon if allowed is None else allowed
        return self.meeting(lambda plan: log_excess(price(trial_profile(plan)), most), most * _BY_ITSELF)

    def noise(self, *plans: PrivacyPlan) -> tuple[float, ...]:
        """Solved noise of these plans, each once, the least first."""
        if not self.parameter:
            return ()
        return tuple(sorted({float(plan.config[self.parameter]) for plan in plans}))


def log_excess(spent: float, allowed: float) -> float:
    """ln(spent / allowed), as a rule has it: infinite where nothing bounds what is spent."""
    return math.log(spent / allowed) if spent > 0 else -math.inf


def made(found: PrivacyPlan | Refusal) -> PrivacyPlan:
    """The plan. Raises NotPlanned for a Refusal."""
    if isinstance(found, Refusal):
        raise NotPlanned(found.reason)
    return found

"""The system that claims the average case alone: gradients that need no clip, batches that need no coins.

One step, with standard deviation sigma = noise_multiplier * clip_norm on the sum and b expected records:

    theta -= learning_rate * mask * (sum over the batch of gradients, clipped only where `sensitivity: bounded`
                                     + sigma N(0, I)) / b

It runs only while a stopping filter admits it (`dpcore.accountants.bayesian`): `privacy.epsilon` and
`privacy.delta` are the Bayesian target, epsilon_mu and delta_mu, and no ordinary epsilon stands behind them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from dpcore.accountants.bayesian import beside_ordinary
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.average_case import AverageCase
from dpcore.mechanisms.protocol import Mechanism
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.capabilities import Capabilities
from trainables.planner import STEPS_MAX, ClaimTerms, PlannedSystem, check_batch, too_large
from trainables.system import Config, Dataset, Execution, PrivacyTarget, PublicFacts, Refusal, Run
from trainables.systems.bayesian_dp.bayesian_knobs import (
    AverageCaseSGDKnobs,
    EstimateKnobs,
    StoppedKnobs,
    check_records,
)
from trainables.systems.bayesian_dp.bayesian_metrics import STOPPED_METRICS
from trainables.systems.bayesian_dp.clipped import SOURCE, WHY_ADD_REMOVE
from trainables.systems.bayesian_dp.watch import check_figures, filter_for
from trainables.training.trained_model import ScoredByLoss

NO_ORDINARY = "No ordinary differential privacy: a record unlike the others is not protected at all."
FROM_TRAINING = "Distances, and with them the stop, are facts about private training records, without noise."


Stopped = TypeVar("Stopped", bound=StoppedKnobs)
Unclaimed = TypeVar("Unclaimed", bound=Mechanism)


def unlike_ordinary(knobs: EstimateKnobs) -> tuple[str, ...]:
    """What such a claim does not promise."""
    return (NO_ORDINARY,) if knobs.held_out else (NO_ORDINARY, FROM_TRAINING)


class StoppedSystem(PlannedSystem[Stopped, Unclaimed]):
    """A system that runs only while a filter admits it: its claim is the filter's target, nothing is solved."""

    source = SOURCE
    metrics = STOPPED_METRICS
    capabilities = Capabilities(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def check_target(self, facts: PublicFacts, target: PrivacyTarget) -> None:
        """See `PlannedSystem.check_target`. Raises InvalidValue (adjacency, solving)."""
        super().check_target(facts, target)
        if target.solve != "none":
            raise InvalidValue(
                "privacy.solve", target.solve, f"none for {self.name}", "What a step costs is not known before it runs."
            )

    def check_solved(self, knobs: Stopped, facts: PublicFacts, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (estimates)."""
        steps = knobs.steps(facts.n)
        if refused := too_large("steps", steps, STEPS_MAX, "Take fewer epochs or larger batches."):
            return refused
        check_figures(knobs, target.delta, steps)
        return None

    def claim(self, knobs: Stopped, released: Unclaimed, facts: PublicFacts, target: PrivacyTarget) -> Guarantee:
        """See `PlannedSystem.claim`: what the filter admits."""
        claim = filter_for(target.epsilon, target.delta, released.steps, knobs.estimate_failure).guarantee(target.unit)
        return replace(claim, assumptions=(*claim.assumptions, *unlike_ordinary(knobs)))

    def beside(
        self, knobs: Stopped, released: Unclaimed, claim: Guarantee, facts: PublicFacts, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """No ordinary epsilon."""
        return (beside_ordinary(claim, None, target.delta)[1],)

    def work(self, knobs: Stopped, released: Unclaimed, facts: PublicFacts) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * knobs.batch_size


class AverageCaseSGD(ScoredByLoss, StoppedSystem[AverageCaseSGDKnobs, AverageCase]):
    """The System."""

    name = "average-case-sgd"
    knobs = AverageCaseSGDKnobs

    def check(
        self, knobs: AverageCaseSGDKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch, records, batches)."""
        models.check(knobs.model, facts)
        check_batch(knobs.batch_size, facts)
        check_records(knobs, facts, pairs=knobs.fixed)
        if not knobs.fixed and knobs.sensitivity == "bounded" and knobs.held_out:
            raise InvalidValue(
                "batches",
                "poisson",
                "the system bayesian-sgd for clipped gradients, Poisson batches and held-out distances",
                "These have an ordinary claim too; bayesian_budget stops them in the same way.",
            )
        return None

    def mechanism(self, knobs: AverageCaseSGDKnobs, facts: PublicFacts, terms: ClaimTerms) -> AverageCase:
        """See `PlannedSystem.mechanism`."""
        return AverageCase(
            sampling=PoissonSampling(rate=knobs.batch_size / facts.n),
            fixed=knobs.fixed,
            clip_norm=None if knobs.sensitivity == "unbounded" else knobs.clip_norm,
            deviation=knobs.noise_multiplier * knobs.clip_norm,
            steps=knobs.steps(facts.n),
            expected_batch_size=knobs.batch_size,
        )

    def describe(self, knobs: AverageCaseSGDKnobs, released: AverageCase, facts: PublicFacts) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} gradient steps on {'fixed' if released.fixed else 'Poisson'} batches "
            f"({knobs.batch_size}/{facts.n}), {knobs.sensitivity} gradients, Gaussian noise of "
            f"{released.deviation:.5g} on the sum, until the Bayesian budget is spent"
        )

    def train(
        self, run: Run, knobs: AverageCaseSGDKnobs, released: AverageCase, data: Dataset, execution: Execution
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.bayesian_dp.training import train

        train(run, knobs, released, data, execution)


AVERAGE_CASE_SGD = AverageCaseSGD()

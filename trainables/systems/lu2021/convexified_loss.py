"""`convexified-loss`: Algorithm 1 of Lu et al. (2021) as published. Its claim is refuted, and says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee, Status
from dpcore.papers.convexified import Bound, NeuronNoise, OneNeuronAnswers, published_guarantee
from trainables.hooks import Neighbours
from trainables.planning import Case, Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, Run, RunSettings, Traits
from trainables.systems.answering import AnsweringSystem
from trainables.systems.linear import classes_of
from trainables.systems.lu2021.hyperparameters import (
    METRICS,
    NOISE_MAX,
    NOISE_MIN,
    ConvexifiedLossHyperparameters,
    held_out,
    sensitivities,
)

if TYPE_CHECKING:
    from trainables.systems.lu2021.training import Trained

UNNOISED = "Metrics of the model without noise are reported too: no claim covers them."
ATTACKED = "Half of the queries are training records: which ones is reported by the attack's metric."


class ConvexifiedLoss(AnsweringSystem[ConvexifiedLossHyperparameters, OneNeuronAnswers, "Trained"]):
    """Noise on one sampled output neuron of a tanh network, per query."""

    name = "convexified-loss"
    traits = Traits(standing=Status.REFUTED)
    source = "Lu et al. 2021, as published"
    params = ConvexifiedLossHyperparameters
    metrics = METRICS
    adjacencies = (Adjacency.ADD_REMOVE,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    deciding = (
        "alpha", "regularisation", "hidden", "learning_rate", "batch_size", "epochs",
        "draw", "shadows", "attack_epochs",
    )  # fmt: skip

    def check(self, case: Case[ConvexifiedLossHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (batch, shadows, bound, queries)."""
        params, facts = case.params, case.facts
        if params.batch_size > facts.n:
            raise InvalidValue("batch_size", params.batch_size, f"at most n={facts.n} records of {facts.dataset}")
        if params.shadows and facts.n_validation < 6:
            raise InvalidValue(
                "shadows", params.shadows, f"0: {facts.dataset} has {facts.n_validation} validation records, 6 needed"
            )
        if params.bound is Bound.CHAUDHURI_BINARY and classes_of(facts) > 2:
            raise InvalidValue("bound", str(params.bound), "another bound: this one is for two classes")
        super().check(case)

    def askable(self, params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> int:
        """See `AnsweringSystem.askable`: under an attack training records too."""
        asked = held_out(params, facts)
        return 2 * asked if params.shadows else asked

    def noise(self, case: Case[ConvexifiedLossHyperparameters]) -> float:
        """See `SolvedSystem.noise`."""
        params, target = case.params, case.target
        if params.noise is NeuronNoise.LAPLACE:
            return params.queries / target.epsilon
        return math.sqrt(params.queries) / mu_gdp(target.epsilon, target.delta)

    def mechanism(self, case: Case[ConvexifiedLossHyperparameters]) -> OneNeuronAnswers:
        """See `PlannedSystem.mechanism`."""
        params, bounds = case.params, sensitivities(case.params, case.facts)
        return OneNeuronAnswers(
            logit_sensitivity=bounds.logit,
            probability_sensitivity=bounds.probability,
            noise=params.noise,
            noise_multiplier=params.noise_multiplier,
            split=params.split,
            steps=params.queries,
        )

    def claim(self, case: Case[ConvexifiedLossHyperparameters], released: OneNeuronAnswers) -> Guarantee:
        """What the publication claims for all queries together: basic composition, or that of Gaussian DP."""
        each, delta = 1 / released.noise_multiplier, case.target.delta
        total = released.steps * each if released.noise is NeuronNoise.LAPLACE else math.sqrt(released.steps) * each
        claim = published_guarantee(total, released.noise, delta)
        told = ((UNNOISED, case.params.reference), (ATTACKED, case.params.shadows > 0))
        lines = tuple(line for line, applies in told if applies)
        # One delta for both laws of noise, so that they share an axis; a pure claim holds at every delta.
        return replace(claim, delta=delta, unit=case.target.unit, assumptions=(*claim.assumptions, *lines))

    def describe(self, case: Case[ConvexifiedLossHyperparameters], released: OneNeuronAnswers) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} probability vectors of a tanh network (risk aversion {case.params.alpha:.4g}), each "
            f"with {released.noise} noise on one sampled logit (claimed sensitivity {released.logit_sensitivity:.4g}, "
            "not a bound)"
        )

    def work(self, case: Case[ConvexifiedLossHyperparameters], released: OneNeuronAnswers) -> float:
        """See `PlannedSystem.work`."""
        return float(case.facts.n) * case.params.epochs * (1 + case.params.shadows)

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """See `TrainedOnce.fit`."""
        from trainables.parallel import limited_threads

        with limited_threads(execution.threads):
            super().fit(runs, data, execution)

    def trained(self, params: ConvexifiedLossHyperparameters, data: Dataset, settings: RunSettings) -> Trained:
        """See `TrainedOnce.trained`."""
        from trainables.systems.lu2021.training import train_group
        from trainables.training.private_sgd import device_of

        return train_group(params, data, str(device_of(settings)))

    def answer(self, fit: Fit[ConvexifiedLossHyperparameters, OneNeuronAnswers], trained: Trained) -> None:
        """See `TrainedOnce.answer`."""
        from trainables.systems.lu2021.training import answer

        answer(fit, trained)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """Data sets that the answers tell apart (see `trainables.hooks.Auditable`)."""
        from trainables.systems.lu2021.neighbours import published_neighbours

        return published_neighbours(*self.read(plan), facts)

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """See `trainables.hooks.AttacksItself`: no shadows."""
        return replace(plan, config={**plan.config, "shadows": 0})


CONVEXIFIED_LOSS = ConvexifiedLoss()

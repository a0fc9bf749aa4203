"""The two systems with an ordinary claim: clipped contributions, Poisson batches, Gaussian noise, and a watch beside.

One step of `bayesian-sgd` is a step of NoisySGD, of which a share `updated_share` of the weights, drawn without looking
at the data, is kept. One step of `bayesian-variational` is

    w = mean + exp(log_sd) * z,  z ~ N(0, I), public
    g = n * (sum over the batch of clip(gradient of -log p(y | x, w) by (mean, log_sd)) + s C N(0, I)) / (q n)
        + gradient of KL(q || N(0, v I))
    AdaGrad with learning_rate, by g
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.sampled_gaussian import SampledGaussian
from trainables import models
from trainables.capabilities import Capabilities
from trainables.knobs import read
from trainables.planner import ClaimTerms
from trainables.rehearsal.setting import Setting
from trainables.system import (
    Config,
    Dataset,
    Execution,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Split,
    State,
)
from trainables.systems.bayesian_dp.bayesian_knobs import (
    NO_BUDGET,
    BayesianSGDKnobs,
    BayesianVariationalKnobs,
    EstimateKnobs,
    WatchedKnobs,
    check_records,
)
from trainables.systems.bayesian_dp.bayesian_metrics import METRICS
from trainables.systems.bayesian_dp.watch import check_figures, filter_for
from trainables.systems.linear import classes_of
from trainables.systems.noisy_sgd import NoisedDescent
from trainables.training.trained_model import TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn

SOURCE = "Triastcyn & Faltings 2020"
WHY_ADD_REMOVE = "Bayesian differential privacy asks what one more record changes."

HELD_OUT = (
    "The Bayesian figure and the stop are computed from the released weights and the validation records, which are "
    "treated as public: they are part of what this claim covers, and are no DP epsilon themselves."
)
TRAINING = (
    "The Bayesian figure is computed from gradients of private training records, without noise: releasing it is a "
    "release of its own, which this claim does not cover."
)


def check_two_classes(facts: PublicFacts) -> None:
    """Raises InvalidValue for data that a two-class regression cannot serve."""
    if classes_of(facts) != 2:
        raise InvalidValue("data", facts.dataset, f"two classes, not {facts.classes}", "Use bayesian-sgd.")


Watched = TypeVar("Watched", bound=WatchedKnobs)


class WatchedDescent(NoisedDescent[Watched]):
    """A system whose claim is that of NoisySGD, with the Bayesian accountant beside it."""

    source = SOURCE
    metrics = METRICS
    capabilities = Capabilities(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def mechanism(self, knobs: Watched, facts: PublicFacts, terms: ClaimTerms) -> SampledGaussian:
        """See `PlannedSystem.mechanism`; the public batch size divides."""
        return replace(super().mechanism(knobs, facts, terms), expected_batch_size=knobs.batch_size)

    def rests_on(self, knobs: Watched, facts: PublicFacts) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`."""
        return (*super().rests_on(knobs, facts), HELD_OUT if knobs.held_out else TRAINING)

    def check_solved(self, knobs: Watched, facts: PublicFacts, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (Bayesian knobs)."""
        if refused := super().check_solved(knobs, facts, target):
            return refused
        check_records(knobs, facts, pairs=False)
        check_figures(knobs, knobs.bayesian_delta, knobs.steps(facts.n))
        if knobs.bayesian_budget != NO_BUDGET and not knobs.held_out:
            raise InvalidValue(
                "bayesian_budget",
                knobs.bayesian_budget,
                "0 with distances: training",
                "A stop decided on private records without noise ends every ordinary claim. Use distances: held-out, "
                "or the system average-case-sgd.",
            )
        return None

    def beside(
        self, knobs: Watched, released: SampledGaussian, claim: Guarantee, facts: PublicFacts, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """The limit, and the Bayesian budget where there is one."""
        others = super().beside(knobs, released, claim, facts, target)
        if knobs.bayesian_budget == NO_BUDGET:
            return others
        stopping = filter_for(knobs.bayesian_budget, knobs.bayesian_delta, released.steps, knobs.estimate_failure)
        return (*others, stopping.guarantee(target.unit))

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal.SetsItsRehearsal`: each step looks at some records besides its batch."""
        looked = read(EstimateKnobs, setting.plan.config).distance_records
        facts = setting.facts
        return replace(
            setting,
            records=min(facts.n, max(setting.records, looked)),
            validation=min(facts.n_validation, max(setting.validation, looked)),
        )


class BayesianSGD(WatchedDescent[BayesianSGDKnobs], TrainedByNoisedGradients[BayesianSGDKnobs, SampledGaussian]):
    """NoisySGD on a random share of the weights."""

    name = "bayesian-sgd"
    knobs = BayesianSGDKnobs

    def check(
        self, knobs: BayesianSGDKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        models.check(knobs.model, facts)
        return super().check(knobs, facts, target, given)

    def train(
        self, run: Run, knobs: BayesianSGDKnobs, released: SampledGaussian, data: Dataset, execution: Execution
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.bayesian_dp.training import train

        train(run, knobs, released, data, execution)


class BayesianVariational(WatchedDescent[BayesianVariationalKnobs]):
    """DPVI of a logistic regression: no model to choose."""

    name = "bayesian-variational"
    knobs = BayesianVariationalKnobs

    def check(
        self, knobs: BayesianVariationalKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch above n)."""
        check_two_classes(facts)
        return super().check(knobs, facts, target, given)

    def train(
        self, run: Run, knobs: BayesianVariationalKnobs, released: SampledGaussian, data: Dataset, execution: Execution
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.bayesian_dp.variational import train

        train(run, knobs, released, data, execution)

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.hooks.Scored`: the log probability of each record's class, over draws."""
        from trainables.systems.bayesian_dp.variational import log_probabilities

        return log_probabilities(plan, facts, state, split)

    def released_model(self, plan: PrivacyPlan, facts: PublicFacts, state: State) -> nn.Module:
        """See `trainables.export.protocol.ReleasesModel`: the posterior. Raises ValueError for another state."""
        from trainables.systems.bayesian_dp.variational import posterior_predictive

        return posterior_predictive(plan, facts, state)


BAYESIAN_SGD = BayesianSGD()
BAYESIAN_VARIATIONAL = BayesianVariational()

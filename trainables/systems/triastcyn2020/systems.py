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

from dpcore.accountants.bayesian import beside_ordinary
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.average_case import AverageCase
from dpcore.mechanisms.protocol import Mechanism, Scheduled, unprotected
from dpcore.mechanisms.sampled_gaussian import SampledGaussian
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.hyperparameters import read
from trainables.planning import STEPS_MAX, ClaimTerms, PlannedSystem, check_batch, too_large
from trainables.rehearsal.setting import Setting
from trainables.system import (
    Config,
    Dataset,
    DatasetSpec,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    Split,
    State,
    Traits,
)
from trainables.systems.linear import classes_of
from trainables.systems.noisy_sgd import NoisedDescent
from trainables.systems.triastcyn2020.accountant import (
    METRICS,
    NO_BUDGET,
    STOPPED_METRICS,
    AverageCaseSGDKnobs,
    BayesianSGDKnobs,
    BayesianVariationalKnobs,
    EstimateKnobs,
    StoppedKnobs,
    VariationalDrawsKnobs,
    WatchedKnobs,
    check_figures,
    check_records,
    filter_for,
)
from trainables.training.trained_model import ScoredByLoss, TrainedByNoisedGradients

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


def check_two_classes(facts: DatasetSpec) -> None:
    """Raises InvalidValue for data that a two-class regression cannot serve."""
    if classes_of(facts) != 2:
        raise InvalidValue("data", facts.dataset, f"two classes, not {facts.classes}", "Use bayesian-sgd.")


Watched = TypeVar("Watched", bound=WatchedKnobs)


class WatchedDescent(NoisedDescent[Watched]):
    """A system whose claim is that of NoisySGD, with the Bayesian accountant beside it."""

    source = SOURCE
    metrics = METRICS
    traits = Traits(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def mechanism(self, knobs: Watched, facts: DatasetSpec, terms: ClaimTerms) -> SampledGaussian:
        """See `PlannedSystem.mechanism`; the public batch size divides."""
        return replace(super().mechanism(knobs, facts, terms), expected_batch_size=knobs.batch_size)

    def rests_on(self, knobs: Watched, facts: DatasetSpec) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`."""
        return (*super().rests_on(knobs, facts), HELD_OUT if knobs.held_out else TRAINING)

    def check_solved(self, knobs: Watched, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
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
        self, knobs: Watched, released: SampledGaussian, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
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
        self, knobs: BayesianSGDKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        models.check(knobs.model, facts)
        return super().check(knobs, facts, target, given)

    def train(
        self, run: Run, knobs: BayesianSGDKnobs, released: SampledGaussian, data: Dataset, execution: RunSettings
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020.training import train

        train(run, knobs, released, data, execution)


class BayesianVariational(WatchedDescent[BayesianVariationalKnobs]):
    """DPVI of a logistic regression: no model to choose."""

    name = "bayesian-variational"
    knobs = BayesianVariationalKnobs

    def check(
        self, knobs: BayesianVariationalKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch above n)."""
        check_two_classes(facts)
        return super().check(knobs, facts, target, given)

    def train(
        self,
        run: Run,
        knobs: BayesianVariationalKnobs,
        released: SampledGaussian,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020.variational import train

        train(run, knobs, released, data, execution)

    def membership_scores(
        self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.hooks.Scored`: the log probability of each record's class, over draws."""
        from trainables.systems.triastcyn2020.variational import log_probabilities

        return log_probabilities(plan, facts, state, split)

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.export.protocol.ReleasesModel`: the posterior. Raises ValueError for another state."""
        from trainables.systems.triastcyn2020.variational import posterior_predictive

        return posterior_predictive(plan, facts, state)


BAYESIAN_SGD = BayesianSGD()
BAYESIAN_VARIATIONAL = BayesianVariational()


# The system that claims the average case alone: gradients that need no clip, batches that need no coins.
#
# One step, with standard deviation sigma = noise_multiplier * clip_norm on the sum and b expected records:
#
# theta -= learning_rate * mask * (sum over the batch of gradients, clipped only where `sensitivity: bounded` + sigma
# N(0, I)) / b
#
# It runs only while a stopping filter admits it (`dpcore.accountants.bayesian`): `privacy.epsilon` and
# `privacy.delta` are the Bayesian target, epsilon_mu and delta_mu, and no ordinary epsilon stands behind them.

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
    traits = Traits(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def check_target(self, facts: DatasetSpec, target: PrivacyTarget) -> None:
        """See `PlannedSystem.check_target`. Raises InvalidValue (adjacency, solving)."""
        super().check_target(facts, target)
        if target.solve != "none":
            raise InvalidValue(
                "privacy.solve", target.solve, f"none for {self.name}", "What a step costs is not known before it runs."
            )

    def check_solved(self, knobs: Stopped, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (estimates)."""
        steps = knobs.steps(facts.n)
        if refused := too_large("steps", steps, STEPS_MAX, "Take fewer epochs or larger batches."):
            return refused
        check_figures(knobs, target.delta, steps)
        return None

    def claim(self, knobs: Stopped, released: Unclaimed, facts: DatasetSpec, target: PrivacyTarget) -> Guarantee:
        """See `PlannedSystem.claim`: what the filter admits."""
        claim = filter_for(target.epsilon, target.delta, released.steps, knobs.estimate_failure).guarantee(target.unit)
        return replace(claim, assumptions=(*claim.assumptions, *unlike_ordinary(knobs)))

    def beside(
        self, knobs: Stopped, released: Unclaimed, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """No ordinary epsilon."""
        return (beside_ordinary(claim, None, target.delta)[1],)

    def work(self, knobs: Stopped, released: Unclaimed, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * knobs.batch_size


class AverageCaseSGD(ScoredByLoss, StoppedSystem[AverageCaseSGDKnobs, AverageCase]):
    """The System."""

    name = "average-case-sgd"
    knobs = AverageCaseSGDKnobs

    def check(
        self, knobs: AverageCaseSGDKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
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

    def mechanism(self, knobs: AverageCaseSGDKnobs, facts: DatasetSpec, terms: ClaimTerms) -> AverageCase:
        """See `PlannedSystem.mechanism`."""
        return AverageCase(
            sampling=PoissonSampling(rate=knobs.batch_size / facts.n),
            fixed=knobs.fixed,
            clip_norm=None if knobs.sensitivity == "unbounded" else knobs.clip_norm,
            deviation=knobs.noise_multiplier * knobs.clip_norm,
            steps=knobs.steps(facts.n),
            expected_batch_size=knobs.batch_size,
        )

    def describe(self, knobs: AverageCaseSGDKnobs, released: AverageCase, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} gradient steps on {'fixed' if released.fixed else 'Poisson'} batches "
            f"({knobs.batch_size}/{facts.n}), {knobs.sensitivity} gradients, Gaussian noise of "
            f"{released.deviation:.5g} on the sum, until the Bayesian budget is spent"
        )

    def train(
        self, run: Run, knobs: AverageCaseSGDKnobs, released: AverageCase, data: Dataset, execution: RunSettings
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020.training import train

        train(run, knobs, released, data, execution)


AVERAGE_CASE_SGD = AverageCaseSGD()


# DPVI as the paper ran it under its own accountant: nothing is noised, each draw of the weights is counted as noise.
#
# One step draws w = mean + exp(log_sd) z, takes the plain gradient of a Poisson batch at w, and moves (mean, log_sd)
# by AdaGrad. The release counted is the next draw: N(mean, sd^2) with and without the record, its mean moved by this
# step's share of the record alone.
#
# That count is refuted. The mean is never replaced by what was drawn, so a record's shares of all earlier steps are
# still in it: where each step moves it by d deviations, step t shows t d, not d. After T steps without sampling the
# true divergence is (T + 1)(2 T + 1) / 6 times the counted one. The deviations depend on the records too, and the
# draws that predictions are averaged over are not counted at all.

REFUTED = (
    "Refuted: a record's share of earlier steps stays in the mean and is counted once, not at every later draw; after "
    "T steps the divergence is up to (T + 1)(2 T + 1) / 6 times what is claimed."
)


class VariationalDraws(StoppedSystem[VariationalDrawsKnobs, Scheduled]):
    """The System."""

    name = "variational-draws"
    knobs = VariationalDrawsKnobs
    membership_scores = BAYESIAN_VARIATIONAL.membership_scores

    def check(
        self, knobs: VariationalDrawsKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch, records)."""
        check_two_classes(facts)
        check_batch(knobs.batch_size, facts)
        check_records(knobs, facts, pairs=False)
        return None

    def mechanism(self, knobs: VariationalDrawsKnobs, facts: DatasetSpec, terms: ClaimTerms) -> Scheduled:
        """See `PlannedSystem.mechanism`: nothing is noised."""
        return unprotected(knobs.steps(facts.n))

    def claim(
        self, knobs: VariationalDrawsKnobs, released: Scheduled, facts: DatasetSpec, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`: what the paper would claim, `refuted`."""
        claim = filter_for(target.epsilon, target.delta, released.steps, knobs.estimate_failure).guarantee(target.unit)
        lines = (REFUTED, *unlike_ordinary(knobs), *claim.assumptions)
        return replace(claim, status=Status.REFUTED, assumptions=lines)

    def describe(self, knobs: VariationalDrawsKnobs, released: Scheduled, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} AdaGrad steps on Poisson batches ({knobs.batch_size}/{facts.n}) without noise; "
            "each draw of the weights is counted as if it were fresh noise"
        )

    def train(
        self, run: Run, knobs: VariationalDrawsKnobs, released: Scheduled, data: Dataset, execution: RunSettings
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020.variational import train_draws

        train_draws(run, knobs, data, execution)


VARIATIONAL_DRAWS = VariationalDraws()

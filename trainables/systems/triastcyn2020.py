"""Bayesian differential privacy: training that also says what a typical record, drawn like the data, loses.

    bayesian-sgd          clipped, Poisson batches; claims ordinary DP, and measures the Bayesian epsilon beside it
    bayesian-variational  the same for variational inference of a two-class logistic regression (DPVI)
    variational-draws     DPVI as published for the Bayesian accountant: no noise but the draws themselves. REFUTED
    average-case-sgd      what has no ordinary epsilon: gradients that are not clipped, batches of fixed size, distances
                          from private training records; claims the average case alone

Source      Triastcyn & Faltings (2020), Theorems 1-4; DPVI is Jaelkoe, Dikmen & Honkela (2017).
Claim       The first two: (epsilon, delta) of Poisson-subsampled Gaussians by the PLD, as in NoisySGD, proved whatever
            the Bayesian figure says. The others: the target of a stopping filter, `average-case` (or `refuted`), in the
            notion `bayesian-dp`; every step of them counts as not private in the ledger.
            The Bayesian epsilon of a finished run is a metric, never a claim: it is not known at plan time. With
            `bayesian_budget` a filter ends the run before that many are spent, and the budget, which is known, is
            listed beside the claim.
Departures  Costs are `c_L` alone; failures of all orders are charged. Distances come from held-out records unless told
            otherwise: they are fresh draws of the population, they are public here, and so the figure and the stop are
            post-processing of what the ordinary claim covers. The paper reads them off the training records, without
            noise: `distances: training` does so, and then the figure itself is a release that no claim covers. Under
            Poisson sampling a record adds its own contribution, so distances are norms of contributions; the paper's
            pairs belong to batches of fixed size. `bayesian-variational` noises gradients for both accountants; the
            paper's Bayesian form noises nothing (`variational-draws` says why its count fails).

One step of `bayesian-sgd` is a step of NoisySGD, of which a share `updated_share` of the weights, drawn without looking
at the data, is kept. One step of `bayesian-variational` is

    w = mean + exp(log_sd) * z,  z ~ N(0, I), public
    g = n * (sum over the batch of clip(gradient of -log p(y | x, w) by (mean, log_sd)) + s C N(0, I)) / (q n)
        + gradient of KL(q || N(0, v I))
    AdaGrad with learning_rate, by g

One step of `average-case-sgd`, with standard deviation sigma = noise_multiplier * clip_norm on the sum and b expected
records:

    theta -= learning_rate * mask * (sum over the batch of gradients, clipped only where `sensitivity: bounded`
             + sigma N(0, I)) / b

It runs only while a stopping filter admits it (`dpcore.accountants.bayesian`): `privacy.epsilon` and `privacy.delta`
are the Bayesian target, epsilon_mu and delta_mu, and no ordinary epsilon stands behind them.

`variational-draws` is DPVI as the paper ran it under its own accountant: nothing is noised, each draw of the weights is
counted as noise. One step draws w = mean + exp(log_sd) z, takes the plain gradient of a Poisson batch at w, and moves
(mean, log_sd) by AdaGrad. The release counted is the next draw: N(mean, sd^2) with and without the record, its mean
moved by this step's share of the record alone. That count is refuted. The mean is never replaced by what was drawn, so
a record's shares of all earlier steps are still in it: where each step moves it by d deviations, step t shows t d, not
d. After T steps without sampling the true divergence is (T + 1)(2 T + 1) / 6 times the counted one. The deviations
depend on the records too, and the draws that predictions are averaged over are not counted at all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, NonPrivate
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.noisy_sums import AverageCase, SampledGaussian
from dpcore.mechanisms.protocol import Mechanism, Scheduled, unprotected
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.hyperparameters import read
from trainables.planning import STEPS_MAX, Case, Fit, PlannedSystem, check_at_most, check_batch
from trainables.rehearsal import Setting
from trainables.system import DatasetSpec, PrivacyPlan, PrivacyTarget, Split, State, Traits
from trainables.systems.linear import classes_of
from trainables.systems.noisy_sgd import NoisedDescent
from trainables.training.trained_model import ScoredByLoss, TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn


from trainables.systems.triastcyn2020_accountant import (
    METRICS,
    NO_BUDGET,
    STOPPED_METRICS,
    AverageCaseHyperparameters,
    BayesianSGDHyperparameters,
    BayesianVariationalHyperparameters,
    EstimateHyperparameters,
    StoppedHyperparameters,
    VariationalDrawsHyperparameters,
    WatchedHyperparameters,
    check_figures,
    check_records,
    filter_for,
)

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
NO_ORDINARY = "No ordinary differential privacy: a record unlike the others is not protected at all."
FROM_TRAINING = "Distances, and with them the stop, are facts about private training records, without noise."
REFUTED = (
    "Refuted: a record's share of earlier steps stays in the mean and is counted once, not at every later draw; after "
    "T steps the divergence is up to (T + 1)(2 T + 1) / 6 times what is claimed."
)

Watched = TypeVar("Watched", bound=WatchedHyperparameters)
Stopped = TypeVar("Stopped", bound=StoppedHyperparameters)
Unclaimed = TypeVar("Unclaimed", bound=Mechanism)


def check_two_classes(facts: DatasetSpec) -> None:
    """Raises InvalidValue for data that a two-class regression cannot serve."""
    if classes_of(facts) != 2:
        raise InvalidValue("data", facts.dataset, f"two classes, not {facts.classes}", "Use bayesian-sgd.")


class WatchedDescent(NoisedDescent[Watched]):
    """A system whose claim is that of NoisySGD, with the Bayesian accountant beside it."""

    source = SOURCE
    metrics = METRICS
    traits = Traits(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def mechanism(self, case: Case[Watched]) -> SampledGaussian:
        """See `PlannedSystem.mechanism`; the public batch size divides."""
        return replace(super().mechanism(case), expected_batch_size=case.params.batch_size)

    def rests_on(self, case: Case[Watched]) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`."""
        return (*super().rests_on(case), HELD_OUT if case.params.held_out else TRAINING)

    def check_solved(self, case: Case[Watched]) -> None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (Bayesian hyperparameters)."""
        super().check_solved(case)
        params = case.params
        check_records(params, case.facts, pairs=False)
        check_figures(params, params.bayesian_delta, params.steps(case.facts.n))
        if params.bayesian_budget != NO_BUDGET and not params.held_out:
            raise InvalidValue(
                "bayesian_budget",
                params.bayesian_budget,
                "0 with distances: training",
                "A stop decided on private records without noise ends every ordinary claim. Use distances: held-out, "
                "or the system average-case-sgd.",
            )

    def beside(self, case: Case[Watched], released: SampledGaussian, claim: Guarantee) -> tuple[Guarantee, ...]:
        """The limit, and the Bayesian budget where there is one."""
        others, params = super().beside(case, released, claim), case.params
        if params.bayesian_budget == NO_BUDGET:
            return others
        stopping = filter_for(params.bayesian_budget, params.bayesian_delta, released.steps, params.estimate_failure)
        return (*others, stopping.guarantee(case.target.unit))

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal.SetsItsRehearsal`: each step looks at some records besides its batch."""
        looked = read(EstimateHyperparameters, setting.plan.config).distance_records
        facts = setting.facts
        return replace(
            setting,
            records=min(facts.n, max(setting.records, looked)),
            validation=min(facts.n_validation, max(setting.validation, looked)),
        )


class BayesianSGD(TrainedByNoisedGradients, WatchedDescent[BayesianSGDHyperparameters]):
    """NoisySGD on a random share of the weights."""

    name = "bayesian-sgd"
    params = BayesianSGDHyperparameters

    def train(self, fit: Fit[BayesianSGDHyperparameters, SampledGaussian]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import train

        train(fit)


class BayesianVariational(WatchedDescent[BayesianVariationalHyperparameters]):
    """DPVI of a logistic regression: no model to choose."""

    name = "bayesian-variational"
    params = BayesianVariationalHyperparameters

    def check(self, case: Case[BayesianVariationalHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch above n)."""
        check_two_classes(case.facts)
        super().check(case)

    def train(self, fit: Fit[BayesianVariationalHyperparameters, SampledGaussian]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import Noised, infer

        infer(fit, Noised, largest=fit.mechanism.clip_norm)

    def membership_scores(
        self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.hooks.Scored`: the log probability of each record's class, over draws."""
        from trainables.systems.triastcyn2020_training import log_probabilities

        return log_probabilities(plan, facts, state, split)

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.hooks.ReleasesModel`: the posterior. Raises ValueError for another state."""
        from trainables.systems.triastcyn2020_training import posterior_predictive

        return posterior_predictive(plan, facts, state)


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

    def check_solved(self, case: Case[Stopped]) -> None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (estimates)."""
        steps = case.params.steps(case.facts.n)
        check_at_most(STEPS_MAX, "Take fewer epochs or larger batches.", steps=steps)
        check_figures(case.params, case.target.delta, steps)

    def claim(self, case: Case[Stopped], released: Unclaimed) -> Guarantee:
        """See `PlannedSystem.claim`: what the filter admits."""
        target, failure = case.target, case.params.estimate_failure
        claim = filter_for(target.epsilon, target.delta, released.steps, failure).guarantee(target.unit)
        return replace(claim, assumptions=(*claim.assumptions, *unlike_ordinary(case.params)))

    def beside(self, case: Case[Stopped], released: Unclaimed, claim: Guarantee) -> tuple[Guarantee, ...]:
        """No ordinary epsilon."""
        return (headline(NonPrivate(), case.target.delta, claim.adjacency, claim.unit),)

    def work(self, case: Case[Stopped], released: Unclaimed) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * case.params.batch_size


def unlike_ordinary(params: EstimateHyperparameters) -> tuple[str, ...]:
    """What such a claim does not promise."""
    return (NO_ORDINARY,) if params.held_out else (NO_ORDINARY, FROM_TRAINING)


class AverageCaseSGD(ScoredByLoss, StoppedSystem[AverageCaseHyperparameters, AverageCase]):
    """Gradients that need no clip, batches that need no coins."""

    name = "average-case-sgd"
    traits = Traits(curve=True, standing=Status.AVERAGE_CASE)
    params = AverageCaseHyperparameters

    def check(self, case: Case[AverageCaseHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch, records, batches)."""
        params = case.params
        models.check(params.model, case.facts, params.arguments, params.adaptation, params.hidden)
        check_batch(params.batch_size, case.facts)
        check_records(params, case.facts, pairs=params.fixed)
        if not params.fixed and params.sensitivity == "bounded" and params.held_out:
            raise InvalidValue(
                "batches",
                "poisson",
                "the system bayesian-sgd for clipped gradients, Poisson batches and held-out distances",
                "These have an ordinary claim too; bayesian_budget stops them in the same way.",
            )

    def mechanism(self, case: Case[AverageCaseHyperparameters]) -> AverageCase:
        """See `PlannedSystem.mechanism`."""
        params, n = case.params, case.facts.n
        return AverageCase(
            sampling=PoissonSampling(rate=params.batch_size / n),
            fixed=params.fixed,
            clip_norm=None if params.sensitivity == "unbounded" else params.clip_norm,
            deviation=params.noise_multiplier * params.clip_norm,
            steps=params.steps(n),
            expected_batch_size=params.batch_size,
        )

    def describe(self, case: Case[AverageCaseHyperparameters], released: AverageCase) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} gradient steps on {'fixed' if released.fixed else 'Poisson'} batches "
            f"({case.params.batch_size}/{case.facts.n}), {case.params.sensitivity} gradients, Gaussian noise of "
            f"{released.deviation:.5g} on the sum, until the Bayesian budget is spent"
        )

    def train(self, fit: Fit[AverageCaseHyperparameters, AverageCase]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import train

        train(fit)


BAYESIAN_SGD = BayesianSGD()
BAYESIAN_VARIATIONAL = BayesianVariational()
AVERAGE_CASE_SGD = AverageCaseSGD()


class VariationalDraws(StoppedSystem[VariationalDrawsHyperparameters, Scheduled]):
    """DPVI whose draws are counted as noise; the count is refuted."""

    name = "variational-draws"
    traits = Traits(curve=True, standing=Status.REFUTED)
    params = VariationalDrawsHyperparameters
    membership_scores = BAYESIAN_VARIATIONAL.membership_scores

    def check(self, case: Case[VariationalDrawsHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch, records)."""
        check_two_classes(case.facts)
        check_batch(case.params.batch_size, case.facts)
        check_records(case.params, case.facts, pairs=False)

    def mechanism(self, case: Case[VariationalDrawsHyperparameters]) -> Scheduled:
        """See `PlannedSystem.mechanism`: nothing is noised."""
        return unprotected(case.params.steps(case.facts.n))

    def claim(self, case: Case[VariationalDrawsHyperparameters], released: Scheduled) -> Guarantee:
        """See `PlannedSystem.claim`: what the paper would claim, `refuted`."""
        target, failure = case.target, case.params.estimate_failure
        claim = filter_for(target.epsilon, target.delta, released.steps, failure).guarantee(target.unit)
        lines = (REFUTED, *unlike_ordinary(case.params), *claim.assumptions)
        return replace(claim, status=Status.REFUTED, assumptions=lines)

    def describe(self, case: Case[VariationalDrawsHyperparameters], released: Scheduled) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} AdaGrad steps on Poisson batches ({case.params.batch_size}/{case.facts.n}) "
            "without noise; each draw of the weights is counted as if it were fresh noise"
        )

    def train(self, fit: Fit[VariationalDrawsHyperparameters, Scheduled]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import Drawn, infer

        infer(fit, Drawn, largest=None)


VARIATIONAL_DRAWS = VariationalDraws()

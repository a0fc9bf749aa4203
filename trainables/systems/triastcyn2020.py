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

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore.accountants.bayesian import BayesianAccountant, BayesianFilter, log_left
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, NonPrivate
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.noisy_sums import AverageCase, SampledGaussian
from dpcore.mechanisms.protocol import Mechanism, Scheduled, unprotected
from dpcore.sampling import PoissonSampling
from trainables.hyperparameters import hyperparameter, hyperparameters, read
from trainables.metrics import Dependence, Metric
from trainables.planning import STEPS_MAX, Case, Fit, PlannedSystem, check_at_most
from trainables.rehearsal.findings import Setting
from trainables.system import DatasetSpec, PrivacyPlan, State, Traits
from trainables.systems.linear import classes_of
from trainables.systems.noisy_sgd import DescentHyperparameters, NoisedDescent
from trainables.training.hyperparameters import (
    ModelHyperparameters,
    PassHyperparameters,
    PriorHyperparameters,
    RateHyperparameters,
)
from trainables.training.trained_model import METRICS as TRAINING_METRICS
from trainables.training.trained_model import ScoredByLoss, TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn

NO_BUDGET = 0.0
ORDERS = "2,4,8,16,32"
PAIR = 2


@hyperparameters
class EstimateHyperparameters:
    """What is estimated before each step.

    percentile_delta  delta of the percentile metrics: what each record inside the share is promised
    bayesian_orders   orders lambda of the Bayesian figure, whole numbers separated by commas; each one is charged its
                      failures
    estimate_failure  gamma, probability that one estimate is too small, under the estimator's own prior
    distance_records  records (or pairs) whose gradients are looked at before each step
    distances         whose gradients: the public validation records, or private training records as published
    """

    percentile_delta: float = hyperparameter(low=1e-200, high=0.5, default=1e-5)
    bayesian_orders: str = hyperparameter(default=ORDERS)
    estimate_failure: float = hyperparameter(low=1e-200, high=0.4, default=1e-15)
    distance_records: int = hyperparameter(low=3, high=100_000, default=64, unit="records")
    distances: str = hyperparameter(choices=("held-out", "training"), default="held-out")

    @property
    def held_out(self) -> bool:
        """Whether they are those of public validation records."""
        return self.distances == "held-out"

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders lambda. Raises InvalidValue."""
        try:
            orders = tuple(int(one) for one in self.bayesian_orders.split(","))
        except ValueError:
            orders = ()
        if not orders or min(orders) < 1 or len(set(orders)) < len(orders):
            expected = "whole numbers from 1, each once"
            raise InvalidValue("bayesian_orders", self.bayesian_orders, expected, f"For example {ORDERS}.")
        return orders


@hyperparameters
class WatchedHyperparameters(EstimateHyperparameters, DescentHyperparameters):
    """Of every system whose claim is an ordinary one, with the Bayesian figure beside it.

    bayesian_delta   delta_mu of the Bayesian figure, the estimates' failures included; 1e-10 is 1e-5 for 99.999% of
                     records
    bayesian_budget  Bayesian epsilon at bayesian_delta before which the run stops; 0 never stops it. Needs held-out
                     distances
    """

    bayesian_delta: float = hyperparameter(low=1e-200, high=0.5, default=1e-10)
    bayesian_budget: float = hyperparameter(low=NO_BUDGET, high=1e6, default=NO_BUDGET)


@hyperparameters
class StoppedHyperparameters(EstimateHyperparameters, PassHyperparameters, RateHyperparameters):
    """Of every system that a filter stops, and that claims no more."""


@hyperparameters
class ShareHyperparameters(ModelHyperparameters):
    """Of every system that trains a model.

    updated_share  share of the weights, drawn anew for every step, that a step updates
    """

    updated_share: float = hyperparameter(low=1e-6, high=1.0, default=1.0)


@hyperparameters
class VariationalHyperparameters(PriorHyperparameters):
    """Of a mean-field Gaussian over weights.

    first_sd  standard deviation of every weight before the first step
    draws     draws of the weights that a prediction is averaged over
    """

    first_sd: float = hyperparameter(low=1e-6, high=1e3, default=0.1)
    draws: int = hyperparameter(low=1, high=100_000, default=100, unit="draws")


@hyperparameters
class BayesianSGDHyperparameters(WatchedHyperparameters, ShareHyperparameters):
    """Of `bayesian-sgd`."""


@hyperparameters
class BayesianVariationalHyperparameters(WatchedHyperparameters, VariationalHyperparameters):
    """Of `bayesian-variational`."""


@hyperparameters
class VariationalDrawsHyperparameters(StoppedHyperparameters, VariationalHyperparameters):
    """Of `variational-draws`."""


@hyperparameters
class AverageCaseHyperparameters(StoppedHyperparameters, ShareHyperparameters):
    """Of `average-case-sgd`.

    sensitivity       unbounded: gradients are not clipped; bounded: each is clipped to clip_norm
    clip_norm         the clip where sensitivity is bounded, and in any case the unit of the noise
    noise_multiplier  noise standard deviation on the sum of gradients, divided by clip_norm
    batches           fixed: batch_size records without replacement, distances between pairs; poisson: coins, distances
                      are norms
    """

    sensitivity: str = hyperparameter(choices=("unbounded", "bounded"), default="unbounded")
    clip_norm: float = hyperparameter(low=1e-6, high=1e6, unit="gradient norm")
    noise_multiplier: float = hyperparameter(low=1e-3, high=1e6)
    batches: str = hyperparameter(choices=("fixed", "poisson"), default="fixed")

    @property
    def fixed(self) -> bool:
        """Whether batches have a fixed size."""
        return self.batches == "fixed"


def check_records(params: EstimateHyperparameters, facts: DatasetSpec, pairs: bool) -> None:
    """Raises InvalidValue when there are not as many records as each step looks at."""
    each = PAIR if pairs else 1
    present = facts.n_validation if params.held_out else facts.n
    if params.distance_records * each > present:
        expected = (
            f"at most {present // each}, {facts.dataset} has {present} "
            f"{'validation' if params.held_out else 'training'} records"
        )
        remedy = "Lower distance_records, or use a split with more of them."
        raise InvalidValue("distance_records", params.distance_records, expected, remedy)


# Metrics that the Bayesian systems share.

_DISTANCES_OF_TRAINING = {"distances": "training"}
_figure = partial(
    Metric,
    released="average-case, no DP epsilon; with held-out distances a fact about the released weights and the "
    "validation records, with training distances about private records, without noise: then releasing it is itself a "
    "release that no claim covers",
    depends=Dependence.VALIDATION,
    raw_under=_DISTANCES_OF_TRAINING,
)
SHARES = (0.5, 0.1, 0.01)
"""Shares of the population left outside the percentile metrics."""


def percentile_metric(share: float) -> str:
    """The metric's name for the epsilon of all but `share` of the population."""
    return f"bayesian_epsilon_p{100 * (1 - share):.4g}"


METRICS = (
    *TRAINING_METRICS,
    _figure(
        name="bayesian_epsilon",
        goal="minimize",
        doc="Bayesian epsilon of the run at bayesian_delta (Triastcyn & Faltings 2020); never a DP epsilon",
    ),
    *(
        _figure(
            name=percentile_metric(share),
            goal="minimize",
            doc=f"Bayesian epsilon at percentile_delta for {1 - share:.4g} of the population, by Markov",
        )
        for share in SHARES
    ),
    _figure(
        name="steps_taken",
        goal="maximize",
        worst=0.0,
        doc="steps before the Bayesian budget stopped the run; all planned steps without a budget",
    ),
)
STOPPED_METRICS = tuple(replace(metric, raw_under=_DISTANCES_OF_TRAINING) for metric in METRICS)
"""Of systems that may stop on training distances: then all that is measured at the stop depends on them."""


# The Bayesian bookkeeping of one run: asked before each step, kept in its checkpoints, reported at its end.

_COSTS, _SPENT, _COUNTS = "bayesian.costs", "bayesian.spent", "bayesian.counts"


def filter_for(epsilon: float, delta_mu: float, steps: int, failure: float) -> BayesianFilter:
    """The filter whose order buys most: budget over cost, (lambda eps - L) / lambda^2, peaks at lambda = 2 L / eps.

    L = -ln(delta_mu - T gamma). Raises InvalidValue where the estimates alone use up delta_mu.
    """
    order = max(1, math.ceil(-2 * log_left(delta_mu, steps * failure) / epsilon))
    return BayesianFilter(epsilon=epsilon, delta_mu=delta_mu, steps=steps, order=order, failure=failure)


def check_figures(params: EstimateHyperparameters, delta_mu: float, steps: int) -> None:
    """Raises InvalidValue where the estimates alone use up a delta that an epsilon is stated at."""
    accountant = BayesianAccountant(steps=steps, orders=params.orders, failure=params.estimate_failure)
    failures = accountant.failure_probability
    smallest = min(delta_mu, min(SHARES) * params.percentile_delta)
    if failures >= smallest:
        expected = f"steps x orders x estimate_failure below the smallest delta {smallest:g}, it is {failures:g}"
        remedy = "Lower estimate_failure, list fewer bayesian_orders, or take fewer epochs."
        raise InvalidValue("estimate_failure", params.estimate_failure, expected, remedy)


class Watch:
    """Counts steps and stops them, over a run from scratch: by its hyperparameters, or by a claim of the average case.

    largest  the distance that clipping allows; None without clipping
    filter   None where nothing is to be stopped
    stopped  no further step may run
    """

    def __init__(self, params: EstimateHyperparameters, plan: PrivacyPlan, largest: float | None) -> None:
        self._delta_mu, budget, failure = plan.guarantee.delta, plan.guarantee.epsilon, params.estimate_failure
        if isinstance(params, WatchedHyperparameters):
            self._delta_mu, budget = params.bayesian_delta, params.bayesian_budget
        self.accountant = BayesianAccountant(steps=plan.steps, orders=params.orders, failure=failure)
        filter_ = filter_for(budget, self._delta_mu, plan.steps, failure) if budget != NO_BUDGET else None
        self.filter, self.largest, self.stopped = filter_, largest, False
        self._percentile_delta = params.percentile_delta

    def admits(self, distances: ArrayLike, rate: float, sigma: float) -> bool:
        """Whether one more step may run, given distances at the current weights; counted if so.

        Arguments as in `BayesianAccountant.observe`. Once False, always False.
        """
        if self.stopped:
            return False
        if self.filter is not None:
            after = self.filter.admit(distances, rate, sigma, self.largest)
            if after is None:
                self.stopped = True
                return False
            self.filter = after
        self.accountant = self.accountant.observe(distances, rate, sigma, self.largest)
        return True

    def metrics(self) -> dict[str, float]:
        """The figure, its percentiles, and the steps that ran."""
        epsilon = self.accountant.epsilon
        return {
            "bayesian_epsilon": epsilon(self._delta_mu),
            # The published "99.999% of the data distribution" is share 1e-5 at delta 1e-5, hence delta_mu 1e-10.
            **{percentile_metric(share): epsilon(share * self._percentile_delta) for share in SHARES},
            "steps_taken": float(self.accountant.observed),
        }

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What a checkpoint keeps."""
        spent = 0.0 if self.filter is None else self.filter.spent
        return {
            _COSTS: np.array(self.accountant.costs),
            _SPENT: np.array(spent),
            _COUNTS: np.array([self.accountant.observed, self.stopped], dtype=np.int64),
        }

    def restore(self, state: State) -> None:
        """Go on from a checkpoint of the same plan."""
        observed, stopped = (int(one) for one in state[_COUNTS])
        costs = tuple(float(one) for one in state[_COSTS])
        self.accountant = replace(self.accountant, costs=costs, observed=observed)
        if self.filter is not None:
            self.filter = replace(self.filter, spent=float(state[_SPENT]), taken=observed)
        self.stopped = bool(stopped)


# What is claimed, and what runs.

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
            expected = "0 with distances: training"
            remedy = (
                "A stop decided on private records without noise ends every ordinary claim. Use distances: held-out, "
                "or the system average-case-sgd."
            )
            raise InvalidValue("bayesian_budget", params.bayesian_budget, expected, remedy)

    def claims(self, case: Case[Watched], released: SampledGaussian) -> list[Guarantee]:
        """And the Bayesian budget where there is one."""
        claims, params, budget = super().claims(case, released), case.params, case.params.bayesian_budget
        if budget != NO_BUDGET:
            stopping = filter_for(budget, params.bayesian_delta, released.steps, params.estimate_failure)
            claims.append(stopping.guarantee(case.target.unit))
        return claims

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal`: each step looks at some records besides its batch."""
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
        from trainables.systems.triastcyn2020_training import MaskedDescent, train

        train(fit, MaskedDescent, Watch(fit.params, fit.run.member.plan, fit.mechanism.clip_norm))


class BayesianVariational(ScoredByLoss, WatchedDescent[BayesianVariationalHyperparameters]):
    """DPVI of a logistic regression: no model to choose."""

    name = "bayesian-variational"
    params = BayesianVariationalHyperparameters

    def check(self, case: Case[BayesianVariationalHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch above n)."""
        check_two_classes(case.facts)
        super().check(case)

    def train(self, fit: Fit[BayesianVariationalHyperparameters, SampledGaussian]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import Noised, train

        train(fit, Noised, Watch(fit.params, fit.run.member.plan, fit.mechanism.clip_norm))

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.hooks.ReleasesModel`: the posterior. Raises ValueError for another state."""
        from trainables.systems.triastcyn2020_training import posterior_predictive

        return posterior_predictive(read(VariationalHyperparameters, plan.config), facts, state)


class StoppedSystem(PlannedSystem[Stopped, Unclaimed]):
    """A system that runs only while a filter admits it: its claim is the filter's target, nothing is solved."""

    source = SOURCE
    metrics = STOPPED_METRICS
    traits = Traits(curve=True)
    adjacencies = (Adjacency.ADD_REMOVE,)
    why_adjacency = WHY_ADD_REMOVE

    def check(self, case: Case[Stopped]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (solving) besides."""
        super().check(case)
        if (solve := case.target.solve) != "none":
            remedy = "What a step costs is not known before it runs."
            raise InvalidValue("privacy.solve", solve, f"none for {self.name}", remedy)

    def check_solved(self, case: Case[Stopped]) -> None:
        """See `PlannedSystem.check_solved`. Raises InvalidValue (estimates)."""
        steps = case.params.steps(case.facts.n)
        check_at_most(STEPS_MAX, "Take fewer epochs or larger batches.", steps=steps)
        check_figures(case.params, case.target.delta, steps)

    def claims(self, case: Case[Stopped], released: Unclaimed) -> list[Guarantee]:
        """What the filter admits, as the paper claims it, and no ordinary epsilon."""
        target, params, standing = case.target, case.params, self.traits.standing
        claim = filter_for(target.epsilon, target.delta, released.steps, params.estimate_failure).guarantee(target.unit)
        lacking = (NO_ORDINARY,) if params.held_out else (NO_ORDINARY, FROM_TRAINING)
        refuted = standing is Status.REFUTED
        lines = (REFUTED, *lacking, *claim.assumptions) if refuted else (*claim.assumptions, *lacking)
        ordinary = headline(NonPrivate(), target.delta, claim.adjacency, claim.unit)
        return [replace(claim, status=standing, assumptions=lines), ordinary]


class AverageCaseSGD(ScoredByLoss, StoppedSystem[AverageCaseHyperparameters, AverageCase]):
    """Gradients that need no clip, batches that need no coins."""

    name = "average-case-sgd"
    traits = Traits(curve=True, standing=Status.AVERAGE_CASE)
    params = AverageCaseHyperparameters

    def check(self, case: Case[AverageCaseHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch, records, batches)."""
        super().check(case)
        params = case.params
        check_records(params, case.facts, pairs=params.fixed)
        if not params.fixed and params.sensitivity == "bounded" and params.held_out:
            expected = "the system bayesian-sgd for clipped gradients, Poisson batches and held-out distances"
            remedy = "These have an ordinary claim too; bayesian_budget stops them in the same way."
            raise InvalidValue("batches", "poisson", expected, remedy)

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
        from trainables.systems.triastcyn2020_training import MaskedDescent, train

        bound = fit.mechanism.clip_norm
        # Two clipped contributions of a pair may point opposite ways.
        largest = None if bound is None else bound * (2 if fit.mechanism.fixed else 1)
        train(fit, MaskedDescent, Watch(fit.params, fit.run.member.plan, largest))


BAYESIAN_SGD = BayesianSGD()
BAYESIAN_VARIATIONAL = BayesianVariational()
AVERAGE_CASE_SGD = AverageCaseSGD()


class VariationalDraws(StoppedSystem[VariationalDrawsHyperparameters, Scheduled]):
    """DPVI whose draws are counted as noise; the count is refuted."""

    name = "variational-draws"
    traits = Traits(curve=True, standing=Status.REFUTED)
    params = VariationalDrawsHyperparameters
    sentence = (
        "at most {released.steps} AdaGrad steps on Poisson batches ({params.batch_size}/{facts.n}) without noise; each "
        "draw of the weights is counted as if it were fresh noise"
    )
    membership_scores = BAYESIAN_VARIATIONAL.membership_scores

    def check(self, case: Case[VariationalDrawsHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch, records)."""
        check_two_classes(case.facts)
        super().check(case)
        check_records(case.params, case.facts, pairs=False)

    def mechanism(self, case: Case[VariationalDrawsHyperparameters]) -> Scheduled:
        """See `PlannedSystem.mechanism`: nothing is noised."""
        return unprotected(case.params.steps(case.facts.n))

    def train(self, fit: Fit[VariationalDrawsHyperparameters, Scheduled]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.triastcyn2020_training import Drawn, train

        train(fit, Drawn, Watch(fit.params, fit.run.member.plan, largest=None))


VARIATIONAL_DRAWS = VariationalDraws()

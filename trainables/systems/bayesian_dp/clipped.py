"""The two systems with an ordinary claim: clipped contributions, Poisson batches, Gaussian noise, and a watch beside.

One step of `bayesian-sgd` is a step of NoisySGD, of which a share `updated_share` of the weights, drawn without looking
at the data, is kept. One step of `bayesian-variational` is

    w = mean + exp(log_sd) * z,  z ~ N(0, I), public
    g = n * (sum over the batch of clip(gradient of -log p(y | x, w) by (mean, log_sd)) + s C N(0, I)) / (q n)
        + gradient of KL(q || N(0, v I))
    AdaGrad with learning_rate, by g
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee
from trainables.rehearsal.setting import Setting
from trainables.system import (
    Config,
    Dataset,
    Execution,
    Parameter,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Split,
    State,
)
from trainables.systems.bayesian_dp.knobs import ACCOUNTING, BUDGET, METRICS, NO_BUDGET, SHARE, check_records
from trainables.systems.bayesian_dp.watch import check_figures, filter_for
from trainables.systems.linear import classes_of
from trainables.systems.noisy_sgd import NOISY_SGD, NoisyOptimiser

SOURCE = "Triastcyn & Faltings 2020"

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


class _Variational(NoisyOptimiser):
    """Plans of the variational system: no model to choose."""

    def _check(self, full: Config, facts: PublicFacts) -> None:
        check_two_classes(facts)


class Watched:
    """A system whose plan is that of `plans`, with the Bayesian accountant beside it."""

    source = SOURCE
    metrics = METRICS
    enforces_units = False
    solves = MappingProxyType(NOISY_SGD.solves)

    def __init__(self, plans: NoisyOptimiser) -> None:
        self._plans = plans
        self.name, self.parameters = plans.name, plans.parameters

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. The claim is that of NoisySGD; a Bayesian budget is listed beside it.

        Raises InvalidValue (model, batch above n, adjacency, Bayesian knobs).
        """
        if target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "privacy.adjacency",
                str(target.adjacency),
                f"add-remove for {self.name}",
                "Bayesian differential privacy asks what one more record changes.",
            )
        planned = self._plans.plan(config, facts, target, calibrations)
        if isinstance(planned, Refusal):
            return planned
        full = planned.config
        check_records(full, facts, pairs=False)
        check_figures(full, float(full["bayesian_delta"]), planned.steps)
        line = HELD_OUT if full["distances"] == "held-out" else TRAINING
        return replace(
            planned,
            guarantee=replace(planned.guarantee, assumptions=(*planned.guarantee.assumptions, line)),
            beside=(*planned.beside, *self._budget(full, planned.steps, target)),
        )

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal.SetsItsRehearsal`: each step looks at some records besides its batch."""
        looked = int(setting.plan.config["distance_records"])
        facts = setting.facts
        return replace(
            setting,
            records=min(facts.n, max(setting.records, looked)),
            validation=min(facts.n_validation, max(setting.validation, looked)),
        )

    def _budget(self, full: Config, steps: int, target: PrivacyTarget) -> tuple[Guarantee, ...]:
        budget = float(full["bayesian_budget"])
        if budget == NO_BUDGET:
            return ()
        if full["distances"] == "training":
            raise InvalidValue(
                "bayesian_budget",
                budget,
                "0 with distances: training",
                "A stop decided on private records without noise ends every ordinary claim. Use distances: held-out, "
                "or the system average-case-sgd.",
            )
        stopping = filter_for(budget, float(full["bayesian_delta"]), steps, float(full["estimate_failure"]))
        return (stopping.guarantee(target.unit),)


class WatchedDescent(Watched):
    """NoisySGD on a random share of the weights."""

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.bayesian_dp.training import train

        for run in runs:
            train(run, data, execution)

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """See `trainables.measures.protocols.CanaryTrained`: q n is the batch size."""
        return float(plan.config["clip_norm"]), float(plan.config["batch_size"])

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)


class WatchedVariational(Watched):
    """DPVI of a logistic regression."""

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.bayesian_dp.variational import train

        for run in runs:
            train(run, data, execution)

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: the log probability of each record's class, over draws."""
        from trainables.systems.bayesian_dp.variational import log_probabilities

        return log_probabilities(plan, facts, state, split)


_PRIOR = (
    Parameter(
        name="prior_variance", kind="float", low=1e-6, high=1e6, default=1.0, doc="of the weights' Gaussian prior"
    ),
    Parameter(
        name="first_sd",
        kind="float",
        low=1e-6,
        high=1e3,
        default=0.1,
        doc="standard deviation of every weight before the first step",
    ),
    Parameter(
        name="draws",
        kind="int",
        low=1,
        high=100_000,
        default=100,
        unit="draws",
        doc="draws of the weights that a prediction is averaged over",
    ),
)
_WITHOUT_MODEL = tuple(one for one in NOISY_SGD.parameters if one.name not in ("model", "hidden"))

BAYESIAN_SGD = WatchedDescent(NoisyOptimiser("bayesian-sgd", (*NOISY_SGD.parameters, SHARE, *ACCOUNTING, BUDGET)))
BAYESIAN_VARIATIONAL = WatchedVariational(
    _Variational("bayesian-variational", (*_WITHOUT_MODEL, *_PRIOR, *ACCOUNTING, BUDGET))
)

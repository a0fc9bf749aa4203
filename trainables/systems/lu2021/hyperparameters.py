"""Hyperparameters and metrics of `convexified-loss`, and what both systems share."""

from __future__ import annotations

import math
from functools import partial

from dpcore.checks import InvalidValue
from dpcore.papers.convexified import Bound, NeuronNoise, PublishedNoise, published_noise
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.system import DatasetSpec, Dependence, Metric
from trainables.systems.answering import ACCURACY, QueryHyperparameters
from trainables.systems.linear import classes_of, width_of

NOISE_MIN, NOISE_MAX = 1e-9, 1e9
"""Range of noise multipliers that a plan may ask for."""


@hyperparameters
class RiskHyperparameters:
    """The objective."""

    alpha: float = hyperparameter(
        low=1e-6,
        high=100.0,
        default=1.0,
        doc="risk aversion of the loss; towards 0 the mean loss, upwards the worst record's",
    )
    regularisation: float = hyperparameter(
        low=1e-8,
        high=100.0,
        default=0.0005,
        doc="lambda of 2 lambda ||W||^2; Table IV's L2 weight of 0.001 is 2 lambda",
    )


@hyperparameters
class ConvexifiedLossHyperparameters(QueryHyperparameters, RiskHyperparameters):
    """Of `convexified-loss`."""

    bound: Bound = hyperparameter(
        choices=tuple(map(str, Bound)), default=str(Bound.LU), doc="row of Table I that the sensitivities start from"
    )
    noise: NeuronNoise = hyperparameter(
        choices=tuple(map(str, NeuronNoise)),
        default=str(NeuronNoise.GAUSSIAN),
        doc="law of the noise; with gaussian the publication's epsilon is a mu",
    )
    split: float = hyperparameter(
        low=0.0,
        high=1e6,
        default=1.0,
        doc="budget for sampling the neuron divided by the budget for its noise; 1 as published",
    )
    noise_multiplier: float = hyperparameter(
        low=NOISE_MIN,
        high=NOISE_MAX,
        unit="1/epsilon",
        doc="one over the epsilon (mu) of a single query; solved from epsilon by default",
    )
    hidden: int = hyperparameter(low=1, high=65536, default=128, unit="units", doc="hidden tanh units")
    learning_rate: float = hyperparameter(low=1e-6, high=10.0, default=0.001, doc="step size of Adam")
    batch_size: int = hyperparameter(low=1, default=100, unit="records", doc="records in a batch")
    epochs: int = hyperparameter(low=1, high=100_000, default=100, unit="passes", doc="passes over the data")
    draw: int = hyperparameter(
        low=0,
        high=1_000_000,
        default=0,
        doc="public seed of weights, batches, queries and shadows; trials of one draw share their training",
    )
    reference: bool = hyperparameter(
        choices=(False, True),
        default=False,
        doc="also report the model without noise, outside the claim: accuracy_loss, baseline_accuracy, ...",
    )
    shadows: int = hyperparameter(
        low=0,
        high=10_000,
        default=0,
        unit="models",
        doc="shadow models of a membership attack; half of the queries then go to training records; 0: no attack",
    )
    attack_epochs: int = hyperparameter(
        low=1,
        high=10_000,
        default=100,
        unit="passes",
        doc="passes of the attack's network over what the shadows say",
    )


_unnoised = partial(Metric, released="the model without noise: the claim does not cover it", depends=Dependence.RAW)

METRICS = (
    ACCURACY,
    Metric(
        name="stability",
        goal="minimize",
        doc="bound on on-average-remove-one stability, 2 rho^2 / (lambda n): no privacy by itself",
        released="public facts alone",
        depends=Dependence.PUBLIC,
    ),
    Metric(
        name="shadow_leak",
        goal="minimize",
        worst=1.0,
        doc="TPR - FPR of the shadow attack on the answers, the publication's Priv_Leak (with shadows)",
        released="which of the queried records are training records, and the answers",
        depends=Dependence.RAW,
    ),
    _unnoised(
        name="accuracy_loss", goal="minimize", worst=1.0, doc="1 - accuracy / baseline_accuracy (with reference)"
    ),
    _unnoised(
        name="baseline_accuracy",
        goal="maximize",
        worst=0.0,
        doc="accuracy without noise on the queried validation records (with reference)",
    ),
    _unnoised(
        name="train_accuracy",
        goal="maximize",
        worst=0.0,
        doc="accuracy without noise on the training records (with reference)",
    ),
    _unnoised(
        name="baseline_leak",
        goal="minimize",
        worst=1.0,
        doc="TPR - FPR of the shadow attack on the queried records without noise (with reference and shadows)",
    ),
)
"""Of `convexified-loss`."""


# What a configuration says before any training: the published sensitivities, and who is asked.


def sensitivities(params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> PublishedNoise:
    """Every sensitivity that the publication derives for this network, from public facts. None of them is a bound."""
    width = width_of(facts)
    largest = max(
        max(abs(one.low), abs(one.high)) if one.cardinality is None else 1.0 for one in facts.features.values()
    )
    try:
        return published_noise(
            (width, params.hidden),
            classes_of(facts),
            facts.n,
            params.regularisation,
            bound=params.bound,
            input_norm=largest * math.sqrt(width),
            step_size=params.learning_rate,
        )
    except InvalidValue as error:
        if error.name != "step_size":
            raise
        remedy = "Lower learning_rate or regularisation, or choose another bound."
        raise InvalidValue("learning_rate", error.value, error.expected, remedy) from error


def held_out(params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> int:
    """Validation records that are asked; under an attack the others are the attacker's own."""
    return min(facts.n, facts.n_validation // 3) if params.shadows else facts.n_validation

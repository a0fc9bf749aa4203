"""Hyperparameters of the private-prediction systems, a record for each."""

from __future__ import annotations

from enum import StrEnum

from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbationLaw
from dpcore.mechanisms.noise_families import NoiseLaw
from trainables.knobs import knob, knobs
from trainables.systems.answering import QueryKnobs
from trainables.systems.linear import RowKnobs

NOISE_MIN, NOISE_MAX = 1e-3, 1e9
"""Range of noise multipliers and temperatures that a plan may ask for."""


class Composition(StrEnum):
    """How noise is solved for several queries."""

    JOINT = "joint"
    ADVANCED = "advanced"
    STANDARD = "standard"
    PUBLISHED = "published"


@knobs
class _WeightKnobs:
    regularisation: float = knob(
        low=1e-6,
        high=100.0,
        doc="weight lambda of 0.5 ||theta||^2 in the objective; more of it means less sensitivity and more bias",
    )


@knobs
class MinimiserKnobs(RowKnobs, _WeightKnobs):
    """What decides a minimiser on rows of norm at most 1."""


@knobs
class ModelSensitivityKnobs(MinimiserKnobs):
    """Of `model-sensitivity`."""

    noise: NoiseLaw = knob(
        choices=tuple(map(str, NoiseLaw)),
        default=str(NoiseLaw.GAUSSIAN),
        doc="gaussian; or pure: density exp(-beta ||b||), (epsilon, 0)-DP for each release",
    )
    noise_multiplier: float = knob(
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) divided by the minimiser's sensitivity; solved from epsilon by default",
    )


@knobs
class PredictionSensitivityKnobs(QueryKnobs, ModelSensitivityKnobs):
    """Of `prediction-sensitivity`."""

    composition: Composition = knob(
        choices=("joint", "advanced", "standard"),
        default="joint",
        doc="how the noise is solved: joint is exact and the least noise; the others are the paper's",
    )


@knobs
class LossPerturbationKnobs(MinimiserKnobs):
    """Of `loss-perturbation`."""

    noise: PerturbationLaw = knob(
        choices=tuple(map(str, PerturbationLaw)),
        default=str(PerturbationLaw.GAUSSIAN),
        doc="gaussian: Theorem 4, repaired; pure: Theorem 3, density exp(-beta ||N||), (epsilon, 0)-DP; "
        "gaussian-published: Theorem 4 as printed, for add-remove, with what the repaired proof gives it beside",
    )
    jacobian: Jacobian = knob(
        choices=tuple(map(str, Jacobian)),
        default=str(Jacobian.TRACE),
        doc="how the least regularisation is counted: rank (published) or trace (sharper, also proved)",
    )
    output_share: float = knob(
        low=1e-4,
        high=0.5,
        default=0.01,
        doc="share of epsilon for output noise, which hides how the optimiser stopped",
    )
    noise_multiplier: float = knob(
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) of the linear term over one record's gradient shift; solved by default",
    )


@knobs
class MemberKnobs(MinimiserKnobs):
    """What decides the models that vote."""

    regularisation: float = knob(
        low=1e-6,
        high=100.0,
        default=1e-4,
        doc="of a linear member: weight lambda of 0.5 ||theta||^2; the paper has none, and a minimiser needs a little",
    )
    models: int = knob(low=1, high=100_000, default=256, unit="models", doc="number M of parts")
    model: str = knob(
        default="linear",
        doc="member: linear (a minimiser on rows of norm 1), a network's name (resnet20), or package.module:function",
    )
    hidden: int = knob(low=1, high=65536, default=64, unit="units", doc="hidden units of a network")
    epochs: int = knob(low=1, high=100_000, default=50, unit="passes", doc="passes of a network")
    learning_rate: float = knob(
        low=1e-6,
        high=1e3,
        default=0.1,
        doc="of a network's SGD with momentum 0.9; divided by ten three times, after equal numbers of passes",
    )
    batch_size: int = knob(low=1, high=1_000_000, default=64, unit="records", doc="of a network")


@knobs
class SubsampleKnobs(QueryKnobs, MemberKnobs):
    """Of `subsample-and-aggregate`."""

    composition: Composition = knob(
        choices=tuple(map(str, Composition)),
        default="joint",
        doc="how the temperature is solved: joint is exact and the lowest; advanced and standard are proved; published "
        "is B/epsilon, whose claim is refuted: it is the headline, and what is spent stands beside it",
    )
    temperature: float = knob(
        low=NOISE_MIN,
        high=NOISE_MAX,
        unit="votes",
        doc="1/beta: label k has probability proportional to exp(votes / temperature); solved by default",
    )

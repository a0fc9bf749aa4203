"""Hyperparameters of the private-prediction systems, a record for each."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, eps_pure
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbationLaw
from dpcore.mechanisms.noise_families import NoiseLaw
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity
from dpcore.mechanisms.protocol import Mechanism
from dpcore.papers.erm import LogisticRisk, minimise
from trainables.hyperparameters import knob, knobs, read
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Run, Split, State, Traits
from trainables.systems.answering import ACCURACY, QueryKnobs, SolvedSystem
from trainables.systems.linear import RowKnobs, classes_of, labels_of, width_of

if TYPE_CHECKING:
    from torch import nn


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


# What the systems on linear models share: the certified minimiser, the claims of pure releases, a released model.

Array = NDArray[np.float64]

ROWS = ("regularisation", "clip_norm", "bias")
"""What decides a minimiser on rows of norm at most 1."""
_THETA = "theta"


def certificate(n: int) -> float:
    """The gradient norm that minimisers are certified to: 1% of K/n.

    It adds 1% to the sensitivity under replace-one, 2% under add-remove.
    """
    return 0.01 * math.sqrt(2) / n


def sensitivity_of(knobs: MinimiserKnobs, n: int, adjacency: Adjacency) -> MinimiserSensitivity:
    """Of the certified minimiser on n records."""
    return MinimiserSensitivity(n=n, modulus=knobs.regularisation, adjacency=adjacency, tau=certificate(n))


def minimiser_of(knobs: MinimiserKnobs, data: Dataset) -> Array:
    """The certified minimiser, before any noise; shape (d, c)."""
    facts = data.facts
    risk = LogisticRisk(
        inputs=knobs.rows(facts, data.train),
        labels=labels_of(data.train),
        classes=classes_of(facts),
        divisor=facts.n,
        modulus=knobs.regularisation,
    )
    return minimise(risk, certificate(facts.n)).theta


def descent_work(n: int, regularisation: float) -> float:
    """Descent needs about sqrt(condition number) passes over the records."""
    return float(n) * math.ceil(math.sqrt(1 + 0.5 / regularisation))


def pure_claim(
    each: PureDP, count: int, target: PrivacyTarget, status: Status, assumptions: tuple[str, ...]
) -> Guarantee:
    """What `count` pure releases claim at the target's delta, by optimal composition."""
    return Guarantee(
        epsilon=eps_pure(each.epsilon, count, target.delta),
        delta=target.delta,
        adjacency=target.adjacency,
        unit=target.unit,
        accountant=PURE_ACCOUNTANT,
        status=status,
        theorem=PURE_THEOREM,
        assumptions=(*assumptions, FLOATING_POINT),
    )


def at_delta_zero(claim: Guarantee, each: PureDP, count: int) -> Guarantee:
    """What the releases of `claim` are besides: (count * epsilon, 0)-DP."""
    return replace(
        claim,
        epsilon=count * each.epsilon,
        delta=0.0,
        accountant="naive",
        theorem="Dwork & Roth 2014, Theorem 3.14 (pure composition)",
    )


Linear = TypeVar("Linear", bound=RowKnobs)
Released = TypeVar("Released", bound=Mechanism)


class PrivatePrediction(SolvedSystem[Linear, Released]):
    """What all four have in common."""

    source = "van der Maaten & Hannun 2020"
    metrics = (ACCURACY,)
    noise_range = (NOISE_MIN, NOISE_MAX)


class LinearModel(PrivatePrediction[Linear, Released]):
    """A system that releases a linear model, once; any number of queries."""

    traits = Traits(judged_as_released=True)

    def keep(self, run: Run, knobs: Linear, data: Dataset, theta: Array) -> None:
        """Keep the released model, judged on all validation records."""
        labels = (knobs.rows(data.facts, data.validation) @ theta).argmax(axis=1)
        right = int((labels == data.validation.targets).sum())
        run.checkpoint(1, {_THETA: theta}, {"accuracy": right / len(labels)} if len(labels) else {})

    def membership_scores(self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split) -> Array:
        """See `trainables.measures.hooks.Scored`: minus each record's cross-entropy."""
        logits = read(self.knobs, plan.config).rows(facts, split) @ np.asarray(state[_THETA], dtype=np.float64)
        losses: Array = logsumexp(logits, axis=1) - logits[np.arange(len(split)), labels_of(split)]
        return -losses

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.export.protocol.ReleasesModel`. Raises ValueError for the state of another model."""
        from trainables.systems.linear_module import LinearClassifier

        knobs, theta = read(self.knobs, plan.config), np.asarray(state[_THETA])
        expected = (width_of(facts, knobs.bias), classes_of(facts))
        if theta.shape != expected:
            raise ValueError(f"checkpoint has weights of shape {theta.shape}, the model {expected}: another model")
        return LinearClassifier(theta, facts, knobs.clip_norm, knobs.bias)

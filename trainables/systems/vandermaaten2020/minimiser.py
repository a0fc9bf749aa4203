"""What the systems on linear models share: the certified minimiser, the claims of pure releases, a released model."""

from __future__ import annotations

import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, eps_pure
from dpcore.erm import LogisticRisk, minimise
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity
from trainables.hyperparameters import hyperparameter, hyperparameters, read
from trainables.planning import Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Split, State
from trainables.systems.answering import accuracy_of
from trainables.systems.linear import RowHyperparameters, classes_of, labels_of, width_of

if TYPE_CHECKING:
    from torch import nn

Array = NDArray[np.float64]

SOURCE = "van der Maaten & Hannun 2020"
NOISE_MIN, NOISE_MAX = 1e-3, 1e9
"""Range of noise multipliers and temperatures that a plan may ask for."""
ROWS = ("regularisation", "clip_norm", "bias")
"""What decides a minimiser on rows of norm at most 1."""
_THETA = "theta"


class Composition(StrEnum):
    """How noise is solved for several queries."""

    JOINT = "joint"
    ADVANCED = "advanced"
    STANDARD = "standard"
    PUBLISHED = "published"


@hyperparameters
class MinimiserHyperparameters(RowHyperparameters):
    """What decides a minimiser on rows of norm at most 1."""

    regularisation: float = hyperparameter(
        low=1e-6,
        high=100.0,
        doc="weight lambda of 0.5 ||theta||^2 in the objective; more of it means less sensitivity and more bias",
    )


def certificate(n: int) -> float:
    """The gradient norm that minimisers are certified to: 1% of K/n.

    It adds 1% to the sensitivity under replace-one, 2% under add-remove.
    """
    return 0.01 * math.sqrt(2) / n


def sensitivity_of(params: MinimiserHyperparameters, n: int, adjacency: Adjacency) -> MinimiserSensitivity:
    """Of the certified minimiser on n records."""
    return MinimiserSensitivity(n=n, modulus=params.regularisation, adjacency=adjacency, tau=certificate(n))


def minimiser_of(params: MinimiserHyperparameters, data: Dataset) -> Array:
    """The certified minimiser, before any noise; shape (d, c)."""
    facts = data.facts
    risk = LogisticRisk(
        inputs=params.rows(facts, data.train),
        labels=labels_of(data.train),
        classes=classes_of(facts),
        divisor=facts.n,
        modulus=params.regularisation,
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


class ReleasesLinearModel:
    """A system that releases a linear model, once; any number of queries."""

    params: type[Any]

    def keep(self, fit: Fit[Any, Any], theta: Array) -> None:
        """Keep the released model, judged on all validation records."""
        validation = fit.data.validation
        labels = (fit.params.rows(fit.data.facts, validation) @ theta).argmax(axis=1)
        right = int((labels == validation.targets).sum())
        fit.run.checkpoint(1, {_THETA: theta}, accuracy_of(right, len(labels)))

    def membership_scores(self, plan: PrivacyPlan, facts: DatasetSpec, state: State, split: Split) -> Array:
        """See `trainables.hooks.Scored`: minus each record's cross-entropy."""
        logits = read(self.params, plan.config).rows(facts, split) @ np.asarray(state[_THETA], dtype=np.float64)
        losses: Array = logsumexp(logits, axis=1) - logits[np.arange(len(split)), labels_of(split)]
        return -losses

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.export.protocol.ReleasesModel`. Raises ValueError for the state of another model."""
        from trainables.systems.linear_module import LinearClassifier

        params, theta = read(self.params, plan.config), np.asarray(state[_THETA])
        expected = (width_of(facts, params.bias), classes_of(facts))
        if theta.shape != expected:
            raise ValueError(f"checkpoint has weights of shape {theta.shape}, the model {expected}: another model")
        return LinearClassifier(theta, facts, params.clip_norm, params.bias)

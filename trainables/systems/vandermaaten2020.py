"""Private prediction: four systems of van der Maaten & Hannun 2020, on linear models (votes: on any model).

    model-sensitivity         noise on the minimiser, once; any number of queries
    loss-perturbation         noise in the objective, once; any number of queries
    prediction-sensitivity    noise on the logits of each of B queries; query B+1 is refused
    subsample-and-aggregate   a soft vote of M models for each of B queries; query B+1 is refused

(The fifth method of the paper, DP-SGD, is `noisy-sgd`.)

Source      van der Maaten & Hannun (2020), Theorems 1-8.
Claim       Gaussian noise: the exact composition of `queries` Gaussians. Pure noise and votes: the optimal composition
            of equal pure releases (Kairouz, Oh & Viswanath 2015), or zCDP for votes where that is less.
Departures  Inputs are cut to norm 1 one by one. Minimisers are certified by their gradient, and what the certificate
            leaves open is charged: `proved`, not an assumed exact minimiser. Loss perturbation counts replace-one with
            twice the gradient shift and hides how the optimiser stopped by output noise of its own share; its
            Gaussian form has the repaired scale. Votes use the exact loss of one vote; networks that vote are
            trained without flips and crops. `composition: standard` and `advanced` solve the noise as the paper
            does; the claim is the exact one, and the paper's stands beside it.
As printed  `composition: published` votes at the refuted beta = epsilon/B, and `noise: gaussian-published` perturbs the
            loss at the scale of Theorem 4. The headline is then the paper's claim with its status; the ledger is
            charged what is proved to be spent, and that stands beside it.
A query is one step. Prediction methods answer the first `queries` validation records of a publicly seeded order, so
their accuracy is a fact about the private answers alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from dpcore.accountants.composition import PURE_ACCOUNTANT, PURE_THEOREM, eps_pure
from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms import loss_perturbation, noisy_vote, output_perturbation
from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbationLaw, PerturbedMinimiser
from dpcore.mechanisms.noisy_vote import NoisyVote
from dpcore.mechanisms.output_perturbation import (
    CERTIFIED_MINIMISER,
    UNIT_INPUTS,
    MinimiserSensitivity,
    NoiseLaw,
    OutputPerturbation,
    Solved,
)
from trainables import models
from trainables.hooks import Neighbours
from trainables.hyperparameters import builder_arguments, hyperparameter, hyperparameters, read
from trainables.metrics import Arguments
from trainables.planning import Case, Fit, stated
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split, State, Traits
from trainables.systems.answering import (
    ACCURACY,
    AnsweringSystem,
    Positions,
    QueryHyperparameters,
    SolvedSystem,
    TrainedOnce,
    accuracy_of,
    answer_queries,
    check_present,
    group_of,
)
from trainables.systems.linear import (
    RowHyperparameters,
    at,
    chosen_records,
    classes_of,
    labels_of,
    real_width,
    width_of,
)
from trainables.training.noise import normals
from trainables.training.trained_model import ScoredByLoss
from trainables.units import Units

if TYPE_CHECKING:
    import torch
    from torch import nn


Array = NDArray[np.float64]
Vectors = NDArray[np.floating]

SOURCE = "van der Maaten & Hannun 2020"
NOISE_MIN, NOISE_MAX = 1e-3, 1e9
"""Range of noise multipliers and temperatures that a plan may ask for."""
ROWS = ("regularisation", "clip_norm", "bias")
"""What decides a minimiser on rows of norm at most 1."""
_THETA = "theta"
MINIMISED = (UNIT_INPUTS, CERTIFIED_MINIMISER)


class Composition(StrEnum):
    """How noise is solved for several queries."""

    JOINT = "joint"
    ADVANCED = "advanced"
    STANDARD = "standard"
    PUBLISHED = "published"


@hyperparameters
class MinimiserHyperparameters(RowHyperparameters):
    """What decides a minimiser on rows of norm at most 1.

    regularisation  weight lambda of 0.5 ||theta||^2 in the objective; more of it means less sensitivity and more bias
    """

    regularisation: float = hyperparameter(low=1e-6, high=100.0)


def certificate(n: int) -> float:
    """The gradient norm that minimisers are certified to: 1% of K/n.

    It adds 1% to the sensitivity under replace-one, 2% under add-remove.
    """
    return 0.01 * math.sqrt(2) / n


def minimiser_of(params: MinimiserHyperparameters, data: Dataset) -> Array:
    """The certified minimiser, before any noise; shape (d, c)."""
    n = data.facts.n
    return minimised(params, data.facts, data.train, n, certificate(n))


def minimised(params: MinimiserHyperparameters, facts: DatasetSpec, records: Split, divisor: int, tau: float) -> Array:
    """Where the gradient of the regularised risk of these records, divided by `divisor`, is no longer than `tau`."""
    risk = LogisticRisk(
        inputs=params.rows(facts, records),
        labels=labels_of(records),
        classes=classes_of(facts),
        divisor=divisor,
        modulus=params.regularisation,
    )
    return minimise(risk, tau)


def descent_work(n: int, regularisation: float) -> float:
    """Descent needs about sqrt(condition number) passes over the records."""
    return float(n) * math.ceil(math.sqrt(1 + 0.5 / regularisation))


def pure_claims(
    each: PureDP, count: int, target: PrivacyTarget, status: Status, assumptions: tuple[str, ...]
) -> list[Guarantee]:
    """What `count` pure releases claim: at the target's delta, by optimal composition, and (count * epsilon, 0)-DP."""
    claim = stated(
        target,
        eps_pure(each.epsilon, count, target.delta),
        accountant=PURE_ACCOUNTANT,
        status=status,
        theorem=PURE_THEOREM,
        assumptions=(*assumptions, FLOATING_POINT),
    )
    theorem = "Dwork & Roth 2014, Theorem 3.14 (pure composition)"
    return [claim, replace(claim, epsilon=count * each.epsilon, delta=0.0, accountant="naive", theorem=theorem)]


class ReleasesLinearModel(ScoredByLoss):
    """A system that releases a linear model, once; any number of queries."""

    params: type[Any]

    def keep(self, fit: Fit[Any, Any], theta: Array) -> None:
        """Keep the released model, judged on all validation records."""
        validation = fit.data.validation
        labels = (fit.params.rows(fit.data.facts, validation) @ theta).argmax(axis=1)
        right = int((labels == validation.targets).sum())
        fit.run.checkpoint(1, {_THETA: theta}, accuracy_of(right, len(labels)))

    def released_model(self, plan: PrivacyPlan, facts: DatasetSpec, state: State) -> nn.Module:
        """See `trainables.hooks.ReleasesModel`. Raises ValueError for the state of another model."""
        from trainables.models.networks import LinearClassifier

        params, theta = read(self.params, plan.config), np.asarray(state[_THETA])
        expected = (width_of(facts, params.bias), classes_of(facts))
        if theta.shape != expected:
            raise ValueError(f"checkpoint has weights of shape {theta.shape}, the model {expected}: another model")
        return LinearClassifier(theta, facts, params.clip_norm, params.bias)


@hyperparameters
class ModelSensitivityHyperparameters(MinimiserHyperparameters):
    """Of `model-sensitivity`, whose one release counts as one query.

    noise             gaussian; or pure: density exp(-beta ||b||), (epsilon, 0)-DP for each release
    noise_multiplier  sigma (gaussian) or 1/beta (pure) divided by the minimiser's sensitivity; solved from epsilon by
                      default
    """

    queries = 1
    composition = Composition.STANDARD
    noise: NoiseLaw = hyperparameter(choices=tuple(map(str, NoiseLaw)), default=str(NoiseLaw.GAUSSIAN))
    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX)


@hyperparameters
class PredictionSensitivityHyperparameters(QueryHyperparameters, ModelSensitivityHyperparameters):
    """Of `prediction-sensitivity`.

    composition  how the noise is solved: joint is exact and the least noise; the others are the paper's
    """

    composition: Composition = hyperparameter(choices=("joint", "advanced", "standard"), default="joint")


Known = TypeVar("Known")
Noised = TypeVar("Noised", bound=ModelSensitivityHyperparameters)


class NoisedMinimiser(TrainedOnce[Noised, OutputPerturbation, Array]):
    """A system whose noise has the scale of the certified minimiser's sensitivity."""

    source = SOURCE
    metrics = (ACCURACY,)
    deciding = ROWS

    def solved(self, case: Case[Noised]) -> Solved:
        """The noise that meets the target, with the theorem that says so."""
        params, target, sensitivity = case.params, case.target, self.sensitivity(case).value
        if params.noise is NoiseLaw.PURE and params.composition is not Composition.JOINT:
            return output_perturbation.answers_pure(target.epsilon, params.queries, sensitivity)
        solve = {
            (NoiseLaw.PURE, Composition.JOINT): output_perturbation.answers_pure_joint,
            (NoiseLaw.GAUSSIAN, Composition.JOINT): output_perturbation.answers_joint,
            (NoiseLaw.GAUSSIAN, Composition.ADVANCED): output_perturbation.answers_published,
            (NoiseLaw.GAUSSIAN, Composition.STANDARD): output_perturbation.answers_standard,
        }[params.noise, params.composition]
        return solve(target.epsilon, target.delta, params.queries, sensitivity)

    def noise(self, case: Case[Noised]) -> float:
        """See `SolvedSystem.noise`."""
        return self.solved(case).noise_multiplier

    def sensitivity(self, case: Case[Noised]) -> MinimiserSensitivity:
        """Of the certified minimiser."""
        n = case.facts.n
        return MinimiserSensitivity(
            n=n, modulus=case.params.regularisation, adjacency=case.target.adjacency, tau=certificate(n)
        )

    def mechanism(self, case: Case[Noised]) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`."""
        params = case.params
        return OutputPerturbation(
            law=params.noise,
            noise_multiplier=params.noise_multiplier,
            sensitivity=self.sensitivity(case).value,
            adjacency=case.target.adjacency,
            steps=params.queries,
        )

    def claims(self, case: Case[Noised], released: OutputPerturbation) -> list[Guarantee]:
        """See `PlannedSystem.claims`: of pure noise the pure claim too."""
        each = released.each
        if isinstance(each, PureDP):
            return pure_claims(each, released.steps, case.target, Status.PROVED, MINIMISED)
        (claim,) = super().claims(case, released)
        return [replace(claim, assumptions=(*MINIMISED, *claim.assumptions))]

    def work(self, case: Case[Noised], released: OutputPerturbation) -> float:
        """See `PlannedSystem.work`."""
        return descent_work(case.facts.n, case.params.regularisation)

    def trained(self, params: Noised, data: Dataset, settings: RunSettings) -> Array:
        """See `TrainedOnce.trained`: the minimiser."""
        return minimiser_of(params, data)


class ModelSensitivity(ReleasesLinearModel, NoisedMinimiser[ModelSensitivityHyperparameters]):
    """Theorems 1 and 2."""

    name = "model-sensitivity"
    params = ModelSensitivityHyperparameters
    sentence = (
        "a certified minimiser (regularisation {params.regularisation:.4g}) with {released.law} noise of "
        "{released.noise_multiplier:.5g} times its sensitivity, released once"
    )
    traits = Traits(judged_as_released=True)

    def answer(self, fit: Fit[ModelSensitivityHyperparameters, OutputPerturbation], trained: Array) -> None:
        """See `TrainedOnce.answer`: the noised minimiser."""
        fit.run.reserve_until(1)
        self.keep(fit, fit.mechanism.release(trained, normals(fit.run, fit.settings)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`."""
        params, released = self.read(plan)

        def apart(theta: Array, near: Array, far: Array) -> float:
            if released.law is NoiseLaw.GAUSSIAN:
                return float(np.vdot(theta - (near + far) / 2, near - far))
            return float(np.linalg.norm(theta - far) - np.linalg.norm(theta - near))

        return moved_furthest(params, released.adjacency, facts, lambda data: minimiser_of(params, data), apart)


class PredictionSensitivity(
    NoisedMinimiser[PredictionSensitivityHyperparameters],
    AnsweringSystem[PredictionSensitivityHyperparameters, OutputPerturbation, Array],
):
    """Theorems 5 and 6, and exact composition."""

    name = "prediction-sensitivity"
    params = PredictionSensitivityHyperparameters
    sentence = (
        "{released.steps} logit vectors of a certified minimiser (regularisation {params.regularisation:.4g}), each "
        "with {released.law} noise of {released.noise_multiplier:.5g} times its sensitivity"
    )

    def check(self, case: Case[PredictionSensitivityHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries, composition)."""
        super().check(case)
        if case.params.noise is NoiseLaw.PURE and case.params.composition is Composition.ADVANCED:
            raise InvalidValue(
                "composition", "advanced", "joint or standard with pure noise", "joint is never more noise."
            )

    def claims(self, case: Case[PredictionSensitivityHyperparameters], released: OutputPerturbation) -> list[Guarantee]:
        """See `PlannedSystem.claims`: and the paper's claim for noise that was solved as the paper does."""
        claims, params, target = super().claims(case, released), case.params, case.target
        if target.solve != "noise" or params.composition is Composition.JOINT or params.noise is NoiseLaw.PURE:
            return claims
        solved = self.solved(case)
        paper = replace(
            claims[0],
            epsilon=target.epsilon,
            epsilon_lower=None,
            accountant=solved.accountant,
            theorem=solved.theorem,
            assumptions=(*MINIMISED, FLOATING_POINT),
        )
        return [*claims, paper]

    def answer(self, fit: Fit[PredictionSensitivityHyperparameters, OutputPerturbation], trained: Array) -> None:
        """See `TrainedOnce.answer`: labels of noised logits."""
        draw = normals(fit.run, fit.settings)

        def answers(asked: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
            logits = fit.params.rows(fit.data.facts, at(fit.data.validation, asked)) @ trained
            # One vector of noise per query: a radial one is no product of coordinates.
            labels = [int(fit.mechanism.release(one, draw).argmax()) for one in logits]
            return {"labels": np.array(labels, dtype=np.int64)}

        answer_queries(fit, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: every query is the target, which alone says anything about it."""
        params, released = self.read(plan)
        (target,) = _blocks(facts, 1)
        sides = [target] * (2 if released.adjacency is Adjacency.REPLACE_ONE else 1)
        asked = np.repeat(target[None], released.steps, axis=0)
        with_it, without_it = _pair(params, facts, sides, _pushing(facts, [], 0), asked)
        return Neighbours(
            with_it=with_it,
            without_it=without_it,
            score=lambda state: float((state["labels"] == 1).sum() - (state["labels"] == 0).sum()),
            doc="one record that alone decides the prediction which is queried; the attacker counts answers",
        )


# Noise in the objective, whose minimiser is released.

PERTURBED_TAU = 1e-11
"""Gradient norm of perturbed minimisers: small, so that hiding the rest takes next to no noise."""
_LINES = (UNIT_INPUTS, "The optimiser's distance from the minimiser is bounded and hidden by output noise.")
_PROVED = Status.PROVED_UNDER_ASSUMPTIONS


@hyperparameters
class LossPerturbationHyperparameters(MinimiserHyperparameters):
    """Of `loss-perturbation`.

    noise             gaussian: Theorem 4, repaired; pure: Theorem 3, density exp(-beta ||N||), (epsilon, 0)-DP;
                      gaussian-published: Theorem 4 as printed, for add-remove, with what the repaired proof gives it
                      beside
    jacobian          how the least regularisation is counted: rank (published) or trace (sharper, also proved)
    output_share      share of epsilon for output noise, which hides how the optimiser stopped
    noise_multiplier  sigma (gaussian) or 1/beta (pure) of the linear term over one record's gradient shift; solved by
                      default
    """

    noise: PerturbationLaw = hyperparameter(
        choices=tuple(map(str, PerturbationLaw)), default=str(PerturbationLaw.GAUSSIAN)
    )
    jacobian: Jacobian = hyperparameter(choices=tuple(map(str, Jacobian)), default=str(Jacobian.TRACE))
    output_share: float = hyperparameter(low=1e-4, high=0.5, default=0.01)
    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX)


class LossPerturbation(ReleasesLinearModel, SolvedSystem[LossPerturbationHyperparameters, PerturbedMinimiser]):
    """Theorems 3 and 4 (repaired, or as printed), with output noise for what the optimiser leaves open.

    The noise is in the objective: no two runs share a training.
    """

    name = "loss-perturbation"
    source = SOURCE
    params = LossPerturbationHyperparameters
    sentence = (
        "the minimiser of a loss with a random linear term ({released.law} noise of {released.noise_multiplier:.5g} "
        "times the gradient shift) and output noise ({released.output_share:.3g} of epsilon), released once"
    )
    metrics = (ACCURACY,)
    traits = Traits(judged_as_released=True)

    def check(self, case: Case[LossPerturbationHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (task, noise)."""
        super().check(case)
        noise, adjacency = case.params.noise, case.target.adjacency
        if noise is PerturbationLaw.PUBLISHED and adjacency is not Adjacency.ADD_REMOVE:
            expected = f"gaussian or pure under {adjacency}"
            remedy = "The printed theorem counts a record more or less: or set privacy.adjacency to add-remove."
            raise InvalidValue("noise", str(noise), expected, remedy)

    def noise(self, case: Case[LossPerturbationHyperparameters]) -> float:
        """See `SolvedSystem.noise`."""
        params, target = case.params, case.target
        objective = target.epsilon * (1 - params.output_share)
        if params.noise is PerturbationLaw.PURE:
            return 2 / objective
        if params.noise is PerturbationLaw.PUBLISHED:
            sigma = loss_perturbation.sigma_published(objective, target.delta)
        else:
            sigma = loss_perturbation.sigma_repaired(objective, target.delta, classes_of(case.facts), target.adjacency)
        return sigma / loss_perturbation.shift(target.adjacency)

    def mechanism(self, case: Case[LossPerturbationHyperparameters]) -> PerturbedMinimiser:
        """See `PlannedSystem.mechanism`."""
        params, target = case.params, case.target
        return PerturbedMinimiser(
            law=params.noise,
            jacobian=params.jacobian,
            noise_multiplier=params.noise_multiplier,
            output_share=params.output_share,
            regularisation=params.regularisation,
            tau=PERTURBED_TAU,
            records=case.facts.n,
            classes=classes_of(case.facts),
            delta=target.delta,
            adjacency=target.adjacency,
        )

    def claims(self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser) -> list[Guarantee]:
        """See `PlannedSystem.claims`: what is proved; of noise as printed what the paper claims before it."""
        each, target = released.each, case.target
        if isinstance(each, PureDP):
            return pure_claims(each, 1, target, _PROVED, _LINES)
        proved = stated(
            target,
            each.epsilon,
            accountant="tail-bound",
            status=_PROVED,
            theorem="van der Maaten & Hannun 2020, Theorem 4, repaired for c >= 3",
            assumptions=(*_LINES, FLOATING_POINT),
        )
        if released.law is PerturbationLaw.GAUSSIAN:
            return [proved]
        status, theorem = loss_perturbation.published_standing(released.objective, target.delta, released.classes)
        epsilon = released.objective + released.output
        return [replace(proved, epsilon=epsilon, accountant="as-published", status=status, theorem=theorem), proved]

    def work(self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser) -> float:
        """See `PlannedSystem.work`."""
        return descent_work(case.facts.n, case.params.regularisation)

    def train(self, fit: Fit[LossPerturbationHyperparameters, PerturbedMinimiser]) -> None:
        """See `PlannedSystem.train`. Raises InvalidValue as `check_present` does."""
        check_present(fit.run.member.plan, fit.data)
        fit.run.reserve_until(1)
        inputs, labels = fit.params.rows(fit.data.facts, fit.data.train), labels_of(fit.data.train)
        self.keep(fit, fit.mechanism.release(inputs, labels, normals(fit.run, fit.settings)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`."""
        params, released = self.read(plan)

        def linear(theta: Array, data: Dataset) -> float:
            # The linear term that would make this model the minimiser: shorter under the right data set.
            risk = released.risk(params.rows(facts, data.train), labels_of(data.train))
            return float(np.linalg.norm(facts.n * risk.value_and_gradient(theta)[1]))

        def apart(theta: Array, near: Dataset, far: Dataset) -> float:
            return linear(theta, far) - linear(theta, near)

        return moved_furthest(params, released.adjacency, facts, lambda data: data, apart)


# Neighbouring data sets that these systems tell apart best, for audits over many runs. No record is read.
#
# An attacker who chose all records but one chose these: groups of records, each group along columns of its own, push
# the target's prediction to a wrong class without curving the objective along the target, so that it moves the
# minimiser by nearly the whole of its sensitivity; or, where queries are answered, nothing but the target says anything
# about them.

GROUPS, LEANING = 32, 0.4
"""Number of groups that push, where there are columns for so many, and the length of the target's part in theirs.

The target then moves the minimiser by 0.75 to 0.92 of its sensitivity for regularisations of 1e-4 to 1e-2 on 64 columns
and 10 classes, and by 0.5 to 0.7 at 0.1, where nothing pushes far.
"""


def moved_furthest(
    params: RowHyperparameters,
    adjacency: Adjacency,
    facts: DatasetSpec,
    known: Callable[[Dataset], Known],
    apart: Callable[[Array, Known, Known], float],
) -> Neighbours:
    """For a released model.

    known  what the attacker makes of a data set beforehand
    apart  from a released model, and what is known of both data sets, with the target and without it, to the score
    """
    families = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    groups = max(0, min(GROUPS, (real_width(facts) - 1) // families))
    # Block 0 is the target's own.
    own, *others = _blocks(facts, 1 + families * groups)
    # Pushed to class 1, and the same prediction from the other side, labelled 0.
    sides = [_leaning(own, others[groups * one : groups * (one + 1)]) for one in range(families)]
    with_it, without_it = _pair(params, facts, sides, _pushing(facts, others, groups), sides[0][None])
    both = cache(lambda: (known(with_it), known(without_it)))
    return Neighbours(
        with_it=with_it,
        without_it=without_it,
        score=lambda state: apart(np.asarray(state[_THETA], dtype=np.float64), *both()),
        doc=f"one record whose prediction {families * groups} groups of others push to the wrong class; the attacker "
        "knows all of them and reads the released model",
    )


def _blocks(facts: DatasetSpec, count: int) -> Vectors:
    """Unit vectors [count, columns], each of which spreads over a part of the real columns; zero without any."""
    # Single precision, as the records of every source: a data set of images would fill gigabytes otherwise.
    out = np.zeros((count, real_width(facts)), dtype=np.float32)
    for row, mine in zip(out, np.array_split(np.arange(out.shape[1]), count), strict=True):
        row[mine] = 1 / math.sqrt(max(1, len(mine)))
    return out


def _leaning(own: Vectors, towards: list[Vectors]) -> Vectors:
    """A unit vector in its own block, leaning towards others."""
    if not towards:
        return own
    return own * math.sqrt(1 - LEANING**2) + np.sum(towards, axis=0) * LEANING / math.sqrt(len(towards))


def _pushing(facts: DatasetSpec, directions: list[Vectors], groups: int) -> tuple[Vectors, Positions]:
    """n - 1 records in groups of equal size, [n - 1, columns], and their labels: 0 for the first family, then 1."""
    others = np.arange(facts.n - 1)
    if not groups:
        # They are nothing. A bias, or a shared category, would make them speak: they balance.
        return np.zeros((len(others), real_width(facts)), dtype=np.float32), others % classes_of(facts)
    members = others % len(directions)
    return np.stack(directions)[members], (members >= groups).astype(np.int64)


def _pair(
    params: RowHyperparameters,
    facts: DatasetSpec,
    sides: list[Vectors],
    others: tuple[Vectors, Positions],
    queries: Vectors,
) -> tuple[Dataset, Dataset]:
    """The others and the target: of class 1, and in its place the second side of class 0, or nothing without one."""
    (vectors, labels), queries = others, queries * np.float32(params.clip_norm)

    def data(target: list[Vectors], label: list[int]) -> Dataset:
        rows = np.vstack([*target, vectors]) * np.float32(params.clip_norm)
        return chosen_records(facts, rows, np.append(label, labels).astype(np.int64), queries, targets=len(target))

    return data(sides[:1], [1]), data(sides[1:], [0] if len(sides) > 1 else [])


MODEL_SENSITIVITY = ModelSensitivity()
PREDICTION_SENSITIVITY = PredictionSensitivity()
LOSS_PERTURBATION = LossPerturbation()


# Soft votes of models on disjoint parts of the records: each part makes one model, so that one record moves one vote.
#
# A part holds whole units where the data name some. However a member was trained, its vote on a query is one of M. So
# a member may follow from its own part alone: not from how far those before it drew, nor from what they left in the
# model's class or file.

Labels = NDArray[np.int64]

PURE_CLAIM = "What is refuted is the pure claim, made for every delta; what is proved at this one stands beside it."


@hyperparameters
class MemberHyperparameters(MinimiserHyperparameters):
    """What decides the models that vote.

    regularisation  of a linear member: weight lambda of 0.5 ||theta||^2; the paper has none, and a minimiser needs a
                    little
    models          number M of parts
    model           member: linear (a minimiser on rows of norm 1), a network's name (resnet20), or
                    package.module:function
    hidden          hidden units of a network
    epochs          passes of a network
    learning_rate   of a network's SGD with momentum 0.9; divided by ten three times, after equal numbers of passes
    batch_size      of a network
    """

    regularisation: float = hyperparameter(low=1e-6, high=100.0, default=1e-4)
    models: int = hyperparameter(low=1, high=100_000, default=256, unit="models")
    model: str = hyperparameter(default="linear")
    hidden: int = hyperparameter(low=1, high=65536, default=64, unit="units")
    arguments: Arguments = builder_arguments()
    epochs: int = hyperparameter(low=1, high=100_000, default=50, unit="passes")
    learning_rate: float = hyperparameter(low=1e-6, high=1e3, default=0.1)
    batch_size: int = hyperparameter(low=1, high=1_000_000, default=64, unit="records")


@hyperparameters
class SubsampleHyperparameters(QueryHyperparameters, MemberHyperparameters):
    """Of `subsample-and-aggregate`.

    composition  how the temperature is solved: joint is exact and the lowest; advanced and standard are proved;
                 published is B/epsilon, whose claim is refuted: it is the headline, and what is spent stands beside it
    temperature  1/beta: label k has probability proportional to exp(votes / temperature); solved by default
    """

    composition: Composition = hyperparameter(choices=tuple(map(str, Composition)), default="joint")
    temperature: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX, unit="votes")


class SubsampleAndAggregate(AnsweringSystem[SubsampleHyperparameters, NoisyVote, Labels]):
    """Theorems 7 and 8, at the exact loss of one vote; or the refuted beta = epsilon/B, charged that loss too."""

    name = "subsample-and-aggregate"
    source = SOURCE
    params = SubsampleHyperparameters
    sentence = (
        "{released.steps} soft votes of {released.models} {params.model} models on disjoint parts, at temperature "
        "{params.temperature:.5g}"
    )
    metrics = (ACCURACY,)
    traits = Traits(units=True)
    solves = MappingProxyType({"noise": "temperature", "steps": "queries"})
    remedy = "Raise temperature or epsilon, or take fewer queries."

    def adjacencies_on(self, facts: DatasetSpec) -> tuple[Adjacency, ...]:
        """Under which one neighbour changes one vote.

        Records have no public names: parts are made of positions, which add-remove would shift. Units have ids, whose
        hashes make the parts: there a unit that gives way to one of another id would change two votes.
        """
        return (Adjacency.REPLACE_ONE,) if facts.unit is None else (Adjacency.ADD_REMOVE,)

    def check(self, case: Case[SubsampleHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries or models beyond the data, model)."""
        super().check(case)
        params, facts = case.params, case.facts
        if params.models > facts.n:
            raise InvalidValue("models", params.models, f"at most n={facts.n} records of {facts.dataset}")
        if params.model != "linear":
            models.check(params.model, facts, params.arguments)

    def noise(self, case: Case[SubsampleHyperparameters]) -> float:
        """See `SolvedSystem.noise`: the temperature."""
        params, target, how = case.params, case.target, case.params.composition
        epsilon, delta, queries = target.epsilon, target.delta, params.queries
        if how is Composition.PUBLISHED:
            return 1 / (epsilon / queries)
        betas = [noisy_vote.standard(epsilon, queries)]
        if how is not Composition.STANDARD:
            betas.append(noisy_vote.advanced(epsilon, delta, queries))
        if how is Composition.JOINT:
            betas.append(noisy_vote.optimal(epsilon, delta, queries, params.models, classes_of(case.facts)))
        return 1 / max(betas)

    def mechanism(self, case: Case[SubsampleHyperparameters]) -> NoisyVote:
        """See `PlannedSystem.mechanism`."""
        params = case.params
        return NoisyVote(
            beta=1 / params.temperature,
            models=params.models,
            classes=classes_of(case.facts),
            adjacency=case.target.adjacency,
            steps=params.queries,
        )

    def claims(self, case: Case[SubsampleHyperparameters], released: NoisyVote) -> list[Guarantee]:
        """See `PlannedSystem.claims`: all that is proved, the least first; of its own rule what the paper claims before
        it."""
        params, target, steps = case.params, case.target, released.steps
        pure, naive = pure_claims(released.each, steps, target, Status.PROVED, (noisy_vote.ONE_VOTE,))
        epsilon, theorem = noisy_vote.zcdp_epsilon(released.beta, steps, target.delta), noisy_vote.ZCDP_THEOREM
        zcdp = replace(pure, epsilon=epsilon, accountant="zcdp", theorem=theorem)
        proved = [*sorted([pure, zcdp], key=lambda one: one.epsilon), naive]
        if params.composition is not Composition.PUBLISHED:
            return proved
        printed = noisy_vote.as_published(params.queries / params.temperature, released, target.unit)
        # At the budget's delta: one delta serves every axis.
        lines = (PURE_CLAIM,) if printed.status is Status.REFUTED else ()
        return [replace(printed, delta=target.delta, assumptions=(*printed.assumptions, *lines)), *proved]

    def work(self, case: Case[SubsampleHyperparameters], released: NoisyVote) -> float:
        """See `PlannedSystem.work`."""
        if case.params.model == "linear":
            return descent_work(case.facts.n, case.params.regularisation)
        return float(case.facts.n) * case.params.epochs

    def group(self, params: SubsampleHyperparameters) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone share their training."""
        if params.model == "linear":
            return group_of(params, *ROWS, "models", "model")
        given = ("arguments",) if params.arguments else ()
        return group_of(params, "models", "model", "hidden", *given, "epochs", "learning_rate", "batch_size")

    def trained(self, params: SubsampleHyperparameters, data: Dataset, settings: RunSettings) -> Labels:
        """See `TrainedOnce.trained`: what each member says of each validation record."""
        return winners(params, data, settings)

    def answer(self, fit: Fit[SubsampleHyperparameters, NoisyVote], trained: Labels) -> None:
        """See `TrainedOnce.answer`: voted labels."""
        draw, released = normals(fit.run, fit.settings), fit.mechanism

        def answers(asked: Labels) -> dict[str, NDArray[Any]]:
            votes = [np.bincount(column, minlength=released.classes) for column in trained[:, asked].T]
            return {"labels": np.array([released.release(one, draw) for one in votes], dtype=np.int64)}

        answer_queries(fit, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: one record changes the mind of one model, and the votes are split
        where that shows most."""
        params, released = self.read(plan)
        members, each = released.models, plan.guarantee.epsilon / released.steps

        def apart(dissenters: int) -> float:
            before, after = _turned(released, dissenters)
            if plan.guarantee.status is Status.REFUTED:
                # Such a claim is tested at its one point, any other on a whole curve: by how much the labels after
                # exceed exp(epsilon) times those before (hockey-stick), or by the divergence of Kullback & Leibler.
                return float(np.exp(after) @ -np.expm1(np.minimum(each + before - after, 0.0)))
            return float(np.exp(after) @ (after - before))

        dissenters = max(range(members), key=apart)
        log_before, log_after = _turned(released, dissenters)
        target = _blocks(facts, 1)[0] * np.float32(params.clip_norm)
        parts = parts_of(facts.n, members, seed=0)
        inputs, labels = np.repeat(target[None], facts.n, axis=0), np.zeros(facts.n, dtype=np.int64)
        for number, part in enumerate(parts[1:], start=1):
            labels[part] = 1 if number <= dissenters else 0
        first, rest = parts[0][0], parts[0][1:]
        # The others of the first part balance; where one is left over it whispers, and the target outvotes it.
        labels[rest] = np.arange(len(rest)) % 2
        if len(rest) % 2:
            labels[rest[-1]] = 1
            inputs[rest[-1]] = 0.5 * target
        asked = np.repeat(target[None], released.steps, axis=0)
        before, after = labels.copy(), labels.copy()
        before[first], after[first] = 0, 1
        return Neighbours(
            with_it=chosen_records(facts, inputs, after, asked, targets=1),
            without_it=chosen_records(facts, inputs, before, asked, targets=1),
            score=lambda shown: float((log_after - log_before)[shown["labels"]].sum()),
            doc=f"one record that turns one of {members} votes, {dissenters} of which dissent; the attacker reads "
            "labels",
        )


def _turned(released: NoisyVote, dissenters: int) -> tuple[Array, Array]:
    """Log-probabilities [C] of the labels before and after one more model dissents."""
    votes, for_first = np.zeros((2, released.classes)), released.models - dissenters
    votes[:, :2] = [[for_first, dissenters], [for_first - 1, dissenters + 1]]
    before, after = log_softmax(released.beta * votes, axis=1)
    return before, after


SUBSAMPLE_AND_AGGREGATE = SubsampleAndAggregate()


# The models behind a vote. Nothing is noised or claimed here.

MEMBER_TAU = 1e-5
"""Gradient norm at which a linear member is done. No claim rests on it."""
MOMENTUM = 0.9
DROPS = 3
"""How often a learning rate falls to a tenth, after equal numbers of epochs (van der Maaten & Hannun 2020)."""


def parts_of(n: int, models: int, seed: int) -> list[NDArray[np.int64]]:
    """Positions 0..n-1 in `models` disjoint parts, decided by n and a public seed alone."""
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(n), models)]


def parts_by_unit(units: Units, models: int) -> list[NDArray[np.int64]]:
    """Positions of the records of `models` disjoint sets of units; a unit's part is decided by its id alone."""
    part = np.repeat(units.keys % np.uint64(models), np.diff(units.offsets))
    return [np.flatnonzero(part == number) for number in range(models)]


def winners(params: MemberHyperparameters, data: Dataset, settings: RunSettings) -> Labels:
    """The class that each member gives each validation record, shape (models, n_validation)."""
    if data.units is None:
        parts = parts_of(data.facts.n, params.models, seed=0)
    else:
        parts = parts_by_unit(data.units, params.models)
    # A member without a record knows nothing, and always names the first class.
    nothing = np.zeros(len(data.validation), dtype=np.int64)
    if params.model == "linear":
        return np.stack([_linear(params, data, part) if len(part) else nothing for part in parts])
    from trainables.team import limited_threads
    from trainables.training.private_sgd import device_of

    device = device_of(settings)
    with limited_threads(settings.threads):
        found = [
            _network(params, data, part, number, device) if len(part) else nothing for number, part in enumerate(parts)
        ]
    failed = [one for one in found if isinstance(one, Exception)]
    if len(failed) == len(found):
        raise failed[0]
    # That the trial failed would tell of a single record: such a member knows nothing either.
    return np.stack([nothing if isinstance(one, Exception) else one for one in found])


def _linear(params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64]) -> Labels:
    theta = minimised(params, data.facts, at(data.train, part), len(part), MEMBER_TAU)
    chosen: Labels = (params.rows(data.facts, data.validation) @ theta).argmax(axis=1)
    return chosen


def _network(
    params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64], number: int, device: torch.device
) -> Labels | Exception:
    """What SGD with momentum on shuffled batches comes to, or the error that the values of its records raised. All that
    is drawn follows from the member's number, a public fact. Raises Refused."""
    from dpcore.gradients import NotComputed, Refused, of_the_machine

    with _drawing_from(number):
        model = models.build(params.model, data.facts, hidden=params.hidden, arguments=params.arguments).to(device)
        try:
            return _learned(params, data, part, number, model)
        except Exception as error:
            if of_the_machine(error) or (isinstance(error, Refused) and not isinstance(error, NotComputed)):
                raise
            return error


@contextmanager
def _drawing_from(number: int) -> Iterator[None]:
    """Inside the block the process's generators begin with `number`; outside they are as they were. How far members
    before drew follows from their records."""
    import torch

    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            torch.manual_seed(number)
            np.random.seed(number)  # noqa: NPY002
            random.seed(number)
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _learned(
    params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64], number: int, model: torch.nn.Module
) -> Labels:
    import torch

    from trainables.training.losses import answers, loss_function, tensor

    device = next(model.parameters()).device
    order = np.random.default_rng(number)
    loss = loss_function(data.facts)
    own = at(data.train, part)
    inputs, targets = [tensor(one, device) for one in own.inputs.values()], tensor(own.targets, device)
    epochs, rate = params.epochs, params.learning_rate
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.1 ** (epoch * (DROPS + 1) // epochs)
        for batch in np.array_split(order.permutation(len(part)), -(-len(part) // params.batch_size)):
            chosen = torch.from_numpy(batch).to(device)
            optimiser.zero_grad()
            loss(model(*(one[chosen] for one in inputs)), targets[chosen]).mean().backward()
            optimiser.step()
    # A vote on one query says nothing of the other queries.
    found = [outputs.argmax(dim=1).cpu().numpy() for _, outputs in answers(model, data.validation, device)]
    return np.concatenate(found).astype(np.int64)

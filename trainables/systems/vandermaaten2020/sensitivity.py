"""Noise of the minimiser's sensitivity: on the minimiser itself, or on what it says to each query."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import Guarantee
from dpcore.mechanisms import output_perturbation
from dpcore.mechanisms.noise_families import GaussianNoise, NoiseLaw, RadialNoise
from dpcore.mechanisms.output_perturbation import Calibrated, MinimiserSensitivity, OutputPerturbation
from trainables.hooks import Neighbours
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import Case, Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, RunSettings, State, Traits
from trainables.systems.answering import ACCURACY, AnsweringSystem, QueryHyperparameters, TrainedOnce, answer_queries
from trainables.systems.linear import at, classes_of
from trainables.systems.vandermaaten2020.minimiser import (
    NOISE_MAX,
    NOISE_MIN,
    ROWS,
    SOURCE,
    Composition,
    MinimiserHyperparameters,
    ReleasesLinearModel,
    at_delta_zero,
    descent_work,
    minimiser_of,
    pure_claim,
    sensitivity_of,
)
from trainables.systems.vandermaaten2020.neighbours import Columns, moved_furthest, of_model
from trainables.training.noise import normals

Array = NDArray[np.float64]
AnyNoise = Calibrated[GaussianNoise] | Calibrated[RadialNoise]


@hyperparameters
class ModelSensitivityHyperparameters(MinimiserHyperparameters):
    """Of `model-sensitivity`."""

    noise: NoiseLaw = hyperparameter(
        choices=tuple(map(str, NoiseLaw)),
        default=str(NoiseLaw.GAUSSIAN),
        doc="gaussian; or pure: density exp(-beta ||b||), (epsilon, 0)-DP for each release",
    )
    noise_multiplier: float = hyperparameter(
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) divided by the minimiser's sensitivity; solved from epsilon by default",
    )


@hyperparameters
class PredictionSensitivityHyperparameters(QueryHyperparameters, ModelSensitivityHyperparameters):
    """Of `prediction-sensitivity`."""

    composition: Composition = hyperparameter(
        choices=("joint", "advanced", "standard"),
        default="joint",
        doc="how the noise is solved: joint is exact and the least noise; the others are the paper's",
    )


Noised = TypeVar("Noised", bound=ModelSensitivityHyperparameters)


class NoisedMinimiser(TrainedOnce[Noised, OutputPerturbation, Array]):
    """A system whose noise has the scale of the certified minimiser's sensitivity."""

    source = SOURCE
    metrics = (ACCURACY,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    deciding = ROWS

    def calibrated(self, case: Case[Noised], sensitivity: MinimiserSensitivity) -> AnyNoise:
        """The noise that meets the target, with the theorem that says so."""
        raise NotImplementedError

    def noise(self, case: Case[Noised]) -> float:
        """See `SolvedSystem.noise`."""
        found = self.calibrated(case, sensitivity_of(case.params, case.facts.n, case.target.adjacency))
        if isinstance(found.noise, GaussianNoise):
            return found.noise.sigma / found.sensitivity
        return 1 / (found.noise.beta * found.sensitivity)

    def mechanism(self, case: Case[Noised]) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`."""
        params, adjacency = case.params, case.target.adjacency
        return OutputPerturbation(
            law=params.noise,
            noise_multiplier=params.noise_multiplier,
            sensitivity=sensitivity_of(params, case.facts.n, adjacency).value,
            adjacency=adjacency,
            steps=params.queries if isinstance(params, QueryHyperparameters) else 1,
        )

    def claim(self, case: Case[Noised], released: OutputPerturbation) -> Guarantee:
        """See `PlannedSystem.claim`."""
        sensitivity = sensitivity_of(case.params, case.facts.n, case.target.adjacency)
        each = released.each
        if isinstance(each, PureDP):
            return pure_claim(each, released.steps, case.target, sensitivity.status, sensitivity.assumptions)
        claim = super().claim(case, released)
        return replace(claim, assumptions=(*sensitivity.assumptions, *claim.assumptions))

    def beside(self, case: Case[Noised], released: OutputPerturbation, claim: Guarantee) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: the pure claim of pure noise."""
        each = released.each
        return (at_delta_zero(claim, each, released.steps),) if isinstance(each, PureDP) else ()

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
    traits = Traits(judged_as_released=True)

    def calibrated(self, case: Case[ModelSensitivityHyperparameters], sensitivity: MinimiserSensitivity) -> AnyNoise:
        """See `NoisedMinimiser.calibrated`."""
        target = case.target
        if case.params.noise is NoiseLaw.GAUSSIAN:
            return output_perturbation.model_gaussian(target.epsilon, target.delta, sensitivity, target.unit)
        return output_perturbation.model_pure(target.epsilon, sensitivity, target.unit)

    def describe(self, case: Case[ModelSensitivityHyperparameters], released: OutputPerturbation) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"a certified minimiser (regularisation {case.params.regularisation:.4g}) with {released.law} noise of "
            f"{released.noise_multiplier:.5g} times its sensitivity, released once"
        )

    def answer(self, fit: Fit[ModelSensitivityHyperparameters, OutputPerturbation], trained: Array) -> None:
        """See `TrainedOnce.answer`: the noised minimiser."""
        fit.run.reserve_until(1)
        self.keep(fit, fit.mechanism.release(trained, normals(fit.run, fit.settings)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`."""
        params, released = self.read(plan)
        with_it, without_it, groups = moved_furthest(params, released.adjacency, facts)

        @cache
        def minimisers() -> tuple[Array, Array]:
            return minimiser_of(params, with_it), minimiser_of(params, without_it)

        def score(state: State) -> float:
            theta = np.asarray(state["theta"], dtype=np.float64)
            near, far = minimisers()
            if released.law is NoiseLaw.GAUSSIAN:
                return float(np.vdot(theta - (near + far) / 2, near - far))
            return float(np.linalg.norm(theta - far) - np.linalg.norm(theta - near))

        return of_model(with_it, without_it, groups, score)


class PredictionSensitivity(
    NoisedMinimiser[PredictionSensitivityHyperparameters],
    AnsweringSystem[PredictionSensitivityHyperparameters, OutputPerturbation, Array],
):
    """Theorems 5 and 6, and exact composition."""

    name = "prediction-sensitivity"
    params = PredictionSensitivityHyperparameters

    def check(self, case: Case[PredictionSensitivityHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries, composition)."""
        super().check(case)
        if case.params.noise is NoiseLaw.PURE and case.params.composition is Composition.ADVANCED:
            raise InvalidValue(
                "composition", "advanced", "joint or standard with pure noise", "joint is never more noise."
            )

    def calibrated(
        self, case: Case[PredictionSensitivityHyperparameters], sensitivity: MinimiserSensitivity
    ) -> AnyNoise:
        """See `NoisedMinimiser.calibrated`."""
        queries, how, target = case.params.queries, case.params.composition, case.target
        if case.params.noise is NoiseLaw.GAUSSIAN:
            solve = {
                Composition.JOINT: output_perturbation.answers_joint,
                Composition.ADVANCED: output_perturbation.answers_published,
                Composition.STANDARD: output_perturbation.answers_standard,
            }[how]
            return solve(target.epsilon, target.delta, queries, sensitivity, target.unit)
        if how is Composition.JOINT:
            return output_perturbation.answers_pure_joint(
                target.epsilon, target.delta, queries, sensitivity, target.unit
            )
        return output_perturbation.answers_pure(target.epsilon, queries, sensitivity, target.unit)

    def beside(
        self, case: Case[PredictionSensitivityHyperparameters], released: OutputPerturbation, claim: Guarantee
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: and the paper's claim for noise that was solved as the paper does."""
        others, params, target = super().beside(case, released, claim), case.params, case.target
        if target.solve != "noise" or params.composition is Composition.JOINT or params.noise is NoiseLaw.PURE:
            return others
        return (*others, self.calibrated(case, sensitivity_of(params, case.facts.n, target.adjacency)).guarantee)

    def describe(self, case: Case[PredictionSensitivityHyperparameters], released: OutputPerturbation) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} logit vectors of a certified minimiser (regularisation "
            f"{case.params.regularisation:.4g}), each with {released.law} noise of {released.noise_multiplier:.5g} "
            "times its sensitivity"
        )

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
        columns = Columns(facts, params.clip_norm, 1)
        target = columns.target(range(0), 0.0)
        asked = np.repeat(target[None], released.steps, axis=0)
        nothing = np.zeros((facts.n - 1, columns.count), dtype=np.float32)
        # A bias, or a shared category, would make them speak: they balance.
        labels = np.arange(facts.n - 1) % classes_of(facts)
        if released.adjacency is Adjacency.REPLACE_ONE:
            without_it = columns.data(np.vstack([target, nothing]), np.append([0], labels), asked)
        else:
            without_it = columns.data(nothing, labels, asked, targets=0)
        return Neighbours(
            with_it=columns.data(np.vstack([target, nothing]), np.append([1], labels), asked),
            without_it=without_it,
            score=lambda state: float((state["labels"] == 1).sum() - (state["labels"] == 0).sum()),
            doc="one record that alone decides the prediction which is queried; the attacker counts answers",
        )


MODEL_SENSITIVITY = ModelSensitivity()
PREDICTION_SENSITIVITY = PredictionSensitivity()

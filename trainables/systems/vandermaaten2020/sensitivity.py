"""Noise of the minimiser's sensitivity: on the minimiser itself, or on what it says to each query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import PureDP
from dpcore.guarantee import Guarantee
from dpcore.mechanisms import output_perturbation
from dpcore.mechanisms.noise_families import GaussianNoise, NoiseLaw, RadialNoise
from dpcore.mechanisms.output_perturbation import Calibrated, MinimiserSensitivity, OutputPerturbation
from trainables.hyperparameters import read
from trainables.measures.hooks import Neighbours
from trainables.planning import ClaimTerms
from trainables.system import Config, Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, Run, RunSettings
from trainables.systems.answering import AnsweringSystem, TrainedOnce, answer_next
from trainables.systems.linear import at
from trainables.systems.vandermaaten2020.minimiser import (
    ROWS,
    Composition,
    LinearModel,
    ModelSensitivityKnobs,
    PredictionSensitivityKnobs,
    PrivatePrediction,
    at_delta_zero,
    descent_work,
    minimiser_of,
    pure_claim,
    sensitivity_of,
)
from trainables.systems.vandermaaten2020.neighbours import of_minimiser, of_noisy_answers
from trainables.training.noise import normals

Array = NDArray[np.float64]
AnyNoise = Calibrated[GaussianNoise] | Calibrated[RadialNoise]
Noised = TypeVar("Noised", bound=ModelSensitivityKnobs)


class NoisedMinimiser(PrivatePrediction[Noised, OutputPerturbation], TrainedOnce[Noised, OutputPerturbation, Array]):
    """A system whose noise has the scale of the certified minimiser's sensitivity."""

    deciding = ROWS

    def calibrated(self, knobs: Noised, target: PrivacyTarget, sensitivity: MinimiserSensitivity) -> AnyNoise:
        """The noise that meets the target, with the theorem that says so."""
        raise NotImplementedError

    def noise(self, knobs: Noised, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """See `SolvedSystem.noise`."""
        found = self.calibrated(knobs, target, sensitivity_of(knobs, facts.n, target.adjacency))
        if isinstance(found.noise, GaussianNoise):
            return found.noise.sigma / found.sensitivity
        return 1 / (found.noise.beta * found.sensitivity)

    def mechanism(self, knobs: Noised, facts: DatasetSpec, terms: ClaimTerms) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`."""
        return OutputPerturbation(
            law=knobs.noise,
            noise_multiplier=knobs.noise_multiplier,
            sensitivity=sensitivity_of(knobs, facts.n, terms.adjacency).value,
            adjacency=terms.adjacency,
            steps=1,
        )

    def claim(
        self, knobs: Noised, released: OutputPerturbation, facts: DatasetSpec, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`."""
        sensitivity = sensitivity_of(knobs, facts.n, target.adjacency)
        each = released.each
        if isinstance(each, PureDP):
            return pure_claim(each, released.steps, target, sensitivity.status, sensitivity.assumptions)
        claim = super().claim(knobs, released, facts, target)
        return replace(claim, assumptions=(*sensitivity.assumptions, *claim.assumptions))

    def beside(
        self, knobs: Noised, released: OutputPerturbation, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: the pure claim of pure noise."""
        each = released.each
        return (at_delta_zero(claim, each, released.steps),) if isinstance(each, PureDP) else ()

    def work(self, knobs: Noised, released: OutputPerturbation, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return descent_work(facts.n, knobs.regularisation)

    def trained(self, knobs: Noised, data: Dataset, execution: RunSettings) -> Array:
        """See `TrainedOnce.trained`: the minimiser."""
        return minimiser_of(knobs, data)


class ModelSensitivity(LinearModel[ModelSensitivityKnobs, OutputPerturbation], NoisedMinimiser[ModelSensitivityKnobs]):
    """Theorems 1 and 2."""

    name = "model-sensitivity"
    knobs = ModelSensitivityKnobs

    def calibrated(
        self, knobs: ModelSensitivityKnobs, target: PrivacyTarget, sensitivity: MinimiserSensitivity
    ) -> AnyNoise:
        """See `NoisedMinimiser.calibrated`."""
        if knobs.noise is NoiseLaw.GAUSSIAN:
            return output_perturbation.model_gaussian(target.epsilon, target.delta, sensitivity, target.unit)
        return output_perturbation.model_pure(target.epsilon, sensitivity, target.unit)

    def describe(self, knobs: ModelSensitivityKnobs, released: OutputPerturbation, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"a certified minimiser (regularisation {knobs.regularisation:.4g}) with {released.law} noise of "
            f"{released.noise_multiplier:.5g} times its sensitivity, released once"
        )

    def answer(
        self,
        run: Run,
        knobs: ModelSensitivityKnobs,
        released: OutputPerturbation,
        trained: Array,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `TrainedOnce.answer`: the noised minimiser."""
        run.reserve_until(1)
        self.keep(run, knobs, data, released.release(trained, normals(run, execution)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.measures.hooks.Auditable`."""
        return of_minimiser(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)


class PredictionSensitivity(
    NoisedMinimiser[PredictionSensitivityKnobs],
    AnsweringSystem[PredictionSensitivityKnobs, OutputPerturbation, Array],
):
    """Theorems 5 and 6, and exact composition."""

    name = "prediction-sensitivity"
    knobs = PredictionSensitivityKnobs

    def check(
        self, knobs: PredictionSensitivityKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries, composition)."""
        super().check(knobs, facts, target, given)
        if knobs.noise is NoiseLaw.PURE and knobs.composition is Composition.ADVANCED:
            raise InvalidValue(
                "composition", "advanced", "joint or standard with pure noise", "joint is never more noise."
            )
        return None

    def calibrated(
        self, knobs: PredictionSensitivityKnobs, target: PrivacyTarget, sensitivity: MinimiserSensitivity
    ) -> AnyNoise:
        """See `NoisedMinimiser.calibrated`."""
        queries, how = knobs.queries, knobs.composition
        epsilon, delta, unit = target.epsilon, target.delta, target.unit
        if knobs.noise is NoiseLaw.GAUSSIAN:
            solve = {
                Composition.JOINT: output_perturbation.answers_joint,
                Composition.ADVANCED: output_perturbation.answers_published,
                Composition.STANDARD: output_perturbation.answers_standard,
            }[how]
            return solve(epsilon, delta, queries, sensitivity, unit)
        if how is Composition.JOINT:
            return output_perturbation.answers_pure_joint(epsilon, delta, queries, sensitivity, unit)
        return output_perturbation.answers_pure(epsilon, queries, sensitivity, unit)

    def mechanism(self, knobs: PredictionSensitivityKnobs, facts: DatasetSpec, terms: ClaimTerms) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`: on the logits of each query."""
        return replace(super().mechanism(knobs, facts, terms), steps=knobs.queries)

    def beside(
        self,
        knobs: PredictionSensitivityKnobs,
        released: OutputPerturbation,
        claim: Guarantee,
        facts: DatasetSpec,
        target: PrivacyTarget,
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: and the paper's claim for noise that was solved as the paper does."""
        others = super().beside(knobs, released, claim, facts, target)
        if target.solve != "noise" or knobs.composition is Composition.JOINT or knobs.noise is NoiseLaw.PURE:
            return others
        return (*others, self.calibrated(knobs, target, sensitivity_of(knobs, facts.n, target.adjacency)).guarantee)

    def describe(self, knobs: PredictionSensitivityKnobs, released: OutputPerturbation, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} logit vectors of a certified minimiser (regularisation {knobs.regularisation:.4g}), "
            f"each with {released.law} noise of {released.noise_multiplier:.5g} times its sensitivity"
        )

    def answer(
        self,
        run: Run,
        knobs: PredictionSensitivityKnobs,
        released: OutputPerturbation,
        trained: Array,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `TrainedOnce.answer`: labels of noised logits."""
        draw = normals(run, execution)

        def answers(asked: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
            logits = knobs.rows(data.facts, at(data.validation, asked)) @ trained
            # One vector of noise per query: a radial one is no product of coordinates.
            return {"labels": np.array([int(released.release(one, draw).argmax()) for one in logits], dtype=np.int64)}

        answer_next(run, data, released.steps, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.measures.hooks.Auditable`."""
        return of_noisy_answers(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)


MODEL_SENSITIVITY = ModelSensitivity()
PREDICTION_SENSITIVITY = PredictionSensitivity()

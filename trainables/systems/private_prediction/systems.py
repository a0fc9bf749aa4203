"""The four systems, each with what one of its steps releases, how its noise is solved and what it claims."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import ApproximateDP, Event, Gaussian, PureDP, Repeated
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms import loss_perturbation, model_sensitivity, prediction_sensitivity, soft_vote
from dpcore.mechanisms.calibrated import Calibrated
from dpcore.mechanisms.minimiser import SOFTMAX_LIPSCHITZ, UNIT_INPUTS, MinimiserSensitivity
from dpcore.mechanisms.noise_families import GaussianNoise, RadialNoise
from trainables import models
from trainables.capabilities import Capabilities
from trainables.measures.protocols import Neighbours
from trainables.system import Config, PrivacyPlan, PrivacyTarget, PublicFacts, Split, State
from trainables.systems.private_prediction.base import ROWS, LinearSystem, pure_claims, trained_together
from trainables.systems.private_prediction.knobs import (
    LOSS_PERTURBATION_KNOBS,
    MODEL_SENSITIVITY_KNOBS,
    PREDICTION_SENSITIVITY_KNOBS,
    SUBSAMPLE_KNOBS,
)
from trainables.systems.private_prediction.scales import sensitivity_of, split_of

Array = NDArray[np.float64]
_Either = Calibrated[GaussianNoise] | Calibrated[RadialNoise]

PURE_CLAIM = "What is refuted is the pure claim, made for every delta; what is proved at this one stands beside it."


class Sensitivity(LinearSystem):
    """Noise on the minimiser, or on what it says to each query."""

    def _each(self, full: Config, classes: int, target: PrivacyTarget) -> Event:
        noise = float(full["noise_multiplier"])
        if full["noise"] == "gaussian":
            return Gaussian(noise_multiplier=noise, adjacency=target.adjacency)
        return PureDP(epsilon=1 / noise, adjacency=target.adjacency)

    def _claims(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[Guarantee, tuple[Guarantee, ...]]:
        sensitivity = sensitivity_of(full, facts.n, target.adjacency)
        each, count = self._each(full, classes, target), self._steps(full)
        if isinstance(each, PureDP):
            return pure_claims(each, count, target, sensitivity.status, sensitivity.assumptions)
        claim = headline(Repeated(event=each, count=count), target.delta, target.adjacency, unit=target.unit)
        return replace(claim, assumptions=(*sensitivity.assumptions, *claim.assumptions)), ()

    def _noise(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[float, tuple[Guarantee, ...]]:
        found = self._calibrated(full, target, sensitivity_of(full, facts.n, target.adjacency))
        published = (found.guarantee,) if found.guarantee.accountant in ("naive", "advanced") else ()
        if isinstance(found.noise, GaussianNoise):
            return found.noise.sigma / found.sensitivity, published
        return 1 / (found.noise.beta * found.sensitivity), ()

    def _calibrated(self, full: Config, target: PrivacyTarget, sensitivity: MinimiserSensitivity) -> _Either:
        raise NotImplementedError


class ModelSensitivity(Sensitivity):
    """Theorems 1 and 2."""

    def _calibrated(self, full: Config, target: PrivacyTarget, sensitivity: MinimiserSensitivity) -> _Either:
        if full["noise"] == "gaussian":
            return model_sensitivity.gaussian(target.epsilon, target.delta, sensitivity, target.unit)
        return model_sensitivity.pure(target.epsilon, sensitivity, target.unit)

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        return (
            f"a certified minimiser (regularisation {float(full['regularisation']):.4g}) with {full['noise']} noise of "
            f"{float(full['noise_multiplier']):.5g} times its sensitivity, released once"
        )

    def membership_scores(self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split) -> Array:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.systems.private_prediction.fitting import negative_losses

        return negative_losses(plan, facts, state, split)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """See `trainables.measures.protocols.Auditable`."""
        from trainables.systems.private_prediction.neighbours import of_minimiser

        return of_minimiser(plan, facts)


class PredictionSensitivity(Sensitivity):
    """Theorems 5 and 6, and exact composition."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "queries"})

    def _calibrated(self, full: Config, target: PrivacyTarget, sensitivity: MinimiserSensitivity) -> _Either:
        queries, how = int(full["queries"]), full["composition"]
        epsilon, delta, unit = target.epsilon, target.delta, target.unit
        if full["noise"] == "gaussian":
            solve = {
                "joint": prediction_sensitivity.gaussian_joint,
                "advanced": prediction_sensitivity.gaussian_published,
                "standard": prediction_sensitivity.gaussian_standard,
            }[str(how)]
            return solve(epsilon, delta, queries, sensitivity, unit)
        if how == "joint":
            return prediction_sensitivity.pure_joint(epsilon, delta, queries, sensitivity, unit)
        return prediction_sensitivity.pure(epsilon, queries, sensitivity, unit)

    def _check(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> None:
        super()._check(full, facts, target)
        if full["noise"] == "pure" and full["composition"] == "advanced":
            raise InvalidValue(
                "composition", "advanced", "joint or standard with pure noise", "joint is never more noise."
            )

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        return (
            f"{self._steps(full)} logit vectors of a certified minimiser (regularisation "
            f"{float(full['regularisation']):.4g}), each with {full['noise']} noise of "
            f"{float(full['noise_multiplier']):.5g} times its sensitivity"
        )

    def queries(self, plan: PrivacyPlan) -> int:
        """See `trainables.measures.protocols.Answering`."""
        return int(plan.config["queries"])

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """See `trainables.measures.protocols.Auditable`."""
        from trainables.systems.private_prediction.neighbours import of_noisy_answers

        return of_noisy_answers(plan, facts)


class LossPerturbation(LinearSystem):
    """Theorems 3 and 4 (repaired, or as printed), with output noise for what the optimiser leaves open."""

    def _check(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> None:
        super()._check(full, facts, target)
        if full["noise"] == "gaussian-published" and target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "noise",
                full["noise"],
                f"gaussian or pure under {target.adjacency}",
                "The printed theorem counts a record more or less: or set privacy.adjacency to add-remove.",
            )

    def _each(self, full: Config, classes: int, target: PrivacyTarget) -> PureDP | ApproximateDP:
        """What is proved to be spent, whatever is claimed."""
        objective, output = split_of(full, target.delta, classes, target.adjacency)
        if full["noise"] == "pure":
            return PureDP(epsilon=objective + output, adjacency=target.adjacency)
        if full["noise"] == "gaussian-published":
            noise = float(full["noise_multiplier"])
            objective = loss_perturbation.established_epsilon(noise, objective, target.delta, classes)
        return ApproximateDP(epsilon=objective + output, delta=target.delta, adjacency=target.adjacency)

    def _claims(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[Guarantee, tuple[Guarantee, ...]]:
        each = self._each(full, classes, target)
        lines = (UNIT_INPUTS, "The optimiser's distance from the minimiser is bounded and hidden by output noise.")
        if isinstance(each, PureDP):
            return pure_claims(each, 1, target, Status.PROVED_UNDER_ASSUMPTIONS, lines)
        repaired = Guarantee(
            epsilon=each.epsilon,
            delta=target.delta,
            adjacency=target.adjacency,
            unit=target.unit,
            accountant="tail-bound",
            status=Status.PROVED_UNDER_ASSUMPTIONS,
            theorem="van der Maaten & Hannun 2020, Theorem 4, repaired for c >= 3",
            assumptions=(*lines, FLOATING_POINT),
        )
        if full["noise"] == "gaussian":
            return repaired, ()
        objective, output = split_of(full, target.delta, classes, target.adjacency)
        printed = loss_perturbation.gaussian_published(objective, target.delta, facts.n, classes).guarantee
        claim = replace(
            repaired,
            epsilon=objective + output,
            accountant=printed.accountant,
            status=printed.status,
            theorem=printed.theorem,
        )
        return claim, (repaired,)

    def _noise(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[float, tuple[Guarantee, ...]]:
        objective = target.epsilon * (1 - float(full["output_share"]))
        if full["noise"] == "pure":
            return 2 / objective, ()
        if full["noise"] == "gaussian-published":
            perturbed = loss_perturbation.gaussian_published(objective, target.delta, facts.n, classes)
        else:
            perturbed = loss_perturbation.gaussian(objective, target.delta, facts.n, classes, target.adjacency)
        shift = SOFTMAX_LIPSCHITZ * (2 if target.adjacency is Adjacency.REPLACE_ONE else 1)
        return perturbed.noise.sigma / shift, ()

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        return (
            f"the minimiser of a loss with a random linear term ({full['noise']} noise of "
            f"{float(full['noise_multiplier']):.5g} times the gradient shift) and output noise "
            f"({float(full['output_share']):.3g} of epsilon), released once"
        )

    def _group(self, full: Config) -> str:
        # The noise is in the objective: no two runs share a training.
        return ""

    def membership_scores(self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split) -> Array:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.systems.private_prediction.fitting import negative_losses

        return negative_losses(plan, facts, state, split)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """See `trainables.measures.protocols.Auditable`."""
        from trainables.systems.private_prediction.neighbours import of_minimiser

        return of_minimiser(plan, facts)


class SubsampleAndAggregate(LinearSystem):
    """Theorems 7 and 8, at the exact loss of one vote; or the refuted beta = epsilon/B, charged that loss too."""

    capabilities = Capabilities(units=True)
    solves = MappingProxyType({"noise": "temperature", "steps": "queries"})

    def adjacencies(self, facts: PublicFacts) -> tuple[Adjacency, ...]:
        """Under which one neighbour changes one vote.

        Records have no public names: parts are made of positions, which add-remove would shift. Units have ids, whose
        hashes make the parts: there a unit that gives way to one of another id would change two votes.
        """
        return (Adjacency.REPLACE_ONE,) if facts.unit is None else (Adjacency.ADD_REMOVE,)

    def _check(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> None:
        super()._check(full, facts, target)
        if int(full["models"]) > facts.n:
            raise InvalidValue("models", full["models"], f"at most n={facts.n} records of {facts.dataset}")
        if full["model"] != "linear":
            models.check(str(full["model"]), facts)

    def _each(self, full: Config, classes: int, target: PrivacyTarget) -> PureDP:
        loss = soft_vote.loss_per_query(1 / float(full["temperature"]), int(full["models"]), classes)
        return PureDP(epsilon=loss, adjacency=target.adjacency)

    def _claims(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[Guarantee, tuple[Guarantee, ...]]:
        queries = self._steps(full)
        each = self._each(full, classes, target)
        claim, beside = pure_claims(each, queries, target, Status.PROVED, (soft_vote.ONE_VOTE,))
        zcdp = replace(
            claim,
            epsilon=soft_vote.zcdp_epsilon(1 / float(full["temperature"]), queries, target.delta),
            accountant="zcdp",
            theorem=soft_vote.ZCDP_THEOREM,
        )
        first, second = (claim, zcdp) if claim.epsilon <= zcdp.epsilon else (zcdp, claim)
        if full["composition"] != "published":
            return first, (second, *beside)
        return self._published(full, classes, target), (first, second, *beside)

    def _published(self, full: Config, classes: int, target: PrivacyTarget) -> Guarantee:
        """What the paper's rule claims at this temperature, at the budget's delta: one delta serves every axis."""
        queries = self._steps(full)
        epsilon = queries / float(full["temperature"])
        vote = soft_vote.as_published(
            epsilon, queries, int(full["models"]), classes, adjacency=target.adjacency, unit=target.unit
        )
        lines = (PURE_CLAIM,) if vote.guarantee.status is Status.REFUTED else ()
        return replace(vote.guarantee, delta=target.delta, assumptions=(*vote.guarantee.assumptions, *lines))

    def _noise(
        self, full: Config, facts: PublicFacts, classes: int, target: PrivacyTarget
    ) -> tuple[float, tuple[Guarantee, ...]]:
        shape = (int(full["queries"]), int(full["models"]), classes)
        epsilon, delta, how, unit = target.epsilon, target.delta, full["composition"], target.unit
        if how == "published":
            return 1 / soft_vote.as_published(epsilon, *shape, unit=unit).beta, ()
        found = [soft_vote.standard(epsilon, *shape, unit=unit)]
        if how != "standard":
            found.append(soft_vote.advanced(epsilon, delta, *shape, unit=unit))
        if how == "joint":
            found.append(soft_vote.optimal(epsilon, delta, *shape, unit=unit))
        best = max(found, key=lambda one: one.beta)
        return 1 / best.beta, ()

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        return (
            f"{self._steps(full)} soft votes of {full['models']} {full['model']} models on disjoint parts, at "
            f"temperature {float(full['temperature']):.5g}"
        )

    def _work(self, full: Config, facts: PublicFacts) -> float:
        return super()._work(full, facts) if full["model"] == "linear" else float(facts.n) * int(full["epochs"])

    def _group(self, full: Config) -> str:
        if full["model"] == "linear":
            return trained_together(full, *ROWS, "models", "model")
        return trained_together(full, "models", "model", "hidden", "epochs", "learning_rate", "batch_size")

    def queries(self, plan: PrivacyPlan) -> int:
        """See `trainables.measures.protocols.Answering`."""
        return int(plan.config["queries"])

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """See `trainables.measures.protocols.Auditable`."""
        from trainables.systems.private_prediction.neighbours import of_votes

        return of_votes(plan, facts)


MODEL_SENSITIVITY = ModelSensitivity("model-sensitivity", MODEL_SENSITIVITY_KNOBS)
PREDICTION_SENSITIVITY = PredictionSensitivity("prediction-sensitivity", PREDICTION_SENSITIVITY_KNOBS)
LOSS_PERTURBATION = LossPerturbation("loss-perturbation", LOSS_PERTURBATION_KNOBS)
SUBSAMPLE_AND_AGGREGATE = SubsampleAndAggregate("subsample-and-aggregate", SUBSAMPLE_KNOBS)

"""Soft votes of models on disjoint parts of the records."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms import noisy_vote
from dpcore.mechanisms.noisy_vote import NoisyVote
from trainables import models
from trainables.hyperparameters import read
from trainables.measures.hooks import Neighbours
from trainables.planning import ClaimTerms
from trainables.system import (
    Config,
    Dataset,
    DatasetSpec,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    Traits,
)
from trainables.systems.answering import AnsweringSystem, answer_next, group_of
from trainables.systems.linear import classes_of
from trainables.systems.vandermaaten2020.minimiser import (
    ROWS,
    Composition,
    PrivatePrediction,
    SubsampleKnobs,
    at_delta_zero,
    descent_work,
    pure_claim,
)
from trainables.systems.vandermaaten2020.neighbours import of_votes
from trainables.systems.vandermaaten2020.voters import winners
from trainables.training.noise import normals

Labels = NDArray[np.int64]

PURE_CLAIM = "What is refuted is the pure claim, made for every delta; what is proved at this one stands beside it."


class SubsampleAndAggregate(
    PrivatePrediction[SubsampleKnobs, NoisyVote], AnsweringSystem[SubsampleKnobs, NoisyVote, Labels]
):
    """Theorems 7 and 8, at the exact loss of one vote; or the refuted beta = epsilon/B, charged that loss too."""

    name = "subsample-and-aggregate"
    knobs = SubsampleKnobs
    traits = Traits(units=True)
    solves = MappingProxyType({"noise": "temperature", "steps": "queries"})

    def adjacencies_on(self, facts: DatasetSpec) -> tuple[Adjacency, ...]:
        """Under which one neighbour changes one vote.

        Records have no public names: parts are made of positions, which add-remove would shift. Units have ids, whose
        hashes make the parts: there a unit that gives way to one of another id would change two votes.
        """
        return (Adjacency.REPLACE_ONE,) if facts.unit is None else (Adjacency.ADD_REMOVE,)

    def check(self, knobs: SubsampleKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries or models beyond the data, model)."""
        super().check(knobs, facts, target, given)
        if knobs.models > facts.n:
            raise InvalidValue("models", knobs.models, f"at most n={facts.n} records of {facts.dataset}")
        if knobs.model != "linear":
            models.check(knobs.model, facts)
        return None

    def noise(self, knobs: SubsampleKnobs, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """See `SolvedSystem.noise`: the temperature."""
        shape = (knobs.queries, knobs.models, classes_of(facts))
        epsilon, delta, how, unit = target.epsilon, target.delta, knobs.composition, target.unit
        if how is Composition.PUBLISHED:
            return 1 / noisy_vote.as_published(epsilon, *shape, unit=unit).beta
        found = [noisy_vote.standard(epsilon, *shape, unit=unit)]
        if how is not Composition.STANDARD:
            found.append(noisy_vote.advanced(epsilon, delta, *shape, unit=unit))
        if how is Composition.JOINT:
            found.append(noisy_vote.optimal(epsilon, delta, *shape, unit=unit))
        return 1 / max(one.beta for one in found)

    def mechanism(self, knobs: SubsampleKnobs, facts: DatasetSpec, terms: ClaimTerms) -> NoisyVote:
        """See `PlannedSystem.mechanism`."""
        return NoisyVote(
            beta=1 / knobs.temperature,
            models=knobs.models,
            classes=classes_of(facts),
            adjacency=terms.adjacency,
            steps=knobs.queries,
        )

    def claim(self, knobs: SubsampleKnobs, released: NoisyVote, facts: DatasetSpec, target: PrivacyTarget) -> Guarantee:
        """See `PlannedSystem.claim`: the least that is proved, or what the paper claims of its own rule."""
        if knobs.composition is not Composition.PUBLISHED:
            return _proved(released, target)[0]
        # At the budget's delta: one delta serves every axis.
        epsilon, queries = knobs.queries / knobs.temperature, knobs.queries
        vote = noisy_vote.as_published(
            epsilon, queries, knobs.models, released.classes, adjacency=target.adjacency, unit=target.unit
        )
        lines = (PURE_CLAIM,) if vote.guarantee.status is Status.REFUTED else ()
        return replace(vote.guarantee, delta=target.delta, assumptions=(*vote.guarantee.assumptions, *lines))

    def beside(
        self, knobs: SubsampleKnobs, released: NoisyVote, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: whatever is proved and is not the claim."""
        proved = _proved(released, target)
        others = proved if knobs.composition is Composition.PUBLISHED else proved[1:]
        return (*others, at_delta_zero(proved[0], released.each, released.steps))

    def describe(self, knobs: SubsampleKnobs, released: NoisyVote, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} soft votes of {released.models} {knobs.model} models on disjoint parts, at "
            f"temperature {knobs.temperature:.5g}"
        )

    def work(self, knobs: SubsampleKnobs, released: NoisyVote, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        if knobs.model == "linear":
            return descent_work(facts.n, knobs.regularisation)
        return float(facts.n) * knobs.epochs

    def group(self, knobs: SubsampleKnobs) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone share their training."""
        if knobs.model == "linear":
            return group_of(knobs, *ROWS, "models", "model")
        return group_of(knobs, "models", "model", "hidden", "epochs", "learning_rate", "batch_size")

    def trained(self, knobs: SubsampleKnobs, data: Dataset, execution: RunSettings) -> Labels:
        """See `TrainedOnce.trained`: what each member says of each validation record."""
        return winners(knobs, data, execution)

    def answer(
        self,
        run: Run,
        knobs: SubsampleKnobs,
        released: NoisyVote,
        trained: Labels,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `TrainedOnce.answer`: voted labels."""
        draw = normals(run, execution)

        def answers(asked: Labels) -> dict[str, NDArray[Any]]:
            votes = [np.bincount(column, minlength=released.classes) for column in trained[:, asked].T]
            return {"labels": np.array([released.release(one, draw) for one in votes], dtype=np.int64)}

        answer_next(run, data, released.steps, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.measures.hooks.Auditable`."""
        return of_votes(read(self.knobs, plan.config), self.mechanism_of(plan, facts), plan.guarantee, facts)


def _proved(released: NoisyVote, target: PrivacyTarget) -> list[Guarantee]:
    """By optimal composition and by zCDP, the lesser first."""
    claim = pure_claim(released.each, released.steps, target, Status.PROVED, (noisy_vote.ONE_VOTE,))
    zcdp = replace(
        claim,
        epsilon=noisy_vote.zcdp_epsilon(released.beta, released.steps, target.delta),
        accountant="zcdp",
        theorem=noisy_vote.ZCDP_THEOREM,
    )
    return sorted([claim, zcdp], key=lambda one: one.epsilon)


SUBSAMPLE_AND_AGGREGATE = SubsampleAndAggregate()

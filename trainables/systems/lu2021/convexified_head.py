"""`convexified-head`: the risk-averse loss on a linear head in a ball, certified, with noise on every logit.

Mathematics and proof: `dpcore.papers.lu2021`. What the certificate leaves open (1% more) is charged.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.output_perturbation import NoiseLaw, OutputPerturbation
from dpcore.papers import lu2021 as convexified
from dpcore.papers.lu2021 import Head, minimise_head
from trainables.hooks import Neighbours
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import Case, Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, RunSettings, Split, State
from trainables.systems.answering import ACCURACY, AnsweringSystem, QueryHyperparameters, answer_queries
from trainables.systems.linear import RowHyperparameters, at, classes_of, labels_of
from trainables.systems.lu2021.convexified_loss import NOISE_MAX, NOISE_MIN, RiskHyperparameters, alike, odd_one
from trainables.training.noise import normals

Array = NDArray[np.float64]

OPEN = 0.01
"""Share of the exact sensitivity that the certificate may leave open."""
_FROZEN_SEED = 2021
"""Public seed of the frozen random units: no record has a say in them."""


@hyperparameters
class ConvexifiedHeadHyperparameters(QueryHyperparameters, RowHyperparameters, RiskHyperparameters):
    """Of `convexified-head`.

    radius            largest norm of the head's weights; it bounds the loss, and so the weight of a badly fitted record
    features          what the head sees: the records themselves, or frozen random tanh units drawn from a public seed
    hidden            random tanh units, if any
    noise_multiplier  sigma on every logit divided by the head's sensitivity; solved from epsilon by default
    """

    radius: float = hyperparameter(low=1e-6, high=1e3, default=1.0)
    features: str = hyperparameter(choices=("records", "random-tanh"), default="records")
    hidden: int = hyperparameter(low=1, high=20_000, default=128, unit="units")
    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX)


class ConvexifiedHead(AnsweringSystem[ConvexifiedHeadHyperparameters, OutputPerturbation, Array]):
    """A certified linear head; every logit of every answer has noise of its own."""

    name = "convexified-head"
    source = "Lu et al. 2021, repaired"
    params = ConvexifiedHeadHyperparameters
    metrics = (ACCURACY,)
    adjacencies = (Adjacency.REPLACE_ONE,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    deciding = ("alpha", "regularisation", "radius", "features", "hidden", "clip_norm", "bias")

    def check(self, case: Case[ConvexifiedHeadHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (n, queries)."""
        head_of(case.params, case.facts)
        super().check(case)

    def noise(self, case: Case[ConvexifiedHeadHyperparameters]) -> float:
        """See `SolvedSystem.noise`."""
        return math.sqrt(case.params.queries) / mu_gdp(case.target.epsilon, case.target.delta)

    def mechanism(self, case: Case[ConvexifiedHeadHyperparameters]) -> OutputPerturbation:
        """See `PlannedSystem.mechanism`."""
        return OutputPerturbation(
            law=NoiseLaw.GAUSSIAN,
            noise_multiplier=case.params.noise_multiplier,
            sensitivity=head_of(case.params, case.facts).sensitivity,
            adjacency=case.target.adjacency,
            steps=case.params.queries,
        )

    def claim(self, case: Case[ConvexifiedHeadHyperparameters], released: OutputPerturbation) -> Guarantee:
        """See `PlannedSystem.claim`."""
        head = head_of(case.params, case.facts)
        claim = convexified.answers_guarantee(head, released.scale, released.steps, case.target.delta)
        return replace(claim, unit=case.target.unit)

    def describe(self, case: Case[ConvexifiedHeadHyperparameters], released: OutputPerturbation) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} logit vectors of a certified head (risk aversion {case.params.alpha:.4g}, radius "
            f"{case.params.radius:.4g}), each with Gaussian noise of {released.noise_multiplier:.5g} times its "
            f"sensitivity {released.sensitivity:.4g}"
        )

    def work(self, case: Case[ConvexifiedHeadHyperparameters], released: OutputPerturbation) -> float:
        """See `PlannedSystem.work`."""
        return float(case.facts.n) * head_of(case.params, case.facts).iterations

    def trained(self, params: ConvexifiedHeadHyperparameters, data: Dataset, settings: RunSettings) -> Array:
        """See `TrainedOnce.trained`."""
        return minimised(params, data)

    def answer(self, fit: Fit[ConvexifiedHeadHyperparameters, OutputPerturbation], trained: Array) -> None:
        """See `TrainedOnce.answer`."""
        draw = normals(fit.run, fit.settings)

        def answers(asked: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
            seen = features_of(fit.params, fit.data.facts, at(fit.data.validation, asked))
            logits = fit.mechanism.release(convexified.head_logits(trained, seen), draw)
            return {"labels": logits.argmax(axis=1), "logits": logits}

        answer_queries(fit, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: all records alike but for one label, flipped or not, which moves a
        risk-averse minimiser most. The likelihood ratio of all answers is the best attack there is; it must not find
        more than the claim allows."""
        params, released = self.read(plan)
        without_it, with_it = alike(facts), odd_one(facts)

        @lru_cache(maxsize=1)
        def logits() -> tuple[Array, Array]:
            # All queries are alike.
            query = features_of(params, facts, without_it.validation)[:1]
            return query @ minimised(params, with_it), query @ minimised(params, without_it)

        def score(shown: State) -> float:
            inside, outside = logits()
            answers = np.asarray(shown["logits"], dtype=np.float64)
            return float(np.sum((answers - outside) ** 2 - (answers - inside) ** 2) / (2 * released.scale**2))

        return Neighbours(
            with_it=with_it,
            without_it=without_it,
            score=score,
            doc="one label of identical records is flipped; the attacker takes the likelihood ratio of all noisy "
            "logits",
        )


CONVEXIFIED_HEAD = ConvexifiedHead()


def head_of(params: ConvexifiedHeadHyperparameters, facts: DatasetSpec) -> Head:
    """The training problem, with the tolerance that adds `OPEN` to its sensitivity."""
    exact = Head(
        records=facts.n,
        classes=classes_of(facts),
        alpha=params.alpha,
        regulariser=params.regularisation,
        radius=params.radius,
        tolerance=1.0,
    )
    return replace(exact, tolerance=OPEN * exact.exact_sensitivity * exact.modulus / 2)


def minimised(params: ConvexifiedHeadHyperparameters, data: Dataset) -> Array:
    """The certified head, shape (width, classes). Raises Uncertified where rounding spoiled the certificate."""
    seen = features_of(params, data.facts, data.train)
    return minimise_head(head_of(params, data.facts), seen, labels_of(data.train))


def features_of(params: ConvexifiedHeadHyperparameters, facts: DatasetSpec, split: Split) -> Array:
    """What the head sees of every record: rows of norm at most 1 that depend on no other record."""
    records = params.rows(facts, split)
    if params.features == "records":
        return records
    frozen = np.random.default_rng(_FROZEN_SEED).standard_normal((records.shape[1] + 1, params.hidden))
    # Rows have norm at most 1, so the units see arguments of spread at most 2.
    hidden: Array = np.tanh(2 * records @ frozen[:-1] + frozen[-1]) / np.sqrt(params.hidden)
    return hidden

"""Neighbouring data sets that the four systems tell apart best, for audits over many runs. No record is read.

An attacker who chose all records but one chose these: groups of records, each group along columns of its own, push the
target's prediction to a wrong class without curving the objective along the target, so that it moves the minimiser by
nearly the whole of its sensitivity; or, where queries are answered, nothing but the target says anything about them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.loss_perturbation import PerturbedMinimiser
from dpcore.mechanisms.noise_families import NoiseLaw
from dpcore.mechanisms.noisy_vote import NoisyVote
from dpcore.mechanisms.output_perturbation import OutputPerturbation
from trainables.measures.hooks import Neighbours
from trainables.system import Dataset, DatasetSpec, Split, State
from trainables.systems.linear import RowKnobs, classes_of, labels_of
from trainables.systems.vandermaaten2020 import voters
from trainables.systems.vandermaaten2020.minimiser import (
    LossPerturbationKnobs,
    ModelSensitivityKnobs,
    PredictionSensitivityKnobs,
    SubsampleKnobs,
    minimiser_of,
)

Array = NDArray[np.floating]
Theta = NDArray[np.float64]
Labels = NDArray[np.int64]

GROUPS, LEANING = 32, 0.4
"""Number of groups that push, where there are columns for so many, and the length of the target's part in theirs.

The target then moves the minimiser by 0.75 to 0.92 of its sensitivity for regularisations of 1e-4 to 1e-2 on 64 columns
and 10 classes, and by 0.5 to 0.7 at 0.1, where nothing pushes far.
"""


def of_minimiser(knobs: ModelSensitivityKnobs, mechanism: OutputPerturbation, facts: DatasetSpec) -> Neighbours:
    """For a noisy minimiser."""
    with_it, without_it, groups = _moved_furthest(knobs, mechanism.adjacency, facts)

    @cache
    def minimisers() -> tuple[Theta, Theta]:
        return minimiser_of(knobs, with_it), minimiser_of(knobs, without_it)

    def score(released: State) -> float:
        theta = np.asarray(released["theta"], dtype=np.float64)
        near, far = minimisers()
        if mechanism.law is NoiseLaw.GAUSSIAN:
            return float(np.vdot(theta - (near + far) / 2, near - far))
        return float(np.linalg.norm(theta - far) - np.linalg.norm(theta - near))

    return _of_model(with_it, without_it, groups, score)


def of_perturbed_minimiser(
    knobs: LossPerturbationKnobs, mechanism: PerturbedMinimiser, facts: DatasetSpec
) -> Neighbours:
    """For loss perturbation."""
    with_it, without_it, groups = _moved_furthest(knobs, mechanism.adjacency, facts)

    def linear(data: Dataset, theta: Theta) -> float:
        risk = mechanism.risk(knobs.rows(facts, data.train), labels_of(data.train))
        return float(np.linalg.norm(facts.n * risk.value_and_gradient(theta)[1]))

    def score(released: State) -> float:
        # The linear term that would make this model the minimiser: shorter under the right data set.
        theta = np.asarray(released["theta"], dtype=np.float64)
        return linear(without_it, theta) - linear(with_it, theta)

    return _of_model(with_it, without_it, groups, score)


def _moved_furthest(knobs: RowKnobs, adjacency: Adjacency, facts: DatasetSpec) -> tuple[Dataset, Dataset, int]:
    """Data sets with the target and without it, and the number of groups that push it."""
    replaces = adjacency is Adjacency.REPLACE_ONE
    families = 1 + replaces
    groups = max(0, min(GROUPS, (_width(facts) - 1) // families))
    columns = _Columns(facts, knobs.clip_norm, 1 + families * groups)
    others, labels = _pushing(columns, groups, families, facts)
    in_ = columns.target(range(1, 1 + groups), LEANING)
    with_it = columns.data(np.vstack([in_, others]), np.append([1], labels), in_[None])
    if replaces:
        # The same prediction from the other side: pushed to class 1, labelled 0.
        out = columns.target(range(1 + groups, 1 + 2 * groups), LEANING)
        without_it = columns.data(np.vstack([out, others]), np.append([0], labels), in_[None])
    else:
        without_it = columns.data(others, labels, in_[None], targets=0)
    return with_it, without_it, families * groups


def _of_model(with_it: Dataset, without_it: Dataset, groups: int, score: Callable[[State], float]) -> Neighbours:
    return Neighbours(
        with_it=with_it,
        without_it=without_it,
        score=score,
        doc=f"one record whose prediction {groups} groups of others push to the wrong class; the attacker "
        "knows all of them and reads the released model",
    )


def of_noisy_answers(
    knobs: PredictionSensitivityKnobs, mechanism: OutputPerturbation, facts: DatasetSpec
) -> Neighbours:
    """For noise on the logits of each query: every query is the target, which alone says anything about it."""
    columns = _Columns(facts, knobs.clip_norm, 1)
    target = columns.target(range(0), 0.0)
    asked = np.repeat(target[None], mechanism.steps, axis=0)
    nothing = np.zeros((facts.n - 1, columns.count), dtype=np.float32)
    # A bias, or a shared category, would make them speak: they balance.
    labels = np.arange(facts.n - 1) % classes_of(facts)
    with_it = columns.data(np.vstack([target, nothing]), np.append([1], labels), asked)
    if mechanism.adjacency is Adjacency.REPLACE_ONE:
        without_it = columns.data(np.vstack([target, nothing]), np.append([0], labels), asked)
    else:
        without_it = columns.data(nothing, labels, asked, targets=0)

    def score(released: State) -> float:
        return float((released["labels"] == 1).sum() - (released["labels"] == 0).sum())

    return Neighbours(
        with_it=with_it,
        without_it=without_it,
        score=score,
        doc="one record that alone decides the prediction which is queried; the attacker counts answers",
    )


def of_votes(knobs: SubsampleKnobs, mechanism: NoisyVote, claim: Guarantee, facts: DatasetSpec) -> Neighbours:
    """For soft votes: one record changes the mind of one model, and the votes are split where that shows most."""
    beta, models, queries, classes = mechanism.beta, mechanism.models, mechanism.steps, mechanism.classes
    if claim.status is Status.REFUTED:
        # Such a claim is tested at its one point, any other on a whole curve.
        each = claim.epsilon / queries
        dissenters = max(range(models), key=lambda k: _excess(each, beta, models, k, classes))
    else:
        dissenters = max(range(models), key=lambda k: _divergence(beta, models, k, classes))
    columns = _Columns(facts, knobs.clip_norm, 1)
    target = columns.target(range(0), 0.0)
    parts = voters.parts_of(facts.n, models, seed=0)
    inputs, labels = np.repeat(target[None], facts.n, axis=0), np.zeros(facts.n, dtype=np.int64)
    for number, part in enumerate(parts[1:], start=1):
        labels[part] = 1 if number <= dissenters else 0
    first, rest = parts[0][0], parts[0][1:]
    # The others of the first part balance; where one is left over it whispers, and the target outvotes it.
    labels[rest] = np.arange(len(rest)) % 2
    if len(rest) % 2:
        labels[rest[-1]] = 1
        inputs[rest[-1]] = 0.5 * target
    asked = np.repeat(target[None], queries, axis=0)
    before, after = labels.copy(), labels.copy()
    before[first], after[first] = 0, 1
    log_ratio = _log_probabilities(beta, models, dissenters + 1, classes) - _log_probabilities(
        beta, models, dissenters, classes
    )
    return Neighbours(
        with_it=columns.data(inputs, after, asked),
        without_it=columns.data(inputs, before, asked),
        score=lambda released: float(log_ratio[released["labels"]].sum()),
        doc=f"one record that turns one of {models} votes, {dissenters} of which dissent; the attacker reads labels",
    )


def _pushing(columns: _Columns, groups: int, families: int, facts: DatasetSpec) -> tuple[Array, Labels]:
    """n - 1 records in groups of equal size, [n - 1, columns], and their labels: 0 for the first family, then 1."""
    if not groups:
        return np.zeros((facts.n - 1, columns.count), dtype=np.float32), np.arange(facts.n - 1) % classes_of(facts)
    members = np.arange(facts.n - 1) % (groups * families)
    directions = np.stack([columns.direction(1 + group) for group in range(groups * families)])
    return directions[members], (members >= groups).astype(np.int64)


def _width(facts: DatasetSpec) -> int:
    return sum(math.prod(one.shape) for one in facts.features.values() if one.cardinality is None)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The real-valued columns of a data set in `blocks` blocks; block 0 is the target's own."""

    facts: DatasetSpec
    clip_norm: float
    blocks: int

    @property
    def count(self) -> int:
        return _width(self.facts)

    def direction(self, block: int) -> Array:
        """The unit vector that spreads over one block; zero where there are no real columns."""
        # Single precision, as the records of every source: a data set of images would fill gigabytes otherwise.
        out = np.zeros(self.count, dtype=np.float32)
        if self.count:
            mine = np.array_split(np.arange(self.count), self.blocks)[block]
            out[mine] = 1 / math.sqrt(len(mine))
        return out

    def target(self, towards: range, leaning: float) -> Array:
        """A unit vector in its own block, leaning towards others."""
        out = self.direction(0) * (math.sqrt(1 - leaning**2) if towards else 1.0)
        for block in towards:
            out += self.direction(block) * leaning / math.sqrt(len(towards))
        return out

    def data(self, vectors: Array, labels: Labels, queries: Array, targets: int = 1) -> Dataset:
        """A data set of these training records, the first `targets` of which are the target, and these queries."""
        return Dataset(
            facts=self.facts,
            train=self._split(vectors, labels, targets),
            validation=self._split(queries, np.zeros(len(queries), dtype=np.int64), len(queries)),
            fingerprint="chosen by the attacker",
        )

    def _split(self, vectors: Array, labels: Labels, targets: int) -> Split:
        inputs: dict[str, NDArray[np.generic]] = {}
        start, scaled = 0, vectors * np.float32(self.clip_norm)
        for name, feature in self.facts.features.items():
            if feature.cardinality is not None:
                codes = np.zeros((len(vectors), *feature.shape), dtype=np.int64)
                codes[:targets] = min(1, feature.cardinality - 1)
                inputs[name] = codes
                continue
            stop = start + math.prod(feature.shape)
            values = np.clip(scaled[:, start:stop], feature.low, feature.high).astype(np.float32)
            inputs[name] = values.reshape(len(vectors), *feature.shape)
            start = stop
        return Split(inputs, labels)


def _log_probabilities(beta: float, models: int, dissenters: int, classes: int) -> Array:
    votes = np.zeros(classes)
    votes[:2] = models - dissenters, dissenters
    return beta * votes - float(np.logaddexp.reduce(beta * votes))


def _excess(epsilon: float, beta: float, models: int, dissenters: int, classes: int) -> float:
    """By how much the labels after exceed exp(epsilon) times those before: the hockey-stick divergence."""
    before = _log_probabilities(beta, models, dissenters, classes)
    after = _log_probabilities(beta, models, dissenters + 1, classes)
    return float(np.exp(after) @ -np.expm1(np.minimum(epsilon + before - after, 0.0)))


def _divergence(beta: float, models: int, dissenters: int, classes: int) -> float:
    """Between the labels after and before one more model dissents (Kullback & Leibler 1951)."""
    after = _log_probabilities(beta, models, dissenters + 1, classes)
    return float(np.exp(after) @ (after - _log_probabilities(beta, models, dissenters, classes)))

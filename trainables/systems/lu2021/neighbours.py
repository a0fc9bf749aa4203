"""Neighbouring data sets on which the answers of `convexified-loss` are told apart, and how.

`convexified-loss`, three classes or more: one logit of an answer has noise, so every pair of the others keeps its
difference to the last digit. An attacker who knows both neighbouring data sets trains both models itself (training has
a public seed), and looks whose differences occur. It is right with certainty, at every claimed epsilon: delta is 1.

`convexified-loss`, two classes: only the difference of the logits leaves, noised at a sensitivity that is no bound. One
mislabelled record among identical ones moves a risk-averse model by far more; the attacker compares the likelihoods of
the noised difference under both models.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.papers.convexified import NeuronNoise, OneNeuronAnswers
from trainables.hooks import Neighbours
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, State
from trainables.systems.linear import classes_of
from trainables.systems.lu2021.hyperparameters import ConvexifiedLossHyperparameters
from trainables.systems.lu2021.training import asked_logits

Array = NDArray[np.float64]

SEED = 7
"""Of the synthetic records: public, like everything about them."""

ROUND_OFF = 1e-9
"""Differences of logits that agree to this many units are the same number."""


def published_neighbours(
    params: ConvexifiedLossHyperparameters, mechanism: OneNeuronAnswers, facts: DatasetSpec
) -> Neighbours:
    """The last record of a synthetic data set, in or out (add-remove)."""
    with_it = synthetic(facts) if classes_of(facts) > 2 else odd_one(facts)
    fewer = Split(
        inputs={name: array[:-1] for name, array in with_it.train.inputs.items()}, targets=with_it.train.targets[:-1]
    )
    without_it = replace(with_it, train=fewer)
    classes = classes_of(facts)

    @lru_cache(maxsize=1)
    def logits() -> tuple[Array, Array]:
        return asked_logits(params, with_it), asked_logits(params, without_it)

    def score(released: State) -> float:
        inside, outside = logits()
        answers = np.asarray(released["log_probabilities"], dtype=np.float64)[: len(inside)]
        if classes > 2:
            return float(np.sum(np.log(_misfit(answers, outside)) - np.log(_misfit(answers, inside))))
        differences = (one[:, 1] - one[:, 0] for one in (answers, inside, outside))
        return _log_likelihood_ratio(mechanism, *differences)

    looks = (
        "whose differences of logits occur in an answer: one logit alone has noise"
        if classes > 2
        else "the likelihood of the noised difference of two logits under both models"
    )
    return Neighbours(
        with_it=with_it,
        without_it=without_it,
        score=score,
        doc=f"one record of made-up data leaves; the attacker trains both models and looks at {looks}",
    )


def synthetic(facts: DatasetSpec) -> Dataset:
    """Random records of the declared shapes, classes in turn."""
    rng = np.random.default_rng(SEED)

    def split(count: int) -> Split:
        inputs = {name: _random(feature, count, rng) for name, feature in facts.features.items()}
        return Split(inputs=inputs, targets=np.arange(count, dtype=np.int64) % classes_of(facts))

    return Dataset(facts=facts, train=split(facts.n), validation=split(facts.n_validation), fingerprint="synthetic")


def alike(facts: DatasetSpec) -> Dataset:
    """Identical records of class 0."""

    def split(count: int) -> Split:
        inputs = {}
        for name, feature in facts.features.items():
            kind = np.float32 if feature.cardinality is None else np.int64
            inputs[name] = np.zeros((count, *feature.shape), dtype=kind)
            if feature.cardinality is None:
                inputs[name].reshape(count, -1)[:, 0] = feature.high
        return Split(inputs=inputs, targets=np.zeros(count, dtype=np.int64))

    return Dataset(facts=facts, train=split(facts.n), validation=split(facts.n_validation), fingerprint="alike")


def odd_one(facts: DatasetSpec) -> Dataset:
    """Identical records of class 0, but for the last one's label: what moves a risk-averse minimiser most."""
    found = alike(facts)
    labels = found.train.targets.copy()
    labels[-1] = 1
    return replace(found, train=Split(inputs=found.train.inputs, targets=labels))


def _random(feature: InputSpec, count: int, rng: np.random.Generator) -> NDArray[np.generic]:
    shape = (count, *feature.shape)
    if feature.cardinality is not None:
        return rng.integers(feature.cardinality, size=shape)
    return rng.uniform(feature.low, feature.high, size=shape).astype(np.float32)


def _misfit(answers: Array, logits: Array) -> Array:
    """How far the nearest pair of classes is from the model's own difference, per answer; shape (answers,)."""
    pairs = np.triu_indices(answers.shape[1], 1)
    differences = (answers - logits)[:, pairs[0]] - (answers - logits)[:, pairs[1]]
    return np.maximum(np.abs(differences).min(axis=1), ROUND_OFF)


def _log_likelihood_ratio(mechanism: OneNeuronAnswers, seen: Array, inside: Array, outside: Array) -> float:
    scale = mechanism.scale(classes=2)
    if mechanism.noise is NeuronNoise.LAPLACE:
        return float(np.sum(np.abs(seen - outside) - np.abs(seen - inside)) / scale)
    return float(np.sum((seen - outside) ** 2 - (seen - inside) ** 2) / (2 * scale**2))

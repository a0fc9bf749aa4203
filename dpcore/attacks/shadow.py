"""The pieces of a shadow-model attack around the training: who trains on what, and what the attack model learns from.

Source: Shokri, Stronati, Song & Shmatikov (2017); sorted features from Salem et al. (2019); balanced halves from
Carlini et al. (2022). The shadow models and the attack model are trained elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


@dataclass(frozen=True, slots=True)
class ShadowSplits:
    """Which examples each shadow model trains on, and which it is tested on.

    inside   [K, N] booleans: shadow k trains on example n
    outside  [K, N] booleans: n is a non-member for shadow k. Disjoint from `inside`; an example in neither is unused.
    """

    inside: NDArray[np.bool_]
    outside: NDArray[np.bool_]


def disjoint_splits(examples: int, size: int, shadows: int, rng: np.random.Generator) -> ShadowSplits:
    """`shadows` draws of `size` members and `size` non-members out of `examples`, disjoint within each draw.

    Raises InvalidValue.
    """
    checks.count(minimum=1, examples=examples, size=size, shadows=shadows)
    if 2 * size > examples:
        raise checks.InvalidValue("size", size, f"at most {examples // 2}, half of the examples")
    inside, outside = np.zeros((2, shadows, examples), dtype=bool)
    for k in range(shadows):
        order = rng.permutation(examples)
        inside[k, order[:size]] = True
        outside[k, order[size : 2 * size]] = True
    return ShadowSplits(inside, outside)


def balanced_splits(examples: int, shadows: int, rng: np.random.Generator) -> ShadowSplits:
    """Every example inside exactly half of the shadows and outside the others, as LiRA needs; `shadows` is even.

    The examples of one shadow are independent of each other: their number is Binomial(examples, 1/2), not fixed.
    Raises InvalidValue.
    """
    checks.count(minimum=1, examples=examples)
    checks.count(minimum=2, shadows=shadows)
    if shadows % 2:
        raise checks.InvalidValue("shadows", shadows, "an even number")
    inside = rng.permuted(np.arange(shadows)[:, None] < np.full(examples, shadows // 2), axis=0)
    return ShadowSplits(inside, ~inside)


@dataclass(frozen=True, slots=True)
class AttackExamples:
    """What an attack model trains on: one row per (shadow, example) pair in which the example was used.

    features  [R, F] float64
    classes   [R] the true class; Shokri et al. train one attack model for each
    members   [R] booleans, the label
    shadows   [R] which shadow model the row comes from: hold out whole shadows, since rows of one depend on each other
    """

    features: NDArray[np.float64]
    classes: NDArray[np.int64]
    members: NDArray[np.bool_]
    shadows: NDArray[np.int64]


def prediction_features(probabilities: ArrayLike, labels: ArrayLike, top: int | None = None) -> NDArray[np.float64]:
    """Features of predictions: the probability vector, then the true class's cross-entropy loss.

    probabilities  [..., N, C], each row at least 0 with sum 1
    labels         [N] integers in 0..C-1
    top            None for the vector in the order of the classes (Shokri et al.); a number for its `top` largest
                   entries in decreasing order, which carry over between classes (Salem et al.)

    Returns [..., N, C + 1] or [..., N, top + 1]. A probability of 0 counts as the smallest positive number.
    Raises InvalidValue.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    # float32 softmax of many classes sums to 1 within about 1e-6.
    if p.ndim < 2 or not (p >= 0).all() or not np.allclose(p.sum(-1), 1.0, atol=1e-4):
        raise checks.InvalidValue("probabilities", np.shape(probabilities), "rows of probabilities, [..., N, C]")
    n, classes = p.shape[-2:]
    if y.shape != (n,) or not np.issubdtype(y.dtype, np.integer) or np.any((y < 0) | (y >= classes)):
        raise checks.InvalidValue("labels", labels, f"integers below {classes} of shape ({n},)")
    loss = -np.log(np.maximum(p[..., np.arange(n), y], np.finfo(np.float64).tiny))
    if top is not None:
        checks.count(minimum=1, top=top)
        if top > classes:
            raise checks.InvalidValue("top", top, f"at most {classes}, the number of classes")
        p = np.sort(p, axis=-1)[..., ::-1][..., :top]
    return np.concatenate([p, loss[..., None]], axis=-1)


def attack_examples(
    probabilities: ArrayLike, labels: ArrayLike, splits: ShadowSplits, top: int | None = None
) -> AttackExamples:
    """The attack model's training set from every shadow's predictions, [K, N, C], on the examples of `splits`.

    Raises InvalidValue.
    """
    features = prediction_features(probabilities, labels, top)
    if features.shape[:-1] != splits.inside.shape:
        expected = "(shadows, examples) = " + str(splits.inside.shape)
        raise checks.InvalidValue("probabilities", features.shape[:-1], expected)
    shadow, example = np.nonzero(splits.inside | splits.outside)
    return AttackExamples(
        features=features[shadow, example],
        classes=np.asarray(labels)[example].astype(np.int64),
        members=splits.inside[shadow, example],
        shadows=shadow.astype(np.int64),
    )

"""Training and answering of `convexified-loss`, and the shadow attack on its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from dpcore.audit.attacks import Decisions
from dpcore.mechanisms.noise_families import Normals
from dpcore.papers.convexified import OneNeuronAnswers, accuracy_loss
from trainables import hooks
from trainables.parallel import limited_threads
from trainables.planning import Fit
from trainables.system import Dataset, DatasetSpec, RunSettings, Split, State
from trainables.systems.answering import accuracy_of, next_answers
from trainables.systems.linear import classes_of, columns, labels_of
from trainables.systems.lu2021.hyperparameters import ConvexifiedLossHyperparameters, held_out, sensitivities
from trainables.systems.lu2021.network import Recipe, logits_of, train
from trainables.systems.lu2021.shadow import AttackModel, train_attack, train_shadows
from trainables.training.noise import normals

# Uniform, Laplace and normal draws from standard normals alone, so that any source of normals serves.

Array = NDArray[np.float64]


class FromNormals:
    """The part of NumPy's generator that the mechanisms ask for."""

    def __init__(self, normals: Normals) -> None:
        self._normals = normals

    def random(self, size: tuple[int, ...]) -> Array:
        """Uniform on (0, 1): the normal's own distribution function."""
        uniform: Array = ndtr(self._normals(size))
        return uniform

    def laplace(self, loc: float, scale: float, size: int) -> Array:
        """The difference of two exponentials, each half a sum of two squared normals."""
        squares = np.square(self._normals((4, size)))
        drawn: Array = loc + scale * (squares[0] + squares[1] - squares[2] - squares[3]) / 2
        return drawn

    def normal(self, loc: float, scale: float, size: int | tuple[int, ...]) -> Array:
        """N(loc, scale^2)."""
        return loc + scale * self._normals((size,) if isinstance(size, int) else size)


Positions = NDArray[np.int64]

SHADOWS_TOGETHER = 20
"""Shadow models side by side in memory."""

ATTACK = "attack."
"""Prefix of the attack's network in a run's state; it is made of validation records alone."""

_ANSWERED, _CORRECT, _CALLED, _MISCALLED = "answered", "correct", "members_called", "others_called"


@dataclass(frozen=True, slots=True)
class Trained:
    """One training: logits of the target on its own records [n, C] and on the validation records [V, C].

    members, others  positions in both, in the order in which they are asked; `others` end where the attacker's begin
    attack           None without shadows
    """

    member_logits: Array
    other_logits: Array
    members: Positions
    others: Positions
    attack: AttackModel | None


def train_group(
    params: ConvexifiedLossHyperparameters, data: Dataset, device: str = "cpu", attacked: bool = True
) -> Trained:
    """The target and, where asked for, the shadows and the attack: a function of data and public seed.

    attacked  False leaves the shadows out where only the answers matter
    """
    facts, draw = data.facts, params.draw
    classes, recipe = classes_of(facts), recipe_of(params)
    inputs, labels = flat_inputs(facts, data.train), labels_of(data.train)
    others = flat_inputs(facts, data.validation)
    order = question_order(draw, len(others))
    pool = order[held_out(params, facts) :]
    target = train(inputs, labels, np.arange(len(labels))[None], classes, recipe, _seed(draw, 1), device)
    attack = None
    if attacked and params.shadows:
        attack = _attacked(params, others[pool], data.validation.targets[pool].astype(np.int64), facts, device)
    return Trained(
        member_logits=target.logits(inputs)[0],
        other_logits=target.logits(others)[0],
        members=np.random.default_rng([draw, 5]).permutation(len(labels)),
        others=order[: held_out(params, facts)],
        attack=attack,
    )


def question_order(draw: int, records: int) -> Positions:
    """Validation records in the order in which they are asked; under an attack the last ones are the attacker's."""
    return np.random.default_rng([draw, 0]).permutation(records)


def asked_logits(params: ConvexifiedLossHyperparameters, data: Dataset) -> Array:
    """Logits without noise of the queried validation records, in the order of the answers, by a fresh training."""
    with limited_threads(RunSettings().threads):
        trained = train_group(params, data, attacked=False)
    _, others = asked(params, trained, 0, params.queries)
    return trained.other_logits[others]


def recipe_of(params: ConvexifiedLossHyperparameters) -> Recipe:
    """How the target and its shadows are trained."""
    return Recipe(
        alpha=params.alpha,
        regularisation=params.regularisation,
        hidden=params.hidden,
        learning_rate=params.learning_rate,
        batch_size=params.batch_size,
        epochs=params.epochs,
    )


def flat_inputs(facts: DatasetSpec, split: Split) -> NDArray[np.float32]:
    """The records as a network sees them: see `trainables.systems.linear.columns`."""
    return np.ascontiguousarray(columns(facts, split, np.float32))


def _attacked(
    params: ConvexifiedLossHyperparameters,
    inputs: NDArray[np.float32],
    labels: Positions,
    facts: DatasetSpec,
    device: str,
) -> AttackModel:
    draw, recipe, classes = params.draw, recipe_of(params), classes_of(facts)

    def fit_many(inside: NDArray[np.bool_]) -> Array:
        parts = []
        for start in range(0, len(inside), SHADOWS_TOGETHER):
            rows = np.stack([np.flatnonzero(one) for one in inside[start : start + SHADOWS_TOGETHER]])
            shadows = train(inputs, labels, rows, classes, recipe, _seed(draw, 2 + start), device)
            parts.append(softmax(shadows.logits(inputs), axis=-1))
        return np.concatenate(parts)

    examples = train_shadows(
        fit_many,
        labels,
        shadows=params.shadows,
        size=min(facts.n, len(labels) // 2),
        rng=np.random.default_rng([draw, 3]),
    )
    return train_attack(examples, seed=_seed(draw, 4), epochs=params.attack_epochs)


def answer(fit: Fit[ConvexifiedLossHyperparameters, OneNeuronAnswers], trained: Trained) -> None:
    """Probability vectors for the next queries; only counts are kept, and the attack, never the model."""
    run, data, attack = fit.run, fit.data, trained.attack
    counts = {name: 0 if run.state is None else int(run.state[name]) for name in (_ANSWERED, *_TALLIES)}
    next_ = next_answers(run, fit.mechanism.steps, counts[_ANSWERED])
    members, others = asked(fit.params, trained, next_.start, next_.stop)
    logits = np.concatenate([trained.other_logits[others], trained.member_logits[members]])
    released = fit.mechanism.release(logits, FromNormals(normals(run, fit.settings)))
    labels = released.argmax(axis=1)
    hooks.released(run, asked=others, labels=labels[: len(others)], log_probabilities=released)
    counts[_ANSWERED] = next_.stop
    counts[_CORRECT] += int((labels[: len(others)] == data.validation.targets[others]).sum())
    if attack is not None and len(members):
        probabilities = softmax(released, axis=1)
        called = attack.decisions(
            probabilities[len(others) :],
            labels_of(data.train)[members],
            probabilities[: len(others)],
            labels_of(data.validation)[others],
        )
        counts[_CALLED] += called.true_positives
        counts[_MISCALLED] += called.false_positives
    state = {name: np.asarray(value) for name, value in counts.items()}
    if attack is not None:
        state |= {f"{ATTACK}{name}": value for name, value in attack.state().items()}
    stability = sensitivities(fit.params, data.facts).stability
    run.checkpoint(next_.stop, state, _metrics(fit.params, data, trained, counts, stability))


_TALLIES = (_CORRECT, _CALLED, _MISCALLED)


def attack_of(state: State) -> AttackModel:
    """The attack's network of a run with shadows. Raises KeyError without one."""
    return AttackModel.from_state(
        {name.removeprefix(ATTACK): value for name, value in state.items() if name.startswith(ATTACK)}
    )


def asked(
    params: ConvexifiedLossHyperparameters, trained: Trained, start: int, stop: int
) -> tuple[Positions, Positions]:
    """Training and validation records behind queries start..stop-1. Under an attack they take turns."""
    if not params.shadows:
        return np.empty(0, dtype=np.int64), trained.others[start:stop]
    # Odd queries ask members. A data set with one record less than declared has its first one asked again.
    members = np.arange(start // 2, stop // 2) % len(trained.members)
    return trained.members[members], trained.others[(start + 1) // 2 : (stop + 1) // 2]


def _metrics(
    params: ConvexifiedLossHyperparameters, data: Dataset, trained: Trained, counts: dict[str, int], stability: float
) -> dict[str, float]:
    members, others = asked(params, trained, 0, counts[_ANSWERED])
    metrics = {"stability": stability, **accuracy_of(counts[_CORRECT], len(others))}
    attack = trained.attack if len(members) else None
    if attack is not None:
        metrics["shadow_leak"] = counts[_CALLED] / len(members) - counts[_MISCALLED] / len(others)
    if not params.reference:
        return metrics
    other_labels, member_labels = data.validation.targets, labels_of(data.train)
    right = trained.other_logits[others].argmax(axis=1) == other_labels[others]
    metrics["baseline_accuracy"] = float(right.mean())
    metrics["train_accuracy"] = float((trained.member_logits.argmax(axis=1) == member_labels).mean())
    if right.any():
        metrics["accuracy_loss"] = accuracy_loss(metrics["accuracy"], metrics["baseline_accuracy"])
    if attack is not None:
        called: Decisions = attack.decisions(
            softmax(trained.member_logits[members], axis=1),
            member_labels[members],
            softmax(trained.other_logits[others], axis=1),
            other_labels[others].astype(np.int64),
        )
        metrics["baseline_leak"] = called.advantage
    return metrics


def _seed(draw: int, purpose: int) -> int:
    return int(np.random.SeedSequence([draw, purpose]).generate_state(1)[0])


# The shadow attack of a `convexified-loss` run, on models that other systems trained on the same records.


def under_attack(data: Dataset, attacker: State, records: int) -> Callable[[State], tuple[float, float]]:
    """What judges a `tanh_128` in the state of a finished run: (accuracy, Priv_Leak).

    Both are taken over the training records and over the first `records` validation records, at most a third of them,
    in the order in which draw 0 of the attacker asks: its own records, the last ones, are no non-members. `attacker` is
    the state of a run with shadows.
    """
    attack = attack_of(attacker)
    members, others = (flat_inputs(data.facts, split) for split in (data.train, data.validation))
    member_labels, other_labels = (split.targets.astype(np.int64) for split in (data.train, data.validation))
    asked = question_order(0, len(others))[: min(records, len(others) // 3)]

    def judged(state: State) -> tuple[float, float]:
        inside, outside = logits_of(state, members), logits_of(state, others[asked])
        accuracy = float((outside.argmax(axis=1) == other_labels[asked]).mean())
        leak = attack.priv_leak(softmax(inside, axis=1), member_labels, softmax(outside, axis=1), other_labels[asked])
        return accuracy, leak

    return judged

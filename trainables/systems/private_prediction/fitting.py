"""Training and answering of the private-prediction systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise
from dpcore.mechanisms import loss_perturbation, soft_vote
from dpcore.mechanisms.noise_families import GaussianNoise, Noise, Normals, RadialNoise
from dpcore.mechanisms.query_budget import QueryBudget
from dpcore.randomness import Purpose
from trainables.data.content import fingerprint
from trainables.measures import watching
from trainables.system import Config, Dataset, Execution, PrivacyPlan, PublicFacts, Run, Split, State
from trainables.systems.linear import classes_of, rows, width_of
from trainables.systems.private_prediction.scales import sensitivity_of, split_of
from trainables.systems.private_prediction.voters import winners
from trainables.training.noise import normals

Array = NDArray[np.float64]

PERTURBED_TAU = 1e-11
"""Gradient norm of perturbed minimisers: small, so that hiding the rest takes next to no noise."""

_THETA, _ANSWERED, _CORRECT = "theta", "answered", "correct"


def fit(runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
    """Execute every run; one training serves all runs of a group. Raises InvalidValue when n is not that of the facts.

    A record more or less than n is possible under add-remove alone: the divisor stays the public n.
    """

    def votes(config: Config, data: Dataset) -> Kept:
        return winners(config, data, execution)

    # Of the records as they are: a neighbour's model must never be taken for this one's.
    digest = fingerprint(data.train, units=data.units)
    for run in runs:
        plan, draw = run.member.plan, normals(run, execution)
        if plan.guarantee.adjacency is Adjacency.REPLACE_ONE and len(data.train) != data.facts.n:
            raise InvalidValue("n", data.facts.n, f"the number of records, {len(data.train)}, under replace-one")
        if plan.system == "loss-perturbation":
            run.may_execute(1)
            _judge(run, data, _perturbed(run, data, draw))
        elif plan.system == "model-sensitivity":
            theta = _TRAINED.of(minimiser_of, plan, data, digest)
            run.may_execute(1)
            noise = noise_of(plan.config, data.facts.n, plan.guarantee.adjacency)
            _judge(run, data, theta + noise.sample(theta.shape, draw))
        elif plan.system == "prediction-sensitivity":
            _answer(run, data, _noisy_labels(run, data, _TRAINED.of(minimiser_of, plan, data, digest), draw))
        else:
            _answer(run, data, _voted_labels(run, data, _TRAINED.of(votes, plan, data, digest), draw))


Kept = NDArray[Any]


class _Trained:
    """The latest trainings of this process: model and prediction sensitivity share theirs, launch after launch."""

    def __init__(self, size: int) -> None:
        self._size, self._kept = size, dict[tuple[str, str, str], Kept]()

    def of(self, train: Callable[[Config, Dataset], Kept], plan: PrivacyPlan, data: Dataset, digest: str) -> Kept:
        """What `train` makes of `plan.config` on `data`: a function of `plan.group` and the records alone."""
        key = (train.__name__, plan.group, digest)
        if key not in self._kept:
            while len(self._kept) >= self._size:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = train(plan.config, data)
        return self._kept[key]


_TRAINED = _Trained(size=8)


def noise_of(config: Config, n: int, adjacency: Adjacency) -> Noise:
    """The noise of a sensitivity system, in absolute terms."""
    scale = float(config["noise_multiplier"]) * sensitivity_of(config, n, adjacency).value
    return GaussianNoise(scale) if config["noise"] == "gaussian" else RadialNoise(1 / scale)


def _rows(config: Config, data: Dataset) -> Array:
    return rows(data.facts, data.train, float(config["clip_norm"]), bool(config["bias"]))


def _queries(config: Config, data: Dataset, asked: NDArray[np.int64] | slice = slice(None)) -> Array:
    inputs = {name: array[asked] for name, array in data.validation.inputs.items()}
    split = Split(inputs=inputs, targets=data.validation.targets[asked])
    return rows(data.facts, split, float(config["clip_norm"]), bool(config["bias"]))


def _risk(config: Config, data: Dataset, modulus: float, linear: Array | None = None) -> LogisticRisk:
    return LogisticRisk(
        inputs=_rows(config, data),
        labels=data.train.targets.astype(np.int64),
        classes=classes_of(data.facts),
        divisor=data.facts.n,
        modulus=modulus,
        linear=linear,
    )


def minimiser_of(config: Config, data: Dataset) -> Array:
    """The certified minimiser, before any noise; shape (d, c)."""
    tau = sensitivity_of(config, data.facts.n, Adjacency.REPLACE_ONE).tau
    assert tau is not None
    return minimise(_risk(config, data, float(config["regularisation"])), tau).theta


_Perturbed = loss_perturbation.PerturbedLoss[GaussianNoise] | loss_perturbation.PerturbedLoss[RadialNoise]


def perturbed_risk(plan: PrivacyPlan, data: Dataset, linear: Array | None = None) -> LogisticRisk:
    """The objective of a loss perturbation, at the modulus that its proof asks for; `linear` is its random term."""
    modulus = max(_perturbed_loss(plan, data).modulus, float(plan.config["regularisation"]))
    return _risk(plan.config, data, modulus, linear)


def _perturbed_loss(plan: PrivacyPlan, data: Dataset) -> _Perturbed:
    classes, n = classes_of(data.facts), data.facts.n
    delta, adjacency = plan.guarantee.delta, plan.guarantee.adjacency
    objective, _ = split_of(plan.config, delta, classes, adjacency)
    jacobian: loss_perturbation.Jacobian = "trace" if plan.config["jacobian"] == "trace" else "rank"
    if plan.config["noise"] == "gaussian-published":
        return loss_perturbation.gaussian_published(objective, delta, n, classes, jacobian=jacobian)
    if plan.config["noise"] == "gaussian":
        return loss_perturbation.gaussian(objective, delta, n, classes, adjacency, jacobian=jacobian)
    return loss_perturbation.pure(objective, n, classes, adjacency, jacobian=jacobian)


def _perturbed(run: Run, data: Dataset, draw: Normals) -> Array:
    plan, classes = run.member.plan, classes_of(data.facts)
    _, output = split_of(plan.config, plan.guarantee.delta, classes, plan.guarantee.adjacency)
    width = width_of(data.facts, bool(plan.config["bias"]))
    linear = _perturbed_loss(plan, data).noise.sample((width, classes), draw) / data.facts.n
    risk = perturbed_risk(plan, data, linear)
    theta = minimise(risk, PERTURBED_TAU).theta
    return theta + loss_perturbation.output_noise(output, PERTURBED_TAU, risk.modulus).sample(theta.shape, draw)


def negative_losses(plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split) -> Array:
    """Minus the cross-entropy of every record of `split` under the released model; shape [len(split)]."""
    config, theta = plan.config, np.asarray(state[_THETA], dtype=np.float64)
    logits = rows(facts, split, float(config["clip_norm"]), bool(config["bias"])) @ theta
    losses: Array = logsumexp(logits, axis=1) - logits[np.arange(len(split)), split.targets.astype(np.int64)]
    return -losses


def _judge(run: Run, data: Dataset, private: Array) -> None:
    """Keep one private model, judged on all validation records."""
    labels = (_queries(run.member.plan.config, data) @ private).argmax(axis=1)
    run.checkpoint(1, {_THETA: private}, _accuracy(int((labels == data.validation.targets).sum()), len(labels)))


def _answer(run: Run, data: Dataset, answers: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> None:
    """Labels for the next queries, counted; only counts are kept, never the model."""
    spent, correct = _counts(run.state)
    if spent != run.start_step:
        raise ValueError(f"{run.member.key}: {spent} queries answered in its records, expected {run.start_step}")
    budget = QueryBudget(limit=int(run.member.plan.config["queries"]), answered=spent)
    budget = budget.take(run.member.to_step - spent)
    asked = _order(run, len(data.validation))[spent : budget.answered]
    run.may_execute(budget.answered)
    labels = answers(asked)
    watching.answered(run, asked, labels)
    correct += int((labels == data.validation.targets[asked]).sum())
    state = {_ANSWERED: np.asarray(budget.answered), _CORRECT: np.asarray(correct)}
    run.checkpoint(budget.answered, state, _accuracy(correct, budget.answered))


def _noisy_labels(
    run: Run, data: Dataset, theta: Array, draw: Normals
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    plan = run.member.plan
    noise = noise_of(plan.config, data.facts.n, plan.guarantee.adjacency)

    def labels(asked: NDArray[np.int64]) -> NDArray[np.int64]:
        logits = _queries(plan.config, data, asked) @ theta
        # One vector of noise per query: a radial one is no product of coordinates.
        return np.array([int((one + noise.sample(one.shape, draw)).argmax()) for one in logits], dtype=np.int64)

    return labels


def _voted_labels(
    run: Run, data: Dataset, chosen: NDArray[np.int64], draw: Normals
) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """`chosen`: what each member says of each validation record, shape (models, n_validation)."""
    beta, classes = 1 / float(run.member.plan.config["temperature"]), classes_of(data.facts)

    def labels(asked: NDArray[np.int64]) -> NDArray[np.int64]:
        votes = [np.bincount(column, minlength=classes) for column in chosen[:, asked].T]
        return np.array([soft_vote.sample(beta, one, draw) for one in votes], dtype=np.int64)

    return labels


def _order(run: Run, n_validation: int) -> NDArray[np.int64]:
    """Validation records in the order in which they are asked, from the public seed."""
    return run.streams.numpy(Purpose.INITIALISATION).permutation(n_validation)


def _counts(state: State | None) -> tuple[int, int]:
    return (0, 0) if state is None else (int(state[_ANSWERED]), int(state[_CORRECT]))


def _accuracy(correct: int, records: int) -> dict[str, float]:
    return {"accuracy": correct / records} if records else {}

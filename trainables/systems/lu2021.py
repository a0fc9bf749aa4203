"""Output perturbation of models trained on the risk-averse loss: two systems of Lu et al. 2021.

    convexified-loss   as published: a tanh network, noise on one sampled output neuron per query. Its claim is REFUTED:
                       with three classes or more one answer tells two neighbouring data sets apart with certainty.
    convexified-head   repaired: a linear head on public features, in a ball, certified, noise on every logit. Proved.

Source      Lu, Asghar, Kaafar, Webb & Dickinson (2021), Algorithm 1, Tables I and IV, equations 22-23 and 30-32.
Claim       convexified-loss prints the publication's epsilon, with status `refuted` and the reason; what its steps
            release is counted as unprotected. convexified-head claims the exact composition of its Gaussian answers.
Departures  The published system sees a query as one step, and its claim covers all queries together, as the
            publication's own composition theorems say (its figures show one query at a time). The repaired one has a
            linear head, a ball, the true weight factor exp(alpha Bl) / (exp(alpha Bl) + n - 1), and charges what its
            certificate leaves open.
A query is one step; query B+1 is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from dpcore.audit.attacks import attack_examples, disjoint_splits
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.output_perturbation import NoiseLaw, OutputPerturbation
from dpcore.papers import lu2021 as convexified
from dpcore.papers.lu2021 import (
    Bound,
    Head,
    NeuronNoise,
    OneNeuronAnswers,
    PublishedNoise,
    accuracy_loss,
    minimise_head,
    published_guarantee,
    published_noise,
)
from trainables.hooks import Neighbours
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric
from trainables.planning import Case, Fit, check_batch
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, RunSettings, Split, State, Traits
from trainables.systems.answering import (
    ACCURACY,
    AnsweringSystem,
    Positions,
    QueryHyperparameters,
    accuracy_of,
    answer_queries,
    next_answers,
)
from trainables.systems.linear import RowHyperparameters, at, chosen_records, classes_of, columns, labels_of, width_of
from trainables.training.made_up import made_up
from trainables.training.noise import normals

if TYPE_CHECKING:
    from trainables.systems.lu2021_network import AttackModel


Array = NDArray[np.float64]

NOISE_MIN, NOISE_MAX = 1e-9, 1e9
"""Range of noise multipliers that a plan may ask for."""


@hyperparameters
class RiskHyperparameters:
    """The objective.

    alpha           risk aversion of the loss; towards 0 the mean loss, upwards the worst record's
    regularisation  lambda of 2 lambda ||W||^2; Table IV's L2 weight of 0.001 is 2 lambda
    """

    alpha: float = hyperparameter(low=1e-6, high=100.0, default=1.0)
    regularisation: float = hyperparameter(low=1e-8, high=100.0, default=0.0005)


@hyperparameters
class ConvexifiedLossHyperparameters(QueryHyperparameters, RiskHyperparameters):
    """Of `convexified-loss`.

    bound             row of Table I that the sensitivities start from
    noise             law of the noise; with gaussian the publication's epsilon is a mu
    split             budget for sampling the neuron divided by the budget for its noise; 1 as published
    noise_multiplier  one over the epsilon (mu) of a single query; solved from epsilon by default
    hidden            hidden tanh units
    learning_rate     step size of Adam
    batch_size        records in a batch
    epochs            passes over the data
    draw              public seed of weights, batches, queries and shadows; trials of one draw share their training
    reference         also report the model without noise, outside the claim: accuracy_loss, baseline_accuracy, ...
    shadows           shadow models of a membership attack; half of the queries then go to training records; 0: no
                      attack
    attack_epochs     passes of the attack's network over what the shadows say
    """

    bound: Bound = hyperparameter(choices=tuple(map(str, Bound)), default=str(Bound.LU))
    noise: NeuronNoise = hyperparameter(choices=tuple(map(str, NeuronNoise)), default=str(NeuronNoise.GAUSSIAN))
    split: float = hyperparameter(low=0.0, high=1e6, default=1.0)
    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX, unit="1/epsilon")
    hidden: int = hyperparameter(low=1, high=65536, default=128, unit="units")
    learning_rate: float = hyperparameter(low=1e-6, high=10.0, default=0.001)
    batch_size: int = hyperparameter(low=1, default=100, unit="records")
    epochs: int = hyperparameter(low=1, high=100_000, default=100, unit="passes")
    draw: int = hyperparameter(low=0, high=1_000_000, default=0)
    reference: bool = hyperparameter(choices=(False, True), default=False)
    shadows: int = hyperparameter(low=0, high=10_000, default=0, unit="models")
    attack_epochs: int = hyperparameter(low=1, high=10_000, default=100, unit="passes")


_unnoised = partial(Metric, released="the model without noise: the claim does not cover it", depends=Dependence.RAW)
_right, _leaking = partial(_unnoised, goal="maximize", worst=0.0), partial(_unnoised, goal="minimize", worst=1.0)

METRICS = (
    ACCURACY,
    Metric(
        name="stability",
        goal="minimize",
        doc="bound on on-average-remove-one stability, 2 rho^2 / (lambda n): no privacy by itself",
        released="public facts alone",
        depends=Dependence.PUBLIC,
    ),
    Metric(
        name="shadow_leak",
        goal="minimize",
        worst=1.0,
        doc="TPR - FPR of the shadow attack on the answers, the publication's Priv_Leak (with shadows)",
        released="which of the queried records are training records, and the answers",
        depends=Dependence.RAW,
    ),
    _leaking(name="accuracy_loss", doc="1 - accuracy / baseline_accuracy (with reference)"),
    _right(name="baseline_accuracy", doc="accuracy without noise on the queried validation records (with reference)"),
    _right(name="train_accuracy", doc="accuracy without noise on the training records (with reference)"),
    _leaking(
        name="baseline_leak",
        doc="TPR - FPR of the shadow attack on the queried records without noise (with reference and shadows)",
    ),
)
"""Of `convexified-loss`."""


# What a configuration says before any training: the published sensitivities, and who is asked.


def sensitivities(params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> PublishedNoise:
    """Every sensitivity that the publication derives for this network, from public facts. None of them is a bound."""
    width = width_of(facts)
    largest = max(
        max(abs(one.low), abs(one.high)) if one.cardinality is None else 1.0 for one in facts.features.values()
    )
    return published_noise(
        (width, params.hidden),
        classes_of(facts),
        facts.n,
        params.regularisation,
        bound=params.bound,
        input_norm=largest * math.sqrt(width),
        learning_rate=params.learning_rate,
    )


def held_out(params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> int:
    """Validation records that are asked; under an attack the others are the attacker's own."""
    return min(facts.n, facts.n_validation // 3) if params.shadows else facts.n_validation


UNNOISED = "Metrics of the model without noise are reported too: no claim covers them."
ATTACKED = "Half of the queries are training records: which ones is reported by the attack's metric."


class ConvexifiedLoss(AnsweringSystem[ConvexifiedLossHyperparameters, OneNeuronAnswers, "Trained"]):
    """Noise on one sampled output neuron of a tanh network, per query."""

    name = "convexified-loss"
    traits = Traits(standing=Status.REFUTED)
    source = "Lu et al. 2021, as published"
    params = ConvexifiedLossHyperparameters
    sentence = (
        "{released.steps} probability vectors of a tanh network (risk aversion {params.alpha:.4g}), each with "
        "{released.noise} noise on one sampled logit (claimed sensitivity {released.logit_sensitivity:.4g}, "
        "not a bound)"
    )
    metrics = METRICS
    adjacencies = (Adjacency.ADD_REMOVE,)
    deciding = (
        "alpha", "regularisation", "hidden", "learning_rate", "batch_size", "epochs",
        "draw", "shadows", "attack_epochs",
    )  # fmt: skip

    def check(self, case: Case[ConvexifiedLossHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (batch, shadows, bound, queries)."""
        params, facts = case.params, case.facts
        check_batch(params.batch_size, facts)
        if params.shadows and facts.n_validation < 6:
            raise InvalidValue(
                "shadows", params.shadows, f"0: {facts.dataset} has {facts.n_validation} validation records, 6 needed"
            )
        if params.bound is Bound.CHAUDHURI_BINARY and classes_of(facts) > 2:
            raise InvalidValue("bound", str(params.bound), "another bound: this one is for two classes")
        super().check(case)

    def askable(self, params: ConvexifiedLossHyperparameters, facts: DatasetSpec) -> int:
        """See `AnsweringSystem.askable`: under an attack training records too."""
        asked = held_out(params, facts)
        return 2 * asked if params.shadows else asked

    def noise(self, case: Case[ConvexifiedLossHyperparameters]) -> float:
        """See `SolvedSystem.noise`."""
        params, target = case.params, case.target
        if params.noise is NeuronNoise.LAPLACE:
            return params.queries / target.epsilon
        return math.sqrt(params.queries) / mu_gdp(target.epsilon, target.delta)

    def mechanism(self, case: Case[ConvexifiedLossHyperparameters]) -> OneNeuronAnswers:
        """See `PlannedSystem.mechanism`."""
        params, bounds = case.params, sensitivities(case.params, case.facts)
        return OneNeuronAnswers(
            logit_sensitivity=bounds.logit,
            probability_sensitivity=bounds.probability,
            noise=params.noise,
            noise_multiplier=params.noise_multiplier,
            split=params.split,
            steps=params.queries,
        )

    def claims(self, case: Case[ConvexifiedLossHyperparameters], released: OneNeuronAnswers) -> list[Guarantee]:
        """What the publication claims for all queries together: basic composition, or that of Gaussian DP."""
        each, delta = 1 / released.noise_multiplier, case.target.delta
        total = released.steps * each if released.noise is NeuronNoise.LAPLACE else math.sqrt(released.steps) * each
        claim = published_guarantee(total, released.noise, delta)
        told = ((UNNOISED, case.params.reference), (ATTACKED, case.params.shadows > 0))
        lines = tuple(line for line, applies in told if applies)
        return [replace(claim, unit=case.target.unit, assumptions=(*claim.assumptions, *lines))]

    def work(self, case: Case[ConvexifiedLossHyperparameters], released: OneNeuronAnswers) -> float:
        """See `PlannedSystem.work`."""
        return float(case.facts.n) * case.params.epochs * (1 + case.params.shadows)

    def trained(self, params: ConvexifiedLossHyperparameters, data: Dataset, settings: RunSettings) -> Trained:
        """See `TrainedOnce.trained`."""
        from trainables.team import limited_threads
        from trainables.training.private_sgd import device_of

        with limited_threads(settings.threads):
            return train_group(params, data, str(device_of(settings)))

    def answer(self, fit: Fit[ConvexifiedLossHyperparameters, OneNeuronAnswers], trained: Trained) -> None:
        """See `TrainedOnce.answer`: probability vectors; only counts are kept, and the attack, never the model."""
        run, attack = fit.run, trained.attack
        counts = {name: 0 if run.state is None else int(run.state[name]) for name in _COUNTS}
        asked = np.array(next_answers(run, fit.mechanism.steps, counts[_ANSWERED]), dtype=np.int64)
        # Training records behind the others.
        asked = asked[np.argsort(trained.inside[asked], kind="stable")]
        inside, labels = trained.inside[asked], trained.labels[asked]
        released = fit.mechanism.release(trained.logits[asked], normals(run, fit.settings))
        answers = released.argmax(axis=1)[~inside]
        run.released(asked=trained.rows[asked][~inside], labels=answers, log_probabilities=released)
        counts[_ANSWERED] = run.member.to_step
        counts[_CORRECT] += int((answers == labels[~inside]).sum())
        state: dict[str, NDArray[np.generic]] = {}
        if attack is not None:
            called = attack.called(softmax(released, axis=1), labels)
            counts[_CALLED] += int(called[inside].sum())
            counts[_MISCALLED] += int(called[~inside].sum())
            state = attack.state()
        state |= {name: np.asarray(value) for name, value in counts.items()}
        run.checkpoint(run.member.to_step, state, _metrics(fit, trained, counts))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: the last record of a synthetic data set, in or out (add-remove)."""
        params, mechanism = self.read(plan)
        with_it = made_up(facts, facts.n, facts.n_validation) if classes_of(facts) > 2 else odd_one(facts)
        without_it = replace(with_it, train=with_it.train.each(lambda array: array[:-1]))
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

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """See `trainables.hooks.Answering`: no shadows."""
        return replace(plan, config={**plan.config, "shadows": 0})


# Training and answering, and the shadow attack on the answers.


SHADOWS_TOGETHER = 20
"""Shadow models side by side in memory."""

_COUNTS = _ANSWERED, _CORRECT, _CALLED, _MISCALLED = "answered", "correct", "members_called", "others_called"


@dataclass(frozen=True, slots=True)
class Trained:
    """One training, and what the target says without noise to all Q queries, in their order.

    rows, labels    positions [Q] of the queried records among the validation records or, where `inside` [Q], among the
                    training records; and their classes. Under an attack both take turns
    logits          shape [Q, C]
    train_accuracy  without noise, on all training records
    attack          None without shadows
    """

    rows: Positions
    labels: Positions
    inside: NDArray[np.bool_]
    logits: Array
    train_accuracy: float
    attack: AttackModel | None


def train_group(
    params: ConvexifiedLossHyperparameters, data: Dataset, device: str = "cpu", attacked: bool = True
) -> Trained:
    """The target and, where asked for, the shadows and the attack: a function of data and public seed.

    attacked  False leaves the shadows out where only the answers matter
    """
    from trainables.systems.lu2021_network import train

    facts, draw = data.facts, params.draw
    inputs, labels = flat_inputs(facts, data.train), labels_of(data.train)
    others, other_labels = flat_inputs(facts, data.validation), labels_of(data.validation)
    order, count = question_order(draw, len(others)), held_out(params, facts)
    target = train(inputs, labels, np.arange(len(labels))[None], classes_of(facts), params, _seed(draw, 1), device)
    said, other_said = target.logits(inputs)[0], target.logits(others)[0]
    pool, rows = order[count:], order[:count]
    inside = np.zeros(len(rows), dtype=np.bool_)
    if params.shadows:
        # A data set with one record less than declared has its first one asked again.
        members = np.random.default_rng([draw, 5]).permutation(len(labels))[np.arange(count) % len(labels)]
        rows, inside = np.stack([rows, members], axis=1).ravel(), np.arange(2 * count) % 2 == 1
    return Trained(
        rows=rows,
        labels=np.where(inside, labels.take(rows, mode="clip"), other_labels.take(rows, mode="clip")),
        inside=inside,
        logits=np.where(inside[:, None], said.take(rows, 0, mode="clip"), other_said.take(rows, 0, mode="clip")),
        train_accuracy=float((said.argmax(axis=1) == labels).mean()),
        attack=_attacked(params, others[pool], other_labels[pool], facts, device)
        if attacked and params.shadows
        else None,
    )


def question_order(draw: int, records: int) -> Positions:
    """Validation records in the order in which they are asked; under an attack the last ones are the attacker's."""
    return np.random.default_rng([draw, 0]).permutation(records)


def asked_logits(params: ConvexifiedLossHyperparameters, data: Dataset) -> Array:
    """Logits without noise of the queried validation records, in the order of the answers, by a fresh training."""
    from trainables.team import limited_threads

    with limited_threads(RunSettings().threads):
        trained = train_group(params, data, attacked=False)
    return trained.logits[: params.queries][~trained.inside[: params.queries]]


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
    from trainables.systems.lu2021_network import train, train_attack

    draw, classes = params.draw, classes_of(facts)
    size = min(facts.n, len(labels) // 2)
    splits = disjoint_splits(len(labels), size, params.shadows, np.random.default_rng([draw, 3]))
    said = []
    for start in range(0, params.shadows, SHADOWS_TOGETHER):
        rows = np.stack([np.flatnonzero(one) for one in splits.inside[start : start + SHADOWS_TOGETHER]])
        shadows = train(inputs, labels, rows, classes, params, _seed(draw, 2 + start), device)
        said.append(softmax(shadows.logits(inputs), axis=-1))
    # All probabilities, in decreasing order.
    examples = attack_examples(np.concatenate(said), labels, splits, classes)
    return train_attack(examples, seed=_seed(draw, 4), epochs=params.attack_epochs)


def _metrics(fit: Fit[Any, Any], trained: Trained, counts: dict[str, int]) -> dict[str, float]:
    asked, attack = slice(counts[_ANSWERED]), trained.attack
    inside, labels, logits = trained.inside[asked], trained.labels[asked], trained.logits[asked]
    members, others = int(inside.sum()), int((~inside).sum())
    stability = sensitivities(fit.params, fit.data.facts).stability
    metrics = {"stability": stability, **accuracy_of(counts[_CORRECT], others)}
    if attack is not None and members:
        metrics["shadow_leak"] = counts[_CALLED] / members - counts[_MISCALLED] / others
    if not fit.params.reference:
        return metrics
    right = (logits.argmax(axis=1) == labels)[~inside]
    metrics |= {"baseline_accuracy": float(right.mean()), "train_accuracy": trained.train_accuracy}
    if right.any():
        metrics["accuracy_loss"] = accuracy_loss(metrics["accuracy"], metrics["baseline_accuracy"])
    if attack is not None and members:
        called = attack.called(softmax(logits, axis=1), labels)
        metrics["baseline_leak"] = float(called[inside].mean() - called[~inside].mean())
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
    from trainables.systems.lu2021_network import AttackModel, logits_of

    attack = AttackModel.from_state(attacker)
    members, others = (flat_inputs(data.facts, split) for split in (data.train, data.validation))
    member_labels, other_labels = labels_of(data.train), labels_of(data.validation)
    asked = question_order(0, len(others))[: min(records, len(others) // 3)]

    def judged(state: State) -> tuple[float, float]:
        inside, outside = logits_of(state, members), logits_of(state, others[asked])
        accuracy = float((outside.argmax(axis=1) == other_labels[asked]).mean())
        called = attack.called(softmax(inside, axis=1), member_labels)
        miscalled = attack.called(softmax(outside, axis=1), other_labels[asked])
        return accuracy, float(called.mean() - miscalled.mean())

    return judged


# Neighbouring data sets on which the answers are told apart, and how.
#
# Three classes or more: one logit of an answer has noise, so every pair of the others keeps its difference to the last
# digit. An attacker who knows both neighbouring data sets trains both models itself (training has a public seed), and
# looks whose differences occur. It is right with certainty, at every claimed epsilon: delta is 1.
#
# Two classes: only the difference of the logits leaves, noised at a sensitivity that is no bound. One wrong label among
# identical records moves a risk-averse model by far more; the attacker compares the likelihoods of the noised
# difference under both models.

ROUND_OFF = 1e-9
"""Differences of logits that agree to this many units are the same number."""


def alike(facts: DatasetSpec) -> Dataset:
    """Identical records of class 0."""
    real = [one for one in facts.features.values() if one.cardinality is None]
    record = np.concatenate([[one.high, *[0.0] * (math.prod(one.shape) - 1)] for one in real] or [[]])
    train, asked = (np.repeat(record[None], count, axis=0) for count in (facts.n, facts.n_validation))
    return chosen_records(facts, train, np.zeros(facts.n, dtype=np.int64), asked)


def odd_one(facts: DatasetSpec) -> Dataset:
    """Identical records of class 0, but for the last one's label: what moves a risk-averse minimiser most."""
    found = alike(facts)
    labels = found.train.targets.copy()
    labels[-1] = 1
    return replace(found, train=Split(inputs=found.train.inputs, targets=labels))


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


CONVEXIFIED_LOSS = ConvexifiedLoss()


# `convexified-head`: the risk-averse loss on a linear head in a ball, certified, with noise on every logit.
#
# Mathematics and proof: `dpcore.papers.lu2021`. What the certificate leaves open (1% more) is charged.


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
    sentence = (
        "{released.steps} logit vectors of a certified head (risk aversion {params.alpha:.4g}, radius "
        "{params.radius:.4g}), each with Gaussian noise of {released.noise_multiplier:.5g} times its sensitivity "
        "{released.sensitivity:.4g}"
    )
    metrics = (ACCURACY,)
    adjacencies = (Adjacency.REPLACE_ONE,)
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

    def claims(self, case: Case[ConvexifiedHeadHyperparameters], released: OutputPerturbation) -> list[Guarantee]:
        """See `PlannedSystem.claims`."""
        head = head_of(case.params, case.facts)
        claim = convexified.answers_guarantee(head, released.scale, released.steps, case.target.delta)
        return [replace(claim, unit=case.target.unit)]

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

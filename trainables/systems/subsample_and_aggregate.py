"""Soft votes of models on disjoint parts of the records: each part makes one model, so that one record moves one vote.

A part holds whole units where the data name some. However a member was trained, its vote on a query is one of M. So a
member may follow from its own part alone: not from how far those before it drew, nor from what they left in the model's
class or file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms import noisy_vote
from dpcore.mechanisms.noisy_vote import NoisyVote
from trainables import models
from trainables.hooks import Neighbours
from trainables.hyperparameters import builder_arguments, hyperparameter, hyperparameters
from trainables.metrics import Arguments
from trainables.planning import Case, Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, RunSettings, Traits
from trainables.systems.answering import ACCURACY, AnsweringSystem, QueryHyperparameters, answer_queries, group_of
from trainables.systems.linear import at, classes_of, labels_of
from trainables.systems.vandermaaten2020 import (
    NOISE_MAX,
    NOISE_MIN,
    ROWS,
    SOURCE,
    Columns,
    Composition,
    MinimiserHyperparameters,
    at_delta_zero,
    descent_work,
    pure_claim,
)
from trainables.training.noise import normals
from trainables.units import Units

if TYPE_CHECKING:
    import torch

Labels = NDArray[np.int64]

PURE_CLAIM = "What is refuted is the pure claim, made for every delta; what is proved at this one stands beside it."


@hyperparameters
class MemberHyperparameters(MinimiserHyperparameters):
    """What decides the models that vote.

    regularisation  of a linear member: weight lambda of 0.5 ||theta||^2; the paper has none, and a minimiser needs a
                    little
    models          number M of parts
    model           member: linear (a minimiser on rows of norm 1), a network's name (resnet20), or
                    package.module:function
    hidden          hidden units of a network
    epochs          passes of a network
    learning_rate   of a network's SGD with momentum 0.9; divided by ten three times, after equal numbers of passes
    batch_size      of a network
    """

    regularisation: float = hyperparameter(low=1e-6, high=100.0, default=1e-4)
    models: int = hyperparameter(low=1, high=100_000, default=256, unit="models")
    model: str = hyperparameter(default="linear")
    hidden: int = hyperparameter(low=1, high=65536, default=64, unit="units")
    arguments: Arguments = builder_arguments()
    epochs: int = hyperparameter(low=1, high=100_000, default=50, unit="passes")
    learning_rate: float = hyperparameter(low=1e-6, high=1e3, default=0.1)
    batch_size: int = hyperparameter(low=1, high=1_000_000, default=64, unit="records")


@hyperparameters
class SubsampleHyperparameters(QueryHyperparameters, MemberHyperparameters):
    """Of `subsample-and-aggregate`.

    composition  how the temperature is solved: joint is exact and the lowest; advanced and standard are proved;
                 published is B/epsilon, whose claim is refuted: it is the headline, and what is spent stands beside it
    temperature  1/beta: label k has probability proportional to exp(votes / temperature); solved by default
    """

    composition: Composition = hyperparameter(choices=tuple(map(str, Composition)), default="joint")
    temperature: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX, unit="votes")


class SubsampleAndAggregate(AnsweringSystem[SubsampleHyperparameters, NoisyVote, Labels]):
    """Theorems 7 and 8, at the exact loss of one vote; or the refuted beta = epsilon/B, charged that loss too."""

    name = "subsample-and-aggregate"
    source = SOURCE
    params = SubsampleHyperparameters
    metrics = (ACCURACY,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    traits = Traits(units=True)
    solves = MappingProxyType({"noise": "temperature", "steps": "queries"})
    remedy = "Raise temperature or epsilon, or take fewer queries."

    def adjacencies_on(self, facts: DatasetSpec) -> tuple[Adjacency, ...]:
        """Under which one neighbour changes one vote.

        Records have no public names: parts are made of positions, which add-remove would shift. Units have ids, whose
        hashes make the parts: there a unit that gives way to one of another id would change two votes.
        """
        return (Adjacency.REPLACE_ONE,) if facts.unit is None else (Adjacency.ADD_REMOVE,)

    def check(self, case: Case[SubsampleHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (queries or models beyond the data, model)."""
        super().check(case)
        params, facts = case.params, case.facts
        if params.models > facts.n:
            raise InvalidValue("models", params.models, f"at most n={facts.n} records of {facts.dataset}")
        if params.model != "linear":
            models.check(params.model, facts, params.arguments)

    def noise(self, case: Case[SubsampleHyperparameters]) -> float:
        """See `SolvedSystem.noise`: the temperature."""
        params, target, how = case.params, case.target, case.params.composition
        epsilon, delta, queries = target.epsilon, target.delta, params.queries
        if how is Composition.PUBLISHED:
            return 1 / (epsilon / queries)
        betas = [noisy_vote.standard(epsilon, queries)]
        if how is not Composition.STANDARD:
            betas.append(noisy_vote.advanced(epsilon, delta, queries))
        if how is Composition.JOINT:
            betas.append(noisy_vote.optimal(epsilon, delta, queries, params.models, classes_of(case.facts)))
        return 1 / max(betas)

    def mechanism(self, case: Case[SubsampleHyperparameters]) -> NoisyVote:
        """See `PlannedSystem.mechanism`."""
        params = case.params
        return NoisyVote(
            beta=1 / params.temperature,
            models=params.models,
            classes=classes_of(case.facts),
            adjacency=case.target.adjacency,
            steps=params.queries,
        )

    def claim(self, case: Case[SubsampleHyperparameters], released: NoisyVote) -> Guarantee:
        """See `PlannedSystem.claim`: the least that is proved, or what the paper claims of its own rule."""
        params, target = case.params, case.target
        if params.composition is not Composition.PUBLISHED:
            return _proved(released, target)[0]
        printed = noisy_vote.as_published(params.queries / params.temperature, released, target.unit)
        # At the budget's delta: one delta serves every axis.
        lines = (PURE_CLAIM,) if printed.status is Status.REFUTED else ()
        return replace(printed, delta=target.delta, assumptions=(*printed.assumptions, *lines))

    def beside(
        self, case: Case[SubsampleHyperparameters], released: NoisyVote, claim: Guarantee
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: whatever is proved and is not the claim."""
        proved = _proved(released, case.target)
        others = proved if case.params.composition is Composition.PUBLISHED else proved[1:]
        return (*others, at_delta_zero(proved[0], released.each, released.steps))

    def describe(self, case: Case[SubsampleHyperparameters], released: NoisyVote) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} soft votes of {released.models} {case.params.model} models on disjoint parts, at "
            f"temperature {case.params.temperature:.5g}"
        )

    def work(self, case: Case[SubsampleHyperparameters], released: NoisyVote) -> float:
        """See `PlannedSystem.work`."""
        if case.params.model == "linear":
            return descent_work(case.facts.n, case.params.regularisation)
        return float(case.facts.n) * case.params.epochs

    def group(self, params: SubsampleHyperparameters) -> str:
        """See `PlannedSystem.group`: runs that differ in noise alone share their training."""
        if params.model == "linear":
            return group_of(params, *ROWS, "models", "model")
        given = ("arguments",) if params.arguments else ()
        return group_of(params, "models", "model", "hidden", *given, "epochs", "learning_rate", "batch_size")

    def trained(self, params: SubsampleHyperparameters, data: Dataset, settings: RunSettings) -> Labels:
        """See `TrainedOnce.trained`: what each member says of each validation record."""
        return winners(params, data, settings)

    def answer(self, fit: Fit[SubsampleHyperparameters, NoisyVote], trained: Labels) -> None:
        """See `TrainedOnce.answer`: voted labels."""
        draw, released = normals(fit.run, fit.settings), fit.mechanism

        def answers(asked: Labels) -> dict[str, NDArray[Any]]:
            votes = [np.bincount(column, minlength=released.classes) for column in trained[:, asked].T]
            return {"labels": np.array([released.release(one, draw) for one in votes], dtype=np.int64)}

        answer_queries(fit, answers)

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: one record changes the mind of one model, and the votes are split
        where that shows most."""
        params, released = self.read(plan)
        beta, members, classes = released.beta, released.models, released.classes
        if plan.guarantee.status is Status.REFUTED:
            # Such a claim is tested at its one point, any other on a whole curve.
            each = plan.guarantee.epsilon / released.steps
            dissenters = max(range(members), key=lambda k: _excess(each, beta, members, k, classes))
        else:
            dissenters = max(range(members), key=lambda k: _divergence(beta, members, k, classes))
        columns = Columns(facts, params.clip_norm, 1)
        target = columns.target(range(0), 0.0)
        parts = parts_of(facts.n, members, seed=0)
        inputs, labels = np.repeat(target[None], facts.n, axis=0), np.zeros(facts.n, dtype=np.int64)
        for number, part in enumerate(parts[1:], start=1):
            labels[part] = 1 if number <= dissenters else 0
        first, rest = parts[0][0], parts[0][1:]
        # The others of the first part balance; where one is left over it whispers, and the target outvotes it.
        labels[rest] = np.arange(len(rest)) % 2
        if len(rest) % 2:
            labels[rest[-1]] = 1
            inputs[rest[-1]] = 0.5 * target
        asked = np.repeat(target[None], released.steps, axis=0)
        before, after = labels.copy(), labels.copy()
        before[first], after[first] = 0, 1
        log_ratio = _log_probabilities(beta, members, dissenters + 1, classes) - _log_probabilities(
            beta, members, dissenters, classes
        )
        return Neighbours(
            with_it=columns.data(inputs, after, asked),
            without_it=columns.data(inputs, before, asked),
            score=lambda shown: float(log_ratio[shown["labels"]].sum()),
            doc=f"one record that turns one of {members} votes, {dissenters} of which dissent; the attacker reads "
            "labels",
        )


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


def _log_probabilities(beta: float, members: int, dissenters: int, classes: int) -> NDArray[np.float64]:
    votes = np.zeros(classes)
    votes[:2] = members - dissenters, dissenters
    return beta * votes - float(np.logaddexp.reduce(beta * votes))


def _excess(epsilon: float, beta: float, members: int, dissenters: int, classes: int) -> float:
    """By how much the labels after exceed exp(epsilon) times those before: the hockey-stick divergence."""
    before = _log_probabilities(beta, members, dissenters, classes)
    after = _log_probabilities(beta, members, dissenters + 1, classes)
    return float(np.exp(after) @ -np.expm1(np.minimum(epsilon + before - after, 0.0)))


def _divergence(beta: float, members: int, dissenters: int, classes: int) -> float:
    """Between the labels after and before one more model dissents (Kullback & Leibler 1951)."""
    after = _log_probabilities(beta, members, dissenters + 1, classes)
    return float(np.exp(after) @ (after - _log_probabilities(beta, members, dissenters, classes)))


SUBSAMPLE_AND_AGGREGATE = SubsampleAndAggregate()


# The models behind a vote. Nothing is noised or claimed here.

MEMBER_TAU = 1e-5
"""Gradient norm at which a linear member is done. No claim rests on it."""
MOMENTUM = 0.9
DROPS = 3
"""How often a learning rate falls to a tenth, after equal numbers of epochs (van der Maaten & Hannun 2020)."""


def parts_of(n: int, models: int, seed: int) -> list[NDArray[np.int64]]:
    """Positions 0..n-1 in `models` disjoint parts, decided by n and a public seed alone."""
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(n), models)]


def parts_by_unit(units: Units, models: int) -> list[NDArray[np.int64]]:
    """Positions of the records of `models` disjoint sets of units; a unit's part is decided by its id alone."""
    part = np.repeat(units.keys % np.uint64(models), np.diff(units.offsets))
    return [np.flatnonzero(part == number) for number in range(models)]


def winners(params: MemberHyperparameters, data: Dataset, settings: RunSettings) -> Labels:
    """The class that each member gives each validation record, shape (models, n_validation)."""
    if data.units is None:
        parts = parts_of(data.facts.n, params.models, seed=0)
    else:
        parts = parts_by_unit(data.units, params.models)
    # A member without a record knows nothing, and always names the first class.
    nothing = np.zeros(len(data.validation), dtype=np.int64)
    if params.model == "linear":
        return np.stack([_linear(params, data, part) if len(part) else nothing for part in parts])
    from trainables.team import limited_threads
    from trainables.training.private_sgd import device_of

    device = device_of(settings)
    with limited_threads(settings.threads):
        found = [
            _network(params, data, part, number, device) if len(part) else nothing for number, part in enumerate(parts)
        ]
    failed = [one for one in found if isinstance(one, Exception)]
    if len(failed) == len(found):
        raise failed[0]
    # That the trial failed would tell of a single record: such a member knows nothing either.
    return np.stack([nothing if isinstance(one, Exception) else one for one in found])


def _linear(params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64]) -> Labels:
    own = at(data.train, part)
    risk = LogisticRisk(
        inputs=params.rows(data.facts, own),
        labels=labels_of(own),
        classes=classes_of(data.facts),
        divisor=len(part),
        modulus=params.regularisation,
    )
    theta = minimise(risk, MEMBER_TAU).theta
    chosen: Labels = (params.rows(data.facts, data.validation) @ theta).argmax(axis=1)
    return chosen


def _network(
    params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64], number: int, device: torch.device
) -> Labels | Exception:
    """What SGD with momentum on shuffled batches comes to, or the error that the values of its records raised. All that
    is drawn follows from the member's number, a public fact. Raises Refused."""
    from dpcore.gradients import NotComputed, Refused, of_the_machine
    from trainables import models

    with _drawing_from(number):
        model = models.build(params.model, data.facts, hidden=params.hidden, arguments=params.arguments).to(device)
        try:
            return _learned(params, data, part, number, model)
        except Exception as error:
            if of_the_machine(error) or (isinstance(error, Refused) and not isinstance(error, NotComputed)):
                raise
            return error


@contextmanager
def _drawing_from(number: int) -> Iterator[None]:
    """Inside the block the process's generators begin with `number`; outside they are as they were. How far members
    before drew follows from their records."""
    import torch

    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            torch.manual_seed(number)
            np.random.seed(number)  # noqa: NPY002
            random.seed(number)
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _learned(
    params: MemberHyperparameters, data: Dataset, part: NDArray[np.int64], number: int, model: torch.nn.Module
) -> Labels:
    import torch

    from trainables.training.losses import answers, loss_function, tensor

    device = next(model.parameters()).device
    order = np.random.default_rng(number)
    loss = loss_function(data.facts)
    own = at(data.train, part)
    inputs, targets = [tensor(one, device) for one in own.inputs.values()], tensor(own.targets, device)
    epochs, rate = params.epochs, params.learning_rate
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.1 ** (epoch * (DROPS + 1) // epochs)
        for batch in np.array_split(order.permutation(len(part)), -(-len(part) // params.batch_size)):
            chosen = torch.from_numpy(batch).to(device)
            optimiser.zero_grad()
            loss(model(*(one[chosen] for one in inputs)), targets[chosen]).mean().backward()
            optimiser.step()
    # A vote on one query says nothing of the other queries.
    found = [outputs.argmax(dim=1).cpu().numpy() for _, outputs in answers(model, data.validation, device)]
    return np.concatenate(found).astype(np.int64)

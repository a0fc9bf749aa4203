"""Training and answering of `convexified-head`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.convexified.repaired import minimise, noisy_logits
from dpcore.mechanisms.query_budget import QueryBudget
from dpcore.randomness import Purpose
from trainables.measures import watching
from trainables.system import Config, Dataset, Execution, PublicFacts, Run, Split
from trainables.systems.convexified.draws import draws_of
from trainables.systems.convexified.scales import head_of
from trainables.systems.linear import rows

Array = NDArray[np.float64]

_ANSWERED, _CORRECT = "answered", "correct"
_FROZEN_SEED = 2021
"""Public seed of the frozen random units: no record has a say in them."""


def fit(runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
    """Execute every run; one training serves all runs of a group. Raises InvalidValue when n is not the facts' n."""
    if len(data.train) != data.facts.n:
        raise InvalidValue("n", data.facts.n, f"the number of records, {len(data.train)}, under replace-one")

    @lru_cache(maxsize=2)
    def weights(group: str) -> Array:
        return train(next(run.member.plan.config for run in runs if run.member.plan.group == group), data)

    for run in runs:
        _answer(run, data, weights(run.member.plan.group), execution)


def train(config: Config, data: Dataset) -> Array:
    """The certified head, shape (width, classes). Raises Uncertified where rounding spoiled the certificate."""
    return minimise(head_of(config, data.facts), features_of(config, data.facts, data.train), _labels(data.train))


def features_of(config: Config, facts: PublicFacts, split: Split) -> Array:
    """What the head sees of every record: rows of norm at most 1 that depend on no other record."""
    records = rows(facts, split, float(config["clip_norm"]), bool(config["bias"]))
    if config["features"] == "records":
        return records
    units = int(config["hidden"])
    frozen = np.random.default_rng(_FROZEN_SEED).standard_normal((records.shape[1] + 1, units))
    # Rows have norm at most 1, so the units see arguments of spread at most 2.
    hidden: Array = np.tanh(2 * records @ frozen[:-1] + frozen[-1]) / np.sqrt(units)
    return hidden


def _answer(run: Run, data: Dataset, weights: Array, execution: Execution) -> None:
    """Noisy logits for the next queries, counted; only counts are kept, never the head."""
    plan = run.member.plan
    spent = 0 if run.state is None else int(run.state[_ANSWERED])
    correct = 0 if run.state is None else int(run.state[_CORRECT])
    if spent != run.start_step:
        raise ValueError(f"{run.member.key}: {spent} queries answered in its records, expected {run.start_step}")
    budget = QueryBudget(limit=int(plan.config["queries"]), answered=spent)
    budget = budget.take(run.member.to_step - spent)
    asked = run.streams.numpy(Purpose.INITIALISATION).permutation(len(data.validation))[spent : budget.answered]
    run.may_execute(budget.answered)
    inputs = {name: array[asked] for name, array in data.validation.inputs.items()}
    queries = features_of(plan.config, data.facts, Split(inputs=inputs, targets=data.validation.targets[asked]))
    sigma = float(plan.config["noise_multiplier"]) * head_of(plan.config, data.facts).sensitivity
    logits = noisy_logits(weights, queries, sigma, draws_of(run, execution))
    labels = logits.argmax(axis=1)
    watching.released(run, asked=asked, labels=labels, logits=logits)
    correct += int((labels == data.validation.targets[asked]).sum())
    state = {_ANSWERED: np.asarray(budget.answered), _CORRECT: np.asarray(correct)}
    run.checkpoint(budget.answered, state, {"accuracy": correct / budget.answered})


def _labels(split: Split) -> NDArray[np.int64]:
    return split.targets.astype(np.int64)

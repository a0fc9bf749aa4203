"""Training and answering of `convexified-head`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.convexified.repaired import NoisyLogits, minimise
from dpcore.randomness import Purpose
from trainables.measures import watching
from trainables.system import Dataset, Execution, PublicFacts, Run, Split
from trainables.systems.answering import next_answers
from trainables.systems.convexified.draws import draws_of
from trainables.systems.convexified.knobs import ConvexifiedHeadKnobs
from trainables.systems.convexified.scales import head_of
from trainables.systems.linear import rows

Array = NDArray[np.float64]

_ANSWERED, _CORRECT = "answered", "correct"
_FROZEN_SEED = 2021
"""Public seed of the frozen random units: no record has a say in them."""


def train(knobs: ConvexifiedHeadKnobs, data: Dataset) -> Array:
    """The certified head, shape (width, classes). Raises Uncertified where rounding spoiled the certificate."""
    return minimise(head_of(knobs, data.facts), features_of(knobs, data.facts, data.train), _labels(data.train))


def features_of(knobs: ConvexifiedHeadKnobs, facts: PublicFacts, split: Split) -> Array:
    """What the head sees of every record: rows of norm at most 1 that depend on no other record."""
    records = rows(facts, split, knobs.clip_norm, knobs.bias)
    if knobs.features == "records":
        return records
    frozen = np.random.default_rng(_FROZEN_SEED).standard_normal((records.shape[1] + 1, knobs.hidden))
    # Rows have norm at most 1, so the units see arguments of spread at most 2.
    hidden: Array = np.tanh(2 * records @ frozen[:-1] + frozen[-1]) / np.sqrt(knobs.hidden)
    return hidden


def answer(
    run: Run, knobs: ConvexifiedHeadKnobs, released: NoisyLogits, weights: Array, data: Dataset, execution: Execution
) -> None:
    """Noisy logits for the next queries, counted; only counts are kept, never the head."""
    spent = 0 if run.state is None else int(run.state[_ANSWERED])
    correct = 0 if run.state is None else int(run.state[_CORRECT])
    order = run.streams.numpy(Purpose.INITIALISATION).permutation(len(data.validation))
    asked = order[next_answers(run, released.steps, spent)]
    inputs = {name: array[asked] for name, array in data.validation.inputs.items()}
    queries = features_of(knobs, data.facts, Split(inputs=inputs, targets=data.validation.targets[asked]))
    logits = released.release(weights, queries, draws_of(run, execution))
    labels = logits.argmax(axis=1)
    watching.released(run, asked=asked, labels=labels, logits=logits)
    correct += int((labels == data.validation.targets[asked]).sum())
    answered = run.member.to_step
    state = {_ANSWERED: np.asarray(answered), _CORRECT: np.asarray(correct)}
    run.checkpoint(answered, state, {"accuracy": correct / answered})


def _labels(split: Split) -> NDArray[np.int64]:
    return split.targets.astype(np.int64)

"""The models behind a vote: each sees its own part of the records alone, so that one record moves one vote.

A part holds whole units where the data name some. Nothing is noised or claimed here: however a member was trained, its
vote on a query is one of M. So a member may follow from its own part alone: not from how far those before it drew, nor
from what they left in the model's class or file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore.papers.erm import LogisticRisk, minimise
from trainables.system import Dataset, RunSettings
from trainables.systems.linear import at, classes_of, labels_of
from trainables.systems.vandermaaten2020.minimiser import MemberKnobs
from trainables.units import Units

if TYPE_CHECKING:
    import torch


Labels = NDArray[np.int64]

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


def winners(knobs: MemberKnobs, data: Dataset, execution: RunSettings) -> Labels:
    """The class that each member gives each validation record, shape (models, n_validation)."""
    if data.units is None:
        parts = parts_of(data.facts.n, knobs.models, seed=0)
    else:
        parts = parts_by_unit(data.units, knobs.models)
    # A member without a record knows nothing, and always names the first class.
    nothing = np.zeros(len(data.validation), dtype=np.int64)
    if knobs.model == "linear":
        return np.stack([_linear(knobs, data, part) if len(part) else nothing for part in parts])
    from trainables.parallel import limited_threads
    from trainables.training.private_sgd import device_of

    device = device_of(execution)
    with limited_threads(execution.threads):
        found = [
            _network(knobs, data, part, number, device) if len(part) else nothing for number, part in enumerate(parts)
        ]
    failed = [one for one in found if isinstance(one, Exception)]
    if len(failed) == len(found):
        raise failed[0]
    # That the trial failed would tell of a single record: such a member knows nothing either.
    return np.stack([nothing if isinstance(one, Exception) else one for one in found])


def _linear(knobs: MemberKnobs, data: Dataset, part: NDArray[np.int64]) -> Labels:
    own = at(data.train, part)
    risk = LogisticRisk(
        inputs=knobs.rows(data.facts, own),
        labels=labels_of(own),
        classes=classes_of(data.facts),
        divisor=len(part),
        modulus=knobs.regularisation,
    )
    theta = minimise(risk, MEMBER_TAU).theta
    chosen: Labels = (knobs.rows(data.facts, data.validation) @ theta).argmax(axis=1)
    return chosen


def _network(
    knobs: MemberKnobs, data: Dataset, part: NDArray[np.int64], number: int, device: torch.device
) -> Labels | Exception:
    """What SGD with momentum on shuffled batches comes to, or the error that the values of its records raised. All that
    is drawn follows from the member's number, a public fact. Raises Refused."""
    from dpcore.gradients import NotComputed, Refused, of_the_machine
    from trainables import models

    with _drawing_from(number):
        model = models.build(knobs.model, data.facts, hidden=knobs.hidden).to(device)
        try:
            return _learned(knobs, data, part, number, model)
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


def _learned(knobs: MemberKnobs, data: Dataset, part: NDArray[np.int64], number: int, model: torch.nn.Module) -> Labels:
    import torch

    from trainables.training.losses import answers, loss_function, tensor

    device = next(model.parameters()).device
    order = np.random.default_rng(number)
    loss = loss_function(data.facts)
    own = at(data.train, part)
    inputs, targets = [tensor(one, device) for one in own.inputs.values()], tensor(own.targets, device)
    epochs, rate = knobs.epochs, knobs.learning_rate
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=MOMENTUM)
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = rate * 0.1 ** (epoch * (DROPS + 1) // epochs)
        for batch in np.array_split(order.permutation(len(part)), -(-len(part) // knobs.batch_size)):
            chosen = torch.from_numpy(batch).to(device)
            optimiser.zero_grad()
            loss(model(*(one[chosen] for one in inputs)), targets[chosen]).mean().backward()
            optimiser.step()
    # A vote on one query says nothing of the other queries.
    found = [outputs.argmax(dim=1).cpu().numpy() for _, outputs in answers(model, data.validation, device)]
    return np.concatenate(found).astype(np.int64)

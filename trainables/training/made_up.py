"""Records drawn from public facts: shapes, bounds, categories, classes. Nobody's, and the same every time.

They lie over each other in memory: record i is the window from number i on of one row of numbers. So there may be as
many as the facts say, however large each is, and no two are alike. Of padded sequences each has a length of its own.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from trainables.system import IGNORED, Dataset, DatasetSpec, InputSpec, Split, Task, with_masks
from trainables.units import Units

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SEED = 20_260_101


def made_up(facts: DatasetSpec, train: int, validation: int) -> Dataset:
    """`train` training records and `validation` others; where the facts name a unit, as many units.

    Units have 1, 2, ... up to their largest number of records, in turn. Every class occurs, if there is room.
    """
    rng = np.random.default_rng(SEED)
    units = None if facts.unit is None else _units(train, facts.unit.max_records)
    records = train if units is None else units.records
    return Dataset(
        facts=facts,
        train=_split(facts, records, rng),
        validation=_split(facts, validation, rng),
        fingerprint="made up",
        units=units,
    )


def made_up_records(facts: DatasetSpec, count: int, device: torch.device) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs and targets of so many of them as tensors, which lie apart."""
    from trainables.training.losses import tensor

    records = made_up(facts, count, 0).train
    inputs = tuple(tensor(array[:count].copy(), device) for array in records.inputs.values())
    return inputs, tensor(records.targets[:count].copy(), device)


def _units(count: int, largest: int) -> Units:
    sizes = 1 + np.arange(count) % largest
    return Units(np.cumsum([0, *sizes], dtype=np.int64), np.arange(count, dtype=np.uint64))


def _split(facts: DatasetSpec, records: int, rng: np.random.Generator) -> Split:
    own = {name: one for name, one in facts.features.items() if not one.mask_of}
    inputs = with_masks(facts.features, {name: _values(one, records, rng) for name, one in own.items()})
    split, weights, groups = Split(inputs=inputs, targets=_targets(facts, records, rng)), facts.weights, facts.groups
    if weights is not None and weights.column:
        split = replace(split, weights=rng.uniform(0.0, weights.high, records).astype(np.float32))
    if groups is not None:
        split = replace(split, groups=np.arange(records, dtype=np.int64) % len(groups.categories))
    return split


def _values(feature: InputSpec, records: int, rng: np.random.Generator) -> NDArray[np.generic]:
    """[records, *shape], read-only."""
    size = math.prod(feature.shape)
    length = max(records + size - 1, size)
    row: NDArray[np.generic]
    if feature.cardinality is None:
        row = rng.uniform(feature.low, feature.high, length).astype(np.float32)
    else:
        row = rng.integers(feature.cardinality, size=length, dtype=np.int64)
        # A table that is one row short shows at its last code.
        row[: min(1, length)] = feature.cardinality - 1
    values = sliding_window_view(row, size)[:records]
    if feature.padding is not None:
        # The first is full: it has the last code.
        lengths = np.concatenate([[size], rng.integers(1, size + 1, records)])[:records]
        values = np.where(np.arange(size) < lengths[:, None], values, feature.padding)
    return values.reshape(records, *feature.shape)


def _targets(facts: DatasetSpec, records: int, rng: np.random.Generator) -> NDArray[np.generic]:
    """[records, *target_shape]"""
    if facts.task is Task.TOKENS:
        return _values(InputSpec(shape=facts.target_shape, cardinality=facts.classes, padding=IGNORED), records, rng)
    if facts.task in (Task.CLASSIFICATION, Task.RATING):
        return rng.permutation(np.arange(records, dtype=np.int64)[::-1] % (facts.classes or 1))
    return rng.uniform(facts.target_low, facts.target_high, records).astype(np.float32)

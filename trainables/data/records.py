"""Checks of loaded records, and the data set made from them.

The errors here look at private records. They reach the person who holds the data, before anything is trained;
they are no part of what a sweep releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.system import IGNORED, Dataset, DatasetSpec, InputSpec, Split, Task
from trainables.units import Unit, Units, arranged, choices

Array = NDArray[np.generic]

BLOCK = 4096
"""Records that are looked at together where there may be more than memory holds."""
FEW = 10
"""Equal records below which chance may have made them, where most of their like repeat."""


def dataset(
    facts: DatasetSpec, train: Split, validation: Split, *, units: Units | None = None, digest: str | None = None
) -> Dataset:
    """The checked data set, as float32 and int64 arrays. Raises InvalidValue (NaN, labels, shapes, one class).

    digest  the fingerprint, where it is not that of these records but of what they were computed from
    """
    parts = [checked(facts, name, split) for name, split in (("train", train), ("validation", validation))]
    return of_checked(facts, *parts, units=units, digest=digest)


def of_checked(
    facts: DatasetSpec, train: Split, validation: Split, *, units: Units | None = None, digest: str | None = None
) -> Dataset:
    """The same of records that were `checked`. Raises InvalidValue (none, one class)."""
    if not len(train):
        raise InvalidValue("data", f"{facts.dataset} (train)", "at least one record, found none")
    check_several_classes(facts, train)
    digest = fingerprint(train, validation, units=units) if digest is None else digest
    return Dataset(facts=facts, train=train, validation=validation, fingerprint=digest, units=units)


def check_no_copy(trained: Split, other: Split, option: str) -> None:
    """Raises InvalidValue where `other` records are copies of those that are trained on.

    They are where at least half of those that stand alone among `other` equal one that stands alone among `trained`:
    rows of a few categories repeat by themselves, and say nothing.
    """
    among, single = _single(trained), _single(other)
    copies = int(np.isin(single, among, assume_unique=True).sum())
    if 2 * copies >= len(single) and (copies >= FEW or 2 * copies >= len(other) > 0):
        expected = "records on which nothing is trained: most of them equal a training record in every value"
        raise InvalidValue(option, f"{len(other)} records", expected, "Name a file of others, or part them by an id.")


def _single(split: Split) -> NDArray[np.int64]:
    """A hash of the values of each record that stands alone."""
    of = replace(split, weights=None, groups=None, ids=None)
    hashes = np.fromiter(map(hash, (one for block in blocks(of) for one in contents(block))), np.int64, len(split))
    found, counts = np.unique(hashes, return_counts=True)
    return found[counts == 1]


def contents(split: Split) -> Iterator[bytes]:
    """The values of each record."""
    columns = [array for _, array in sorted(split.inputs.items())] + [split.targets]
    columns += [one for one in (split.weights, split.groups) if one is not None]
    return (b"".join(column[row].tobytes() for column in columns) for row in range(len(split)))


def blocks(split: Split) -> Iterator[Split]:
    """The records of a split, so many at a time, as models take them whatever they are stored as."""
    for start in range(0, len(split), BLOCK):
        yield taken(split, slice(start, start + BLOCK)).each(wide)


def wide(array: Array) -> Array:
    """Codes as int64: what is mapped from a file has them in fewer bytes."""
    return array.astype(np.int64, copy=False) if array.dtype.kind == "i" else array


def narrow(array: Array, codes: int | None) -> np.dtype[Any]:
    """The type in which a file has such codes, in 0..codes-1 or `IGNORED`; numbers and what is one a record stay."""
    return array.dtype if codes is None or array.ndim == 1 else np.min_scalar_type(min(-codes, IGNORED))


def fingerprint(*splits: Split, units: Units | None = None) -> str:
    """SHA-256 over names, shapes, types and content, in order, and over which records belong together."""
    digest = hashlib.sha256()
    arrays = [(name, array) for split in splits for name, array in [*sorted(split.inputs.items()), ("", split.targets)]]
    arrays += [("weights", split.weights) for split in splits if split.weights is not None]
    arrays += [("groups", split.groups) for split in splits if split.groups is not None]
    if units is not None:
        arrays += [("offsets", units.offsets), ("keys", units.keys)]
    for name, array in arrays:
        digest.update(f"{name}:{wide(array[:0]).dtype.str}:{array.shape};".encode())
        for start in range(0, len(array), BLOCK):
            digest.update(np.ascontiguousarray(wide(array[start : start + BLOCK])).data)
    return digest.hexdigest()


def by_unit(split: Split, ids: Iterable[object], unit: Unit) -> tuple[Split, Units]:
    """The records of `split` unit by unit, at most `unit.max_records` of each; `ids` [n] says whose each record is."""
    ids = list(ids)
    kept, units = arranged(ids, choices(ids, contents(split)), unit)
    return taken(split, kept), units


def check_count(facts: DatasetSpec, where: str, found: int, expected: int) -> None:
    """The number of records of a published file is known. Raises InvalidValue."""
    if found != expected:
        raise InvalidValue(
            "data.path", where, f"{expected} records of {facts.dataset}, found {found}", "Fetch the file again."
        )


def parted(
    facts: DatasetSpec,
    inputs: Mapping[str, Array],
    targets: Array,
    train: Array | slice,
    validation: Array | slice,
    ids: Array | None = None,
) -> Dataset:
    """The checked data set of the records at positions `train` and `validation`. Raises InvalidValue.

    ids  [n], see `Split.ids`
    """
    whole = Split(inputs=inputs, targets=targets, ids=ids)
    return dataset(facts, taken(whole, train), taken(whole, validation))


def checked(facts: DatasetSpec, name: str, split: Split) -> Split:
    """The records as float32 and int64 arrays. Raises InvalidValue (NaN, labels, shapes), naming them `name`."""
    label = f"{facts.dataset} ({name})"
    inputs = {name: as_input(label, name, facts.features[name], array) for name, array in split.inputs.items()}
    targets = _targets(facts, label, np.asarray(split.targets))
    for feature, array in inputs.items():
        if len(array) != len(targets):
            raise InvalidValue("data", label, f"one {feature} per label, found {len(array)} for {len(targets)} labels")
    return Split(
        inputs=inputs,
        targets=targets,
        weights=_weights(facts, label, split.weights, len(targets)),
        groups=_groups(facts, label, split.groups, len(targets)),
        ids=split.ids,
    )


def _weights(facts: DatasetSpec, label: str, weights: Array | None, n: int) -> NDArray[np.float32] | None:
    declared = facts.weights
    if declared is None or not declared.column:
        return None
    if weights is None or weights.shape != (n,) or weights.dtype.kind not in "fiub":
        raise InvalidValue("data", label, f"one number per record as its weight, {declared.column}")
    values = weights.astype(np.float32)
    if np.isnan(values).any():
        raise InvalidValue("data", label, f"a weight in every record, {declared.column}, found missing ones")
    return np.clip(values, 0.0, np.float32(declared.high))


def _groups(facts: DatasetSpec, label: str, groups: Array | None, n: int) -> NDArray[np.int64] | None:
    declared = facts.groups
    if declared is None:
        return None
    if groups is None or groups.shape != (n,):
        raise InvalidValue("data", label, f"one group per record, {declared.column}")
    return _codes(label, declared.column, groups, len(declared.categories))


def as_input(label: str, name: str, feature: InputSpec, array: Array) -> Array:
    """The values [n, *shape] of one input as models take them: codes as int64, numbers as float32.

    label  whose they are, in errors

    Raises InvalidValue for another shape, another kind, undeclared codes, and numbers that are not finite in float32.
    """
    if array.shape[1:] != feature.shape:
        raise InvalidValue("data", label, f"{name} of shape {feature.shape} per record, found {array.shape[1:]}")
    if feature.cardinality is not None:
        return _codes(label, f"{name} codes", array, feature.cardinality)
    if array.dtype.kind not in "fiub":
        raise InvalidValue("data", label, f"numbers in {name}, found {array.dtype}")
    with np.errstate(over="ignore"):
        values = array.astype(np.float32, copy=False)
    if wrong := int((~np.isfinite(values)).sum()):
        expected = f"finite numbers in {name}, found {wrong} NaN or infinite"
        raise InvalidValue("data", label, expected, "Drop these records or give the missing values a public constant.")
    return values


def _targets(facts: DatasetSpec, label: str, targets: Array) -> Array:
    if facts.task is Task.TOKENS:
        if targets.shape[1:] != facts.target_shape:
            raise InvalidValue("data", label, f"targets of shape {facts.target_shape}, found {targets.shape[1:]}")
        ignored = targets == IGNORED
        return np.where(ignored, IGNORED, _codes(label, "labels", np.where(ignored, 0, targets), facts.classes or 0))
    if targets.ndim != 1:
        raise InvalidValue("data", label, f"one label per record, found shape {targets.shape}")
    if facts.task in (Task.CLASSIFICATION, Task.RATING):
        return _codes(label, "labels", targets, facts.classes or 0)
    values = targets.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise InvalidValue("data", label, "finite targets, found NaN or infinite ones", "Drop these records.")
    return np.clip(values, facts.target_low, facts.target_high)


def _codes(label: str, name: str, array: Array, count: int) -> NDArray[np.int64]:
    """Whole numbers 0..count-1. Raises InvalidValue."""
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():  # type: ignore[type-var]
            raise InvalidValue("data", label, f"{name} in every record, found missing ones", "Drop these records.")
        if (array != np.floor(array)).any():  # type: ignore[call-overload]
            raise InvalidValue("data", label, f"whole numbers as {name}")
    elif array.dtype.kind not in "iub":
        raise InvalidValue("data", label, f"whole numbers as {name}, found {array.dtype}")
    with np.errstate(invalid="ignore"):
        # What is beyond int64 is beyond any number of codes.
        codes = array.astype(np.int64, copy=False)
    if codes.size and not 0 <= codes.min() <= codes.max() < count:
        expected = f"{name} in 0..{count - 1}, found {codes.min()}..{codes.max()}"
        raise QuotesRecords("data", label, expected, "Declare all of them, or correct the records.")
    return codes


def check_several_classes(facts: DatasetSpec, train: Split) -> None:
    """Raises InvalidValue for classified training records of one class alone."""
    if facts.task not in (Task.CLASSIFICATION, Task.RATING):
        return
    if (train.targets == train.targets[0]).all():
        raise QuotesRecords(
            "data",
            f"{facts.dataset} (train)",
            f"records of at least two classes, found class {int(train.targets[0])} only",
            "Check the label column; with a `limit`, raise it.",
        )


def drawn(records: int, seed: int) -> NDArray[np.int64]:
    """Positions 0..records-1 in the order of a public draw; shape (records,)."""
    return np.random.default_rng(seed).permutation(records)


def taken(split: Split, rows: Array | slice) -> Split:
    """The records of `split` at positions `rows`, in that order, with their weights, groups and ids."""
    return split.each(lambda array: array[rows])


def joined(one: Split, other: Split) -> Split:
    """The records of `one`, then those of `other`, with ids where both have them; without weights and groups."""
    inputs = {name: np.concatenate([array, other.inputs[name]]) for name, array in one.inputs.items()}
    ids = None if one.ids is None or other.ids is None else np.concatenate([one.ids, other.ids])
    return Split(inputs=inputs, targets=np.concatenate([one.targets, other.targets]), ids=ids)


def without_ids(data: Dataset) -> Dataset:
    """The same records, as they go to trials: what parted them is no business of theirs."""
    train, validation = (replace(one, ids=None) for one in (data.train, data.validation))
    return replace(data, train=train, validation=validation)

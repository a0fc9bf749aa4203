"""What a registered model takes and gives, in MLflow's words, and an example: from declared facts, and no record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import Array

from trainables.data.table_declaration import Column
from trainables.system import Feature, Task

if TYPE_CHECKING:
    from trainables.export.preprocessing import Preprocessing

_KINDS = {bool: DataType.boolean, int: DataType.long, float: DataType.double, str: DataType.string}


def signature(asked: Preprocessing) -> ModelSignature:
    """Of a user's own table one column each; else one array for each input, any number of records long."""
    if asked.columns:
        inputs = Schema([ColSpec(_kind(one), one.name) for one in asked.columns])
    else:
        inputs = Schema([TensorSpec(_dtype(one), (-1, *one.shape), name) for name, one in asked.features.items()])
    said = _of(asked.classes) if asked.task is Task.CLASSIFICATION else DataType.double
    shares = [ColSpec(DataType.double, f"probability.{label}") for label in asked.classes]
    return ModelSignature(inputs=inputs, outputs=Schema([ColSpec(said, "prediction"), *shares]))


def example(asked: Preprocessing) -> Any:
    """Two records at the ends of what was declared: a pandas table, or an array [2, *shape] for each input."""
    import pandas as pd

    if asked.columns:
        return pd.DataFrame({one.name: _ends(one) for one in asked.columns})
    return {
        name: np.stack([np.full(one.shape, value, _dtype(one)) for value in _bounds(one)])
        for name, one in asked.features.items()
    }


def _kind(column: Column) -> Any:
    if column.categories:
        return _of(column.categories)
    kind = DataType.double if column.codes is None else DataType.long
    return Array(kind) if column.shape else kind


def _of(values: Iterable[Any]) -> DataType:
    kinds = {type(one) for one in values}
    return _KINDS.get(kinds.pop(), DataType.string) if len(kinds) == 1 else DataType.string


def _ends(column: Column) -> list[Any]:
    if column.categories:
        return [column.categories[0], column.categories[-1]]
    ends = (column.low, column.high) if column.codes is None else (0, column.codes - 1)
    size = int(np.prod(column.shape, dtype=int))
    return [[one] * size for one in ends] if column.shape else list(ends)


def _dtype(feature: Feature) -> np.dtype[Any]:
    return np.dtype(np.int64 if feature.cardinality is not None else np.float32)


def _bounds(feature: Feature) -> tuple[float, float]:
    return (feature.low, feature.high) if feature.cardinality is None else (0, feature.cardinality - 1)

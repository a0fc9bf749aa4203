"""Predictions of an exported model for the rows of a file, beside them in another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from trainables.data import table_file

if TYPE_CHECKING:
    import pandas as pd

    from trainables.export.model import ReleasedModel

ENDINGS = (".csv", ".parquet")


def predicted(model: ReleasedModel, path: str | Path, format: str | None = None) -> pd.DataFrame:
    """One row of predictions for each row of a Parquet or CSV file, in its order.

    format  parquet or csv, where the name of the file does not say

    Raises InvalidValue for a file that is not there or no such file, a missing column, an undeclared category.
    """
    asked = model.preprocessing
    names = tuple(column.name for column in asked.columns) or tuple(asked.features)
    return model.predict(table_file.read(str(path), format, names)).table()


def check_output(path: str | Path) -> None:
    """Raises InvalidValue for a name that says no format: before anything is computed."""
    if Path(path).suffix not in ENDINGS:
        raise InvalidValue("output", str(path), f"a file whose name ends in {' or '.join(ENDINGS)}")


def written(table: pd.DataFrame, path: str | Path) -> Path:
    """Write predictions as CSV or Parquet, by the name of `path`. Raises InvalidValue, OSError."""
    check_output(path)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        table.to_csv(target, index=False)
    else:
        table.to_parquet(target, index=False)
    return target

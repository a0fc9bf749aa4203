"""Asking a model that was exported: what it says of a file's rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def predict(model: str | Path, file: str | Path, *, format: str | None = None) -> pd.DataFrame:
    """What an exported model says: one row for each row of the file, in its order.

    model   folder that `ReleasedModel.save` or `sweeps export` wrote
    file    Parquet or CSV with the declared columns: a file, a folder of files, or a URL
    format  parquet or csv, where the file's name does not say

    Columns: `prediction`, and of classes `probability.<class>`. Raises InvalidValue for a folder that holds no such
    model, a file that is not there, a missing column, an undeclared category.
    """
    from trainables.export.files import predicted
    from trainables.export.model import ReleasedModel

    return predicted(ReleasedModel.load(model), file, format)

"""Asking a model that was exported: what it says of the rows of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from trainables.export.files import Files


def predict(model: str | Path, files: Files, *, format: str | None = None) -> pd.DataFrame:
    """What an exported model says: one row for each row of the files, in their order.

    model    folder that `ReleasedModel.save` or `sweeps export` wrote
    files    Parquet or CSV with the declared columns: a file, a folder, a pattern such as "new/*.parquet", a URL, or
             several of these
    format   parquet or csv, where a file's name does not say

    Columns: `prediction`, of classes `probability.<class>`, and of several files `file` first. Raises InvalidValue for
    a folder that holds no such model, a file that is not there, a column or number that is missing, an undeclared
    category.
    """
    from trainables.export.files import files_of, predicted, together
    from trainables.export.model import ReleasedModel

    loaded, paths = ReleasedModel.load(model), files_of(files, format)
    return together(paths, [predicted(loaded, one, format) for one in paths])

"""Asking a model that was exported: what it says of the rows of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from trainables.export.files import Files, Written


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


def predict_files(
    model: str | Path, files: Files, output: str | Path, *, address: str = "local", format: str | None = None
) -> Written:
    """The same of many files, by Ray Data: into a folder of Parquet files, in memory that does not grow with them.

    output   folder to make, or URL of an object store; every worker has to see it at the same place, and the files
    address  Ray cluster: auto or HOST:PORT; "local" starts one of this machine's own

    The files are in the order of names, the rows within in that of `predict`: `file` and `row` say whose each is.
    Raises before anything is computed what `predict` raises of files and columns, and ClusterUnreachable; and for an
    undeclared category or a missing number when it is met, with its file: then nothing is left of the folder.
    """
    from sweeps.ray.predicting import asked_in_pieces
    from trainables.export import files as pieces
    from trainables.export.files import files_of
    from trainables.export.model import ReleasedModel
    from trainables.worker.files import Folder

    target = Folder(str(output) if "://" in str(output) else str(Path(output).absolute()))
    asked = pieces.pieces_of(ReleasedModel.load(model), files_of(files, format), format)
    pieces.check_free(target)
    try:
        pieces.send(model, target)
        written = asked_in_pieces(asked, target, address)
        pieces.finish(target)
    except BaseException:
        target.clear()
        raise
    return written

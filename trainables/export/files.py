"""Predictions of an exported model for the rows of files, beside them in another."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from trainables.data import table_file

if TYPE_CHECKING:
    import pandas as pd

    from trainables.export.model import ReleasedModel


ENDINGS = (".csv", ".parquet")
Files = str | Path | Sequence[str | Path]
"""A file, a folder, a pattern such as "new/*.parquet", or several of these; a URL is one file, or one folder's rows."""


def files_of(files: Files, format: str | None = None) -> tuple[str, ...]:
    """The files that are meant, each once: as they were named, those of a folder or pattern in the order of names.

    format  of all files of a folder; without it they are those whose names end in .parquet or as CSV does

    Raises InvalidValue where there are none.
    """
    found: list[str] = []
    for one in map(str, [files] if isinstance(files, str | Path) else files):
        meant = [one] if "://" in one or Path(one).is_file() else _inside(one, format)
        if not meant:
            raise InvalidValue("file", one, "a Parquet or CSV file, a folder or a pattern of them, that is there")
        found += meant
    if not found:
        raise InvalidValue("file", list(found), "at least one file")
    return tuple(dict.fromkeys(found))


def _inside(where: str, format: str | None) -> list[str]:
    if not Path(where).is_dir():
        return sorted(one for one in glob.glob(where, recursive=True) if Path(one).is_file())
    shown = (one for one in Path(where).rglob("*") if not any(p[0] in "._" for p in one.relative_to(where).parts))
    endings = (".parquet", *table_file.CSV_ENDINGS)
    return sorted(str(one) for one in shown if one.is_file() and (format or one.name.lower().endswith(endings)))


def predicted(
    model: ReleasedModel,
    path: str | Path,
    format: str | None = None,
    *,
    threshold: float | None = None,
    keep: Sequence[str] = (),
) -> pd.DataFrame:
    """One row of predictions for each row of a Parquet or CSV file, in its order.

    format     parquet or csv, where the name of the file does not say
    threshold  see `ReleasedModel.predict`
    keep       columns of the file that stand in front of the predictions, as they are written there

    Raises InvalidValue for a file that is not there or no such file, a missing column, an undeclared category.
    """
    import pyarrow as pa

    asked = model.preprocessing
    kept = [name for name in keep if name not in asked.names]
    names = (*asked.names, *kept)
    rows = pa.concat_tables(table_file.blocks(str(path), format, names, (*asked.texts, *kept), asked.numbers))
    table = model.predict(rows, str(path), threshold=threshold).table()
    for place, name in enumerate(dict.fromkeys(keep)):
        table.insert(place, name, rows.column(name).to_pandas())
    return table


def together(files: Sequence[str], tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all files in their order; of several files `file` says whose a row is."""
    import pandas as pd

    if len(files) == 1:
        return tables[0]
    named = [table.assign(file=name) for name, table in zip(files, tables, strict=True)]
    whole = pd.concat(named, ignore_index=True)
    return whole[["file", *(name for name in whole if name != "file")]]


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

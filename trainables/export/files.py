"""Predictions of an exported model for the rows of files, beside them in another."""

from __future__ import annotations

import glob
import io
import json
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from trainables.data import table_file
from trainables.data.table_file import TablePiece
from trainables.worker.files import Folder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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


def predicted(model: ReleasedModel, path: str | Path, format: str | None = None) -> pd.DataFrame:
    """One row of predictions for each row of a Parquet or CSV file, in its order.

    format  parquet or csv, where the name of the file does not say

    Raises InvalidValue for a file that is not there or no such file, a missing column, an undeclared category.
    """
    asked = model.preprocessing
    return model.predict(table_file.read(str(path), format, asked.names, asked.texts), str(path)).table()


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


# Many files asked about in pieces, each by itself: a piece is read, asked and written in bounded memory.
#
# What comes out lies in parts whose names are in the order of the rows, with two columns in front that say whose each
# row is: `file`, as it was named, and `row`, its position in it. Reading, preprocessing and model are those of
# `trainables.export.files.predicted`. The model lies beside the parts: the one folder that every worker has to see.

ROWS = 1 << 18
"""Of a piece, where the groups of a file allow it, and of a part at most."""
MODEL, WHOLE = "_model", "_SUCCESS"
"""Beside the parts, and passed over by whoever reads the folder: the model while it is asked, and that all is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Predictions in a folder.

    folder  path or URL: Parquet files whose names are in the order of the rows
    rows    how many there are
    parts   names of the files
    """

    folder: str
    rows: int
    parts: tuple[str, ...]


def pieces_of(model: ReleasedModel, files: Sequence[str], format: str | None) -> list[tuple[str, TablePiece]]:
    """What is asked about, in order, each with the file as it was named. Reads no record.

    Raises InvalidValue for a file that is not there or cannot be read, and a column that is missing or of another kind.
    """
    asked = model.preprocessing
    # Workers have other current folders.
    places = {one: one if "://" in one else str(Path(one).absolute()) for one in files}
    for place in places.values():
        table_file.check_askable(place, format, asked.columns, asked.names)
    return [(one, part) for one, place in places.items() for part in table_file.parts(place, format, ROWS)]


def check_free(output: Folder) -> None:
    """Raises InvalidValue for a folder that is in use, whose parts would be mixed with ours; OSError."""
    if output.names() or (output.is_local and Path(output.url).exists()):
        raise InvalidValue("output", output.url, "a folder that is not there yet", "Name another, or remove it.")


def send(model: str | Path, output: Folder) -> None:
    """Put the model of an exported folder beside where the parts will be."""
    for path in sorted(Path(model).iterdir()):
        if path.is_file():
            output.child(MODEL).write(path.name, path.read_bytes(), durable=False)


def finish(output: Folder) -> None:
    """All parts are there."""
    output.child(MODEL).clear()
    output.write(WHOLE, b"")


class PieceWorker:
    """Asks the model about one piece after the other. Made once in each worker."""

    def __init__(self, output: str) -> None:
        from trainables.export.model import ReleasedModel

        self._output = Folder(output)
        sent = self._output.child(MODEL)
        place = Path(tempfile.mkdtemp())
        try:
            for name in sent.names():
                (place / name).write_bytes(sent.read(name) or b"")
            self._model = ReleasedModel.load(place)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        """{number, name, rows, error} of what was written for the pieces {number, file, piece}: JSON of `plain`."""
        found: dict[str, list[Any]] = {"number": [], "name": [], "rows": [], "error": []}
        for number, file, piece in zip(batch["number"], batch["file"], batch["piece"], strict=True):
            for name, rows, error in self._written(int(number), str(file), part_of(json.loads(str(piece)))):
                for column, value in zip(found.values(), (int(number), name, rows, error), strict=True):
                    column.append(value)
        return found

    def _written(self, number: int, file: str, piece: TablePiece) -> Iterator[tuple[str, int, str]]:
        try:
            for part, table in enumerate(said(self._model, piece, file)):
                name = f"part-{number:06d}-{part:06d}.parquet"
                self._output.write(name, _parquet(table), durable=False)
                yield name, len(table), ""
        except (InvalidValue, OSError) as error:
            yield "", 0, f"{file} (on {socket.gethostname()}): {error}"


def said(model: ReleasedModel, piece: TablePiece, file: str) -> Iterator[pa.Table]:
    """What `model` says of the rows of a piece, in tables of at most `ROWS` rows, with `file` and `row` in front.

    Raises InvalidValue for what was not declared.
    """
    import pyarrow as pa

    from trainables.export.model import BATCH

    row, held = piece.first, []
    asked = model.preprocessing
    for rows in table_file.batches(piece, asked.names, BATCH, asked.texts):
        if not len(rows):
            continue
        table = pa.Table.from_pandas(model.predict(rows).table(), preserve_index=False)
        table = table.add_column(0, "row", pa.array(range(row, row + len(table)), pa.int64()))
        held.append(table.add_column(0, "file", pa.array([file] * len(table), pa.string())))
        row += len(table)
        if sum(map(len, held)) + BATCH > ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def plain(piece: TablePiece) -> dict[str, Any]:
    """JSON values; `part_of` reads them."""
    return asdict(piece)


def part_of(values: Mapping[str, Any]) -> TablePiece:
    """The inverse of `plain`."""
    groups = values["groups"]
    return TablePiece(**{**values, "groups": None if groups is None else tuple(groups)})


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()

"""Files of tables, as they lie on disk or on an object store: which columns they have, their rows, and what texts and
images in these are to a model.

Columns are looked up without a record: the names and types of a Parquet file stand at its end, the names of a CSV file
in its first line. A CSV file has no types before its records are read.
"""

from __future__ import annotations

import difflib
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow import fs
    from tokenizers import Tokenizer


IMAGES = "images"
"""The form of a folder with a subfolder of images for each class."""
_IMAGE_COLUMNS = ["image", "label", "file"]
BATCH, BLOCK_BYTES = 2048, 32 << 20
"""Records that are read at once, and bytes of them that are encoded together."""
CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2")
_WITHOUT_VALUES = re.compile(
    r"CSV parse error: (?:Row #\d+: )?Expected \d+ columns, got \d+"
    r"|In CSV column #\d+: (?:Row #\d+: )?CSV conversion error to \w+"
)
"""What pyarrow says of a CSV file before it quotes from it."""
_EMPTY = "a folder with a file in it, found none"
_NAMES_END = 1 << 18
"""Bytes within which the names of a CSV file end."""


class ColumnKind(StrEnum):
    """What may be declared of a column of that type."""

    NUMBER = "number"
    TRUTH = "truth value"
    WORD = "word"
    NUMBERS = "list of numbers"
    BYTES = "bytes"
    MOMENT = "date or time"
    OTHER = "no input"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """One column of a file.

    type  as pyarrow writes it; "" of a CSV file, which tells none
    size  of a list, where its type fixes it
    """

    name: str
    kind: ColumnKind
    type: str = ""
    size: int | None = None


def blocks(
    where: object, form: str | None, names: tuple[str, ...], texts: Sequence[str] = (), numbers: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """All rows of the columns `names`, some `BLOCK_BYTES` at a time: one block or more.

    texts    columns of a CSV file to be read as they are written
    numbers  those to be read as numbers with a point. Of the others what is read of one record follows from all of
             them: 007 is 7 unless some record has a word there

    Raises InvalidValue (path, form, columns).
    """
    import pyarrow as pa

    with _opened(where, form) as (path, kind):
        held = _schema(path, kind)
        _check_names(path, kind, held.names, names)
        if kind == IMAGES:
            batches = _images(path)
        else:
            source = _dataset(path, kind, texts, numbers)
            held, batches = source.schema, _batches(source, names)
        schema = pa.schema([held.field(name) for name in names])
        waiting, size, given = [], 0, 0
        for batch in batches:
            waiting.append(batch.select(list(names)))
            size += batch.nbytes
            if size >= BLOCK_BYTES:
                yield pa.Table.from_batches(waiting, schema)
                waiting, size, given = [], 0, given + 1
        if waiting or not given:
            yield pa.Table.from_batches(waiting, schema)


def _batches(source: ds.FileSystemDataset, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Some rows at a time. Of Parquet file by file and through a buffer: a scanner of pyarrow (25) holds groups of
    rows, and more than one."""
    import pyarrow.parquet as pq

    for fragment in source.get_fragments():
        held = fragment.physical_schema
        if source.format.default_extname == "parquet" and all(source.schema.field(one) in held for one in names):
            with fragment.open() as file:
                opened = pq.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False)
                yield from opened.iter_batches(BATCH, columns=list(names))
        else:
            yield from fragment.to_batches(source.schema, columns=list(names), batch_size=BATCH, batch_readahead=2)


def count(where: object, form: str | None) -> int:
    """How many rows there are. Raises InvalidValue (path)."""
    with _opened(where, form) as (path, kind):
        return len(_image_files(path)[1]) if kind == IMAGES else int(_dataset(path, kind).count_rows())


def digest(where: object, form: str | None) -> str:
    """SHA-256, in hex, of the content of a file, or of those of a folder and their names. Raises InvalidValue."""
    found = hashlib.sha256()
    with _opened(where, form) as (path, _):
        system, files = _files(path)
        for one in files:
            found.update(f"{one}\0{system.get_file_info(one).size}\0".encode())
            with system.open_input_stream(one) as stream:
                while block := stream.read(1 << 20):
                    found.update(block)
    return found.hexdigest()


def empty(where: object, form: str | None, names: tuple[str, ...]) -> pa.Table | None:
    """No row of the columns `names`, which are there, of their types; None of a CSV file, which tells none.

    Raises InvalidValue (path, form, columns).
    """
    import pyarrow as pa

    with _opened(where, form) as (path, kind):
        held = _schema(path, kind)
        _check_names(path, kind, held.names, names)
    if kind == "csv":
        return None
    if gone := [name for name in names if pa.types.is_null(held.field(name).type)]:
        expected = f"columns with values in {path}, where these have none, and no type"
        raise InvalidValue("data.columns", gone, expected, "Write their values, or leave them out of the spec.")
    return held.empty_table()


def file_columns(where: object, form: str | None = None) -> tuple[FileColumn, ...]:
    """The columns of a Parquet or CSV file, or of a folder of such, in order. Reads no record and no statistics.

    where  a path or a URL of an object store
    form   parquet or csv; by the name of the file where it is None

    Raises InvalidValue: no such file, names that are missing or repeated, and a first line of a CSV file that holds
    numbers, and so is a record; nothing of it is quoted.
    """
    with _opened(where, form) as (path, kind):
        held = _schema(path, kind)
        is_csv, names = kind == "csv", held.names
    if not names or len(set(names)) < len(names) or not all(map(str.strip, names)):
        raise InvalidValue("file", str(where), "a file with columns, each with a name of its own")
    if is_csv and any(map(_reads_as_number, names)):
        raise InvalidValue(
            "file",
            str(where),
            "the names of the columns in the first line of a CSV file; a number stands there",
            "Add a line with names: what stands there now is taken for a record, and is not shown.",
        )
    if is_csv:
        return tuple(FileColumn(name=name, kind=ColumnKind.UNKNOWN) for name in names)
    return tuple(column_of(name, type_) for name, type_ in zip(names, held.types, strict=True))


def _place(path: str) -> tuple[fs.FileSystem, str]:
    """Where a path or URL lies, and what it is called there."""
    from pyarrow import fs

    is_url = re.match(r"[a-z][a-z0-9+.-]+:/", path) is not None
    return fs.FileSystem.from_uri(path) if is_url else (fs.LocalFileSystem(), path)


def _files(path: str) -> tuple[fs.FileSystem, list[str]]:
    """The file, or those of a folder that are not empty, in order."""
    from pyarrow import fs

    system, inside = _place(path)
    if system.get_file_info(inside).type != fs.FileType.Directory:
        return system, [inside]
    listed = system.get_file_info(fs.FileSelector(inside, recursive=True))
    own = (one.path for one in listed if one.type == fs.FileType.File and one.size)
    files = sorted(one for one in own if not re.search(r"/[._]", one.removeprefix(inside)))
    if not files:
        raise FileNotFoundError(_EMPTY)
    return system, files


def _image_files(path: str) -> tuple[fs.FileSystem, list[tuple[str, str]]]:
    """(place, class/file) of each. Raises InvalidValue for files that lie elsewhere than in a subfolder."""
    (system, inside), (_, files) = _place(path), _files(path)
    found = [(one, one.removeprefix(inside).strip("/")) for one in files]
    if any(name.count("/") != 1 for _, name in found):
        raise InvalidValue("data.path", path, "a folder of folders of images, one for each class, and nothing else")
    return system, found


def _images(path: str) -> Iterator[pa.RecordBatch]:
    """The columns of a folder of images, a record at a time."""
    import pyarrow as pa

    system, files = _image_files(path)
    for place, name in files:
        with system.open_input_stream(place) as stream:
            row = {"image": {"bytes": stream.read(), "path": name}, "label": name.partition("/")[0], "file": name}
        yield pa.RecordBatch.from_pylist([row], _image_schema())


def _image_schema() -> pa.Schema:
    import pyarrow as pa

    kind = pa.struct({"bytes": pa.large_binary(), "path": pa.string()})
    return pa.schema(dict(zip(_IMAGE_COLUMNS, (kind, pa.string(), pa.string()), strict=True)))


def _schema(path: str, kind: str) -> pa.Schema:
    """The columns as the file tells them, without their types where it is CSV. Reads no record."""
    import pyarrow as pa

    if kind == "csv":
        return pa.schema([(name, pa.null()) for name in _header(path)])
    if kind == IMAGES:
        _image_files(path)
        return _image_schema()
    return _dataset(path, kind).schema


def _dataset(path: str, kind: str, texts: Sequence[str] = (), numbers: Sequence[str] = ()) -> ds.FileSystemDataset:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyarrow.csv import ConvertOptions

    system, files = _files(path)
    if kind != "csv":
        return ds.dataset(files, filesystem=system, format=kind)
    guessed = ds.dataset(files, filesystem=system, format="csv")
    # A column of truth values is guessed from the first rows: to Arrow it is no column of numbers.
    true = {one.name for one in guessed.schema if pa.types.is_boolean(one.type)}
    types = {name: pa.float64() for name in numbers if name not in true} | {name: pa.string() for name in texts}
    written = ds.CsvFileFormat(convert_options=ConvertOptions(column_types=types))
    return ds.dataset(files, filesystem=system, format=written)


def _check_names(path: str, kind: str, names: list[str], declared: Sequence[str]) -> None:
    """Each declared column is there, once. Raises InvalidValue.

    Without a header the first line of a CSV file is a record, and what is near to a declared name may be a value: none
    of it is quoted.
    """
    missing = [name for name in declared if name not in names]
    remedy = "Correct the names in data.columns, data.label, data.unit or data.validation.id."
    if missing and kind == "csv":
        expected = f"columns of {path} in its first line, which must hold the names of the columns, separated by commas"
        spelled = {name.strip().casefold() for name in names}
        near = [f"`{name}`" for name in missing if name.strip().casefold() in spelled]
        hint = f"In other capitals, or with spaces, there is {', '.join(near)}. " if near else ""
        raise InvalidValue("data.columns", missing, expected, hint + remedy)
    if missing:
        close = [f"`{one}`" for name in missing for one in difflib.get_close_matches(name, names, n=1)]
        hint = f"Did you mean {', '.join(close)}? " if close else ""
        raise InvalidValue("data.columns", missing, f"columns of {path}, which has {', '.join(names)}", hint + remedy)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidValue(
            "data.columns", twice, f"columns that {path} has once", "Rename or drop the others: which is meant?"
        )


@contextmanager
def _opened(where: object, form: str | None) -> Iterator[tuple[str, str]]:
    """The path, and what lies there; what goes wrong with it is said in our words."""
    import pyarrow as pa

    if not isinstance(where, str) or not where:
        raise InvalidValue("data.path", where, "a file, a folder or a URL of Parquet or CSV", "Set data.path.")
    path, remedy = where, "Check data.path and data.format."
    kind = form or ("csv" if path.lower().rstrip("/").endswith(CSV_ENDINGS) else "parquet")
    try:
        yield path, kind
    except FileNotFoundError as error:
        expected = _EMPTY if error.args == (_EMPTY,) else "a file or folder that is there, found none"
        raise InvalidValue("data.path", path, expected, remedy) from error
    except UnicodeError:
        raise InvalidValue("data.path", path, "names of columns in UTF-8", "Save the file in that encoding.") from None
    except (pa.ArrowException, OSError) as error:
        if kind == "csv" and isinstance(error, pa.ArrowInvalid):
            # It quotes the record that it stumbled over.
            told = _WITHOUT_VALUES.search(str(error))
            expected = f"csv that can be read ({told.group() if told else 'invalid'})"
            raise InvalidValue("data.path", path, expected, remedy) from None
        known = QuotesRecords if isinstance(error, pa.ArrowException) else InvalidValue
        raise known("data.path", path, f"{kind} that can be read ({error})", remedy) from error


def _header(path: str) -> list[str]:
    """The names in the first line of the file, or of the first file of a folder, as the reader of records takes it."""
    from pyarrow.csv import read_csv

    system, files = _files(path)
    with system.open_input_stream(files[0]) as stream:
        block = stream.read(_NAMES_END)
    # A line ends where no quote is open.
    ends = (place for place, one in enumerate(block) if one == ord("\n") and block.count(b'"', 0, place) % 2 == 0)
    return list(read_csv(io.BytesIO(block[: next(ends, len(block))] + b"\n")).column_names)


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _has_bytes(found: pa.StructType) -> bool:
    return "bytes" in [found.field(place).name for place in range(found.num_fields)]


def column_of(name: str, found: pa.DataType) -> FileColumn:
    import pyarrow.types as kinds

    inner = found.value_type if kinds.is_dictionary(found) else found
    lists = kinds.is_list(found) or kinds.is_large_list(found) or kinds.is_fixed_size_list(found)
    if kinds.is_boolean(inner):
        kind = ColumnKind.TRUTH
    elif kinds.is_integer(found) or kinds.is_floating(found):
        kind = ColumnKind.NUMBER
    elif kinds.is_string(inner) or kinds.is_large_string(inner) or kinds.is_dictionary(found):
        kind = ColumnKind.WORD
    elif kinds.is_temporal(found):
        kind = ColumnKind.MOMENT
    elif lists and (kinds.is_integer(found.value_type) or kinds.is_floating(found.value_type)):
        kind = ColumnKind.NUMBERS
    elif kinds.is_binary(found) or kinds.is_large_binary(found) or (kinds.is_struct(found) and _has_bytes(found)):
        kind = ColumnKind.BYTES
    else:
        kind = ColumnKind.OTHER
    size = found.list_size if kinds.is_fixed_size_list(found) else None
    return FileColumn(name=name, kind=kind, type=str(found), size=size)


# Texts and images, encoded by the library that made them, each record by itself.

PADDINGS, MASKS = ("[PAD]", "<pad>", "<|pad|>"), ("[MASK]", "<mask>")
"""What tokenizers call the tokens that fill up, and that stand for others."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A tokenizer as a column needs it.

    content  of its file
    mask     None where it has no such token
    """

    content: str
    codes: int
    padding: int
    mask: int | None


def tokens_of(path: str, codes: int | None, padding: int | None, mask: int | None) -> TextTokens:
    """What the tokenizer in a file says, but for what is declared. Raises InvalidValue where it does not fit."""
    place = Path(path).expanduser()
    if not place.is_file():
        raise InvalidValue("tokenizer", path, "a tokenizer.json on this machine", "Nothing is downloaded.")
    return _tokens_of(place.read_text(encoding="utf-8", errors="replace"), path, codes, padding, mask)


@lru_cache(maxsize=8)
def _tokens_of(content: str, path: str, codes: int | None, padding: int | None, mask: int | None) -> TextTokens:
    made = tokenizer(content, path)
    needed = max(made.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    if codes is not None and codes < needed:
        raise InvalidValue("codes", codes, f"at least {needed}, the codes that {path} gives", "Declare as many.")
    if padding is None:
        padding = (made.padding or {}).get("pad_id", _first(made, PADDINGS))
    if padding is None:
        raise InvalidValue(
            "padding", None, f"the code that fills texts up: {path} names none", "Write `padding: 0`, say."
        )
    return TextTokens(content, codes or needed, padding, _first(made, MASKS) if mask is None else mask)


def _first(made: Tokenizer, names: Iterable[str]) -> int | None:
    return next((code for code in map(made.token_to_id, names) if code is not None), None)


def tokenizer(content: str, path: str = "tokenizer.json") -> Tokenizer:
    """Raises InvalidValue for what is none, and where the library is not installed."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise InvalidValue(
            "tokenizer", path, f"the library tokenizers beside ({error})", "pip install private-sweeps[models]"
        ) from error
    try:
        return Tokenizer.from_str(content)
    except Exception as error:
        # The library raises nothing narrower.
        said = (str(error).splitlines() or ["no message"])[0]
        raise InvalidValue("tokenizer", path, f"a file that the library tokenizers wrote ({said})") from error


def token_codes(content: str, texts: Sequence[str], length: int, padding: int) -> NDArray[np.float64]:
    """[n, length]: the codes of each text, cut at that length or filled up."""
    made = tokenizer(content)
    made.no_padding()
    made.enable_truncation(length)
    found = np.full((len(texts), length), padding, dtype=np.float64)
    for row, one in enumerate(made.encode_batch(list(texts))):
        found[row, : len(one.ids)] = one.ids
    return found


def pixels(where: str, images: Iterable[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """[n, *shape], 0 to 1, of encoded images: bytes, or {bytes, path}; of three channels these come first.

    Raises InvalidValue for one that is no image, or of another size; nothing of it is quoted but its path.
    """
    from PIL import Image

    size, mode = (shape[-1], shape[-2]), "RGB" if len(shape) == 3 else "L"
    found = []
    for row, one in enumerate(images):
        content, name = (one.get("bytes"), one.get("path")) if isinstance(one, dict) else (one, None)
        name = name or f"row {row}"
        try:
            with Image.open(io.BytesIO(content or b"")) as image:
                if image.size != size:
                    expected = f"images of {size[1]} x {size[0]} pixels; {name} has {image.size[1]} x {image.size[0]}"
                    raise QuotesRecords(where, name, expected, "Scale them all before the sweep.")
                values = np.asarray(image.convert(mode))
        except (OSError, TypeError, ValueError, Image.DecompressionBombError) as error:
            if isinstance(error, InvalidValue):
                raise
            raise QuotesRecords(where, name, "an image that Pillow can read", "Drop it, or save it again.") from error
        found.append(np.moveaxis(values, -1, 0) if len(shape) == 3 else values)
    return np.array(found, dtype=np.float32).reshape(-1, *shape) / np.float32(255)

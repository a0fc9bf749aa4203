"""Files of records: where they lie, what is in them, and whether two paths name the same."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from dpcore.checks import InvalidValue, QuotesRecords

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ALIASES = {"gcs": "gs"}
"""Schemes that pyarrow takes for others."""


def find_folder(source: str, path: str | None, *names: str) -> Path:
    """The folder with `source`'s files: one of `names` below option `path`, or `path` itself.

    Raises InvalidValue when there is none.
    """
    remedy = f"Pass the folder that holds {names[0]}/ with --data DIR, or set data.path in the spec."
    if not path:
        raise InvalidValue("data.path", path, f"the folder with the {source} files", remedy)
    root = Path(path).expanduser()
    if not root.is_dir():
        raise InvalidValue("data.path", path, "a folder that exists", remedy)
    return next((root / name for name in names if (root / name).is_dir()), root)


def existing(source: str, file: Path) -> Path:
    """`file`, if it is there and not empty. Raises InvalidValue."""
    if not file.is_file():
        expected = f"a folder with the file {file.name} of {source}"
        remedy = "Pass the folder that holds it with --data DIR, or set data.path in the spec."
        raise InvalidValue("data.path", str(file.parent), expected, remedy)
    if file.stat().st_size == 0:
        raise InvalidValue("data.path", str(file), "a file with records, this one is empty", "Fetch the file again.")
    return file


def files_in(source: str, path: str | None, folders: Sequence[str], names: Iterable[str]) -> list[Path]:
    """The files `names` of `source`, in one of `folders` below option `path`, or in `path` itself.

    Raises InvalidValue where one of them is not there, or empty.
    """
    folder = find_folder(source, path, *folders)
    return [existing(source, folder / name) for name in names]


def wrong_file(file: Path, expected: str, *, quotes: bool = False) -> InvalidValue:
    """The error of a file that is not the published one.

    quotes  whether `expected` may quote a record
    """
    kind = QuotesRecords if quotes else InvalidValue
    return kind("data.path", str(file), expected, "It is another file, or damaged: fetch it again.")


def unpacked(file: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz or .xz. Raises InvalidValue where that is cut short."""
    if file.suffix not in (".gz", ".xz"):
        return file.read_bytes()
    opener = lzma.open if file.suffix == ".xz" else gzip.open
    try:
        with opener(file) as stream:
            return bytes(stream.read())
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise wrong_file(file, f"a whole {file.suffix} file: this one is cut short or damaged ({error})") from error


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    parts = [PurePath(written_out(text)).parts for text in (one, other)]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter]


def written_out(path: str) -> str:
    """A path in full, links followed; a URL by what it names alone: without account, options and the spelling of signs,
    that of a local file as its path. Opens no file."""
    if not _URL.match(path):
        return os.path.realpath(os.path.expanduser(path))
    scheme, account, place, *_ = urlsplit(path)
    if scheme == "file":
        return os.path.realpath(unquote(place))
    return f"{_ALIASES.get(scheme, scheme)}://{account.rpartition('@')[2]}{unquote(place)}"

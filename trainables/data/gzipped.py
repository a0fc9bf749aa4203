"""Files read whole, compressed ones unpacked, with a damaged one named."""

from __future__ import annotations

import gzip
import lzma
import zlib
from pathlib import Path

from dpcore.checks import InvalidValue


def read(file: Path) -> bytes:
    """The content of a file, unpacked if it ends in .gz or .xz. Raises InvalidValue where that is cut short."""
    if file.suffix not in (".gz", ".xz"):
        return file.read_bytes()
    opener = lzma.open if file.suffix == ".xz" else gzip.open
    try:
        with opener(file) as stream:
            return bytes(stream.read())
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise InvalidValue(
            "data.path",
            str(file),
            f"a whole {file.suffix} file ({error})",
            "It is cut short or damaged: fetch it again.",
        ) from error

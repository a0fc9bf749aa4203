"""Whether two paths or URLs of records may name the same ones."""

from __future__ import annotations

import os
from pathlib import PurePath


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    parts = [PurePath(written_out(text)).parts for text in (one, other)]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter]


def written_out(path: str) -> str:
    """A path in full, links followed; a URL as it is, but for that of a local file. Opens no file."""
    path = path.removeprefix("file://")
    return path if "://" in path else os.path.realpath(path)

"""Whether two paths or URLs of records may name the same ones."""

from __future__ import annotations

import os
import re
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_ALIASES = {"gcs": "gs"}
"""Schemes that pyarrow takes for others."""


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    parts = [PurePath(written_out(text)).parts for text in (one, other)]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter] or _is_one_file(one, other)


def written_out(path: str) -> str:
    """A path in full, links followed; a URL by what it names alone: without account, options and the spelling of signs,
    that of a local file as its path. Opens no file."""
    if not _URL.match(path):
        return os.path.realpath(os.path.expanduser(path))
    scheme, account, place, *_ = urlsplit(path)
    if scheme == "file":
        return os.path.realpath(unquote(place))
    return f"{_ALIASES.get(scheme, scheme)}://{account.rpartition('@')[2]}{unquote(place)}"


def _is_one_file(one: str, other: str) -> bool:
    """Whether they are two names of one local file (hard links)."""
    try:
        return os.path.samefile(written_out(one), written_out(other))
    except OSError:
        # Not there, or no local file.
        return False

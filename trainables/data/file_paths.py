"""Whether two paths or URLs of records may name the same ones."""

from __future__ import annotations

import os
from pathlib import PurePath


def overlap(one: str, other: str) -> bool:
    """Whether two paths are the same, or one lies in the other, however they are written. Opens no file."""
    texts = [text.removeprefix("file://") for text in (one, other)]
    parts = [PurePath(text if "://" in text else os.path.realpath(text)).parts for text in texts]
    shorter = min(map(len, parts))
    return parts[0][:shorter] == parts[1][:shorter]

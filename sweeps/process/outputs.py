"""Files that a person asks for by name (`-o`): one way to write them all."""

from __future__ import annotations

from pathlib import Path

from dpcore.checks import InvalidValue


def write_output(content: str | bytes, target: Path) -> Path:
    """Write a whole file and return its path: its folders are made, and a reader never sees half of it.

    Raises InvalidValue for a folder, OSError for a place that cannot be written.
    """
    if target.is_dir():
        raise InvalidValue("output", str(target), "a file, and this is a folder", "Add a name of a file to it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    if target.exists() and not target.is_file():
        # A pipe or a device takes the bytes as they come.
        target.write_bytes(data)
        return target
    unfinished = target.with_name(f"{target.name}.part")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return target

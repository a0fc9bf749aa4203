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
    # A pipe or a device takes the bytes as they come.
    whole = target.is_file() or not target.exists()
    written = target.with_name(f"{target.name}.part") if whole else target
    try:
        written.write_bytes(data)
        if whole:
            written.replace(target)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            # A full disk names no file.
            error.filename = str(target)
        raise
    finally:
        if whole:
            written.unlink(missing_ok=True)
    return target

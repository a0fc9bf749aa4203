"""Files that a person asks for by name (`-o`): one way to write them all."""

from __future__ import annotations

import re
from pathlib import Path

from dpcore.checks import InvalidValue
from trainables.worker.redaction import shown_url


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


# The one door between files and the URLs of SQLite databases.
#
# A path may hold what a URL takes for its own (`?`, `#`, `%25`): here it is quoted on the way in and read back on the
# way out, so that no other file is opened than the one that was named.


def url_of(path: str | Path) -> str:
    """The URL of the database file at `path`."""
    # These three alone: MLflow makes the folder that it reads in a URL as it is written, `@` among others.
    return "sqlite:///" + re.sub("[%?#]", lambda found: f"%{ord(found[0]):02X}", str(path))


def path_of(url: str) -> Path | None:
    """The file of a SQLite database by its URL; None for every other URL, and for a database in memory."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except ArgumentError:
        return None
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return None
    return Path(str(parsed.database))


# Where MLflow may be: a URI that it would take for something else is refused before a sweep begins.

SCHEMES = ("http", "https", "sqlite", "postgresql", "mysql", "mssql", "file", "databricks")


def check_tracking_uri(name: str, uri: str) -> None:
    """MLflow takes whatever it does not know for a folder, and fails when trials are over. Raises InvalidValue."""
    scheme, there, _ = uri.partition("://")
    known = scheme.partition("+")[0] in SCHEMES if there else uri.startswith("file:") or uri == "databricks"
    if not known and not Path(uri).is_absolute():
        raise InvalidValue(
            name,
            shown_url(uri),
            "http://HOST:PORT of a server, sqlite:///FILE, postgresql://USER@HOST/DATABASE, or an absolute path",
            "Leave it out for a database in the sweep's own root; SWEEPS_TRACKING and MLFLOW_TRACKING_URI set it too.",
        )

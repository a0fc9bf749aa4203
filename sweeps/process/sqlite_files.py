"""The one door between files and the URLs of SQLite databases.

A path may hold what a URL takes for its own (`?`, `#`, `%25`): here it is quoted on the way in and read back on the
way out, so that no other file is opened than the one that was named.
"""

from __future__ import annotations

from pathlib import Path


def url_of(path: str | Path) -> str:
    """The URL of the database file at `path`."""
    from sqlalchemy.engine import URL

    return URL.create("sqlite", database=str(path)).render_as_string()


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

"""URLs of databases as they may be printed."""

from __future__ import annotations


def without_password(uri: str) -> str:
    """The URI as it may be printed."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(uri).render_as_string(hide_password=True)
    except ArgumentError:
        return uri

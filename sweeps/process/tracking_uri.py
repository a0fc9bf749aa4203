"""Where MLflow may be: a URI that it would take for something else is refused before a sweep begins."""

from __future__ import annotations

from pathlib import Path

from dpcore.checks import InvalidValue
from trainables.worker.redaction import shown_url

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

"""The one door to MLflow: what it raises, and how its runs are named and found. The package sets it before it loads."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mlflow import MlflowClient
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException
from mlflow.telemetry.client import set_telemetry_client
from requests import RequestException
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from dpcore.checks import InvalidValue
from sweeps.store.records import SweepRecord
from sweeps.util.waiting import patience, waiting
from trainables.worker.redaction import shown_url

set_telemetry_client()

UNREACHABLE = (MlflowException, RequestException, SQLAlchemyError, OSError)
"""What MLflow raises when it, its database or its artifacts cannot be reached or refuse."""

TRIAL_KEY = "sweeps.trial_key"
PARENT = "sweeps.parent"
BEGAN = "sweeps.began"
"""Tag of experiment and parent run: whose they are (`experiment_of`). One without it, of an earlier release, is taken
over by the sweep of its name."""
OBJECTIVES = "sweeps.search.objectives"
REFERENCES = "sweeps.front.reference"
HEADING = "sweeps.heading"
"""Tag of experiment and runs: what stands above every claim of the sweep (`sweeps.release.policy`)."""
NO_HEADING = "none"
RESTS_ON = "sweeps.rests_on"
"""The status of a claim with its assumptions counted; `sweeps.status` is the bare word, to filter by."""
ASSERTED_BY = "sweeps.asserted_by"
"""The modules on whose word alone the claim stands; absent where it is counted here."""
QUOTE, QUOTE_AS = "sweeps.quote", "sweeps.quote_as"
"""Whether the trial's epsilon may be quoted (`sweeps.release.quoting`), and with which words, or why not."""
DESCRIPTION = "mlflow.note.content"
"""MLflow's own page shows it as the description."""
TAGGED = "sweeps.tag."
"""What the tags begin with that people gave the sweep."""
ASSUMPTIONS = "sweeps.assumptions"
"""Those, numbered, one a line."""
LARGEST = 1.797e308
"""MLflow keeps an infinity as the largest double."""

_PAGE = 500
"""Runs in one answer of a server; MLflow takes about two seconds to put them together, and many more under load."""
_TIMEOUT, _RETRIES = "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_SHORT = {_TIMEOUT: "10", _RETRIES: "1"}


def check_there(uri: str) -> None:
    """A reader makes nothing: MLflow itself would create the database, or the folder, of a misspelt URI.

    Raises InvalidValue for a file that is no MLflow database, or a folder that is none; a server answers for itself.
    """
    scheme = uri.partition("://")[0] if "://" in uri else uri.partition(":")[0] if uri.startswith("file:") else ""
    if scheme.partition("+")[0] == "sqlite":
        place = make_url(uri).database or ""
        if not _holds_runs(place):
            raise InvalidValue("--mlflow", uri, "an MLflow database that is there", f"Is {place!r} spelt right?")
    elif scheme in ("", "file") and not Path(uri.removeprefix("file://").removeprefix("file:")).is_dir():
        expected = "http://HOST:PORT of an MLflow server, sqlite:///FILE, postgresql://..., or a folder that is there"
        raise InvalidValue("--mlflow", uri, expected, "Give the URI of MLflow first, then the experiment.")


def _holds_runs(place: str) -> bool:
    if not Path(place).is_file():
        return False
    with closing(sqlite3.connect(f"file:{quote(str(Path(place).absolute()))}?mode=ro", uri=True)) as opened:
        try:
            return bool(opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchall())
        except sqlite3.DatabaseError:
            return False


def find_experiment(uri: str, name: str) -> tuple[MlflowClient, Any]:
    """Client and experiment, None when there is none of that name."""
    client = MlflowClient(tracking_uri=uri)
    return client, client.get_experiment_by_name(name)


def experiment_of(client: MlflowClient, sweep: SweepRecord) -> tuple[str, Any]:
    """Name and experiment of a sweep, None in its place when it has none yet.

    It is called as the sweep is. Where a sweep of that name from another store has that experiment (two people and one
    server; two folders), this one's has its beginning in its name: in one, trials of equal keys would be one run, with
    the results of both under one claim.
    """
    own = began(sweep)
    for name in (sweep.name, f"{sweep.name}-{hashlib.sha256(own.encode()).hexdigest()[:8]}"):
        found = client.get_experiment_by_name(name)
        if found is None or found.tags.get(BEGAN, own) == own:
            break
    return name, found


def began(sweep: SweepRecord) -> str:
    """What tells a sweep from another one of the same name: the moment of its beginning, as its store has it."""
    return repr(sweep.created_at)


def pages(client: MlflowClient, experiment_id: str, condition: str) -> Iterator[Any]:
    """The active runs that meet MLflow's own filter `condition`, oldest first, page by page."""
    token: str | None = None
    while True:
        page = client.search_runs(
            [experiment_id],
            filter_string=condition,
            run_view_type=ViewType.ACTIVE_ONLY,
            max_results=_PAGE,
            order_by=["attributes.start_time ASC"],
            page_token=token,
        )
        yield from page
        token = page.token
        if not token:
            return


@contextmanager
def asked_by_a_person(uri: str) -> Iterator[None]:
    """For reading while a person waits: a busy server may take as long as patience allows for each answer, not ten
    seconds twice, and not in silence. What the environment says of MLflow's own limits holds."""
    before = {name: os.environ[name] for name in _SHORT}
    if before == _SHORT:
        os.environ[_TIMEOUT], os.environ[_RETRIES] = str(max(1, round(patience()))), "0"
    try:
        with waiting(f"MLflow at {shown_url(uri)}"):
            yield
    finally:
        os.environ.update(before)


def from_mlflow(value: float) -> float:
    """A metric's value as it was before MLflow replaced infinities."""
    return math.copysign(math.inf, value) if abs(value) >= LARGEST else value

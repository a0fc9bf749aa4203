"""No password stands in a spec: it is kept in the store, shown in MLflow and in reports, and sent to clusters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.spec.problems import Problems
from trainables.worker.redaction import holds_secret

REMEDY = (
    "Put it into the environment (PGPASSWORD, MLFLOW_TRACKING_PASSWORD, AWS_SECRET_ACCESS_KEY), into ~/.pgpass, or the "
    "whole URL into SWEEPS_STORE or SWEEPS_TRACKING."
)


def check_no_secrets(raw: Mapping[str, Any], problems: Problems) -> None:
    """Every text of the spec, wherever it stands, is looked at before anything else is."""
    for path, text in texts(raw):
        if holds_secret(text):
            problems.add(path, text, "a URL without a password: everybody with the results reads the spec", REMEDY)


def texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(dotted path, text) of every text in nested values, keys excepted."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts(inner, f"{path}.{number}")

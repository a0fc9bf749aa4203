"""Everything that is wrong with a spec, at once: each problem with its path, value, expectation and remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dpcore.checks import InvalidValue
from trainables.worker.redaction import holds_secret, redacted


class Absent(Enum):
    """In place of a value that nobody gave, where none would be one: `None` is what a spec has for it."""

    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class SpecError:
    """One problem. `path` is dotted, as in `systems.noisy-sgd.clip_norm.log_uniform`; "" is the whole spec."""

    path: str
    value: object
    expected: str
    remedy: str = ""

    def __str__(self) -> str:
        where = f"{self.path}={_short(self.value)}" if self.path else _short(self.value)
        if self.value is Absent.ABSENT:
            where = f"{self.path} is not given"
        return f"{where}: expected {self.expected}." + (f" {self.remedy}" if self.remedy else "")


class SpecErrors(ValueError):
    """A spec was refused. `errors` holds every problem found, in the order of the spec's sections."""

    def __init__(self, errors: Iterable[SpecError], where: str = "the spec") -> None:
        self.errors, self.where = tuple(errors), where
        count = len(self.errors)
        heading = f"{count} error{'' if count == 1 else 's'} in {where}:"
        super().__init__("\n".join([heading, *(f"  {error}" for error in self.errors)]))

    def __reduce__(self) -> tuple[type[SpecErrors], tuple[tuple[SpecError, ...], str]]:
        return SpecErrors, (self.errors, self.where)


class Problems:
    """Collects problems while a spec is read, so that one mistake does not hide the next."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []

    def add(self, path: str, value: object, expected: str, remedy: str = "") -> None:
        """Note one problem, unless it is known already."""
        problem = SpecError(path, value, expected, remedy)
        if problem not in self.errors:
            self.errors.append(problem)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """An InvalidValue that the block raises is one more problem."""
        try:
            yield
        except InvalidValue as error:
            self.add(error.name, error.value, error.expected, error.remedy)

    def raise_any(self, where: str = "the spec") -> None:
        """Raises SpecErrors when anything was noted."""
        if self.errors:
            raise SpecErrors(self.errors, where)


def _short(value: object) -> str:
    text = redacted(repr(value), *([value] if isinstance(value, str) else []))
    return text if len(text) <= 120 else text[:117] + "..."


# No password stands in a spec: it is kept in the store, shown in MLflow and in reports, and sent to clusters.

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


# A blank of a spec: a value that nobody may guess, written `???` until a person has filled it in.

BLANK = "???"


def check_no_blanks(raw: Any, problems: Problems) -> None:
    """Every blank is named at once, before anything else is said of the spec."""
    for path, text in texts(raw):
        if text.strip() == BLANK:
            problems.add(path, text, "a value: this blank is not filled in yet")

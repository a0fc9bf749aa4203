"""Every store of the registry, and whoever is named in SWEEPS_EXAM_STORE, sits every question."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

from sweeps.store.registry import BACKENDS
from tests.sweeps.store_exam import QUESTIONS, Candidate
from tests.sweeps.stores import new_database, postgres_server


@contextmanager
def databases() -> Iterator[Callable[[], str]]:
    """New databases of a real server."""
    with postgres_server() as server:
        yield lambda: new_database(server)


def outsiders() -> dict[str, Candidate]:
    """The candidates that SWEEPS_EXAM_STORE names as module:name, parted by commas."""
    given = os.environ.get("SWEEPS_EXAM_STORE", "").split(",")
    named = [one.strip().partition(":") for one in given if one.strip()]
    found = [getattr(import_module(module), name) for module, _, name in named]
    return {one.name: one for one in found}


OURS = {"sqlite": Candidate(name="sqlite"), "postgresql": Candidate(name="postgresql", places=databases)}
SITTING = {**OURS, **outsiders()}


def test_every_store_of_the_registry_sits():
    assert set(BACKENDS) <= set(SITTING)


@pytest.fixture(scope="module", params=SITTING)
def sitting(request):
    with SITTING[request.param].places() as place:
        yield SITTING[request.param], place


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_exam(sitting, question):
    candidate, place = sitting
    assert QUESTIONS[question](candidate.open, place()) == []

"""Both kinds of stores sit every question."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.sweeps.store_exam.candidate import Candidate
from tests.sweeps.store_exam.questions import QUESTIONS
from tests.sweeps.stores import new_database, postgres_server


@contextmanager
def databases() -> Iterator[Callable[[], str]]:
    """New databases of a real server."""
    with postgres_server() as server:
        yield lambda: new_database(server)


SITTING = {"sqlite": Candidate(name="sqlite"), "postgresql": Candidate(name="postgresql", places=databases)}


@pytest.fixture(scope="module", params=SITTING)
def sitting(request):
    with SITTING[request.param].places() as place:
        yield SITTING[request.param], place


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_exam(sitting, question):
    candidate, place = sitting
    assert QUESTIONS[question](candidate.open, place()) == []

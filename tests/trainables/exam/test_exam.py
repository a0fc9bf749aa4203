"""Every row of the registry, and whoever is named in SWEEPS_EXAM, sits every question."""

from __future__ import annotations

import os
from importlib import import_module

import pytest

from tests.trainables.exam import QUESTIONS, Candidate
from tests.trainables.registry_cases import CANDIDATES
from trainables.registry import SYSTEMS


def outsiders() -> dict[str, Candidate]:
    """The candidates that SWEEPS_EXAM names as module:name, parted by commas."""
    named = [one.strip().partition(":") for one in os.environ.get("SWEEPS_EXAM", "").split(",") if one.strip()]
    found = [getattr(import_module(module), name) for module, _, name in named]
    return {one.system.name: one for one in found}


SITTING = {**CANDIDATES, **outsiders()}


def test_every_system_of_the_registry_sits():
    assert set(SYSTEMS) <= set(SITTING)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", SITTING)
def test_the_exam(name, question):
    assert QUESTIONS[question](SITTING[name]) == []

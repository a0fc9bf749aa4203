"""Every source of the registry, and whoever is named in SWEEPS_EXAM_SOURCE, sits every question."""

from __future__ import annotations

import os
from importlib import import_module

import pytest

from tests.trainables.data_exam import QUESTIONS, Candidate
from tests.trainables.source_cases import CANDIDATES
from trainables.data import SOURCES


def outsiders() -> dict[str, Candidate]:
    """The candidates that SWEEPS_EXAM_SOURCE names as module:name, parted by commas."""
    named = [one.strip().partition(":") for one in os.environ.get("SWEEPS_EXAM_SOURCE", "").split(",") if one.strip()]
    found = [getattr(import_module(module), name) for module, _, name in named]
    return {one.source.name: one for one in found}


SITTING = {**CANDIDATES, **outsiders()}


def test_every_source_of_the_registry_sits():
    sitting = [one.source for one in SITTING.values()]
    packaged = {name: source for name, source in SOURCES.items() if ":" not in name}
    assert [name for name, source in packaged.items() if not any(source is one for one in sitting)] == []


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", SITTING)
def test_the_exam(name, question, tmp_path):
    assert QUESTIONS[question](SITTING[name], tmp_path / "exam") == []

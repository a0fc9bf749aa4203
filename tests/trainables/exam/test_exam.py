"""Every row of the registry, and whoever is named in SWEEPS_EXAM, sits every question."""

from __future__ import annotations

import os
from importlib import import_module

import pytest

from tests.trainables.exam import QUESTIONS, Candidate
from tests.trainables.registry_cases import CANDIDATES, WITH_RECIPES
from trainables.registry import SYSTEMS


def outsiders() -> dict[str, Candidate]:
    """The candidates that SWEEPS_EXAM names as module:name, parted by commas."""
    named = [one.strip().partition(":") for one in os.environ.get("SWEEPS_EXAM", "").split(",") if one.strip()]
    found = [getattr(import_module(module), name) for module, _, name in named]
    return {one.system.name: one for one in found}


SITTING = {**CANDIDATES, **outsiders()}


def test_every_system_of_the_registry_sits():
    assert {name for name in SYSTEMS if ":" not in name} <= set(SITTING)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", SITTING)
def test_the_exam(name, question):
    assert QUESTIONS[question](SITTING[name]) == []


OF_RECIPES = (
    "what_runs_is_what_was_planned",
    "curves_are_of_the_same_run",
    "noise_comes_from_the_secure_source",
    "workers_agree",
)
"""What a recipe could change; what it claims, and how it goes on, test_recipes.py asks."""


@pytest.mark.parametrize("question", OF_RECIPES)
@pytest.mark.parametrize("recipe", WITH_RECIPES)
def test_every_recipe_sits_it_too(recipe, question):
    assert QUESTIONS[question](WITH_RECIPES[recipe]) == []

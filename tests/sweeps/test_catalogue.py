"""`sweeps systems` and `sweeps datasets`: what a knob may take, every source in a line, one with its options."""

from __future__ import annotations

import json

import jsonschema
import pytest

from sweeps.cli.catalogue import described
from sweeps.spec.parse import read_document
from trainables.data import SOURCES


def test_no_range_of_a_system_is_none():
    ranges = [one["range"] for system in described() for one in system["parameters"]]
    assert len(ranges) > 50
    assert not [one for one in ranges if "None" in one]


def test_every_source_is_named(command):
    _, text, _ = command("datasets")
    assert [line.split()[0] for line in text.splitlines()] == list(SOURCES)


def test_one_source_shows_its_options(command):
    _, text, _ = command("datasets", "adult")
    told = [line.split()[0] for line in text.splitlines() if not line.startswith(" " * 3)]
    assert told == ["adult", *(one.name for one in SOURCES["adult"].options)]
    assert "which records are the validation: holdout, test (default holdout)" in text
    [document] = json.loads(command("datasets", "adult", "--json")[1])
    assert {one["name"]: one["default"] for one in document["options"]}["form"] == "a9a"


NEEDED = {
    "table": ("path", "n", "label", "classes", "columns"),
    "pooled": ("of", "train"),
    "frozen": ("of",),
    "projected": ("of", "dimension"),
}
"""Options that a source does not do without."""
NOT_TOGETHER = {"target": "classes", "classes": "limit", "prompt": "classes"}
OF_TOKENS = {"prompt": {"label": "words", "loss": "next-token"}}
EXAMPLES = [(name, one.name) for name, source in SOURCES.items() for one in source.options]


@pytest.mark.parametrize(("name", "option"), EXAMPLES)
def test_every_option_has_an_example_that_its_source_takes(name, option):
    source = SOURCES[name]
    known = {one.name: one for one in source.options}
    given = {need: known[need].example for need in (*NEEDED.get(name, ()), option)}
    given.pop(NOT_TOGETHER.get(option, ""), None)
    given |= OF_TOKENS.get(option, {})
    if option == "task":
        given["classes"] = 5
    assert given[option] is not None
    # The example of a folder is no folder that is here.
    (source.read if option == "path" else source.facts)(given)
    schema = {"type": "object", "properties": {one: known[one].schema for one in given}}
    jsonschema.validate(given, schema)
    if known[option].default is not None:
        assert given[option] != known[option].default, "an example shows another value than the default"


@pytest.mark.parametrize("name", SOURCES)
def test_an_example_is_printed_as_a_spec_has_it(name, command):
    """What stands under each option reads as that option and nothing else."""
    _, text, _ = command("datasets", name)
    known = {one.name: one.example for one in SOURCES[name].options}
    shown = "\n".join(line for line in text.splitlines() if line.startswith(" " * 15))
    assert read_document(shown or "{}") == known

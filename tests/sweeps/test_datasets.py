"""`sweeps datasets`: every source in a line, and the options of one."""

from __future__ import annotations

import json

from tests.corpus.doors import said
from trainables.data import SOURCES


def test_every_source_is_named():
    code, text = said("datasets")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()] == list(SOURCES)


def test_one_source_shows_its_options():
    code, text = said("datasets", "adult")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()] == ["adult", *(one.name for one in SOURCES["adult"].options)]
    assert "which records are the validation: holdout, test (default holdout)" in text
    [document] = json.loads(said("datasets", "adult", "--json")[1])
    assert {one["name"]: one["default"] for one in document["options"]}["form"] == "a9a"


def test_an_unknown_source_is_refused_with_what_is_meant():
    code, text = said("datasets", "mnost")
    assert code == 2
    assert "the name of a data source. Did you mean `mnist`?" in text

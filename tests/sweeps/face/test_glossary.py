"""`sweeps explain`: every word that stands beside a number is explained, shortly, by words that are explained too."""

from __future__ import annotations

import json
import math
import sys

import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Notion, Status
from sweeps.cli import main as cli
from sweeps.privacy.ledger import CLAIM_KIND
from sweeps.reporting.glossary import GLOSSARY
from sweeps.store.records import TrialState

LONGEST = 450


@pytest.fixture
def explained(monkeypatch, capsys):
    """What `sweeps explain` prints; with a code, what it says as it refuses."""

    def run(*words, code=0):
        monkeypatch.setattr(sys, "argv", ["sweeps", "explain", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        out, err = capsys.readouterr()
        assert (end.value.code or 0) == code
        return err if code else out

    return run


def test_every_word_beside_a_number_is_explained():
    wanted = {"epsilon", "claim", "total", "ledger", "front", "hypervolume", "budget", *CLAIM_KIND}
    wanted |= {str(word) for kind in (Status, Notion, Adjacency) for word in kind} | {str(TrialState.INFEASIBLE)}
    assert wanted - GLOSSARY.keys() == set()


@pytest.mark.parametrize("word", GLOSSARY)
def test_an_explanation_is_short_and_leads_to_others(word):
    one = GLOSSARY[word]
    assert one.word == word
    assert one.meaning.endswith(".")
    assert len(one.meaning) <= LONGEST
    assert set(one.see) <= GLOSSARY.keys() - {word}


def test_its_numbers_are_right():
    """Even odds times exp(epsilon), as a chance."""
    for epsilon, said in ((1, "73%"), (10, "99.995%")):
        assert said in GLOSSARY["epsilon"].meaning
        assert 100 / (1 + math.exp(-epsilon)) == pytest.approx(float(said[:-1]), abs=0.2 if epsilon == 1 else 0.001)


def test_a_word_is_found_however_it_is_written(explained):
    assert explained("Epsilon") == f"{GLOSSARY['epsilon']}\n" == f"{sweeps.explain('epsilon')}\n"
    assert sweeps.explain("noise_multiplier") is sweeps.explain("Noise multiplier")
    assert explained("delta").startswith("delta: The small chance")
    assert json.loads(explained("claim", "--json"))["see"] == ["total", "epsilon", "status", "assumption"]


def test_an_unknown_word_is_answered_by_the_closest(explained):
    assert "Did you mean `adjacency`?" in explained("adjacancy", code=2)
    with pytest.raises(InvalidValue, match="Did you mean `epsilon`"):
        sweeps.explain("epsilom")


def test_without_a_word_all_are_listed(explained):
    assert explained().splitlines()[0].split(", ") == list(GLOSSARY)
    assert {one["word"] for one in json.loads(explained("--json"))} == GLOSSARY.keys()

"""`sweeps explain`: every word that stands beside a number is explained, shortly, by words that are explained too."""

from __future__ import annotations

import json
import math

import pytest

import sweeps
from dpcore.events import Adjacency
from dpcore.guarantee import Notion, Status
from sweeps.privacy.ledger import CLAIM_KIND
from sweeps.reporting.glossary import GLOSSARY
from sweeps.store.records import TrialState


def test_every_word_beside_a_number_is_explained():
    wanted = {"epsilon", "claim", "total", "ledger", "front", "hypervolume", "budget", *CLAIM_KIND}
    wanted |= {str(word) for kind in (Status, Notion, Adjacency) for word in kind} | {str(TrialState.INFEASIBLE)}
    assert wanted - GLOSSARY.keys() == set()


def test_its_numbers_are_right():
    """Even odds times exp(epsilon), as a chance."""
    for epsilon, said in ((1, "73%"), (10, "99.995%")):
        assert said in GLOSSARY["epsilon"].meaning
        assert 100 / (1 + math.exp(-epsilon)) == pytest.approx(float(said[:-1]), abs=0.2 if epsilon == 1 else 0.001)


def test_a_word_is_found_however_it_is_written_and_without_one_all_are_listed(command):
    assert command("explain", "Epsilon")[1] == f"{GLOSSARY['epsilon']}\n" == f"{sweeps.explain('epsilon')}\n"
    assert sweeps.explain("noise_multiplier") is sweeps.explain("Noise multiplier")
    assert json.loads(command("explain", "claim", "--json")[1])["see"] == ["total", "epsilon", "status", "assumption"]
    assert "Did you mean `adjacency`?" in command("explain", "adjacancy")[2]
    assert command("explain")[1].splitlines()[0].split(", ") == list(GLOSSARY)

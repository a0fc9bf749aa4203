"""What may have been meant: a name that is alike, and never an unrelated one."""

from __future__ import annotations

import difflib

import pytest

from sweeps.store.errors import UnknownSweep
from sweeps.util import suggest

ALIKE = [
    ("expected_eror", "expected_error"),
    ("batch", "batch_size"),
    ("noisy_sgd", "noisy-sgd"),
    ("sgd", "sgld"),
    ("Accuracy", "accuracy"),
]
UNRELATED = [("noise", "none"), ("sweep", "steps"), ("bananas", "datasets"), ("people", "pixels"), ("x", "xy")]


@pytest.mark.parametrize(("word", "known"), ALIKE)
def test_a_slip_of_the_pen_is_named(word, known):
    assert suggest.did_you_mean(word, [known, "zzz"]) == f"Did you mean `{known}`?"


@pytest.mark.parametrize(("word", "known"), UNRELATED)
def test_unrelated_words_are_not_suggested(word, known, monkeypatch):
    assert suggest.closest(word, [known]) == ""
    assert suggest.did_you_mean(word, [known, "other"]) == "Known: `" + "`, `".join(sorted([known, "other"])) + "`."
    if len(word) > 1 and difflib.SequenceMatcher(None, word, known).ratio() >= 0.6:
        # The mutant: the cut-off of before.
        monkeypatch.setattr(suggest, "ALIKE", 0.6)
        assert suggest.closest(word, [known]) != ""


def test_an_unknown_sweep_is_told_what_there_is_not_what_it_is_not():
    assert "Did you mean 'toys'?" in str(UnknownSweep("toy", ["toys", "mine"]))
    assert "It holds 'mine', 'yours'." in str(UnknownSweep("bananas", ["yours", "mine"]))
    assert "and 3 more" in str(UnknownSweep("bananas", [f"sweep{n:02}" for n in range(15)]))
    assert "empty" in str(UnknownSweep("bananas", []))

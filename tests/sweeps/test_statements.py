"""Statements as values: each test decides yes, no, or not at all, and every packaged file can be read."""

from __future__ import annotations

from importlib.resources import files

import pytest

from sweeps.papers import PAPERS
from sweeps.papers.results import FULL, Uncertain
from sweeps.papers.run import Paper
from sweeps.papers.statements import Judged, Statement

ROW = {"claim": "c", "published": 1.0, "ours": "{a}"}
NOISE = (-0.01, 0.0, 0.01)


def splits(mean: float, spread: float = 1.0) -> dict[int, float]:
    return {split: mean + spread * noise for split, noise in enumerate(NOISE)}


def opposite(mean: float) -> dict[int, float]:
    return splits(mean, -1.0)


VALUES = {
    "a": 1.04,
    "limit": 0.05,
    "open": None,
    "text": "1.0",
    "low": splits(0.5),
    "high": splits(0.6),
    "loud": opposite(0.5),
    "alone": {0: 0.5},
    "none": {},
    "missing": None,
    "rule": lambda answer: Judged("shown", answer, "by the rule"),
    "unrun": lambda: None,
}


@pytest.mark.parametrize(
    ("row", "verdict", "note"),
    [
        ({"holds": "a <= 1.05"}, True, "n"),
        ({"holds": "a < 1.04"}, False, "n"),
        ({"holds": "open"}, None, "n"),
        ({"within": 0.05}, True, "n"),
        ({"within": "limit"}, True, "n"),
        ({"within": 0.03}, False, "n"),
        ({"published": "1.0", "ours": "{text}", "same_digits": "as printed"}, True, "n; The same digits. as printed"),
        ({"published": "1.00", "ours": "{text}", "same_digits": ""}, False, "n; Other last digits."),
        ({"ordering": ["low", "high"]}, True, "n; by more than two standard errors"),
        ({"ordering": ["high", "low"]}, False, "n; the other way round, by more than two standard errors"),
        ({"ordering": ["low", "loud"]}, None, "n; undecided at two standard errors"),
        ({"ordering": ["alone", "high"]}, None, "n; one split has no standard error"),
        ({"unchanged": ["low", "high"], "margin": 0.01}, True, "n; margin 0.01"),
        ({"unchanged": ["high", "low"], "margin": 0.01}, False, "n; margin 0.01: passed"),
        ({"unchanged": ["low", "loud"], "margin": 0.01}, None, "n; margin 0.01: undecided at two standard errors"),
        ({"refuted": True}, False, "n"),
        ({"rule": "rule", "given": {"answer": True}}, True, "n; by the rule"),
    ],
    ids=str,
)
def test_each_test_decides(row: dict, verdict: bool | None, note: str) -> None:
    claim = Statement.read({**ROW, "note": "n", **row}).held(VALUES)
    assert (claim.holds, claim.note) == (verdict, note)
    assert claim.ours is not None


@pytest.mark.parametrize(
    "row",
    [{"ordering": ["none", "high"]}, {"rule": "unrun"}, {"ours": "{missing}", "within": 0.1}],
    ids=str,
)
def test_what_was_not_measured_is_not_tried(row: dict) -> None:
    claim = Statement.read({**ROW, "tried": " within {limit}", **row}).held(VALUES)
    assert (claim.claim, claim.verdict, claim.note) == ("c", "not tried", "not run in this scope")
    measured = Statement.read({**ROW, "holds": "a <= 2"})
    assert measured.held(VALUES, "not trained (why)").note == "not trained (why)"


def test_a_statement_has_one_test_and_known_fields() -> None:
    for wrong in ({**ROW}, {**ROW, "within": 1, "refuted": True}):
        with pytest.raises(ValueError, match="unpack"):
            Statement.read(wrong)
    with pytest.raises(TypeError):
        Statement.read({**ROW, "within": 1, "notes": "misspelt"})


def test_errors_of_estimates_add_up() -> None:
    """Of 0.5 and 0.7, the mean 0.6 with standard error 0.1; of a difference, the root of the sum of squares."""
    one = Uncertain.of([0.5, 0.7])
    assert (one.value, one.error) == (pytest.approx(0.6), pytest.approx(0.1))
    assert (one - one).error == pytest.approx(0.1 * 2**0.5)
    assert str(one) == "0.600 +- 0.100"
    assert str(Uncertain.of([0.5])) == "0.500"


@pytest.mark.parametrize("name", PAPERS)
def test_the_file_of_a_paper_ships_and_can_be_read(name: str) -> None:
    assert files("sweeps.papers").joinpath(f"{name}.yaml").is_file()
    paper = Paper.load(name)
    assert paper.title
    assert all(paper.statements.values())
    claims = [one.claim for group in paper.statements.values() for one in group]
    assert len(claims) == len(set(claims))
    if paper.sizes:
        assert paper.sizes.keys() == {"said", "quick", "coarse", FULL.name}

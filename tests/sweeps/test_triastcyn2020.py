"""The reproduction of Triastcyn & Faltings 2020: its arithmetic, its sweeps, and its quick form on the real data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.guarantee import Notion
from sweeps.papers import triastcyn2020
from sweeps.papers.triastcyn2020 import PAPER
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.test_papers import claims_of
from tests.sweeps.view_sweeps import guarantee


def test_the_best_orders_of_figure_5_are_the_golden_ones() -> None:
    """theory.md: u=1 -> 10.440152 at order 5, u=0.2 -> 1.400786 at order 33."""
    _, _, table = triastcyn2020.figure_5()
    found = {row[0]: row[1:3] for row in table.rows}
    assert found[1.0] == (5, pytest.approx(10.440152, abs=1e-6))
    assert found[0.2] == (33, pytest.approx(1.400786, abs=1e-6))


def trial(number: int, notion: Notion = Notion.DP, noise: float | None = None, **metrics: float) -> TrialRecord:
    begun = Proposal(number=number, config={"noise_multiplier": float(number) if noise is None else noise}, seed=0)
    claim = guarantee(1.0, notion=notion)
    return TrialRecord.of("t", begun, TrialState.COMPLETE, metrics=metrics, guarantee=claim)


def settings(*pairs: tuple[float, float, float], notion: Notion = Notion.DP) -> list[triastcyn2020.GridPoint]:
    found = []
    for number, (ordinary, bayesian, accuracy) in enumerate(pairs):
        percentiles = dict.fromkeys(triastcyn2020.PERCENTILES.values(), bayesian)
        found.append(trial(number, notion, epsilon=ordinary, accuracy=accuracy, steps_taken=9.0, **percentiles))
    return triastcyn2020.settings_of(found)


def test_claims_of_table_1_follow_the_runs() -> None:
    (part,) = [one for one in triastcyn2020.PARTS if one.id == "mnist"]
    good = claims_of(PAPER, lambda run: triastcyn2020.hold(run, part, settings((2.0, 0.9, 0.95), (9.0, 3.0, 0.97))))
    assert [claim.holds for claim in good] == [True, True, True]
    assert good[0].ours == 0.95
    # One run whose Bayesian epsilon is the larger one, and too low an accuracy within the budget.
    bad = claims_of(PAPER, lambda run: triastcyn2020.hold(run, part, settings((2.0, 0.9, 0.90), (3.0, 3.5, 0.97))))
    assert [claim.holds for claim in bad] == [False, False, False]
    assert "1 of 2" in str(bad[2].ours)
    none = claims_of(PAPER, lambda run: triastcyn2020.hold(run, part, settings((9.0, 5.0, 0.97))))
    assert [claim.verdict for claim in none] == ["undecided", "undecided", "yes"]


def test_a_bayesian_target_never_stands_in_the_ordinary_column() -> None:
    (part,) = [one for one in triastcyn2020.PARTS if one.id == "abalone-draws"]
    found = settings((1000.0, 0.5, 0.77), (1000.0, 0.7, 0.78), notion=Notion.BAYESIAN_DP)
    (claim,) = claims_of(PAPER, lambda run: triastcyn2020.hold(run, part, found))
    assert (claim.ours, claim.holds) == (0.77, True)
    assert "REFUTED" in claim.claim
    table = triastcyn2020.table_of(part, found)
    assert [row[table.columns.index("DP epsilon")] for row in table.rows] == [math.inf, math.inf]


def test_figures_2_to_4_tell_equal_from_different_distances() -> None:
    rng = np.random.default_rng(11)
    norms = rng.gamma(1.0, 1.0, 400)
    same = triastcyn2020.Gradients("same", norms[:200], norms[200:], norms)
    other = triastcyn2020.Gradients("other", norms[:200], 1.6 * norms[200:], norms)
    assert all(claim.holds for claim in claims_of(PAPER, lambda run: triastcyn2020.figure_2(run, same)))
    assert not any(claim.holds for claim in claims_of(PAPER, lambda run: triastcyn2020.figure_2(run, other)))
    values, _, _ = triastcyn2020.figures_3_and_4(same)
    assert (values["below"], values["approaching"]) == (True, True)

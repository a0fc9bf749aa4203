"""Wu et al. (2020) reproduced: the theory's verdicts, the statistics behind the orderings, and the quick form whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sweeps.papers import Claim, wu2020
from sweeps.papers.wu2020 import PAPER, TABLE_1, Measurements
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.test_papers import claims_of
from tests.sweeps.view_sweeps import guarantee


def test_the_error_of_a_printed_area_is_that_of_400_members_and_300_others() -> None:
    """theory.md section 4: about .022. Hanley & McNeil (1982), equation 1, at every area that the paper prints."""

    def error(area: float, members: int = 400, others: int = 300) -> float:
        one, two = area / (2 - area), 2 * area**2 / (1 + area)
        spread = area * (1 - area) + (members - 1) * (one - area**2) + (others - 1) * (two - area**2)
        return math.sqrt(spread / (members * others))

    assert error(0.5) == pytest.approx(PAPER.printed["errors"]["attack_auc"], abs=5e-4)
    assert all(error(row.attack_auc) <= PAPER.printed["errors"]["attack_auc"] + 5e-4 for row in TABLE_1)
    assert min(error(row.attack_auc) for row in TABLE_1) > 0.9 * PAPER.printed["errors"]["attack_auc"]


# Statistics


def trial(system: str, hidden: int = 64, epsilon: float = math.inf, **metrics: float) -> TrialRecord:
    begun = Proposal(number=0, config={"system": system, "hidden": hidden}, seed=0)
    return TrialRecord.of("t", begun, TrialState.COMPLETE, metrics=metrics, guarantee=guarantee(epsilon))


def drawn(sgld: float, sgd: float, splits: int = 10) -> Measurements:
    """AUCs around two means; each split moves both by 0.02 or so, each training by 0.003."""
    rng, trials = np.random.default_rng(4), []
    for split in range(splits):
        shift = 0.02 * rng.standard_normal()
        trials += [
            (split, trial(system, last_attack_auc=mean + shift + 0.003 * rng.standard_normal()))
            for system, mean in (("sgld", sgld), ("sgd", sgd))
            for _ in range(2)
        ]
    return Measurements(trials)


def verdict(found: Measurements, part: str = "Table 1: SGLD leaks less than SGD") -> Claim:
    (claim,) = [one for one in claims_of(PAPER, lambda run: wu2020.table_1(run, found)) if part in one.claim]
    return claim


def test_methods_are_compared_split_by_split() -> None:
    found = drawn(0.58, 0.59)
    alone, together = found.mean("sgd", 64, "last_attack_auc"), verdict(found)
    assert alone is not None
    # Split to split the AUC moves more than the methods differ; their difference does not.
    assert alone.error > 0.004
    assert together.holds
    assert verdict(drawn(0.59, 0.58)).verdict == "NO"
    assert verdict(drawn(0.59, 0.58)).note == "the other way round, by more than two standard errors"
    assert verdict(drawn(0.58, 0.58)).verdict == "undecided"
    assert verdict(drawn(0.58, 0.58)).note == "undecided at two standard errors"
    assert verdict(drawn(0.58, 0.59, splits=1)).verdict == "undecided"
    assert verdict(Measurements()).verdict == "not tried"


def test_repeats_on_one_split_are_no_independent_evidence() -> None:
    """The standard error is that of split means: 2 values, not 4."""
    aucs = enumerate(((0.5, 0.6), (0.7, 0.8)))
    found = Measurements([(split, trial("sgd", last_attack_auc=one)) for split, values in aucs for one in values])
    mean = found.mean("sgd", 64, "last_attack_auc")
    assert mean is not None
    assert (mean.value, mean.error) == pytest.approx((0.65, 0.1))
    assert len(found.of("sgd", 64)) == 4


# Sweeps

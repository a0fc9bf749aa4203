"""Audits and verdicts as values: what may be compared, what is printed, what survives a round trip."""

import json
import math
from functools import partial

import numpy as np
import pytest

from dpcore import gdp
from dpcore.accountants.composition import eps_pure
from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import headline
from dpcore.audit.audit import Audit, AuditOutcome, AuditVerdict, ThreatModel, claimed
from dpcore.audit.evidence import (
    Guesses,
    MultiRun,
    OneRun,
    OneRunFDP,
    choose_threshold,
    choose_threshold_against,
    count_at,
    guess,
    toss,
)
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Gaussian, NonPrivate, PoissonSampled
from dpcore.guarantee import Guarantee, Notion, Status
from tests.dpcore.oracles import sampled_step

OBSERVED = Guesses(canaries=1000, guesses=100, correct=95)
EVIDENCE = [
    MultiRun(true_positives=300, runs_in=1000, false_positives=10, runs_out=1000),
    OneRun(observed=OBSERVED),
    OneRunFDP(observed=OBSERVED),
]


def audit(evidence=EVIDENCE[1], **fields) -> Audit:
    given = {"threat_model": ThreatModel.EVERY_UPDATE, "adjacency": Adjacency.ADD_REMOVE, "delta": 1e-5} | fields
    return Audit(evidence=evidence, **given)


def claim(epsilon: float, **fields) -> Guarantee:
    given = {
        "delta": 1e-5,
        "adjacency": Adjacency.ADD_REMOVE,
        "accountant": "pld",
        "status": Status.PROVED,
        "theorem": "Zhu, Dong & Wang (2022)",
    } | fields
    return Guarantee(epsilon=epsilon, **given)


@pytest.mark.parametrize("evidence", EVIDENCE, ids=lambda one: one.method)
def test_a_claim_below_the_bound_is_refuted_and_one_above_is_consistent(evidence):
    bound = audit(evidence).epsilon_lower
    assert bound > 1
    assert AuditVerdict(audit=audit(evidence), guarantee=claim(bound - 1e-6)).outcome is AuditOutcome.REFUTED
    assert AuditVerdict(audit=audit(evidence), guarantee=claim(bound + 1e-6)).outcome is AuditOutcome.CONSISTENT
    assert AuditVerdict(audit=audit(evidence), guarantee=claim(math.inf)).outcome is AuditOutcome.CONSISTENT


def test_audits_of_one_sweep_share_the_error():
    """p at the claim 2.0 is 0.0178: below 0.05 and 0.05/2, not below 0.05/3."""
    outcomes = [AuditVerdict(audit=audit(), guarantee=claim(2.0), audits=j).outcome for j in (1, 2, 3, 100)]
    assert outcomes == [AuditOutcome.REFUTED, AuditOutcome.REFUTED, AuditOutcome.CONSISTENT, AuditOutcome.CONSISTENT]
    picked = OneRun(observed=Guesses(canaries=1000, guesses=100, correct=95, tried=3))
    assert AuditVerdict(audit=audit(picked), guarantee=claim(2.0)).outcome is AuditOutcome.CONSISTENT


def test_the_verdict_is_at_the_claims_delta_not_at_the_audits():
    evidence = MultiRun(true_positives=90, runs_in=100, false_positives=30, runs_out=100)
    assert evidence.epsilon_lower(0.0, 0.05) > 0.7 > evidence.epsilon_lower(0.4, 0.05)
    assert AuditVerdict(audit=audit(evidence), guarantee=claim(0.7)).outcome is AuditOutcome.REFUTED
    assert AuditVerdict(audit=audit(evidence), guarantee=claim(0.7, delta=0.4)).outcome is AuditOutcome.CONSISTENT


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"adjacency": Adjacency.REPLACE_ONE}, "adjacency"),
        ({"unit": "user"}, "unit"),
        ({"notion": Notion.BAYESIAN_DP}, "notion"),
        ({"notion": Notion.MEMBERSHIP}, "notion"),
    ],
)
def test_only_like_is_compared_with_like(fields, message):
    with pytest.raises(InvalidValue, match=message):
        AuditVerdict(audit=audit(), guarantee=claim(1.0, **fields))


@pytest.mark.parametrize("evidence", EVIDENCE, ids=lambda one: one.method)
def test_round_trip_through_json(evidence):
    written = json.dumps(audit(evidence).to_dict())
    assert Audit.from_dict(json.loads(written)) == audit(evidence)


# From scores to evidence.


def test_guesses_are_the_highest_and_the_lowest():
    scores, coins = np.array([3.0, -1.0, 2.0, 0.0, -5.0]), np.array([True, False, False, True, False])
    assert guess(scores, coins, 2, 2) == Guesses(canaries=5, guesses=4, correct=3)
    assert guess(scores, coins, 1, 0) == Guesses(canaries=5, guesses=1, correct=1)
    assert guess(scores, coins, 0, 5) == Guesses(canaries=5, guesses=5, correct=3)


def test_equal_scores_are_broken_without_the_coins():
    """All scores alike: the guesses must not change when the coins do."""
    rng = np.random.default_rng(0)
    scores = np.zeros(50)
    for _ in range(20):
        coins = toss(50, rng)
        expected = np.count_nonzero(coins[40:]) + np.count_nonzero(~coins[:10])
        assert guess(scores, coins, 10, 10).correct == expected


def test_a_chosen_threshold_lies_between_the_two_kinds_of_score():
    assert 1.0 < choose_threshold([2.0] * 30, [1.0] * 30, 0.0, 0.05) < 2.0
    # Where nothing can be proved, the best separation of the calibration scores.
    assert 1.0 < choose_threshold([2.0, 2.0], [1.0, 1.0], 0.0, 0.05) < 2.0


# Audits of whole trade-off curves: safe curves, thresholds that aim at them, verdicts that use them.

LEVEL, DELTA = 0.05, 1e-5
LEVELS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)


@pytest.mark.parametrize(
    ("epsilon_at", "exact"),
    [
        (PLDAccountant().compose(Gaussian(noise_multiplier=4.0), 4).epsilon, gdp.gaussian_tradeoff(0.5)),
        (
            PLDAccountant().compose(PoissonSampled(rate=0.25, event=Gaussian(noise_multiplier=1.0))).epsilon,
            sampled_step(1.0, 0.25),
        ),
        (partial(eps_pure, 1.0, 1), gdp.dp_tradeoff(1.0, 0.0)),
        (PLDAccountant().compose(NonPrivate()).epsilon, lambda level: 0.0),
    ],
    ids=["gaussian", "sampled", "pure", "none"],
)
def test_the_envelope_lies_below_the_exact_curve_and_close_to_it(epsilon_at, exact):
    found = gdp.enveloped(epsilon_at)
    for level in LEVELS:
        assert exact(level) - 5e-3 <= found(level) <= exact(level) + 1e-9


EVENT = Gaussian(noise_multiplier=1.0)
CLAIM = headline(EVENT, DELTA, Adjacency.ADD_REMOVE)
CURVE = gdp.enveloped(PLDAccountant().compose(EVENT).epsilon)


def verdict(evidence, curve=CURVE) -> AuditVerdict:
    audit = Audit(evidence=evidence, threat_model=ThreatModel.EVERY_UPDATE, adjacency=Adjacency.ADD_REMOVE, delta=DELTA)
    return AuditVerdict(audit=audit, guarantee=CLAIM, curve=curve)


def gaussian_runs(mu: float, runs: int, rng) -> MultiRun:
    threshold = choose_threshold_against(
        rng.normal(mu, size=runs), rng.normal(size=runs), claimed(CLAIM, CURVE), DELTA, LEVEL
    )
    return count_at(rng.normal(mu, size=runs), rng.normal(size=runs), threshold)


def test_the_curve_finds_half_the_noise_where_the_claimed_point_does_not():
    """mu = 2 where 1 is claimed, from 500 runs: no (epsilon, 1e-5) above the claimed 4.38 can be shown by so few."""
    evidence = gaussian_runs(2.0, 500, np.random.default_rng(1))
    assert verdict(evidence).outcome is AuditOutcome.REFUTED
    assert verdict(evidence, curve=None).outcome is AuditOutcome.CONSISTENT
    assert "whole curve" in str(verdict(evidence))


def test_the_curve_of_one_run_finds_more_than_the_point():
    """390 of 400 right: mu is above 1, by the 95% test of the curve; epsilon is not shown to exceed 4.38."""
    observed = Guesses(canaries=2000, guesses=400, correct=390)
    assert verdict(OneRunFDP(observed=observed)).outcome is AuditOutcome.REFUTED
    assert verdict(OneRunFDP(observed=observed), curve=None).outcome is AuditOutcome.CONSISTENT
    # A test of one (epsilon, delta) has no use for a curve, and says so.
    assert not verdict(OneRun(observed=observed)).tests_curve
    assert verdict(OneRun(observed=observed)).outcome is AuditOutcome.CONSISTENT

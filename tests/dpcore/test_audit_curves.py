"""Audits of whole trade-off curves: safe curves, thresholds that aim at them, verdicts that use them."""

from functools import partial

import numpy as np
import pytest
from scipy import stats

from dpcore import gdp
from dpcore.accountants.composition import eps_pure
from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import headline
from dpcore.audit import (
    Audit,
    AuditOutcome,
    AuditVerdict,
    Guesses,
    MultiRun,
    OneRun,
    OneRunFDP,
    ThreatModel,
    choose_threshold_against,
    claimed,
    count_at,
)
from dpcore.events import Adjacency, Gaussian, NonPrivate, PoissonSampled
from tests.dpcore.trade_off_oracles import SampledGaussianStep

LEVEL, DELTA = 0.05, 1e-5
LEVELS = (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)


def test_the_envelope_lies_below_the_gaussian_curve_and_close_to_it():
    found = gdp.enveloped(PLDAccountant().compose(Gaussian(noise_multiplier=4.0), 4).epsilon)
    exact = gdp.gaussian_tradeoff(0.5)
    for level in LEVELS:
        assert found(level) <= exact(level) + 1e-9
        # 19 tangents.
        assert found(level) == pytest.approx(exact(level), abs=5e-3)


def test_the_envelope_lies_below_a_sampled_step():
    event = PoissonSampled(rate=0.25, event=Gaussian(noise_multiplier=1.0))
    found, exact = (
        gdp.enveloped(PLDAccountant().compose(event).epsilon),
        SampledGaussianStep(noise_multiplier=1.0, rate=0.25),
    )
    for level in LEVELS:
        assert exact(level) - 5e-3 <= found(level) <= exact(level) + 1e-9


def test_the_envelope_of_one_pure_release_is_its_own_curve():
    found, exact = gdp.enveloped(partial(eps_pure, 1.0, 1)), gdp.dp_tradeoff(1.0, 0.0)
    for level in LEVELS:
        assert found(level) == pytest.approx(exact(level), abs=1e-5)


def test_nothing_is_promised_of_a_release_without_privacy():
    assert gdp.enveloped(PLDAccountant().compose(NonPrivate()).epsilon)(0.3) == 0.0


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


def test_the_right_noise_is_not_refuted_more_often_than_stated():
    rng = np.random.default_rng(2)
    refuted = sum(verdict(gaussian_runs(1.0, 200, rng)).outcome is AuditOutcome.REFUTED for _ in range(150))
    assert refuted <= stats.binom.isf(1e-4, 150, LEVEL)


def test_without_anything_to_refute_the_threshold_still_separates():
    rng = np.random.default_rng(3)
    threshold = choose_threshold_against(
        rng.normal(0.3, size=300), rng.normal(size=300), claimed(CLAIM, CURVE), DELTA, LEVEL
    )
    assert abs(threshold) < 2.5


def test_the_curve_of_one_run_finds_more_than_the_point():
    """390 of 400 right: mu is above 1, by the 95% test of the curve; epsilon is not shown to exceed 4.38."""
    observed = Guesses(canaries=2000, guesses=400, correct=390)
    assert verdict(OneRunFDP(observed=observed)).outcome is AuditOutcome.REFUTED
    assert verdict(OneRunFDP(observed=observed), curve=None).outcome is AuditOutcome.CONSISTENT
    # A test of one (epsilon, delta) has no use for a curve, and says so.
    assert not verdict(OneRun(observed=observed)).tests_curve
    assert verdict(OneRun(observed=observed)).outcome is AuditOutcome.CONSISTENT


def test_a_claim_of_infinite_epsilon_is_never_refuted():
    from dataclasses import replace

    audit = Audit(
        evidence=MultiRun(true_positives=500, runs_in=500, false_positives=0, runs_out=500),
        threat_model=ThreatModel.BLACK_BOX,
        adjacency=Adjacency.ADD_REMOVE,
        delta=DELTA,
    )
    nothing = gdp.enveloped(PLDAccountant().compose(NonPrivate()).epsilon)
    for epsilon in (float("inf"), 1e6):
        claim = replace(CLAIM, epsilon=epsilon, epsilon_lower=None)
        assert AuditVerdict(audit=audit, guarantee=claim, curve=nothing).outcome is AuditOutcome.CONSISTENT

"""The noise of DP-SGD under four ways of counting, each against its own formula and against the accountants."""

import math

import pytest

from dpcore.accounting import guarantee
from dpcore.calibrate import sampled_gaussian
from dpcore.events import Adjacency
from dpcore.papers.convexified import Counting, baseline_noise

DELTA, STEPS, RATE = 1e-5, 1000, 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_each_meets_its_target_and_all_but_the_first_waste_noise(epsilon):
    noises = {one: baseline_noise(one, epsilon, DELTA, STEPS, RATE) for one in Counting}
    assert noises[Counting.RDP] < noises[Counting.ZCDP] < noises[Counting.ADVANCED] < noises[Counting.NAIVE]
    for counting, noise in noises.items():
        spent = guarantee("rdp", sampled_gaussian(noise, RATE, STEPS), DELTA, Adjacency.ADD_REMOVE).epsilon
        assert spent <= epsilon * (1 + 1e-9), counting


def test_zcdp_and_naive_are_the_closed_forms():
    noise = baseline_noise(Counting.ZCDP, 1.0, DELTA, STEPS, RATE)
    rho = STEPS / (2 * noise**2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) == pytest.approx(1.0, rel=1e-12)
    naive = baseline_noise(Counting.NAIVE, 1.0, DELTA, STEPS, RATE)
    assert naive == pytest.approx(math.sqrt(2 * math.log(1.25 * STEPS / DELTA)) * STEPS, rel=1e-12)


def test_zcdp_meets_the_accountant_of_its_name():
    noise = baseline_noise(Counting.ZCDP, 2.0, DELTA, STEPS, RATE)
    spent = guarantee("zcdp", sampled_gaussian(noise, RATE, STEPS), DELTA, Adjacency.ADD_REMOVE).epsilon
    assert spent == pytest.approx(2.0, rel=1e-9)


def test_advanced_composition_of_its_steps_gives_the_target():
    """epsilon = T e^2/2 + e sqrt(2 T ln(2/delta)), the steps at (e, delta / 2T)."""
    noise = baseline_noise(Counting.ADVANCED, 1.0, DELTA, STEPS, RATE)
    each = math.sqrt(2 * math.log(1.25 * 2 * STEPS / DELTA)) / noise
    assert STEPS * each**2 / 2 + each * math.sqrt(2 * STEPS * math.log(2 / DELTA)) == pytest.approx(1.0, rel=1e-9)


def test_the_classical_noise_is_not_trusted_above_epsilon_one():
    """At epsilon 50 for one step the classical formula is too little; the exact noise is taken."""
    noise = baseline_noise(Counting.NAIVE, 50.0, DELTA, 1, 1.0)
    assert noise > math.sqrt(2 * math.log(1.25 / DELTA)) / 50
    spent = guarantee("gdp", sampled_gaussian(noise, 1.0, 1), DELTA, Adjacency.ADD_REMOVE).epsilon
    assert spent <= 50 * (1 + 1e-9)

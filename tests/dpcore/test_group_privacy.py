"""What a claim per record leaves to a person with many records."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore.accounting import group_epsilon_lower, headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, PureDP, Repeated
from dpcore.gdp import eps_gdp


def sampled(rate: float, noise: float, steps: int) -> Repeated:
    return Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), count=steps)


@pytest.mark.parametrize(("size", "noise", "steps"), [(1, 1.0, 1), (5, 10.0, 4), (50, 40.0, 9)])
def test_without_sampling_it_is_the_exact_gaussian(size: int, noise: float, steps: int) -> None:
    """k records move the sum by k clip norms: mu = k sqrt(T) / z (Dong, Roth & Su 2022, Corollary 1)."""
    exact = eps_gdp(size * math.sqrt(steps) / noise, 1e-5)
    event = Repeated(event=Gaussian(noise_multiplier=noise), count=steps)
    found = group_epsilon_lower(event, 1e-5, size)
    assert found is not None
    # A test has one threshold, and the grid of thresholds a step: below the exact epsilon, and not by much.
    assert 0.93 * exact < found <= exact


@pytest.mark.parametrize("rate", [0.001, 0.02, 0.3])
@pytest.mark.parametrize("noise", [0.7, 2.0])
@pytest.mark.parametrize("steps", [1, 30, 1000])
def test_for_one_record_it_is_below_the_claim(rate: float, noise: float, steps: int) -> None:
    event = sampled(rate, noise, steps)
    claim = headline(event, 1e-5, Adjacency.ADD_REMOVE).epsilon
    found = group_epsilon_lower(event, 1e-5, 1)
    assert found is not None
    assert found <= claim
    sizes = [group_epsilon_lower(event, 1e-5, size) for size in (1, 2, 5, 20, 50)]
    assert sizes == sorted(sizes)


def test_fifty_rows_a_patient() -> None:
    """A claim of 1.2 per record, and at least 78 per patient."""
    event = sampled(0.01, 0.9, 200)
    assert headline(event, 1e-5, Adjacency.ADD_REMOVE).epsilon < 1.24
    assert group_epsilon_lower(event, 1e-5, 50) > 78


def test_the_test_behind_it_by_simulation() -> None:
    """One step of 4 records at rate 1/2 and noise 2: the best test's two errors over a million draws.

    The bound must be explained by them: ln((power - delta) / level) at some threshold, to 5% (at a level of 1e-3 the
    relative deviation is 3%).
    """
    rng = np.random.default_rng(11)
    quiet = 2.0 * rng.standard_normal(1_000_000)
    shown = 2.0 * rng.standard_normal(1_000_000) + rng.binomial(4, 0.5, 1_000_000)
    delta = 1e-2
    thresholds = np.quantile(quiet, 1 - np.geomspace(1e-3, 0.5, 50))
    simulated = max(math.log(max((shown > t).mean() - delta, 1e-9) / (quiet > t).mean()) for t in thresholds)
    found = group_epsilon_lower(sampled(0.5, 2.0, 1), delta, 4)
    assert found == pytest.approx(simulated, rel=0.05)


def test_unlike_steps_and_others() -> None:
    few, many = sampled(0.01, 2.0, 10), sampled(0.01, 1.0, 100)
    both = Composed(events=(few, many, Repeated(event=PureDP(epsilon=0.1), count=3)))
    assert group_epsilon_lower(both, 1e-5, 10) == group_epsilon_lower(many, 1e-5, 10)
    assert group_epsilon_lower(PureDP(epsilon=0.1), 1e-5, 10) is None
    with pytest.raises(InvalidValue, match="size=0"):
        group_epsilon_lower(few, 1e-5, 0)

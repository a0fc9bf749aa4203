"""Two parts of one population: the larger claim in parallel, both where the parts add, and why a permutation adds."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpcore.accounting import headline, headline_of_parts
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, Repeated
from dpcore.gdp import delta_gdp

ADD_REMOVE, REPLACE_ONE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
TRAINING = Repeated(event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=2.0)), count=50)
DELTA = 1e-5


def parts(z: float, adjacency: Adjacency = ADD_REMOVE, parallel: bool = True):
    other = Gaussian(noise_multiplier=z, adjacency=adjacency)
    return other, headline_of_parts(TRAINING, other, parallel=parallel, delta=DELTA, adjacency=adjacency)


@pytest.mark.parametrize("z", [1.0, 30.0])
def test_in_parallel_the_larger_claim_stands(z):
    other, claim = parts(z)
    alone = [headline(event, DELTA, ADD_REMOVE) for event in (TRAINING, other)]
    assert claim.epsilon == max(one.epsilon for one in alone)
    assert claim.epsilon_lower == max(one.epsilon_lower for one in alone)
    assert "McSherry 2009" in claim.theorem


@pytest.mark.parametrize(("adjacency", "parallel"), [(ADD_REMOVE, False), (REPLACE_ONE, True), (REPLACE_ONE, False)])
def test_otherwise_the_parts_add(adjacency, parallel):
    other, claim = parts(3.0, adjacency, parallel)
    both = headline(Composed(events=(TRAINING, other)), DELTA, adjacency)
    assert claim.epsilon == both.epsilon > max(headline(one, DELTA, adjacency).epsilon for one in (TRAINING, other))
    assert "McSherry" not in claim.theorem


def test_a_part_that_releases_nothing_costs_nothing():
    nothing = Composed()
    assert headline_of_parts(TRAINING, nothing, parallel=False, delta=DELTA, adjacency=ADD_REMOVE) == headline(
        TRAINING, DELTA, ADD_REMOVE
    )


def delta_at(epsilon: float, shifts: tuple[float, float]) -> float:
    """Exact delta of two independent unit Gaussians whose means move by `shifts`."""
    return delta_gdp(epsilon, math.hypot(*shifts))


def test_the_rule_for_replace_one_is_needed():
    """Sums of ones from two parts, noise 1 on each. A record of the first part that gives way to one of the second
    moves both means by 1: mu is sqrt(2), and the larger of two claims at mu = 1 does not bound that."""
    epsilon = 1.0
    together, single = delta_at(epsilon, (1.0, 1.0)), delta_at(epsilon, (1.0, 0.0))
    assert together > 2 * single
    # And by its own definition: the best test compares the sum of both means with a threshold.
    x = math.sqrt(2) / 2 - epsilon / math.sqrt(2)
    assert together == pytest.approx(ndtr(x) - math.exp(epsilon) * ndtr(x - math.sqrt(2)), rel=1e-9)


def test_a_permutation_of_those_present_is_no_part():
    """One record more, and a seeded permutation sends others across; a keyed hash sends none."""
    import hashlib

    def hashed(one: int) -> bool:
        return hashlib.blake2b(str(one).encode(), key=b"public").digest()[0] < 64

    def permuted(ids: np.ndarray) -> set[int]:
        return set(ids[np.random.default_rng(0).permutation(len(ids))[: len(ids) // 4]].tolist())

    ids = np.arange(200)
    before, after = ids[:-1], ids
    assert {one for one in before if hashed(one)} == {one for one in after if hashed(one)} - {199}
    assert len(permuted(before) ^ (permuted(after) - {199})) > 10

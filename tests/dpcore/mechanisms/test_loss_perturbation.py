"""Loss perturbation: the density ratio of its minimiser, computed exactly on random neighbours."""

import math

import numpy as np
import pytest

from dpcore.events import Adjacency
from dpcore.guarantee import Status
from dpcore.mechanisms import loss_perturbation as lp

D, C = 2, 3


def gradient_and_hessian(theta, x, y):
    scores = x @ theta
    p = np.exp(scores - np.logaddexp.reduce(scores))
    return np.outer(x, p - np.eye(C)[y]).ravel(), np.kron(np.outer(x, x), np.diag(p) - np.outer(p, p))


def noise_and_jacobian(theta, records, n, modulus):
    """N that makes theta the minimiser, and log |det dN/dtheta|."""
    parts = [gradient_and_hessian(theta, x, y) for x, y in records]
    gradient = sum((g for g, _ in parts), np.zeros(D * C)) + n * modulus * theta.ravel()
    hessian = sum((h for _, h in parts), np.zeros((D * C, D * C))) + n * modulus * np.eye(D * C)
    return -gradient, np.linalg.slogdet(hessian)[1]


def record(rng):
    x = rng.standard_normal(D)
    return x / np.linalg.norm(x), int(rng.integers(C))


def worst_losses(epsilon, adjacency, jacobian, *, beta_factor=1.0, modulus_factor=1.0):
    """(largest total loss, largest part of the Jacobian) over random thetas and neighbours."""
    rng = np.random.default_rng(6)
    worst = worst_jacobian = 0.0
    for trial in range(1200):
        n = int(rng.integers(1, 4))
        rest = [record(rng) for _ in range(n - 1)]
        theta = rng.standard_normal((D, C)) * 10 ** rng.uniform(-2, 2)
        if trial % 2:
            theta[:] = 0.0
        first = [*rest, record(rng)]
        second = rest if adjacency is Adjacency.ADD_REMOVE else [*rest, record(rng)]
        modulus = lp.least_modulus(epsilon, n, C, jacobian) * modulus_factor
        one, jacobian_one = noise_and_jacobian(theta, first, n, modulus)
        other, jacobian_other = noise_and_jacobian(theta, second, n, modulus)
        density = lp.beta_pure(epsilon, adjacency) * beta_factor * (np.linalg.norm(other) - np.linalg.norm(one))
        worst = max(worst, abs(density + jacobian_one - jacobian_other))
        worst_jacobian = max(worst_jacobian, abs(jacobian_one - jacobian_other))
    return worst, worst_jacobian


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("jacobian", ["rank", "trace"])
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_density_ratio_stays_within_epsilon(adjacency, jacobian, epsilon):
    worst, worst_jacobian = worst_losses(epsilon, adjacency, jacobian)
    assert worst <= epsilon + 1e-9
    assert worst_jacobian <= epsilon / 2 + 1e-9
    # The search finds cases that matter: a tenth of the budget at the very least.
    assert worst > 0.1 * epsilon


def test_the_search_finds_too_little_noise_and_too_little_curvature():
    assert worst_losses(1.0, Adjacency.REPLACE_ONE, "rank", beta_factor=4)[0] > 1.0
    assert worst_losses(1.0, Adjacency.ADD_REMOVE, "trace", modulus_factor=0.1)[1] > 0.5


def test_output_noise_hides_twice_the_certificate():
    assert lp.output_noise(0.1, 1e-8, 1e-3).beta * 2 * 1e-8 / 1e-3 == pytest.approx(0.1)


def test_gaussian_tail_bound_holds_for_the_worst_label():
    """max_j g_j - g_y exceeds K s q with probability at most delta; 200,000 draws at delta 1e-2, within 4 sd."""
    delta, classes = 1e-2, 10
    sigma = lp.sigma_repaired(1.0, delta, classes, Adjacency.ADD_REMOVE)
    level = sigma**2 / 2 - lp.SOFTMAX_LIPSCHITZ**2 / 2
    g = np.random.default_rng(7).standard_normal((200_000, classes)) * sigma
    exceeded = float((g.max(axis=1) - g[:, 0] > level).mean())
    assert exceeded <= delta + 4 * math.sqrt(delta / 200_000)
    # The one-dimensional tail of the published proof, for a direction that depends on the noise, is too small.
    assert exceeded > 3 * delta / (classes - 1)


@pytest.mark.parametrize("classes", [2, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_what_the_printed_noise_is_sold_for_and_what_is_established_for_it(classes, epsilon):
    """At the epsilon that is established for `delta`, the repaired tail bound spends exactly `delta`."""
    delta = 1e-5
    sigma, (status, _) = lp.sigma_published(epsilon, delta), lp.published_standing(epsilon, delta, classes)
    noise_multiplier = sigma / lp.SOFTMAX_LIPSCHITZ
    assert lp.published_epsilon_of(noise_multiplier, delta) == pytest.approx(epsilon, rel=1e-12)
    established = lp.established_epsilon(noise_multiplier, epsilon, delta, classes)
    assert (established <= epsilon) == (status is Status.PROVED_UNDER_ASSUMPTIONS)
    # Half of epsilon is the Jacobian's, whose modulus is printed; the rest is left for the noise.
    left = 2 * (established - epsilon / 2)
    assert lp.established_delta(sigma, left, classes) == pytest.approx(delta, rel=1e-6)

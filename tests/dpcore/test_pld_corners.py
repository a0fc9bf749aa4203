"""Corners of the privacy-loss accountant: what once hung, overflowed, was refused, or was wrong in its last digits."""

import math
import random
import subprocess
import sys

import mpmath
import numpy as np
import pytest

from dpcore import accounting, calibrate
from dpcore.accountants.pld import PLDAccountant, ToleranceNotReached, closed_forms, contour, grid
from dpcore.accountants.pld import accountant as routes
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair
from dpcore.accounting import make
from dpcore.events import Adjacency, Composed, Gaussian, PoissonSampled, PureDP, Repeated
from dpcore.guarantee import Status
from tests.dpcore import oracles


def composed(*settings):
    """(rate, noise multiplier, steps) each; rate 1 is a plain Gaussian."""
    events = []
    for rate, noise, steps in settings:
        plain = Gaussian(noise_multiplier=noise)
        events.append(Repeated(event=plain if rate == 1 else PoissonSampled(rate=rate, event=plain), count=steps))
    return Composed(events=tuple(events))


def test_a_composition_of_three_scales_is_bounded_in_seconds_and_little_memory():
    # Four minutes and 4.9 GB, when the convex minorant peeled a few vertices a pass and all grids were kept.
    program = (
        "from tests.dpcore.test_pld_corners import THREE_SCALES, composed\n"
        "from dpcore.accountants.pld import PLDAccountant\n"
        "from trainables.memory import peak_mb\n"
        "bounds = PLDAccountant().compose(composed(*THREE_SCALES)).epsilon_bounds(2.29384e-14)\n"
        "print(bounds.lower, bounds.upper, peak_mb())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    lower, upper, megabytes = map(float, done.stdout.split())
    assert lower <= 288.588 * (1 + 1e-4)
    assert upper == pytest.approx(288.588, rel=1e-4)
    assert upper - lower <= 1e-3 * upper
    assert megabytes < 1000


THREE_SCALES = ((1.96043e-8, 0.246692, 38), (4.10028e-5, 55.7596, 1987217), (1, 32.8032, 335995))


def test_both_ends_of_plain_gaussians_hold_in_their_last_digits():
    # One mu for both ends left the lower one above the truth, by up to 4e-13 of it.
    rng = np.random.default_rng(5)
    with mpmath.workdps(50):
        for _ in range(150):
            noises = np.exp(rng.uniform(np.log(0.3), np.log(300), size=rng.integers(1, 7)))
            counts = rng.integers(1, 10 ** rng.integers(1, 6), size=len(noises))
            delta = float(10 ** rng.uniform(-14, -1))
            event = composed(*((1, float(z), int(c)) for z, c in zip(noises, counts, strict=True)))
            lower, upper = PLDAccountant().compose(event).epsilon_bounds(delta)
            mu = mpmath.sqrt(
                sum(mpmath.mpf(int(c)) / mpmath.mpf(float(z)) ** 2 for z, c in zip(noises, counts, strict=True))
            )
            if lower > 0:
                assert oracles.gaussian(lower, mu) >= delta
            assert oracles.gaussian(upper, mu) <= delta
            low, high = PLDAccountant().compose(event).delta_bounds(upper)
            assert low <= oracles.gaussian(upper, mu) <= high


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("epsilon", [710.0, 1164.07, 5000.0])
@pytest.mark.parametrize(
    "event",
    [composed((0.0498, 4.08, 1)), composed((1, 1.0, 3)), composed((3.9e-6, 0.532, 1725135)), PureDP(epsilon=3.2)],
    ids=["one step", "plain", "many", "pure"],
)
def test_delta_beyond_the_range_of_the_exponential_is_bounded(event, epsilon, adjacency):
    lower, upper = PLDAccountant(adjacency=adjacency).compose(event).delta_bounds(epsilon)
    assert 0 <= lower <= upper <= 1e-14


def test_no_delta_is_larger_than_the_chance_that_the_record_was_drawn():
    """.632 is true, and once was 1 by the Renyi accountant."""
    event, drawn = composed((1e-6, 0.06, 10**6)), -math.expm1(10**6 * math.log1p(-1e-6))
    found = PLDAccountant().compose(event).delta_bounds(-1.0)
    least = -math.expm1(-1.0)
    assert found.upper == pytest.approx(least + (1 - least) * drawn, rel=1e-9)
    assert least <= found.lower


@pytest.mark.parametrize(("rate", "noise", "epsilon"), [(1e-8, 0.05, 700.0), (1e-8, 0.05, 695.0), (1e-100, 0.1, 500.0)])
def test_one_step_is_bounded_where_the_exponential_over_the_rate_overflows(rate, noise, epsilon):
    """Delta was once 1e-300 there, at most, where 8e-157 is true."""
    found = PLDAccountant().compose(composed((rate, noise, 1))).delta_bounds(epsilon)
    with mpmath.workdps(60):
        assert 0 <= found.lower <= oracles.removed(epsilon, rate, noise) <= found.upper


# What the privacy-loss accountant reaches by less tilted sums, by overlaps, and by grids coarser than asked.


def with_pure(event, epsilon, count):
    return Composed(events=(event, Repeated(event=PureDP(epsilon=epsilon), count=count)))


MANY_PLAIN = [
    # Once refused: 436.4441 by exact GDP of all, 331.1026 and 121.4512 by Renyi.
    (with_pure(composed((1, 10.7382, 64227)), 0.00485311, 32), 8.50889e-12, 436.4441209758371),
    (composed((1, 44.499, 722186), (1.65768e-06, 0.283568, 16)), 2.95167e-14, 331.10256570269286),
    (
        with_pure(composed((1, 39.654, 187688), (1.9589e-08, 2.25621, 804010)), 0.0335911, 27),
        4.38282e-08,
        121.45115435054947,
    ),
]


@pytest.mark.parametrize(("event", "delta", "another"), MANY_PLAIN)
def test_many_plain_gaussians_beside_a_little_else_are_told_by_a_less_tilted_sum(event, delta, another):
    lower, upper = PLDAccountant().compose(event).epsilon_bounds(delta)
    assert lower <= upper <= lower * (1 + 1e-3)
    assert lower <= another
    # The plain Gaussians alone, which the rest can only add to, exactly.
    mu = mpmath.sqrt(
        sum(part.count / mpmath.mpf(part.event.noise_multiplier) ** 2 for part in flat(event) if plain(part))
    )
    with mpmath.workdps(40):
        assert oracles.gaussian(upper, mu) <= delta


def flat(event):
    for one in event.events:
        yield from flat(one) if isinstance(one, Composed) else (one,)


def plain(part):
    return hasattr(part.event, "noise_multiplier")


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_bounds_of_a_grid_coarser_than_asked_hold(monkeypatch, adjacency):
    event, delta = composed((0.02, 0.7, 3000), (0.3, 6.0, 200)), 1e-7
    known = PLDAccountant(adjacency=adjacency).compose(event).epsilon_bounds(delta)
    monkeypatch.setattr(grid, "MAX_LOSSES", 1 << 12)
    monkeypatch.setattr(contour, "TILTS", ())
    routes.forget()
    with pytest.raises(ToleranceNotReached) as refused:
        PLDAccountant(adjacency=adjacency).compose(event).epsilon_bounds(delta)
    routes.forget()
    best = refused.value.best
    assert best is not None
    assert best.lower <= known.lower
    assert known.upper <= best.upper < 2 * known.upper


def test_a_calibration_at_the_smallest_rates_is_answered_and_its_claim_keeps_the_target():
    rate, steps, epsilon, delta, adjacency = 1.50854e-05, 52672, 0.823408, 1.8035e-08, Adjacency.REPLACE_ONE
    target = calibrate.Target(epsilon=epsilon, delta=delta, adjacency=adjacency)
    noise = calibrate.noise_multiplier(target, rate=rate, steps=steps)
    event = calibrate.sampled_gaussian(noise, rate, steps)
    claim = accounting.headline(event, delta, adjacency)
    assert claim.status is Status.PROVED
    assert 0.97 * epsilon <= claim.epsilon <= epsilon
    # No proof of another accountant asks for less noise.
    renyi = make("rdp", adjacency).compose(event)
    assert claim.epsilon <= renyi.epsilon(delta) * (1 + 1e-9)
    assert math.isfinite(claim.epsilon)


# The lowest frequencies of long compositions, and the closed forms of a single step.


@pytest.mark.parametrize(
    ("kind", "exact"), [(SampledGaussianPair, oracles.either), (ReplacedSampledGaussian, oracles.replaced)]
)
def test_single_steps_enclose_sixty_digits_closely(kind, exact):
    with mpmath.workdps(60):
        rng = random.Random(1)
        for _ in range(60):
            rate, noise, delta = (10 ** rng.uniform(*span) for span in ((-6, -0.01), (-1, 3), (-15, -0.3)))
            pair = kind(rate, noise)
            lower, upper = closed_forms.single_step_epsilon(pair, delta)
            assert upper - lower <= 1e-6 * upper
            assert exact(upper, rate, noise) <= delta
            assert lower == 0 or exact(lower, rate, noise) >= delta
            epsilon = rng.uniform(-3, 3) / noise
            found = closed_forms.single_step_delta(pair, epsilon)
            assert found[0] <= exact(epsilon, rate, noise) <= found[1]
            assert found[1] - found[0] <= 1e-9

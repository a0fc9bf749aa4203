"""Sums over frequencies: enclosed by grids, closed forms and many digits; each charge is shown to be needed."""

import math
import random
from dataclasses import replace

import mpmath
import numpy as np
import pytest

from dpcore.accountants.pld import DiscretisationInvalid, closed_forms, contour, grid, lines
from dpcore.accountants.pld import accountant as routes
from dpcore.accountants.pld.pairs import (
    Asked,
    ReplacedSampledGaussian,
    SampledGaussianPair,
    SampledRandomisedResponse,
    tail_for,
)
from dpcore.accountants.pld.saddle_point import direction_at_delta

EPS = float(np.finfo(float).eps)


def a_contour(parts, delta, *, forward=True, relative=1e-6):
    direction = direction_at_delta(parts, Asked(delta), tail_for(delta, parts), forward=forward)
    return contour.make_contour(direction, direction.saddle, math.log(relative), 1e-2), direction.saddle


def on_a_grid(parts, delta, tolerance, *, forward):
    direction = direction_at_delta(parts, Asked(delta, tolerance), tail_for(delta, parts, 1e-7), forward=forward)
    return grid.epsilon_bounds(direction)


def random_parts(rng, pair):
    q, s = 10 ** rng.uniform(-3, -1), 10 ** rng.uniform(-0.1, 1)
    return ((pair(q, s), int(10 ** rng.uniform(2.5, 5.5))),), 10 ** rng.uniform(-11, -3)


@pytest.mark.parametrize(
    ("pair", "forward"), [(SampledGaussianPair, True), (SampledGaussianPair, False), (ReplacedSampledGaussian, True)]
)
def test_grids_enclose_what_the_sum_tells(pair, forward):
    """Two ways that share neither grid nor transform; the sum's interval is far narrower than the grid's."""
    rng = random.Random(7)
    widths = []
    for _ in range(12):
        parts, delta = random_parts(rng, pair)
        try:
            found, saddle = a_contour(parts, delta, forward=forward)
        except lines.TooFine:
            continue
        lower, upper = found.invert(math.log(delta), saddle.epsilon)
        grid = on_a_grid(parts, delta, 2e-3, forward=forward)
        assert grid.lower <= upper * (1 + 1e-12)
        assert lower <= grid.upper * (1 + 1e-12)
        widths.append((upper - lower) / upper)
    assert len(widths) >= 6
    assert np.median(widths) < 1e-6


@pytest.mark.parametrize("delta", [0.05, 1e-4, 1e-11])
def test_gaussians_come_out_in_closed_form(delta):
    parts = ((SampledGaussianPair(1.0, 20.0), 300), (SampledGaussianPair(1.0, 7.0), 20))
    mu = math.sqrt(300 / 400 + 20 / 49)
    found, saddle = a_contour(parts, delta)
    for epsilon in (0.95 * saddle.epsilon, saddle.epsilon, 1.05 * saddle.epsilon):
        exact = math.log(closed_forms.gaussian_delta(mu, epsilon).lower)
        reading = found.at(epsilon)
        assert reading.lower <= exact + 1e-9
        assert exact <= reading.upper + 1e-9
        assert reading.upper - reading.lower <= 1e-5


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(
    ("pair", "tilt"), [(SampledGaussianPair(0.01, 0.8), 2.0), (SampledGaussianPair(0.2, 3.0), 10.0)]
)
def test_transforms_are_those_of_twenty_digits(pair, tilt, forward):
    q, s = mpmath.mpf(pair.rate), mpmath.mpf(pair.noise_multiplier)
    low, high = pair.x_range(1e-25)
    line = lines.SmoothLine(pair, forward, tilt, low, high, lines.Fineness(40.0, 1e-14, 4000))
    found = line.values(8.0, 5)
    with mpmath.workdps(22):

        def integral(z):
            def integrand(x):
                ratio = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))
                return mpmath.npdf(x, 0, s) * ratio ** (1 + z if forward else -z)

            return mpmath.quad(integrand, mpmath.linspace(low, high, 9))

        whole = integral(mpmath.mpf(tilt))
        assert abs(line.log_mgf - mpmath.log(whole)) <= line.error
        for k in (1, 5):
            turn = mpmath.exp(mpmath.mpc(0, -8.0 * k * line.centre))
            exact = integral(mpmath.mpc(tilt, 8.0 * k)) * turn / whole
            assert abs(complex(exact) - found.values[k]) <= found.error[k]
            assert found.error[k] < 1e-10


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize(
    "pair", [SampledGaussianPair(0.01, 0.7), SampledGaussianPair(0.3, 4.0), ReplacedSampledGaussian(0.05, 1)]
)
def test_layers_bound_the_spectrum_from_above(pair, forward):
    low, high = pair.x_range(1e-14)
    for tilt in (1.0, 4.0):
        line = lines.SmoothLine(pair, forward, tilt, low, high, lines.Fineness(2000.0, 1e-12, 100_000))
        cut = lines.cut(pair, tilt, line.log_mgf, low, high, forward=forward)
        assert 0.5 < cut.masses.sum() < 1
        values = np.abs(line.values(2.0, 1000).values)
        for k in (1, 3, 10, 100, 500):
            assert values[k:].max() <= 1 - cut.missing(2.0 * k) + 1e-9
        assert 1 - cut.missing(2000.0) < 0.6


@pytest.mark.parametrize("mode", [0, 7, 19])
def test_layers_are_the_level_sets_of_the_density(mode):
    """Held against cutting every level by hand; a law with one mode has a shorter way."""
    rng = np.random.default_rng(mode)
    places = np.cumsum(rng.uniform(0.1, 1.0, 21))
    least = np.concatenate([np.sort(rng.uniform(0, 1, mode)), [1.0], np.sort(rng.uniform(0, 1, 19 - mode))[::-1]])
    for density in (least, np.concatenate([least[:10], [0.0], least[11:]])):
        by_hand, below = [], 0.0
        for level in sorted({*density} - {0.0}):
            start = None
            for i, value in enumerate([*density, -1.0]):
                if value >= level and start is None:
                    start = i
                elif value < level and start is not None:
                    width = places[i] - places[start]
                    by_hand.append(((level - below) * width, width))
                    start = None
            below = level
        found = lines.layers(places, density)
        assert np.allclose(sorted(zip(found.masses, found.widths, strict=True)), sorted(by_hand), rtol=1e-12)


@pytest.mark.parametrize(
    ("rate", "epsilon"), [(1.0, 30.0), (1.0, 29.3), (1 - 1e-7, 25.0), (1 - 1e-6, 18.0), (0.99, 30.0), (1e-6, 1e-6)]
)
def test_atoms_of_responses_are_those_of_forty_digits(rate, epsilon):
    """1 + q expm1(-epsilon) once cancelled: the rarer answer's loss was off by 2e-4."""
    with mpmath.workdps(40):
        found = SampledRandomisedResponse(rate, epsilon).atom_losses()
        for loss, sign in zip(found, (-1, 1), strict=True):
            exact = mpmath.log(1 - mpmath.mpf(rate) + rate * mpmath.exp(sign * mpmath.mpf(epsilon)))
            assert abs(loss - exact) <= 8 * EPS * abs(exact)


@pytest.mark.parametrize(
    ("pair", "forward"), [(SampledGaussianPair, True), (SampledGaussianPair, False), (ReplacedSampledGaussian, True)]
)
def test_errors_of_losses_and_densities_cover_the_real_ones(pair, forward):
    """Rates near 1 leave the likelihood ratio a small difference; replacement once charged nothing for it."""
    rng = random.Random(3)
    worst = 0.0
    for _ in range(150):
        rate = 10 ** rng.uniform(-6, -1e-4) if rng.random() < 0.4 else 1 - 10 ** rng.uniform(-12, -0.5)
        this = pair(rate, 10 ** rng.uniform(-1.3, 2))
        low, high = this.x_range(10 ** rng.uniform(-30, -3))
        x = low + (high - low) * np.array([rng.random() for _ in range(4)])
        at = lines.places(this, x, forward=forward)
        with mpmath.workdps(40):
            q, s = mpmath.mpf(rate), mpmath.mpf(this.noise_multiplier)
            for i, place in enumerate(x):
                y = mpmath.mpf(float(place))
                loss = mpmath.log(1 - q + q * mpmath.exp((2 * y - 1) / (2 * s * s)))
                density = mpmath.log(mpmath.npdf(y, 0, s))
                if pair is ReplacedSampledGaussian:
                    other = mpmath.log(1 - q + q * mpmath.exp((-2 * y - 1) / (2 * s * s)))
                    loss, density = loss - other, density + other
                density, loss = (density + loss, loss) if forward else (density, -loss)
                assert abs(at.loss[i] - loss) <= at.loss_error[i]
                assert abs(at.log_density[i] - density) <= at.density_error[i]
                worst = max(worst, float(abs(at.log_density[i] - density) / at.density_error[i]))
    assert worst > 0.05


# What each charge is for: without it, the interval misses.


def test_neighbouring_periods_are_subtracted():
    """The mutant: too short a period, its neighbours not charged."""
    parts = ((SampledGaussianPair(0.02, 1.5), 3000),)
    exact = routes.epsilon_bounds(parts, 1e-5, 1e-3)
    found, _ = a_contour(parts, 1e-5)
    short = replace(found, step=2.2 * found.step, count=found.count // 2)
    reading = short.at(exact.upper)
    assert reading.log_delta > math.log(1e-5) + 1e-3
    assert reading.lower <= math.log(1e-5)


def test_what_lies_beyond_the_last_frequency_is_charged():
    parts = ((SampledGaussianPair(0.02, 1.5), 3000),)
    exact = routes.epsilon_bounds(parts, 1e-5, 1e-3)
    found, _ = a_contour(parts, 1e-5)
    count = 3
    layer = lines.cut(
        parts[0][0],
        found.tilt,
        found.lines[0][0].log_mgf + 1e-9,
        found.lines[0][0].low,
        found.lines[0][0].high,
        forward=True,
    )
    missing = -3000 * math.log1p(-layer.missing(found.step * (count + 1)))
    cut = replace(found, count=count, missing=missing)
    reading = cut.at(0.5 * (exact.lower + exact.upper))
    assert abs(reading.log_delta - math.log(1e-5)) > 1e-4
    assert reading.lower <= math.log(1e-5) <= reading.upper


def test_guard_refuses_losses_that_are_wrong(monkeypatch):
    line = lines.SmoothLine(SampledGaussianPair(0.01, 1.0), True, 5.0, -9.0, 10.0, lines.Fineness(20.0, 1e-13, 4000))
    line.guard()
    original = lines.places

    def shifted(pair, x, *, forward):
        at = original(pair, x, forward=forward)
        return at._replace(loss=at.loss + 1e-6)

    monkeypatch.setattr(lines, "places", shifted)
    with pytest.raises(DiscretisationInvalid, match="sum to 1"):
        replace(line).guard()


def test_too_few_nodes_are_charged():
    """The mutant: nodes planned for frequency 1, asked for 60."""
    pair = SampledGaussianPair(0.3, 0.7)
    few = lines.SmoothLine(pair, True, 3.0, -7.0, 10.0, lines.Fineness(1.0, 1e-6, 4000))
    many = lines.SmoothLine(pair, True, 3.0, -7.0, 10.0, lines.Fineness(70.0, 1e-14, 40_000))
    coarse, fine = few.values(10.0, 6), many.values(10.0, 6)
    turned = coarse.values * np.exp(10j * np.arange(7) * (few.centre - many.centre))
    away = np.abs(turned - fine.values)
    assert away.max() > 1e-3
    assert (away <= coarse.error + fine.error).all()

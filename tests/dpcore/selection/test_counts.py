"""Laws of K against printed digits, exact sums and 60 digits; drawing is exact, secret and never from a seed."""

import math
import random
import secrets
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpcore.checks import InvalidValue
from dpcore.selection.counts import (
    BinomialCount,
    Capped,
    PoissonCount,
    TruncatedNegativeBinomial,
    draw,
    geometric,
    logarithmic,
    with_mean,
)

LAWS = (
    geometric(10),
    logarithmic(10),
    with_mean(0.5, 10),
    with_mean(-0.5, 10),
    with_mean(3, 34.6),
    BinomialCount(20, 0.5),
    PoissonCount(10.0),
    Capped(geometric(10), 30),
    Capped(PoissonCount(10.0), 12),
)


@pytest.mark.parametrize(("shape", "success"), [(-0.5, 0.0027701), (0, 0.0269183), (0.5, 0.0625), (1, 0.1)])
def test_success_at_mean_10(shape, success):
    """Papernot & Steinke (2022), definition 1, solved for g: private_search.md section 2, printed digits."""
    law = with_mean(shape, 10)
    assert law.success == pytest.approx(success, abs=5.1e-8)
    assert law.mean == pytest.approx(10, rel=1e-12)


@pytest.mark.parametrize(
    ("law", "chance"),
    [
        (logarithmic(18.2), 0.5),
        (with_mean(0.5, 10.5), 0.5),
        (geometric(9.0), 0.5),
        (PoissonCount(6.9), 0.5),
        (logarithmic(1082), 0.75),
        (with_mean(0.5, 45), 0.75),
        (geometric(27), 0.75),
        (PoissonCount(13.9), 0.75),
        (with_mean(0.5, 261), 0.9),
        (geometric(81), 0.9),
        (PoissonCount(23), 0.9),
    ],
)
def test_chance_of_the_top_decile(law, chance):
    """private_search.md section 1c, "Choice of K": means printed to three digits or integers."""
    assert law.reach(0.1) == pytest.approx(chance, abs=3e-3)  # a mean of 6.9 is known to .05


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_chance_of_success_mean_and_moments_are_those_of_the_pmf(law):
    k = np.arange(20_000)
    p = law.pmf(k)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert law.mean == pytest.approx((k * p).sum(), rel=1e-11)
    if isinstance(law, TruncatedNegativeBinomial):
        assert law.factorial_moment(1) == pytest.approx(law.mean, rel=1e-12)
        assert law.factorial_moment(3) == pytest.approx((k * (k - 1) * (k - 2) * p).sum(), rel=1e-9)
    for q in (0.0, 0.3, 0.97, 1.0):
        assert law.reach(1 - q) == pytest.approx(1 - (p * q**k).sum(), abs=1e-12)
    for level in (0.05, 0.5, 0.99):
        found = law.quantile(level)
        assert p[: found + 1].sum() >= level > p[:found].sum()


@pytest.mark.parametrize("shape", [-0.999, -0.5, -1e-9, 0.0, 1e-12, 0.5, 1.0, 7.0])
@pytest.mark.parametrize("success", [1e-12, 1e-3, 0.999999])
def test_against_sixty_digits(shape, success):
    law = TruncatedNegativeBinomial(shape, success)
    with mpmath.workdps(60):
        eta, g = mpmath.mpf(shape), mpmath.mpf(success)

        def f(q):
            t = 1 - (1 - g) * q
            return mpmath.log(t) / mpmath.log(g) if shape == 0 else (t**-eta - 1) / (g**-eta - 1)

        for chance in (1e-18, 1e-6, 0.1, 1.0):
            exact = 1 - f(1 - mpmath.mpf(chance))
            assert law.reach(chance) == pytest.approx(float(exact), rel=1e-9)
        one, two = law.pmf(np.array([1, 2]))
        coefficient = (1 - g) / -mpmath.log(g) if shape == 0 else eta * (1 - g) / (g**-eta - 1)
        assert one == pytest.approx(float(coefficient), rel=1e-9)
        assert two == pytest.approx(float(coefficient * (1 - g) * (1 + eta) / 2), rel=1e-9)


class Scripted(random.SystemRandom):
    """Answers one number, and remembers below which it was asked."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def randrange(self, start, *_):
        self.total = start
        return self.at(start)


@pytest.mark.parametrize("law", [geometric(3), with_mean(-0.5, 2), PoissonCount(1.5), BinomialCount(9, 0.3)], ids=str)
def test_inversion_is_exact(law):
    """Each count owns its very share of the integers: the edges found by the draw are the law's own rationals."""
    capped, cumulative = Capped(law, 5), Fraction(0)
    ratios = list(capped.weights())
    masses, mass = [], Fraction(1)
    for _, ratio in ratios:
        mass *= ratio
        masses.append(mass)
    for (k, _), mass in zip(ratios, masses, strict=True):
        share = cumulative / sum(masses)
        first = Scripted(lambda total, share=share: int(share * total))
        assert draw(capped, first) == k
        assert (share * first.total).denominator == 1
        if cumulative:
            assert draw(capped, Scripted(lambda total, share=share: int(share * total) - 1)) == k - 1
        cumulative += mass
        assert float(mass / sum(masses)) == pytest.approx(float(capped.pmf(np.array([k]))[0]), rel=1e-12)


def test_drawn_counts_follow_the_law():
    law = Capped(geometric(4), 8)
    drawn = np.bincount([draw(law, secrets.SystemRandom()) for _ in range(1000)], minlength=9)
    assert drawn[0] == 0
    # Five standard deviations of a share of 1,000 draws.
    assert np.allclose(drawn / 1000, law.pmf(np.arange(9)), atol=5 * 0.5 / math.sqrt(1000))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TruncatedNegativeBinomial(-1, 0.5), "shape=-1: expected a finite number above -1"),
        (lambda: TruncatedNegativeBinomial(1, 0), "success=0: expected a number strictly between 0 and 1"),
        (lambda: geometric(1), "mean=1: expected a mean above 1"),
        (lambda: BinomialCount(0, 0.5), "trials=0"),
        (lambda: PoissonCount(math.inf), "rate=inf"),
        (lambda: Capped(geometric(10), 0), "cap=0"),
        (lambda: Capped(Capped(geometric(10), 9), 9), "without a cap"),
        (lambda: Capped(PoissonCount(100.0), 10), "stays within"),
        (lambda: geometric(10).quantile(1.0), "level=1.0"),
        (lambda: draw(geometric(10), secrets.SystemRandom()), "a law with a cap"),
        (lambda: draw(Capped(geometric(10), 9), random.Random(0)), "a cryptographic source"),
    ],
)
def test_bad_values_are_refused_by_name(make, words):
    with pytest.raises(InvalidValue, match=words.replace("(", r"\(")):
        make()

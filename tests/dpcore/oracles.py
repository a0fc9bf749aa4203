"""What tests hold others against: exact deltas of one step, trade-off functions written out, and a noise source."""

from __future__ import annotations

from mpmath import exp, log, mpf, ncdf, sqrt
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from dpcore.gdp import TradeOff, gaussian_tradeoff
from dpcore.noise import PseudorandomNoise
from dpcore.randomness import Purpose, Streams


def noise(key: str, attempt: int = 0) -> PseudorandomNoise:
    """The noise of a trial of that name, under one secret."""
    streams = Streams(secret=bytes(range(32)), seed=0, key=key, attempt=attempt)
    return PseudorandomNoise(streams.torch(Purpose.NOISE))


def least_error_sum(f: TradeOff) -> float:
    """Minimum of type-I plus type-II error over all tests, in [0, 1]; 1 minus the total variation distance."""
    found = minimize_scalar(lambda a: a + f(a), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    return float(min(found.fun, f(0.0), 1.0))


def sampled_step(noise_multiplier: float, rate: float) -> TradeOff:
    """One Poisson-sampled Gaussian release under add-remove, exactly (Bu et al. 2020, Theorem 4): the convex minorant
    of min{f_p, f_p^-1} with f_p = p G_{1/s} + (1 - p) Id, which is f_p, a line of slope -1, then f_p^-1."""

    def one_direction(level: float) -> float:
        return rate * gaussian_tradeoff(1 / noise_multiplier)(level) + (1 - rate) * (1 - level)

    # Where f_p has slope -1.
    x = float(ndtr(-0.5 / noise_multiplier))
    y = one_direction(x)

    def f(level: float) -> float:
        if level <= x:
            return one_direction(level)
        if level <= y:
            return x + y - level
        return float(brentq(lambda a: one_direction(a) - level, 0.0, 1.0, xtol=1e-15))

    return f


# Exact delta at an epsilon of either sign, in mpmath's digits.


def gaussian(epsilon, mu):
    """Of Gaussians whose means are mu deviations apart."""
    e, m = mpf(epsilon), mpf(mu)
    return ncdf(m / 2 - e / m) - exp(e) * ncdf(-m / 2 - e / m)


def removed(epsilon, q, s):
    """Of (1-q) N(0) + q N(1) against N(0)."""
    q, s, k = mpf(q), mpf(s), exp(mpf(epsilon))
    ratio = (k - 1 + q) / q
    if ratio <= 0:
        return 1 - k
    x = s * s * log(ratio) + mpf(1) / 2
    return (1 - q - k) * ncdf(-x / s) + q * ncdf((1 - x) / s)


def added(epsilon, q, s):
    """Of N(0) against (1-q) N(0) + q N(1)."""
    q, s, k = mpf(q), mpf(s), exp(mpf(epsilon))
    ratio = (1 / k - 1 + q) / q
    if ratio <= 0:
        return mpf(0)
    x = s * s * log(ratio) + mpf(1) / 2
    return (1 - k * (1 - q)) * ncdf(x / s) - k * q * ncdf((x - 1) / s)


def replaced(epsilon, q, s):
    """Of (1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1)."""
    q, s, k = mpf(q), mpf(s), exp(abs(mpf(epsilon)))
    # The threshold in t = exp(x / s^2): q c t^2 - (k - 1) (1 - q) t - k q c = 0 with c = exp(-1 / (2 s^2)).
    c = exp(-1 / (2 * s * s))
    b = (k - 1) * (1 - q)
    x = s * s * log((b + sqrt(b * b + 4 * k * q * q * c * c)) / (2 * q * c))
    above = [ncdf((mean - x) / s) for mean in (-1, 0, 1)]
    delta = q * above[2] + (1 - q) * above[1] * (1 - k) - k * q * above[0]
    return delta if epsilon >= 0 else 1 - 1 / k + delta / k


def either(epsilon, q, s):
    """The larger of removed and added."""
    return max(removed(epsilon, q, s), added(epsilon, q, s))

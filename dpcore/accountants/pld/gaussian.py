"""Unsampled Gaussian releases compose exactly: mu = sqrt(sum 1/z^2) Gaussian DP.

Certificate: delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu), with the relative error of
its evaluation (`gdp_dual.relative_error`, measured against 60 digits) and of mu charged to either side.

Source  Balle & Wang (2018), Theorem 8; Dong, Roth & Su (2022), Corollary 3.
"""

from __future__ import annotations

import math

from dpcore.accountants.pld.bounds import Asked, Bounds
from dpcore.accountants.pld.pairs import MU_ROUNDING, Parts, SampledGaussianPair
from dpcore.gdp import delta_gdp, eps_gdp, relative_error

_ROUNDING = 1e-13
_EPS = 2.3e-16


def mu_of(parts: Parts) -> Bounds | None:
    """Around the mu of a composition of unsampled Gaussians alone; else None."""
    gaussians = [(pair, count) for pair, count in parts if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0]
    if len(gaussians) < len(parts):
        return None
    mu = math.sqrt(math.fsum(count / pair.noise_multiplier**2 for pair, count in gaussians))
    return Bounds(mu * (1 - 2 * MU_ROUNDING), mu * (1 + MU_ROUNDING))


def epsilon_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around epsilon at the delta asked; None where `parts` are others."""
    mu = mu_of(parts)
    if mu is None:
        return None
    return Bounds(epsilon_of(mu.lower, asked.at).lower, epsilon_of(mu.upper, asked.at).upper)


def delta_bounds(parts: Parts, asked: Asked) -> Bounds | None:
    """Around delta at the epsilon asked; None where `parts` are others."""
    mu = mu_of(parts)
    return None if mu is None else Bounds(delta_of(mu.lower, asked.at).lower, delta_of(mu.upper, asked.at).upper)


def delta_of(mu: float, epsilon: float) -> Bounds:
    """Around delta of mu-Gaussian DP at `epsilon` of either sign, apart by rounding alone; mu > 0."""
    if epsilon < 0:
        # delta(-e) = 1 - exp(-e) + exp(-e) delta(e): the pair is symmetric.
        low, high = (-math.expm1(epsilon) + math.exp(epsilon) * side for side in delta_of(mu, -epsilon))
        return Bounds(low * (1 - 4 * _EPS), min(1.0, high * (1 + 4 * _EPS)))
    value, error = delta_gdp(epsilon, mu), relative_error(mu / 2 - epsilon / mu, mu)
    # Epsilon only lowers delta: at 0 it is an error function, without cancellation.
    most = math.erf(mu / math.sqrt(8)) * (1 + _ROUNDING)
    return Bounds(max(0.0, value * (1 - error)), min(1.0, most, value * (1 + error) + 1e-300))


def epsilon_of(mu: float, delta: float) -> Bounds:
    """Around the epsilon of mu-Gaussian DP at `delta`, apart by rounding alone."""
    upper = eps_gdp(mu, delta)
    if delta_of(mu, 0.0).lower <= delta:
        return Bounds(0.0, upper)
    low, high = 0.0, upper
    while high - low > _ROUNDING * high:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if delta_of(mu, middle).lower >= delta:
            low = middle
        else:
            high = middle
    return Bounds(low * (1 - _ROUNDING), upper)

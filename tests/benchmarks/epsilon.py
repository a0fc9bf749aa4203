"""Epsilon, and the noise for an epsilon, of random settings: ours against dp_accounting's PLD, in turns, one thread.

    python -m tests.benchmarks.epsilon [--settings 200] [--seed 0]
    python -m tests.benchmarks.epsilon --calibrate --settings 10

Epsilons are measured against the middle of a certified interval at a tenth of the tolerance. Calibrating, both solve
epsilon(noise) = target; ours starts cold. dp_accounting stops at a noise tolerance of 1e-3 relative to our answer, is
handed a bracket of 0.7 to 1.4 times that answer, and counts our answer again.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import math
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import dp_accounting
import numpy as np
import typer
from dp_accounting.pld import PLDAccountant as TheirPLD
from dp_accounting.pld import privacy_loss_distribution as theirs

from dpcore import calibrate
from dpcore.accountants.pld import accountant as routes
from dpcore.accountants.pld.pairs import Asked, SampledGaussianPair
from dpcore.accountants.pld.saddle_point import direction_at_delta
from dpcore.accounting import TOLERANCE

THEIR_INTERVAL = 1e-4
THEIR_LARGEST_GRID = 20_000_000
"""Their grid of losses would not fit in memory beyond this; such settings are counted apart."""
SETTINGS = (1e-4, 0.4, 1, 1e-12), (0.1, 20, 1e6, 1e-3)
"""Ends of rate, sigma, steps and delta, each drawn on a logarithmic scale."""
TARGETS = (0.5, 1e-8, 1e-3, 100), (8, 1e-4, 0.05, 20_000)
"""Ends of epsilon, delta, rate and steps."""


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and its processor seconds."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def epsilons(rate: float, sigma: float, steps: int, delta: float) -> tuple[float, float, float, float] | None:
    """(our seconds, theirs, our relative error, theirs) of one setting; None where it is too large for them."""
    parts = ((SampledGaussianPair(rate, sigma), steps),)
    routes.forget()
    ours, mine = timed(lambda: routes.epsilon_bounds(parts, delta, TOLERANCE))
    spread = direction_at_delta(parts, Asked(delta), 1e-8 * delta / steps, forward=True).saddle.spread
    if 20 * spread / THEIR_INTERVAL > THEIR_LARGEST_GRID:
        return None

    def peer() -> float:
        one = theirs.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=THEIR_INTERVAL, use_connect_dots=True
        )
        return float(one.self_compose(steps).get_epsilon_for_delta(delta))

    other, seconds = timed(peer)
    exact = routes.epsilon_bounds(parts, delta, 0.1 * TOLERANCE) if ours.upper > 1e-6 else ours
    truth = 0.5 * (exact.lower + exact.upper)
    errors = (ours.upper / truth - 1, abs(other / truth - 1)) if truth > 1e-3 else (math.nan, math.nan)
    return mine, seconds, *errors


def noises(epsilon: float, delta: float, rate: float, steps: int) -> tuple[float, float]:
    """Seconds of both to the noise of one target; prints how far each answer stays from it."""
    routes.forget()
    target = calibrate.Target(epsilon=epsilon, delta=delta)
    ours, mine = timed(lambda: calibrate.noise_multiplier(target, rate=rate, steps=steps))

    def event(noise: float) -> Any:
        step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        return dp_accounting.SelfComposedDpEvent(step, steps)

    bracket = dp_accounting.ExplicitBracketInterval(0.7 * ours, 1.4 * ours)
    solve = dp_accounting.calibrate_dp_mechanism
    peer, other = timed(lambda: solve(TheirPLD, event, epsilon, delta, bracket, tol=TOLERANCE * ours))
    recounted = TheirPLD().compose(event(ours)).get_epsilon(delta) / epsilon
    print(
        f"epsilon {epsilon:.3g} delta {delta:.2g} rate {rate:.3g} steps {steps:>6}: noise {ours:.5g} (theirs "
        f"{peer:.5g}), {1e3 * mine:.1f} ms against {other:.2f} s = {other / mine:.0f}x; theirs recounts {recounted:.5f}"
    )
    return mine, other


def main(settings: int = 200, seed: int = 0, calibrate: bool = False) -> None:
    rng = np.random.default_rng(seed)
    low, high = TARGETS if calibrate else SETTINGS
    drawn = [np.exp(rng.uniform(np.log(low), np.log(high))).tolist() for _ in range(settings)]
    print(f"dp_accounting {version('dp_accounting')}, tolerance {TOLERANCE:g}")
    routes.epsilon_bounds(((SampledGaussianPair(0.01, 1.0), 10),), 1e-5, TOLERANCE)
    if calibrate:
        found = [noises(epsilon, delta, rate, int(steps)) for epsilon, delta, rate, steps in drawn]
        mine, other = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"ratio of medians {other / mine:.0f}; at 100,000 steps:")
        noises(2.0, 1e-5, 0.01, 100_000)
        return
    rows = [epsilons(rate, sigma, int(steps), delta) for rate, sigma, steps, delta in drawn]
    table = np.array([row for row in rows if row is not None])
    print(f"{len(table)} settings, {rows.count(None)} too large for it")
    for name, pair in (("seconds", table[:, :2]), ("relative error", table[:, 2:])):
        for word, figure in (("median", np.nanmedian), ("sum", np.nansum), ("largest", np.nanmax)):
            a, b = figure(pair, axis=0)
            print(f"{name:15} {word:8} ours {a:.3g}, theirs {b:.3g}: {b / a:.0f}x")


if __name__ == "__main__":
    typer.run(main)

"""Calibrating the noise multiplier: ours against dp_accounting's PLD at the same relative tolerance, interleaved.

    python -m tests.benchmarks.calibration [--settings 10] [--seed S]

Both solve epsilon(noise) = target for random (epsilon, delta, rate, steps); ours starts cold (its caches are cleared).
dp_accounting (calibrate_dp_mechanism with PLDAccountant) gets its default discretisation of 1e-4 and stops at a
noise tolerance of 1e-3 relative to our answer, and is handed a bracket of 0.7 to 1.4 times that answer. Each of our
answers is counted again by dp_accounting.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import statistics
import time
from importlib.metadata import version
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant as TheirPLD

from dpcore import calibrate
from dpcore.accountants.pld import routes
from dpcore.accountants.registry import TOLERANCE

LOW, HIGH = (0.5, 1e-8, 1e-3, 100), (8, 1e-4, 0.05, 20_000)
"""Ends of epsilon, delta, rate and steps, each drawn on a logarithmic scale."""


def their_event(noise: float, rate: float, steps: int) -> Any:
    """The same event in dp_accounting's words."""
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def measure(epsilon: float, delta: float, rate: float, steps: int) -> tuple[float, float]:
    """Seconds of both for one setting; prints how far each answer stays from its target."""
    target = calibrate.Target(epsilon=epsilon, delta=delta)
    routes.forget()
    start = time.perf_counter()
    ours = calibrate.noise_multiplier(target, rate=rate, steps=steps)
    mine = time.perf_counter() - start
    start = time.perf_counter()
    theirs = dp_accounting.calibrate_dp_mechanism(
        TheirPLD,
        lambda noise: their_event(noise, rate, steps),
        epsilon,
        delta,
        dp_accounting.ExplicitBracketInterval(0.7 * ours, 1.4 * ours),
        tol=TOLERANCE * ours,
    )
    other = time.perf_counter() - start
    recounted = TheirPLD().compose(their_event(ours, rate, steps)).get_epsilon(delta) / epsilon
    print(
        f"epsilon {epsilon:.3g} delta {delta:.2g} rate {rate:.3g} steps {steps:>6}: noise {ours:.5g} (theirs "
        f"{theirs:.5g}), {1e3 * mine:.1f} ms against {other:.2f} s = {other / mine:.0f}x; theirs recounts "
        f"{recounted:.5f}",
        flush=True,
    )
    return mine, other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    calibrate.noise_multiplier(calibrate.Target(epsilon=1.0, delta=1e-5), rate=0.5, steps=3)
    print(f"dp_accounting {version('dp_accounting')}, tolerance {TOLERANCE:g}")
    rows = []
    for _ in range(options.settings):
        epsilon, delta, rate, steps = np.exp(rng.uniform(np.log(LOW), np.log(HIGH))).tolist()
        rows.append(measure(epsilon, delta, rate, int(steps)))
    mine, other = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"ratio of medians {other / mine:.0f}; at 100,000 steps:")
    measure(2.0, 1e-5, 0.01, 100_000)


if __name__ == "__main__":
    main()

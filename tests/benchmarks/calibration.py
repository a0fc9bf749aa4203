"""Calibrating the noise multiplier: ours against dp_accounting's PLD at the same relative tolerance, interleaved.

    python -m tests.benchmarks.calibration [--settings N] [--seed S] [--cpu] [--json FILE]

Both solve epsilon(noise) = target for random (epsilon, delta, rate, steps); ours starts cold (its caches are cleared).
dp_accounting (calibrate_dp_mechanism with PLDAccountant) gets its default discretisation of 1e-4 and stops at a
noise tolerance of 1e-3 relative to our answer, and is handed a bracket of 0.7 to 1.4 times that answer. Each of our
answers is counted again by dp_accounting.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant as TheirPLD

from dpcore import calibrate
from dpcore.accountants.pld import routes
from dpcore.accountants.registry import TOLERANCE


def random_setting(generator: np.random.Generator) -> tuple[float, float, float, int]:
    """epsilon 0.5..8, delta 1e-8..1e-4, rate 1e-3..0.05, steps 100..20,000, each on a logarithmic scale."""

    def log_uniform(low: float, high: float) -> float:
        return float(np.exp(generator.uniform(np.log(low), np.log(high))))

    return log_uniform(0.5, 8), log_uniform(1e-8, 1e-4), log_uniform(1e-3, 0.05), int(log_uniform(100, 20_000))


def their_event(noise: float, rate: float, steps: int) -> Any:
    """The same event in dp_accounting's words."""
    step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def measure(clock: Callable[[], float], epsilon: float, delta: float, rate: float, steps: int) -> dict[str, float]:
    """Seconds of both for one setting, and how far each answer stays from its target."""
    target = calibrate.Target(epsilon=epsilon, delta=delta)
    routes.forget()
    start = clock()
    ours = calibrate.noise_multiplier(target, rate=rate, steps=steps)
    ours_seconds = clock() - start
    start = clock()
    theirs = dp_accounting.calibrate_dp_mechanism(
        TheirPLD,
        lambda noise: their_event(noise, rate, steps),
        epsilon,
        delta,
        dp_accounting.ExplicitBracketInterval(0.7 * ours, 1.4 * ours),
        tol=TOLERANCE * ours,
    )
    theirs_seconds = clock() - start
    recounted = TheirPLD().compose(their_event(ours, rate, steps)).get_epsilon(delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "rate": rate,
        "steps": steps,
        "noise": ours,
        "noise_theirs": theirs,
        "seconds": ours_seconds,
        "seconds_theirs": theirs_seconds,
        "ratio": theirs_seconds / ours_seconds,
        "recounted_by_them": recounted / epsilon,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=10)
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, not wall time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    generator = np.random.default_rng(arguments.seed)
    settings = [random_setting(generator) for _ in range(arguments.settings)] + [(2.0, 1e-5, 0.01, 100_000)]
    calibrate.noise_multiplier(calibrate.Target(epsilon=1.0, delta=1e-5), rate=0.5, steps=3)
    rows = []
    print(f"dp_accounting {version('dp_accounting')}, tolerance {TOLERANCE:g}")
    for setting in settings:
        row = measure(time.process_time if arguments.cpu else time.perf_counter, *setting)
        rows.append(row)
        print(
            f"epsilon {row['epsilon']:.3g} delta {row['delta']:.2g} rate {row['rate']:.3g} steps {row['steps']:>6}: "
            f"noise {row['noise']:.5g} (theirs {row['noise_theirs']:.5g}), {1e3 * row['seconds']:.1f} ms against "
            f"{row['seconds_theirs']:.2f} s = {row['ratio']:.0f}x; theirs recounts {row['recounted_by_them']:.5f}",
            flush=True,
        )
    random = rows[:-1]
    summary = {
        "ratio_of_medians": statistics.median(row["seconds_theirs"] for row in random)
        / statistics.median(row["seconds"] for row in random),
        "ratio_at_100000_steps": rows[-1]["ratio"],
    }
    print(", ".join(f"{name} {value:.0f}" for name, value in summary.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps({"summary": summary, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()

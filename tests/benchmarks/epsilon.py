"""Epsilon of random settings: ours against dp_accounting's PLD, interleaved, one thread.

    python -m tests.benchmarks.epsilon [--settings 200] [--seed 0]

Both are measured against the middle of a certified interval at a tenth of the tolerance.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import math
import random
import statistics
import time
from importlib.metadata import version

from dp_accounting.pld import privacy_loss_distribution as theirs

from dpcore.accountants.pld import routes
from dpcore.accountants.pld.bounds import Asked
from dpcore.accountants.pld.pairs import SampledGaussianPair
from dpcore.accountants.pld.saddle_point import direction_at_delta
from dpcore.accountants.registry import TOLERANCE

THEIR_INTERVAL = 1e-4
THEIR_LARGEST_GRID = 20_000_000
"""Their grid of losses would not fit in memory beyond this; such settings are counted apart."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(draw.uniform(math.log(low), math.log(high)))

    seconds: list[tuple[float, float]] = []
    errors: list[tuple[float, float]] = []
    too_large = 0
    routes.epsilon_bounds(((SampledGaussianPair(0.01, 1.0), 10),), 1e-5, TOLERANCE)
    for _ in range(options.settings):
        rate, sigma = log_uniform(1e-4, 0.1), log_uniform(0.4, 20)
        steps, delta = int(log_uniform(1, 1e6)), log_uniform(1e-12, 1e-3)
        parts = ((SampledGaussianPair(rate, sigma), steps),)
        routes.forget()
        start = time.process_time()
        ours = routes.epsilon_bounds(parts, delta, TOLERANCE)
        mine = time.process_time() - start
        spread = direction_at_delta(parts, Asked(delta), 1e-8 * delta / steps, forward=True).saddle.spread
        if 20 * spread / THEIR_INTERVAL > THEIR_LARGEST_GRID:
            too_large += 1
            continue
        start = time.process_time()
        peer = theirs.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=THEIR_INTERVAL, use_connect_dots=True
        )
        other = peer.self_compose(steps).get_epsilon_for_delta(delta)
        seconds.append((mine, time.process_time() - start))
        exact = routes.epsilon_bounds(parts, delta, 0.1 * TOLERANCE) if ours.upper > 1e-6 else ours
        truth = 0.5 * (exact.lower + exact.upper)
        if truth > 1e-3:
            errors.append((ours.upper / truth - 1, abs(other / truth - 1)))
    print(f"dp_accounting {version('dp-accounting')}: {len(seconds)} settings, {too_large} too large for it")
    for name, rows in (("seconds", seconds), ("relative error", errors)):
        one, two = (list(column) for column in zip(*rows, strict=True))
        for word, figure in (("median", statistics.median), ("sum", sum), ("largest", max)):
            a, b = figure(one), figure(two)
            print(f"{name:15} {word:8} ours {a:.3g}, theirs {b:.3g}: {b / a:.0f}x")


if __name__ == "__main__":
    main()

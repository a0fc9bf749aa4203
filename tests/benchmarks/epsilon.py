"""Epsilon of random settings: ours against dp_accounting's PLD, interleaved, one thread.

python -m tests.benchmarks.epsilon [--settings 200] [--seed 0] [--json FILE] [--tolerance 1e-3] [--cpu]
    [--matched] [--grid]
Both are measured against the middle of a certified interval at a tenth of the tolerance. With --grid that interval has
to overlap the one that a grid of losses alone certifies (`disagreements`), which shares neither grid nor transform with
the sums over frequencies that tell most settings.
Equal or smaller error: median and largest relative error both at most theirs, and in --matched mode theirs is refined,
setting by setting, until it is within the tolerance.
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import math
import random
import statistics
import time
from functools import reduce
from importlib.metadata import version
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as theirs

from dpcore.accountants.pld import Bounds, ToleranceNotReached, grid, routes
from dpcore.accountants.pld.bounds import Asked, of_larger
from dpcore.accountants.pld.pairs import Parts, SampledGaussianPair, tail_for
from dpcore.accountants.pld.saddle_point import direction_at_delta

THEIR_LARGEST_GRID = 20_000_000
"""Their grid of losses, 1e-4 apart, would not fit in memory beyond this; such settings are counted apart."""


def by_grid_alone(parts: Parts, delta: float, tolerance: float) -> Bounds | None:
    """The interval that a grid of losses certifies in both directions; None where it would grow too large."""
    asked, tail = Asked(delta, tolerance), tail_for(delta, parts)
    both = (direction_at_delta(parts, asked, tail, forward=forward) for forward in (True, False))
    try:
        return reduce(of_larger, map(grid.epsilon_bounds, both))
    except ToleranceNotReached:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--matched", action="store_true", help="refine their grid to the tolerance")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time, not wall time")
    parser.add_argument("--grid", action="store_true", help="also certify every setting by a grid of losses alone")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    rng = random.Random(arguments.seed)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    rows: list[dict[str, Any]] = []
    failures = violations = too_large = disagreements = without_grid = 0
    routes.epsilon_bounds(((SampledGaussianPair(0.01, 1.0), 10),), 1e-5, arguments.tolerance)
    for _ in range(arguments.settings):
        q, s = log_uniform(1e-4, 0.1), log_uniform(0.4, 20)
        steps, delta = int(log_uniform(1, 1e6)), log_uniform(1e-12, 1e-3)
        parts = ((SampledGaussianPair(q, s), steps),)
        routes.forget()
        start = clock()
        ours = routes.epsilon_bounds(parts, delta, arguments.tolerance)
        ours_seconds = clock() - start
        failures += not (0 <= ours.lower <= ours.upper < math.inf)
        reference = routes.epsilon_bounds(parts, delta, 0.1 * arguments.tolerance) if ours.upper > 1e-6 else ours
        truth = 0.5 * (reference.lower + reference.upper)
        grid = by_grid_alone(parts, delta, arguments.tolerance) if arguments.grid else None
        without_grid += grid is None
        if grid is not None:
            disagreements += not (
                grid.lower <= reference.upper * (1 + 1e-9) and reference.lower <= grid.upper * (1 + 1e-9)
            )
        row: dict[str, Any] = {
            "rate": q,
            "noise_multiplier": s,
            "steps": steps,
            "delta": delta,
            "ours": list(ours),
            "truth": truth,
        }
        row |= {"ours_seconds": ours_seconds}
        spread = direction_at_delta(parts, Asked(delta), 1e-8 * delta / steps, forward=True).saddle.spread
        if 20 * spread / 1e-4 > THEIR_LARGEST_GRID:
            too_large += 1
        else:
            interval = 1e-4
            while True:
                start = clock()
                pld = theirs.from_gaussian_mechanism(
                    s, sampling_prob=q, value_discretization_interval=interval, use_connect_dots=True
                ).self_compose(steps)
                row["theirs"] = pld.get_epsilon_for_delta(delta)
                row["theirs_seconds"] = clock() - start
                enough = abs(row["theirs"] - truth) <= arguments.tolerance * max(truth, 1e-3)
                if enough or not arguments.matched or 20 * spread / (interval / 4) > THEIR_LARGEST_GRID:
                    break
                interval /= 4
            low = theirs.from_gaussian_mechanism(s, sampling_prob=q, pessimistic_estimate=False, use_connect_dots=False)
            # At tiny delta their own round-off exceeds the bound that they do not charge it to.
            if delta > 1e-9:
                violations += low.self_compose(steps).get_epsilon_for_delta(delta) > ours.upper * (1 + 1e-9)
        rows.append(row)
    compared = [row for row in rows if "theirs" in row]
    meaningful = [row for row in compared if row["truth"] > 1e-3]
    mine, other = ([row[f"{who}_seconds"] for row in compared] for who in ("ours", "theirs"))
    mine_error = [(row["ours"][1] - row["truth"]) / row["truth"] for row in meaningful]
    other_error = [abs(row["theirs"] - row["truth"]) / row["truth"] for row in meaningful]
    summary = {
        "peer": f"dp_accounting {version('dp-accounting')}",
        "settings": len(rows),
        "ratio_of_medians": statistics.median(other) / statistics.median(mine),
        "ratio_of_totals": sum(other) / sum(mine),
        "median_ms": [1e3 * statistics.median(mine), 1e3 * statistics.median(other)],
        "median_relative_error": [statistics.median(mine_error), statistics.median(other_error)],
        "max_relative_error": [max(mine_error), max(other_error)],
        "share_with_no_larger_error": statistics.mean(a <= b for a, b in zip(mine_error, other_error, strict=True)),
        "failures": failures,
        "disagreements": disagreements,
        "without_grid": without_grid,
        "below_their_lower_bound": violations,
        "too_large_for_peer": too_large,
    }
    for name, value in summary.items():
        print(f"{name:28} {value}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"summary": summary, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

"""Is the chosen trial as good as it is said to be? `python -m tests.benchmarks.chosen`

300 sweeps of 12 trials for each row. Truth: accuracies of recorded noisy-sgd trials (`tests.benchmarks.surfaces`), one
budget a sweep. Seen: what `trainables.validation` reports of n private validation records, its noise solved for epsilon
1 at delta 1e-5 in parallel with training; the trials of a sweep share their records, and a hard record is hard for all.

    regret     true score of the best trial minus that of the chosen one
    overstated announced minus true score of the chosen trial
    errors     the same in standard errors of the raw score, averaged: within 1 is asked of the shrunk one
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import norm

from dpcore.mechanisms.noisy_histogram import NoisyHistogram, mean, noise_for
from sweeps.reporting.front import shrink
from tests.benchmarks.surfaces.surface import rows

SWEEPS, TRIALS = 300, 12
RECORDS = (500, 1_600, 10_000)
SETS = ("digits", "adult", "mnist")
BUDGETS = (1.0, 2.0, 4.0, 8.0)
COMMON = 0.7
"""Correlation, between trials, of how hard a record is."""

Floats = NDArray[np.float64]


def seen(true: Floats, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Reported accuracies of trials of these true ones on n records, and their standard errors."""
    hard = np.sqrt(COMMON) * rng.standard_normal(n) + np.sqrt(1 - COMMON) * rng.standard_normal((len(true), n))
    right = (hard < norm.ppf(true)[:, None]).sum(1)
    weights = np.repeat([0.0, 1.0], 13)
    histogram = NoisyHistogram(cells=len(weights), noise_multiplier=noise_for(1.0, 1e-5, 1))
    found = []
    for count in right:
        # Which bin of the loss a record falls into is nothing to the accuracy.
        counts = np.zeros(len(weights))
        counts[0], counts[-1] = n - count, count
        counts += histogram.deviation * rng.standard_normal(len(counts))
        found.append(mean(counts, weights, (n / 2, 2 * n), histogram.deviation).clipped(0.0, 1.0))
    scores = np.array([one.value for one in found])
    noise = np.array([one.standard_error for one in found])
    return scores, np.hypot(noise, np.sqrt(scores * (1 - scores) / n))


def compare(data: str, n: int, rng: np.random.Generator) -> dict[str, tuple[float, float, float]]:
    """{raw or shrunk: (regret, overstated, errors)}, over `SWEEPS` sweeps."""
    recorded = rows(data)
    of = {
        budget: np.array([row["accuracy"] for row in recorded if row["target_epsilon"] == budget]) for budget in BUDGETS
    }
    found: dict[str, list[tuple[float, float, float]]] = {"raw": [], "shrunk": []}
    for number in range(SWEEPS):
        true = np.clip(rng.choice(of[BUDGETS[number % len(BUDGETS)]], TRIALS, replace=False), 0.01, 0.99)
        scores, errors = seen(true, n, rng)
        for name, announced in (("raw", scores), ("shrunk", shrink(scores, errors)[0])):
            chosen = int(np.argmax(announced))
            over = float(announced[chosen] - true[chosen])
            found[name].append((float(true.max() - true[chosen]), over, over / float(errors[chosen])))
    return {name: tuple(map(float, np.mean(values, axis=0))) for name, values in found.items()}  # type: ignore[misc]


def main() -> None:
    table = Table(title=f"the chosen of {TRIALS} trials, mean of {SWEEPS} sweeps: raw / shrunk")
    for column in ("data", "n", "regret", "overstated", "errors"):
        table.add_column(column, justify="left" if column == "data" else "right")
    rng = np.random.default_rng(0)
    for data in SETS:
        for n in RECORDS:
            found = compare(data, n, rng)
            pairs = zip(found["raw"], found["shrunk"], strict=True)
            table.add_row(data, f"{n:,}", *(f"{raw:.4f} / {shrunk:.4f}" for raw, shrunk in pairs))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

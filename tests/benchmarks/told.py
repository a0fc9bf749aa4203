"""Does a Gaussian process that is told how noisy its scores are find better trials? `python -m tests.benchmarks.told`

120 sweeps of 20 trials for each row, over smooth surfaces of accuracy in two hyperparameters. Optuna's GPSampler fits
the noise of its observations itself; told, it has the known variance as the least that it may fit, or sees the scores
shrunk (`sweeps.reporting.front`) in place of the raw ones. Each row is against the sampler that is told nothing, on
the same surfaces with the same noise.

    regret  the best accuracy there is minus the true one of the trial that is chosen by shrunk scores
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, FloatDistribution
from rich.console import Console
from rich.table import Table

from sweeps.reporting.front import shrink

SWEEPS, TRIALS, RANDOM = 120, 20, 6
ERRORS = (0.015, 0.04)
"""Standard errors of an accuracy near .85: about 600 and 80 records without noise, or more with it."""
SPACE: dict[str, BaseDistribution] = {"a": FloatDistribution(0, 1), "b": FloatDistribution(0, 1)}

Floats = NDArray[np.float64]


def surface(rng: np.random.Generator) -> tuple[Callable[[Floats], float], float]:
    """A ridge with its top inside the square, and the accuracy there."""
    centre, steep, top = rng.uniform(0.25, 0.75, 2), rng.uniform(2, 8, 2), float(rng.uniform(0.75, 0.95))

    def accuracy(point: Floats) -> float:
        off = point - centre
        return top - min(0.5, 0.5 * float(steep @ off**2 + 1.5 * off[0] * off[1]))

    return accuracy, top


def regret(seed: int, error: float, told: str) -> float:
    """Of one sweep."""
    (accuracy, top), noise = surface(np.random.default_rng(seed)), np.random.default_rng(seed + 10**6)
    points, scores, true = list[dict[str, float]](), np.zeros(0), list[float]()
    for number in range(TRIALS):
        sampler = optuna.samplers.GPSampler(seed=seed * 1000 + number, n_startup_trials=RANDOM)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        if told == "floor" and number >= RANDOM:
            # Scores are standardised before the process is fitted.
            sampler._minimum_noise = float(np.clip(0.5 * error**2 / max(scores.var(), 1e-12), 1e-6, 0.5))
        shown = shrink(scores, np.full(number, error))[0] if told == "shrunk" and number else scores
        study.add_trials(
            optuna.trial.create_trial(params=point, distributions=SPACE, value=float(value))
            for point, value in zip(points, shown, strict=True)
        )
        points.append(study.ask(SPACE).params)
        true.append(accuracy(np.array([points[-1]["a"], points[-1]["b"]])))
        scores = np.append(scores, true[-1] + error * noise.standard_normal())
    return top - true[int(np.argmax(shrink(scores, np.full(TRIALS, error))[0]))]


def main() -> None:
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    table = Table(title=f"regret, mean of {SWEEPS} sweeps of {TRIALS} trials")
    for column in ("error of a score", "told nothing", "told the floor", "told shrunk scores"):
        table.add_column(column, justify="right")
    for error in ERRORS:
        found = {
            told: np.array([regret(seed, error, told) for seed in range(SWEEPS)]) for told in ("", "floor", "shrunk")
        }
        beside = [found[told] - found[""] for told in ("floor", "shrunk")]
        differences = [f"{one.mean():+.4f} ± {one.std() / np.sqrt(SWEEPS):.4f}" for one in beside]
        table.add_row(f"{error}", f"{found[''].mean():.4f}", *differences)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()

"""What each recipe of noisy-sgd gains or loses over plain SGD, under the same budgets and with as many trials.

    python -m tests.benchmarks.recipes --data DIR    # DIR holds the folders mnist, a9a and imdb; an hour

Per data set, budget and seed, each recipe gets the same number of random trials over its learning rate and, where it
has one, its clip norm. The trial that is best on one half of the validation records is judged on the other half; the
table has the mean over seeds with its standard error, and the difference from plain SGD with that of the pairs.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpcore.randomness import Streams
from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec
from trainables.data import SOURCES
from trainables.system import Dataset, PrivacyPlan, RunSettings, State, TrialRun
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.training.losses import answers

EPSILONS = (1.0, 3.0, 8.0)
DATA: dict[str, dict[str, Any]] = {
    "MNIST": {
        "data": {"source": "mnist", "limit": 20_000},
        "knobs": {"model": "mlp", "hidden": 32, "batch_size": 512, "epochs": 5},
        "rates": (1, 20),
        "clips": (0.3, 2),
    },
    "Adult": {
        "data": {"source": "adult"},
        "knobs": {"model": "linear", "batch_size": 1024, "epochs": 6},
        "rates": (1, 20),
        "clips": (0.3, 2),
    },
    "IMDb": {
        "data": {"source": "imdb"},
        "knobs": {"model": "embedding-pool", "hidden": 16, "batch_size": 512, "epochs": 5},
        # The gradients of mean embeddings are short.
        "rates": (20, 400),
        "clips": (0.02, 0.5),
    },
}
FOLDERS = {"MNIST": "mnist", "Adult": "a9a", "IMDb": "imdb"}


def recipes(rates: tuple[float, float], clips: tuple[float, float]) -> dict[str, dict[str, Any]]:
    """By name, over a range of plain SGD's learning rates and one of clip norms."""
    rate, low, high = {"log_uniform": list(rates)}, *rates
    plain: dict[str, Any] = {"learning_rate": rate, "clip_norm": {"log_uniform": list(clips)}}
    return {
        "plain SGD": plain,
        "momentum 0.9": {**plain, "optimizer": "momentum", "learning_rate": {"log_uniform": [low / 10, high / 10]}},
        "AdamW": {**plain, "optimizer": "adamw", "weight_decay": 0.01, "learning_rate": {"log_uniform": [0.002, 0.04]}},
        "cosine": {**plain, "learning_rate": {"peak": rate, "schedule": "cosine"}},
        "EMA 0.99": {**plain, "ema": 0.99},
        "automatic clip": {**plain, "clip_norm": "automatic"},
        "4 crops": {**plain, "augmentation": {"multiplicity": 4, "of": "crop"}},
    }


class Kept:
    """A run that keeps its last state."""

    state: State | None = None
    start_step = 0

    def __init__(self, plan: PrivacyPlan, seed: int) -> None:
        key = f"recipes-{seed}"
        self.member = TrialRun(key=key, attempt=1, seed=seed, plan=plan, from_step=0, to_step=plan.steps)
        self.streams = Streams(secret=seed.to_bytes(32, "big"), seed=seed, key=key, attempt=1)
        self.final: State = {}

    def reserve_until(self, until_step: int) -> None:
        pass

    def report(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        pass

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        self.final = state


def accuracies(plan: PrivacyPlan, data: Dataset, seed: int) -> tuple[float, float]:
    """Of one trial, on each half of the validation records."""
    run = Kept(plan, seed)
    NOISY_SGD.fit([run], data, RunSettings(checkpoint_seconds=1e9))
    model, right = NOISY_SGD.released_model(plan, data.facts, run.final), np.zeros(len(data.validation), dtype=bool)
    for rows, outputs in answers(model, data.validation, torch.device("cpu")):
        right[rows] = outputs.argmax(1).numpy() == data.validation.targets[rows]
    return float(right[::2].mean()), float(right[1::2].mean())


def best_of(spec: Any, epsilon: float, data: Dataset, seed: int, trials: int, calibrations: dict[str, float]) -> float:
    """Accuracy on the second half of the trial that is best on the first."""
    space, rng, found = Space.of(spec), np.random.default_rng(seed), []
    for number in range(trials):
        plan = plan_proposal(spec, space.draw(rng, ("noisy-sgd", epsilon)), data.facts, calibrations)
        assert isinstance(plan, PrivacyPlan), plan
        found.append(accuracies(plan, data, 1000 * (seed + 1) + number))
    return max(found)[1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--only", choices=DATA, nargs="*", default=list(DATA))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only:
        setting = DATA[name]
        source = {**setting["data"], "path": str(options.data / FOLDERS[name])}
        data = SOURCES[source.pop("source")].load(source)
        began, calibrations, plain = time.perf_counter(), dict[str, float](), dict[float, np.ndarray]()
        print(f"\n{name}: n={data.facts.n}, best of {options.trials} trials, {options.seeds} seeds, accuracy in %")
        print("| recipe | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in EPSILONS) + " |")
        print("|---" * (1 + len(EPSILONS)) + "|")
        for recipe, knobs in recipes(setting["rates"], setting["clips"]).items():
            if "augmentation" in knobs and name != "MNIST":
                continue
            spec = load_spec(
                {
                    "name": "recipes",
                    "data": {**setting["data"], "path": source["path"]},
                    "systems": {"noisy-sgd": {**setting["knobs"], **knobs}},
                    "privacy": {"epsilon": list(EPSILONS), "delta": 1e-5},
                    "objectives": [{"metric": "accuracy"}],
                    "search": {"sampler": "random", "trials": 1},
                }
            )
            cells = []
            for epsilon in EPSILONS:
                scores = 100 * np.array(
                    [best_of(spec, epsilon, data, seed, options.trials, calibrations) for seed in range(options.seeds)]
                )
                differences = scores - plain.setdefault(epsilon, scores)
                cell = f"{scores.mean():.2f} ± {_error(scores):.2f}"
                cells.append(
                    cell if recipe == "plain SGD" else f"{differences.mean():+.2f} ± {_error(differences):.2f}"
                )
            print(f"| {recipe} | " + " | ".join(cells) + " |", flush=True)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


if __name__ == "__main__":
    main()

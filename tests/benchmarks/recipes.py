"""What each recipe of noisy-sgd gains or loses over plain SGD, under the same budgets and with as many trials.

    python -m tests.benchmarks.recipes --data DIR    # DIR holds the folders mnist, a9a and imdb; an hour

Per data set, budget and seed, each recipe gets the same number of random trials over its learning rate and, where it
has one, its clip norm. The trial that is best on one half of the validation records is judged on the other half; the
table has the mean over seeds with its standard error, and the difference from plain SGD with that of the pairs.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer

from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.system import Dataset, PrivacyPlan, RunSettings
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.training.losses import answers

EPSILONS = (1.0, 3.0, 8.0)
DATA: dict[str, dict[str, Any]] = {
    "MNIST": {
        **{"source": "mnist", "options": {"limit": 20_000}, "folder": "mnist", "rates": (1, 20), "clips": (0.3, 2)},
        "knobs": {"model": "mlp", "hidden": 32, "batch_size": 512, "epochs": 5},
    },
    "Adult": {
        **{"source": "adult", "options": {}, "folder": "a9a", "rates": (1, 20), "clips": (0.3, 2)},
        "knobs": {"model": "linear", "batch_size": 1024, "epochs": 6},
    },
    # The gradients of mean embeddings are short.
    "IMDb": {
        **{"source": "imdb", "options": {}, "folder": "imdb", "rates": (20, 400), "clips": (0.02, 0.5)},
        "knobs": {"model": "embedding-pool", "hidden": 16, "batch_size": 512, "epochs": 5},
    },
}


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


def accuracies(plan: PrivacyPlan, data: Dataset, seed: int) -> tuple[float, float]:
    """Of one trial, on each half of the validation records."""
    run = memory_run(plan, seed=seed, key=f"recipes-{seed}", secret=seed.to_bytes(32, "big"))
    NOISY_SGD.fit([run], data, RunSettings(checkpoint_seconds=1e9))
    model, right = NOISY_SGD.released_model(plan, data.facts, run.final[1]), np.zeros(len(data.validation), dtype=bool)
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


def main(
    data: Annotated[Path, typer.Option()],
    seeds: int = 5,
    trials: int = 5,
    only: Annotated[list[str] | None, typer.Option()] = None,
) -> None:
    torch.set_num_threads(1)
    for name in only or DATA:
        setting = DATA[name]
        path = str(data / setting["folder"])
        records = SOURCES[setting["source"]].load({**setting["options"], "path": path})
        began, calibrations, plain = time.perf_counter(), dict[str, float](), dict[float, np.ndarray]()
        print(f"\n{name}: n={records.facts.n}, best of {trials} trials, {seeds} seeds, accuracy in %")
        print(f"| recipe | {' | '.join(f'epsilon {epsilon:g}' for epsilon in EPSILONS)} |")
        print("|---" * (1 + len(EPSILONS)) + "|")
        for recipe, knobs in recipes(setting["rates"], setting["clips"]).items():
            if "augmentation" in knobs and name != "MNIST":
                continue
            raw = {
                "name": "recipes",
                "data": {"source": setting["source"], **setting["options"], "path": path},
                "systems": {"noisy-sgd": {**setting["knobs"], **knobs}},
                "privacy": {"epsilon": list(EPSILONS), "delta": 1e-5},
                "objectives": [{"metric": "accuracy"}],
                "search": {"sampler": "random", "trials": 1},
            }
            spec, cells = load_spec(raw), []
            for epsilon in EPSILONS:
                best = [best_of(spec, epsilon, records, seed, trials, calibrations) for seed in range(seeds)]
                scores = 100 * np.array(best)
                shown, sign = (scores - plain[epsilon], "+") if epsilon in plain else (scores, "")
                plain.setdefault(epsilon, scores)
                cells.append(f"{shown.mean():{sign}.2f} ± {shown.std(ddof=1) / math.sqrt(seeds):.2f}")
            print(f"| {recipe} | {' | '.join(cells)} |", flush=True)
        print(f"({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    typer.run(main)

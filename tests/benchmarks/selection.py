"""Pricing a private selection for many configurations, and comparing the modes of a spec: processor time, one thread.

python -m tests.benchmarks.selection [--configurations 100] [--runs 3] [--json FILE]

cold  with nothing kept of an earlier question; warm: asked again in the same process, as by resuming or a second check
"""

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import sweeps
from dpcore.accountants.pld import routes
from dpcore.calibrate import Target, sampled_gaussian
from dpcore.selection import EventProfile, HeterogeneousTrials, geometric, heterogeneous_trials
from dpcore.selection.best import largest_excess
from sweeps.planning.plan import draws
from sweeps.search.space import Space
from sweeps.selection.compare import compared
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec import public_facts
from trainables.system import PrivacyPlan

SELECTED = {
    "privacy.scope": "sweep",
    "privacy.release": "best",
    "privacy.epsilon": 3.0,
    "objectives": [{"metric": "accuracy"}],
    "selection": {"deadline_minutes": 45},
    "search": {"sampler": "random", "trials": 81},
}


def seconds(of: Callable[[], Any], runs: int) -> dict[str, float]:
    """Medians over runs, each first cold and then warm."""
    cold: list[float] = []
    warm: list[float] = []
    for _ in range(runs):
        routes.forget()
        largest_excess.cache_clear()
        for found in (cold, warm):
            begun = time.process_time()
            of()
            found.append(time.process_time() - begun)
    return {"cold": statistics.median(cold), "warm": statistics.median(warm)}


def configurations(count: int) -> list[tuple[float, int]]:
    """(Rate, steps) of DP-SGD, log-uniform."""
    rng = random.Random(0)

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    return [(log_uniform(0.003, 0.05), int(log_uniform(200, 5000))) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rule = heterogeneous_trials(
        geometric(27), Target(epsilon=3.0, delta=1e-5), lambda noise: EventProfile(sampled_gaussian(noise, 0.01, 1000))
    )
    several = configurations(arguments.configurations)
    noises = [noise_of(rule, *one) for one in several]
    profiles = [EventProfile(sampled_gaussian(n, *one)) for n, one in zip(noises, several, strict=True)]
    out = {
        f"whether {len(several)} configurations of DP-SGD are covered by a price": seconds(
            lambda: [rule.covers(one) for one in profiles], arguments.runs
        ),
        f"the noise of {len(several)} configurations of DP-SGD under a price": seconds(
            lambda: [noise_of(rule, *one) for one in several], arguments.runs
        ),
        f"plans of {len(several)} draws of quickstart under a price": seconds(
            lambda: planned(arguments.configurations), arguments.runs
        ),
        "the modes of toy, compared": seconds(lambda: compared(sweeps.load("toy")), arguments.runs),
        "the modes of quickstart, compared": seconds(lambda: compared(sweeps.load("quickstart")), arguments.runs),
    }
    for name, found in out.items():
        print(f"{name}: {found['cold']:.3g} s cold, {found['warm']:.3g} s warm")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=2)


def noise_of(rule: HeterogeneousTrials, rate: float, steps: int) -> float:
    """The least noise of a configuration."""
    return rule.noise(lambda noise: EventProfile(sampled_gaussian(noise, rate, steps)))


def planned(count: int) -> int:
    """How many of so many draws have a plan."""
    spec = sweeps.load("quickstart", changes=SELECTED)
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec)))
    assert isinstance(planner, SealedPlanner)
    plans = [planner.plan(config) for config in draws(spec, Space.of(spec), count)]
    return sum(isinstance(one, PrivacyPlan) for one in plans)


if __name__ == "__main__":
    main()

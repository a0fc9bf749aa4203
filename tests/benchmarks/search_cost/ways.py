"""One epsilon, spent in three ways over one space: every way's trials are planned by the product.

    untuned  one trial, drawn from the space: all of the budget is its own
    all      ten trials that all leave, in equal parts of the budget (`scope: sweep, release: all`)
    best     a secret number of trials, geometric of mean 27, of which the best leaves (`release: best`)

The spaces are wide on purpose: who has tuned on such records before needs no search.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sweeps.planning.plan import plan_proposal
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec import SweepSpec, load_spec, public_facts
from trainables.system import Config, PrivacyPlan, Refusal

EPSILONS = (0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
SHARED, MEAN, MOST = 10, 27, 140
WAYS = ("untuned", "all", "best")
SETS = ("mnist", "adult")

_DATA: dict[str, dict[str, Any]] = {
    "mnist": {
        "source": "mnist",
        "validation": {"records": "private", "share": 0.1},
        "test": {"records": "public"},
        "features": "scattering",
        "features_groups": 27,
    },
    "adult": {"source": "adult"},
}
_KNOBS: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "linear",
        "momentum": 0.9,
        "batch_size": {"int_log_uniform": [512, 4096]},
        "epochs": {"int_uniform": [4, 24]},
        "learning_rate": {"log_uniform": [0.1, 10]},
        "clip_norm": {"log_uniform": [0.01, 1]},
    },
    "adult": {
        "model": {"choice": ["linear", "mlp"]},
        "hidden": 16,
        "batch_size": {"int_log_uniform": [128, 2048]},
        "epochs": {"log_uniform": [1, 16]},
        "learning_rate": {"log_uniform": [0.02, 20]},
        "clip_norm": {"log_uniform": [0.05, 5]},
    },
}


def spec_of(data: str, epsilon: float, way: str, folder: str) -> SweepSpec:
    """The sweep that somebody would run."""
    scope: dict[str, Any] = {} if way == "untuned" else {"scope": "sweep", "release": way}
    trials = {"untuned": 1, "all": SHARED, "best": MOST}[way]
    raw: dict[str, Any] = {
        "name": f"cost-{data}-{way}",
        "data": {**_DATA[data], "path": folder},
        "systems": {"noisy-sgd": _KNOBS[data]},
        "privacy": {"epsilon": epsilon, "delta": DELTA, **scope},
        "objectives": [{"metric": "accuracy"}],
        "search": {"sampler": "random", "trials": trials, "seed": 0},
    }
    if way == "best":
        raw["selection"] = {"mean": MEAN, "deadline_minutes": 600, "megabytes": 1}
    return load_spec(raw)


def planner(spec: SweepSpec) -> Callable[[Config], PrivacyPlan | Refusal]:
    """How a drawn configuration is planned."""
    facts, solved = public_facts(spec), dict[str, float]()
    if spec.selection is None:
        return lambda config: plan_proposal(spec, config, facts, solved)
    found = SealedPlanner.of(SealedPrior(spec, facts, solved))
    assert isinstance(found, SealedPlanner), found
    return found.plan

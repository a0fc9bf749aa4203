"""The recorded sweeps: noisy-sgd on three data sets, a linear model and one with a hidden layer, four budgets.

A trial is small on purpose, so that thousands of them can be recorded on one core. Each is trained to its end, and
reports at the ends of three rungs, as early stopping would have it.
"""

from __future__ import annotations

from typing import Any

from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec

MODELS = ("linear", "mlp")
BUDGETS = (1.0, 2.0, 4.0, 8.0)
TRIALS = 2000

_KNOBS: dict[str, dict[str, Any]] = {
    "digits": {
        "hidden": 32,
        "learning_rate": {"log_uniform": [0.02, 20.0]},
        "clip_norm": {"log_uniform": [0.05, 5.0]},
        "batch_size": {"int_log_uniform": [32, 512]},
        "epochs": {"log_uniform": [1.0, 16.0]},
    },
    "adult": {
        "hidden": 16,
        "learning_rate": {"log_uniform": [0.02, 20.0]},
        "clip_norm": {"log_uniform": [0.05, 5.0]},
        "batch_size": {"int_log_uniform": [128, 2048]},
        "epochs": {"log_uniform": [0.1, 2.0]},
    },
    "mnist": {
        "hidden": 16,
        "learning_rate": {"log_uniform": [0.02, 20.0]},
        "clip_norm": {"log_uniform": [0.05, 5.0]},
        "batch_size": {"int_log_uniform": [128, 2048]},
        "epochs": {"log_uniform": [0.1, 1.0]},
    },
}
_DATA: dict[str, dict[str, Any]] = {
    "digits": {},
    "adult": {"split": "test"},
    "mnist": {},
}
_DELTA = {"digits": 1e-4, "adult": 1e-5, "mnist": 1e-5}
SETS = tuple(_KNOBS)


def sweep(data: str, folder: str, models: tuple[str, ...] = MODELS, **sections: Any) -> SweepSpec:
    """The spec of a data set's recorded trials; `sections` replace those of the same name.

    folder  of the data files; digits needs none
    """
    options = _DATA[data] | ({} if data == "digits" else {"path": folder})
    raw: dict[str, Any] = {
        "name": f"surface-{data}",
        "data": {"source": data, **options},
        "systems": {"noisy-sgd": {"model": {"choice": list(models)}, **_KNOBS[data]}},
        "privacy": {"epsilon": list(BUDGETS), "delta": _DELTA[data]},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "random", "trials": TRIALS, "seed": 0, "stratified": True},
        "early_stopping": {"method": "asha", "reduction": 3, "rungs": 3},
    }
    return load_spec(raw | sections)

"""The spec of the recorded trials: noisy-sgd on three data sets, a linear model and one with a hidden layer.

A trial is small on purpose: 2000 of each set were planned and trained by the product, on one core. Each reported at the
ends of three rungs, as early stopping would have it. `trials.parquet` beside this file has a row of each.
"""

from __future__ import annotations

from typing import Any

from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec

BUDGETS = (1.0, 2.0, 4.0, 8.0)
TRIALS = 2000
_RATES: dict[str, Any] = {
    "model": {"choice": ["linear", "mlp"]},
    "learning_rate": {"log_uniform": [0.02, 20.0]},
    "clip_norm": {"log_uniform": [0.05, 5.0]},
}
_OWN: dict[str, dict[str, Any]] = {
    "digits": {"hidden": 32, "batch_size": [32, 512], "epochs": [1.0, 16.0]},
    "adult": {"hidden": 16, "batch_size": [128, 2048], "epochs": [0.1, 2.0]},
    "mnist": {"hidden": 16, "batch_size": [128, 2048], "epochs": [0.1, 1.0]},
}
SETS = tuple(_OWN)


def sweep(data: str, folder: str, **sections: Any) -> SweepSpec:
    """The spec of a data set's recorded trials; `sections` replace those of the same name.

    folder  of the data files; digits needs none
    """
    own, files = _OWN[data], {} if data == "digits" else {"path": folder}
    batch, epochs = {"int_log_uniform": own["batch_size"]}, {"log_uniform": own["epochs"]}
    raw: dict[str, Any] = {
        "name": f"surface-{data}",
        "data": {"source": data, **({"split": "test"} if data == "adult" else {}), **files},
        "systems": {"noisy-sgd": {**_RATES, "hidden": own["hidden"], "batch_size": batch, "epochs": epochs}},
        "privacy": {"epsilon": list(BUDGETS), "delta": 1e-4 if data == "digits" else 1e-5},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "random", "trials": TRIALS, "seed": 0, "stratified": True},
        "early_stopping": {"method": "asha", "reduction": 3, "rungs": 3},
    }
    return load_spec(raw | sections)

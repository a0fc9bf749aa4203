"""Hyperparameter sweeps for differentially private machine learning.

    import sweeps

    sweep = sweeps.run("quickstart", trials=8)
    sweep.front().table()
    print(sweep)

Each command of the command line is a call of these; nothing heavy is imported before one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweeps.face.budgets import budget, list_budgets
    from sweeps.face.glossary import explain
    from sweeps.face.opening import SweepWarning, check, init, list_sweeps, load, open, pareto, resume, run
    from sweeps.face.predicting import predict, predict_files
    from sweeps.face.sweep import Sweep

__all__ = [
    "Sweep",
    "SweepWarning",
    "budget",
    "check",
    "explain",
    "init",
    "list_budgets",
    "list_sweeps",
    "load",
    "open",
    "pareto",
    "predict",
    "predict_files",
    "resume",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sweeps.face import budgets, glossary, opening, predicting, sweep

    elsewhere = {"Sweep": sweep, "explain": glossary, "predict": predicting, "predict_files": predicting}
    return getattr((elsewhere | {"budget": budgets, "list_budgets": budgets}).get(name, opening), name)


def __dir__() -> Any:
    return sorted({*globals(), *__all__})

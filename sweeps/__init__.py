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
    from sweeps.face.budgets import list_budgets, population_budget
    from sweeps.face.certifying import new_key, verify
    from sweeps.face.glossary import explain
    from sweeps.face.opening import SweepWarning, check, init, list_sweeps, load, open, pareto, resume, run
    from sweeps.face.predicting import predict, predict_files
    from sweeps.face.sweep import Sweep

__all__ = [
    "Sweep",
    "SweepWarning",
    "check",
    "explain",
    "init",
    "list_budgets",
    "list_sweeps",
    "load",
    "new_key",
    "open",
    "pareto",
    "population_budget",
    "predict",
    "predict_files",
    "resume",
    "run",
    "verify",
]

_ROOMS = {
    "Sweep": "sweep",
    "explain": "glossary",
    "list_budgets": "budgets",
    "new_key": "certifying",
    "population_budget": "budgets",
    "predict": "predicting",
    "predict_files": "predicting",
    "verify": "certifying",
}
"""Where what is not in `sweeps.face.opening` is."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"sweeps.face.{_ROOMS.get(name, 'opening')}"), name)


def __dir__() -> Any:
    return sorted({*globals(), *__all__})

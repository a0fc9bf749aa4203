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
    from sweeps.api import (
        SweepWarning,
        check,
        init,
        list_budgets,
        list_sweeps,
        new_key,
        open,
        pareto,
        population_budget,
        predict,
        resume,
        run,
        verify,
    )
    from sweeps.examples import load
    from sweeps.progress import SweepProgress
    from sweeps.reporting.terminal import explain
    from sweeps.sweep import Sweep

__all__ = [
    "Sweep",
    "SweepProgress",
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
    "resume",
    "run",
    "verify",
]

_ELSEWHERE = {
    "Sweep": "sweeps.sweep",
    "SweepProgress": "sweeps.progress",
    "explain": "sweeps.reporting.terminal",
    "load": "sweeps.examples",
}
"""Where what is not in `sweeps.api` is."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ELSEWHERE.get(name, "sweeps.api")), name)


def __dir__() -> Any:
    return sorted({*globals(), *__all__})

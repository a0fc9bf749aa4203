"""Metrics of the user's own: `module:function` in `report` or in an objective.

The function is called as function(targets, scores) with what a released model says of public validation records, and
returns one finite number. Scores are probabilities [n, C] of classes, the expected class [n] of ratings, the predicted
value [n] of a regression. What it computes was read by nobody here: it is asserted by its module. No plan counts a
look of it at private records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.metrics import Dependence, Metric, Task

_TASKS = frozenset({Task.CLASSIFICATION, Task.RATING, Task.REGRESSION})


class NoFiniteNumber(ValueError):
    """What an own metric returned; the text quotes public records alone."""


def own_metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Those of `names` that are written as functions, by name. Imports nothing."""
    return {name: _described(name) for name in names if plugins.OBJECT.fullmatch(name)}


def _described(name: str) -> Metric:
    module, _, function = name.partition(":")
    return Metric(
        name=name,
        goal=None,
        doc=f"{function}(targets, scores) of the validation records, asserted by {module}: nobody read it here",
        released="the validation records (only where they are declared public) and the released model, as asserted by "
        f"{module}",
        depends=Dependence.VALIDATION,
        tasks=_TASKS,
    )


def check_had(path: str, name: str) -> None:
    """Imports it. Raises InvalidValue at `path` of a spec where there is no such function, or it may not run."""
    _function(path, name)


def own_value(name: str, targets: NDArray[np.generic], scores: NDArray[np.float64]) -> float:
    """What the function `name` makes of targets [n] and scores. Raises InvalidValue, NoFiniteNumber."""
    # Copies: what it does to them is seen by no other metric and no other trial.
    value = _function("metric", name)(targets.copy(), scores.copy())
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        kind = f"{type(value).__name__} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value)
        found = kind if isinstance(kind, str) else kind.__name__
        raise NoFiniteNumber(f"{name} returned a {found}: expected one finite number")
    if not math.isfinite(value):
        raise NoFiniteNumber(f"{name} returned {float(value)}: expected a finite number, for every model")
    return float(value)


def _function(path: str, name: str) -> Callable[..., Any]:
    remedy = "A metric of your own is a function of targets and scores that returns one number."
    found = plugins.brought(path, name, remedy, "a function")
    if not callable(found):
        raise InvalidValue(path, name, "a function of targets and scores", remedy)
    return found

"""How much each knob matters: permutation importance of a random forest, on trials that the forest has not seen.

Source  Breiman (2001), Machine Learning 45, section 10: how much the explained share of variance (R2) falls when one
        knob's column is shuffled. Held-out by cross-validation, so that a forest that has learnt nothing shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.privacy.release import Published
from sweeps.reporting.front import FrontAxis
from sweeps.store.records import DECIDED, SYSTEM

MIN_TRIALS = 20
MAX_TRIALS = 2000
FOLDS = 4
REPEATS = 8


@dataclass(frozen=True, slots=True)
class Importance:
    """One system and one objective.

    r2       share of the variance of held-out trials that the forest explains; at or below 0 it has learnt nothing
    by_knob  {knob: mean fall of r2 when it is shuffled}, largest first; empty when r2 is at or below 0
    reason   why there is no figure, else ""
    """

    system: str
    metric: str
    trials: int
    r2: float
    by_knob: Mapping[str, float]
    reason: str = ""


def importances(finished: Sequence[Published], objectives: Sequence[FrontAxis]) -> list[Importance]:
    """One per system and measured objective; what the plan decides (epsilon, work) is left out."""
    systems = dict.fromkeys(trial.system for trial in finished)
    return [
        _importance(system, one.metric, [trial for trial in finished if trial.system == system])
        for system in systems
        for one in objectives
        if one.metric not in DECIDED
    ]


def _importance(system: str, metric: str, finished: Sequence[Published]) -> Importance:
    usable = [trial for trial in finished if math.isfinite(trial.metrics.get(metric, math.nan))][-MAX_TRIALS:]
    names = list(dict.fromkeys(name for trial in usable for name in trial.config if name != SYSTEM))
    varied = [name for name in names if len({trial.config.get(name) for trial in usable}) > 1]
    target = np.array([trial.metrics[metric] for trial in usable])
    if len(usable) < MIN_TRIALS:
        return Importance(system, metric, len(usable), 0.0, {}, f"needs {MIN_TRIALS} finished trials")
    if not varied or np.ptp(target) == 0:
        return Importance(system, metric, len(usable), 0.0, {}, "no knob, or not the metric, varies")
    columns = np.stack([_column([trial.config.get(name) for trial in usable]) for name in varied], axis=1)
    r2, falls = _forest(columns, target)
    if r2 <= 0:
        return Importance(system, metric, len(usable), r2, {}, "the forest explains nothing of held-out trials")
    order = np.argsort(-falls)
    return Importance(system, metric, len(usable), r2, {varied[i]: float(falls[i]) for i in order})


def _forest(columns: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import KFold

    scores, falls = [], []
    for train, held_out in KFold(FOLDS, shuffle=True, random_state=0).split(columns):
        forest = RandomForestRegressor(n_estimators=60, min_samples_leaf=2, random_state=0)
        forest.fit(columns[train], target[train])
        scores.append(forest.score(columns[held_out], target[held_out]))
        unseen = columns[held_out], target[held_out]
        shuffled = permutation_importance(forest, *unseen, n_repeats=REPEATS, random_state=0)
        falls.append(shuffled.importances_mean)
    return float(np.mean(scores)), np.mean(falls, axis=0)


def _column(values: Sequence[object]) -> np.ndarray:
    """Numbers as they are (a forest needs no scale), where the knob is not there below all of them; anything else as
    codes in order of appearance."""
    there = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if there and len(there) + values.count(None) == len(values):
        return np.array([min(there) - 1.0 if value is None else value for value in values], dtype=float)
    codes = {value: code for code, value in enumerate(dict.fromkeys(map(str, values)))}
    return np.array([codes[str(value)] for value in values], dtype=float)

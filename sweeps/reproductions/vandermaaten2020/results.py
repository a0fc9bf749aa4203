"""Trials as points: one method at one setting, its mean accuracy over repeats."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sweeps.reproductions.vandermaaten2020.parts import MODELS

if TYPE_CHECKING:
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec

METHODS = {
    "loss-perturbation": "loss perturbation",
    "model-sensitivity": "model sensitivity",
    "noisy-sgd": "DP-SGD",
    "prediction-sensitivity": "prediction sensitivity",
    "subsample-and-aggregate": "subsample-and-aggregate",
}
WIDTH = 784


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Accuracy of one trial.

    part     name of its sweep without the paper's
    delta    0 for pure noise and standard composition, else that of the sweep
    others   the remaining knobs, over which the best mean is taken
    """

    part: str
    method: str
    delta: float
    epsilon: float
    queries: int
    n: int
    dimension: int
    classes: int
    models: int
    weight: float
    others: tuple[tuple[str, Any], ...]
    accuracy: float


def points_of(spec: SweepSpec, trials: Iterable[TrialRecord]) -> list[Point]:
    """The points of one sweep; trials without an accuracy (infeasible ones) have none."""
    from sweeps.spec import public_facts

    facts = public_facts(spec)
    dimension = int(spec.data.options().get("dimension", WIDTH))
    points = []
    for trial in trials:
        if "accuracy" not in trial.metrics:
            continue
        config = dict(trial.config)
        pure = config.get("noise") == "pure" or config.get("composition") == "standard"
        points.append(
            Point(
                part=spec.name.removeprefix("vandermaaten2020-"),
                method=METHODS[str(config["system"])],
                delta=0.0 if pure else spec.privacy.delta,
                epsilon=float(config["target_epsilon"]),
                queries=int(config.get("queries", 0)),
                n=facts.n,
                dimension=dimension,
                classes=facts.classes or 0,
                models=int(config.get("models", 0)),
                weight=float(config.get("regularisation", 0.0)),
                others=tuple((name, config[name]) for name in ("learning_rate", "clip_norm") if name in config),
                accuracy=float(trial.metrics["accuracy"]),
            )
        )
    return points


@dataclass(frozen=True, slots=True)
class Curve:
    """The best mean accuracy over regularisation (and the like) along one axis, with the standard deviation there."""

    label: str
    axis: tuple[float, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]

    def at(self, value: float) -> float | None:
        """The mean at one place of the axis; None where nothing was run."""
        return self.mean[self.axis.index(value)] if value in self.axis else None


def curve(
    points: Sequence[Point],
    label: str,
    axis: Callable[[Point], float],
    where: Callable[[Point], bool],
    *,
    chosen: bool = True,
) -> Curve:
    """Points that satisfy `where`, along `axis`. With `chosen`, knobs that are no axis take their best mean."""
    repeats: dict[tuple[float, Any], list[float]] = defaultdict(list)
    for point in points:
        if where(point):
            repeats[axis(point), (point.weight, point.others) if chosen else ()].append(point.accuracy)
    best: dict[float, tuple[float, float]] = {}
    for (place, _), values in repeats.items():
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((one - mean) ** 2 for one in values) / max(1, len(values) - 1))
        if place not in best or mean > best[place][0]:
            best[place] = (mean, spread)
    places = sorted(best)
    return Curve(label, tuple(places), tuple(best[one][0] for one in places), tuple(best[one][1] for one in places))


def by_method(
    points: Sequence[Point], axis: Callable[[Point], float], where: Callable[[Point], bool]
) -> dict[str, Curve]:
    """One curve for each method that has points where `where` holds."""
    curves = {
        method: curve([point for point in points if point.method == method], method, axis, where)
        for method in METHODS.values()
    }
    return {method: one for method, one in curves.items() if one.axis}


def default_votes(point: Point) -> bool:
    """Whether a vote is one of the usual number of models; true of every other method."""
    return point.models in (0, MODELS)

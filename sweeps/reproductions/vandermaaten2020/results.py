"""Trials as points: one method at one setting, its mean accuracy over repeats."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any

from sweeps.reproductions.vandermaaten2020.comparing import Estimate
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
    answers  how many answers the accuracy was taken over
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
    answers: int


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
                method=METHODS[trial.system],
                delta=0.0 if pure else spec.privacy.delta,
                epsilon=trial.target_epsilon or 0.0,
                queries=int(config.get("queries", 0)),
                n=facts.n,
                dimension=dimension,
                classes=facts.classes or 0,
                models=int(config.get("models", 0)),
                weight=float(config.get("regularisation", 0.0)),
                others=tuple((name, config[name]) for name in ("learning_rate", "clip_norm") if name in config),
                accuracy=float(trial.metrics["accuracy"]),
                answers=int(config.get("queries", facts.n_validation)),
            )
        )
    return points


@dataclass(frozen=True, slots=True)
class Curve:
    """The best mean accuracy over regularisation (and the like) along one axis.

    spread  standard deviation over the repeats; NaN of one run alone
    error   standard error of the mean: over the repeats, but no less than that of as many answers, which is all that
            one run has
    """

    label: str
    axis: tuple[float, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    error: tuple[float, ...]

    def at(self, value: float) -> float | None:
        """The mean at one place of the axis; None where nothing was run."""
        return self.mean[self.axis.index(value)] if value in self.axis else None

    def estimates(self) -> list[Estimate]:
        """The means with their errors, in the order of the axis."""
        return [Estimate(mean, error) for mean, error in zip(self.mean, self.error, strict=True)]

    def estimate(self, value: float) -> Estimate | None:
        """The mean at one place of the axis with its error; None where nothing was run."""
        return self.estimates()[self.axis.index(value)] if value in self.axis else None

    def only(self, places: Container[float]) -> Curve:
        """The part of the curve at these places."""
        kept = [i for i, place in enumerate(self.axis) if place in places]
        columns = (tuple(one[i] for i in kept) for one in (self.axis, self.mean, self.spread, self.error))
        return Curve(self.label, *columns)

    def level(self, value: float, places: tuple[float, ...]) -> Curve:
        """A horizontal line along other places, as high as this curve is at `value`."""
        index = self.axis.index(value)
        columns = ((one[index],) * len(places) for one in (self.mean, self.spread, self.error))
        return Curve(self.label, places, *columns)


def curve(
    points: Sequence[Point],
    label: str,
    axis: Callable[[Point], float],
    where: Callable[[Point], bool],
    *,
    chosen: bool = True,
) -> Curve:
    """Points that satisfy `where`, along `axis`. With `chosen`, knobs that are no axis take their best mean."""
    repeats: dict[tuple[float, Any], list[Point]] = defaultdict(list)
    for point in points:
        if where(point):
            repeats[axis(point), (point.weight, point.others) if chosen else ()].append(point)
    best: dict[float, tuple[float, float, float]] = {}
    for (place, _), group in repeats.items():
        values = [point.accuracy for point in group]
        mean = sum(values) / len(values)
        spread = stdev(values) if len(values) > 1 else math.nan
        of_answers = _binomial(mean, sum(point.answers for point in group))
        error = of_answers if math.isnan(spread) else max(spread / math.sqrt(len(values)), of_answers)
        if place not in best or mean > best[place][0]:
            best[place] = (mean, spread, error)
    places = sorted(best)
    columns = zip(*(best[place] for place in places), strict=True) if places else ((), (), ())
    return Curve(label, tuple(places), *columns)


def _binomial(share: float, answers: int) -> float:
    """Standard error of a share of right answers; one of either kind more, since ten of ten are no certainty."""
    smoothed = (share * answers + 1) / (answers + 2)
    return math.sqrt(smoothed * (1 - smoothed) / max(1, answers))


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

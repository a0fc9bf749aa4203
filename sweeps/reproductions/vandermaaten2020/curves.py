"""Trials as points, one method at one setting, and the points of a figure as curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any

from sweeps.reproductions.statements import Estimate

if TYPE_CHECKING:
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec

LOSS, MODEL, SGD = "loss perturbation", "model sensitivity", "DP-SGD"
LOGITS, VOTES = "prediction sensitivity", "subsample-and-aggregate"
PUBLISHED = "subsample-and-aggregate, beta as published"
METHODS = {
    "loss-perturbation": LOSS,
    "model-sensitivity": MODEL,
    "noisy-sgd": SGD,
    "prediction-sensitivity": LOGITS,
    "subsample-and-aggregate": VOTES,
}
MODELS = 256
"""Parts of subsample-and-aggregate where nothing else is said (recalled)."""
WIDTH, CLASSES = 784, 10
FIGURES = {
    "epsilon_pure": ("Figure 1a, delta 0", "epsilon"),
    "epsilon_gaussian": ("Figure 1b, delta 1e-5", "epsilon"),
    "budget_pure": ("Figure 2a, epsilon 1, delta 0", "queries"),
    "budget_gaussian": ("Figure 2b, epsilon 1, delta 1e-5", "queries"),
    "delta": ("Figure 3, epsilon 1", "delta"),
    "size": ("Figure 4, epsilon 1, delta 0", "training records"),
    "dimension": ("Figure 5a, epsilon 1, delta 0", "dimensions"),
    "classes": ("Figure 5b, epsilon 1, delta 0", "classes"),
    "weight": ("Figure 6a, epsilon 1, delta 0", "lambda"),
    "models": ("Figure 6b, epsilon 1, delta 0", "models"),
}
"""Panels in the paper's order: title and horizontal axis."""


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
    points = []
    for trial in trials:
        if "accuracy" not in trial.metrics:
            continue
        config: dict[str, Any] = dict(trial.config)
        pure = config.get("noise") == "pure" or config.get("composition") == "standard"
        points.append(
            Point(
                part=spec.name.removeprefix("vandermaaten2020-"),
                method=METHODS[trial.system],
                delta=0.0 if pure else spec.privacy.delta,
                epsilon=trial.target_epsilon or 0.0,
                queries=int(config.get("queries", 0)),
                n=facts.n,
                dimension=int(spec.data.options().get("dimension", WIDTH)),
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

    axis: tuple[float, ...]
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    error: tuple[float, ...]

    @classmethod
    def of(cls, points: Iterable[Point], axis: Callable[[Point], float]) -> Curve:
        """Points along `axis`; knobs that are no axis take their best mean."""
        repeats: dict[tuple[float, Any], list[Point]] = defaultdict(list)
        for point in points:
            repeats[axis(point), (point.weight, point.others)].append(point)
        best: dict[float, tuple[float, float, float]] = {}
        for (place, _), group in repeats.items():
            values = [point.accuracy for point in group]
            mean = sum(values) / len(values)
            spread = stdev(values) if len(values) > 1 else math.nan
            error = _binomial(mean, sum(point.answers for point in group))
            if len(values) > 1:
                error = max(spread / math.sqrt(len(values)), error)
            if place not in best or mean > best[place][0]:
                best[place] = (mean, spread, error)
        columns = zip(*((place, *best[place]) for place in sorted(best)), strict=True) if best else ((),) * 4
        return cls(*columns)

    def at(self, value: float) -> float | None:
        """The mean at one place of the axis; None where nothing was run."""
        return self.mean[self.axis.index(value)] if value in self.axis else None

    def estimates(self) -> list[Estimate]:
        """The means with their errors, in the order of the axis."""
        return [Estimate(mean, error) for mean, error in zip(self.mean, self.error, strict=True)]

    def estimate(self, value: float) -> Estimate | None:
        """The mean at one place of the axis with its error; None where nothing was run."""
        return self.estimates()[self.axis.index(value)] if value in self.axis else None

    def cell(self, value: float) -> str:
        """Mean and standard deviation at one place, in per cent; "" where nothing was run."""
        if value not in self.axis:
            return ""
        index = self.axis.index(value)
        mean, spread = 100 * self.mean[index], 100 * self.spread[index]
        return f"{mean:.1f}" if math.isnan(spread) else f"{mean:.1f} ({spread:.1f})"

    def only(self, places: Container[float]) -> Curve:
        """The part of the curve at these places."""
        kept = [i for i, place in enumerate(self.axis) if place in places]
        return Curve(*(tuple(one[i] for i in kept) for one in (self.axis, self.mean, self.spread, self.error)))

    def level(self, value: float, places: tuple[float, ...]) -> Curve:
        """A horizontal line along other places, as high as this curve is at `value`."""
        index = self.axis.index(value)
        return Curve(places, *((one[index],) * len(places) for one in (self.mean, self.spread, self.error)))


Curves = dict[str, Curve]
"""By method."""
Panels = dict[str, Curves]
"""By the names of FIGURES; empty where nothing was run."""


def _binomial(share: float, answers: int) -> float:
    """Standard error of a share of right answers; one of either kind more, since ten of ten are no certainty."""
    smoothed = (share * answers + 1) / (answers + 2)
    return math.sqrt(smoothed * (1 - smoothed) / max(1, answers))


def _by_method(points: Sequence[Point], axis: str, least: int = 1) -> Curves:
    """One curve for each method that has points, at `least` places."""
    curves = {
        label: Curve.of((point for point in points if point.method == label), lambda p: float(getattr(p, axis)))
        for label in METHODS.values()
    }
    return {label: one for label, one in curves.items() if len(one.axis) >= least}


def panels_of(points: Sequence[Point]) -> Panels:
    """All figures as curves; and `model_noise`, which is no figure: model sensitivity with pure and Gaussian noise."""
    pure = [point for point in points if point.delta == 0]
    gaussian = [point for point in points if point.delta != 0]
    at_one = [point for point in pure if point.epsilon == 1.0]
    with_delta = [point for point in gaussian if point.delta > 0 and point.epsilon == 1.0]
    epsilon_pure, epsilon_gaussian = _first(pure, pure=True), _first(gaussian, pure=False)
    votes = [point for point in at_one if point.method == VOTES and point.part.startswith(("fig1", "fig6"))]
    models = Curve.of(votes, lambda p: p.models)
    both = {"pure": epsilon_pure.get(MODEL), "gaussian": epsilon_gaussian.get(MODEL)}
    return {
        "epsilon_pure": epsilon_pure,
        "epsilon_gaussian": epsilon_gaussian,
        "budget_pure": _second(pure, epsilon_pure, pure=True),
        "budget_gaussian": _second(gaussian, epsilon_gaussian, pure=False),
        "delta": _along(with_delta, "fig3", "delta", "fig1-gaussian"),
        "size": _along(at_one, "fig4", "n"),
        "dimension": _along(at_one, "fig5a", "dimension"),
        "classes": _along(at_one, "fig5b", "classes"),
        "weight": _by_method([point for point in at_one if point.part.startswith("fig1")], "weight", least=2),
        "models": {VOTES: models} if len(models.axis) > 1 else {},
        "model_noise": {name: one for name, one in both.items() if one is not None},
    }


def _first(points: Sequence[Point], *, pure: bool) -> Curves:
    """Figure 1: accuracy along epsilon, at B = 100."""
    shown = [point for point in points if point.part.startswith("fig1")]
    curves = _by_method(shown, "epsilon")
    if pure:
        # beta = epsilon/B is what the corrected rule allows at twice the epsilon.
        curves[PUBLISHED] = Curve.of((p for p in shown if p.method == VOTES), lambda p: p.epsilon / 2)
    if LOSS not in curves:
        return curves
    return {label: one.only(curves[LOSS].axis) for label, one in curves.items()}


def _second(points: Sequence[Point], horizontal: Curves, *, pure: bool) -> Curves:
    """Figure 2: accuracy along the budget of queries at epsilon 1; what is trained once is a horizontal line."""
    shown = {at: [p for p in points if p.part.startswith("fig2") and p.epsilon == at] for at in (1.0, 2.0)}
    curves = _by_method(shown[1.0], "queries")
    if pure:
        curves[PUBLISHED] = Curve.of((p for p in shown[2.0] if p.method == VOTES), lambda p: p.queries)
    if VOTES not in curves:
        return {}
    budgets = curves[VOTES].axis
    fixed = {label: horizontal[label] for label in (LOSS, MODEL, SGD) if label in horizontal}
    return curves | {label: one.level(1.0, budgets) for label, one in fixed.items() if 1.0 in one.axis}


def _along(points: Sequence[Point], figure: str, axis: str, first: str = "fig1-pure") -> Curves:
    """One of Figures 3 to 5: its own sweeps, and the point that Figure 1 has already; votes of the usual number."""
    if not any(point.part.startswith(figure) for point in points):
        return {}
    own = [p for p in points if p.part.startswith((figure, first, "fig1-trained")) and p.models in (0, MODELS)]
    return _by_method(own, axis, least=2)

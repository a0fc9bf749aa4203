"""Trials as points, one method at one setting, and the points of a figure as curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev
from typing import TYPE_CHECKING, Any

from sweeps.reproductions.paper import Paper
from sweeps.reproductions.uncertain import Uncertain

if TYPE_CHECKING:
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec

PAPER = Paper.load("vandermaaten2020")
METHODS: Mapping[str, str] = PAPER.printed["methods"]
"""Words of the paper, by system."""
LOSS, MODEL, SGD, LOGITS, VOTES = METHODS.values()
PUBLISHED: str = PAPER.printed["published"]
MODELS = 256
"""Parts of subsample-and-aggregate where nothing else is said (recalled)."""
WIDTH, CLASSES = 784, 10


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
class MeanAccuracy(Uncertain):
    """Of the repeats of one setting.

    error   over the repeats, but no less than that of as many answers, which is all that one run has
    spread  standard deviation over the repeats; NaN of one run alone
    """

    spread: float

    @classmethod
    def over(cls, points: Sequence[Point]) -> MeanAccuracy:
        """Of at least one point."""
        values = [point.accuracy for point in points]
        mean, answers = sum(values) / len(values), sum(point.answers for point in points)
        # One answer of either kind more, since ten of ten are no certainty.
        smoothed = (mean * answers + 1) / (answers + 2)
        error = math.sqrt(smoothed * (1 - smoothed) / max(1, answers))
        if len(values) == 1:
            return cls(mean, error, math.nan)
        spread = stdev(values)
        return cls(mean, max(spread / math.sqrt(len(values)), error), spread)

    def cell(self) -> str:
        """Mean and standard deviation, in per cent."""
        mean, spread = 100 * self.value, 100 * self.spread
        return f"{mean:.1f}" if math.isnan(spread) else f"{mean:.1f} ({spread:.1f})"


Curve = dict[float, MeanAccuracy]
"""The best mean over regularisation (and the like) along one axis, in its order."""
Curves = dict[str, Curve]
"""By method."""
Panels = dict[str, Curves]
"""By the names of the paper's file; empty where nothing was run."""


def curve_of(points: Iterable[Point], axis: Callable[[Point], float]) -> Curve:
    """Points along `axis`; knobs that are no axis take their best mean."""
    repeats: dict[tuple[float, Any], list[Point]] = defaultdict(list)
    for point in points:
        repeats[axis(point), (point.weight, point.others)].append(point)
    best: Curve = {}
    for (place, _), group in repeats.items():
        mean = MeanAccuracy.over(group)
        if place not in best or mean.value > best[place].value:
            best[place] = mean
    return dict(sorted(best.items()))


def _by_method(points: Sequence[Point], axis: str, least: int = 1) -> Curves:
    """One curve for each method that has points, at `least` places."""
    curves = {
        label: curve_of((point for point in points if point.method == label), lambda p: float(getattr(p, axis)))
        for label in METHODS.values()
    }
    return {label: one for label, one in curves.items() if len(one) >= least}


def _of_parts(points: Iterable[Point], *parts: str) -> list[Point]:
    return [point for point in points if point.part.startswith(parts)]


def panels_of(points: Sequence[Point]) -> Panels:
    """All figures as curves; and `model_noise`, which is no figure: model sensitivity with pure and Gaussian noise."""
    pure, gaussian = ([p for p in points if (p.delta == 0) is without] for without in (True, False))
    pure_at_one, gaussian_at_one = ([p for p in some if p.epsilon == 1.0] for some in (pure, gaussian))
    first, first_gaussian = _first(pure, pure=True), _first(gaussian, pure=False)
    votes = (p for p in _of_parts(pure_at_one, "fig1", "fig6") if p.method == VOTES)
    models = curve_of(votes, lambda p: p.models)
    both = {"pure": first.get(MODEL), "gaussian": first_gaussian.get(MODEL)}
    return {
        "epsilon_pure": first,
        "epsilon_gaussian": first_gaussian,
        "budget_pure": _second(pure, first, pure=True),
        "budget_gaussian": _second(gaussian, first_gaussian, pure=False),
        "delta": _along(gaussian_at_one, "fig3", "delta", "fig1-gaussian"),
        "size": _along(pure_at_one, "fig4", "n"),
        "dimension": _along(pure_at_one, "fig5a", "dimension"),
        "classes": _along(pure_at_one, "fig5b", "classes"),
        "weight": _by_method(_of_parts(pure_at_one, "fig1"), "weight", least=2),
        "models": {VOTES: models} if len(models) > 1 else {},
        "model_noise": {name: one for name, one in both.items() if one is not None},
    }


def _first(points: Sequence[Point], *, pure: bool) -> Curves:
    """Figure 1: accuracy along epsilon, at B = 100."""
    shown = _of_parts(points, "fig1")
    curves = _by_method(shown, "epsilon")
    if pure:
        # beta = epsilon/B is what the corrected rule allows at twice the epsilon.
        curves[PUBLISHED] = curve_of((p for p in shown if p.method == VOTES), lambda p: p.epsilon / 2)
    places = curves.get(LOSS)
    if places is None:
        return curves
    return {label: {at: mean for at, mean in one.items() if at in places} for label, one in curves.items()}


def _second(points: Sequence[Point], horizontal: Curves, *, pure: bool) -> Curves:
    """Figure 2: accuracy along the budget of queries at epsilon 1; what is trained once is a horizontal line."""
    shown = {at: [p for p in _of_parts(points, "fig2") if p.epsilon == at] for at in (1.0, 2.0)}
    curves = _by_method(shown[1.0], "queries")
    if pure:
        curves[PUBLISHED] = curve_of((p for p in shown[2.0] if p.method == VOTES), lambda p: p.queries)
    if VOTES not in curves:
        return {}
    fixed = {label: horizontal[label] for label in (LOSS, MODEL, SGD) if 1.0 in horizontal.get(label, {})}
    return curves | {label: dict.fromkeys(curves[VOTES], one[1.0]) for label, one in fixed.items()}


def _along(points: Sequence[Point], figure: str, axis: str, first: str = "fig1-pure") -> Curves:
    """One of Figures 3 to 5: its own sweeps, and the point that Figure 1 has already; votes of the usual number."""
    if not _of_parts(points, figure):
        return {}
    own = [p for p in _of_parts(points, figure, first, "fig1-trained") if p.models in (0, MODELS)]
    return _by_method(own, axis, least=2)

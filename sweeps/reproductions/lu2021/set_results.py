"""Trials as points of a figure; and what the shadow attack gets out of DP-SGD's models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from sweeps.reproductions.data_sets import Missing
from sweeps.reproductions.lu2021.parts import NOISE_MAX, Noises, Set, algorithm_1, baseline_noises, beside
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.templates import Values
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec

METHODS = {"laplace": "Alg. 1 (Lap)", "gaussian": "Alg. 1 (Gaus)"}
LAPLACE, GAUSSIAN = METHODS.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One place on a curve, averaged over repeats.

    epsilon  the paper's label: per answer for Algorithm 1 (a mu with Gaussian noise), of the training for DP-SGD
    claimed  epsilon of the trial's own claim: all answers together, or the training by the PLD
    loss     Acc_Loss; leak Priv_Leak
    """

    method: str
    epsilon: float
    claimed: float
    loss: float
    leak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResult:
    """One data set: Table V's row, and the curves of its figure.

    original            (train, test) accuracy on the original loss; convexified on the risk-averse one
    leak                Priv_Leak without noise
    answers             of non-members behind each point of Algorithm 1, and as many of members
    untrained           (method, epsilon, noise) that was too much noise to be run
    """

    set: Set
    original: tuple[float, float] | None
    convexified: tuple[float, float]
    leak: float
    stability: float
    answers: int
    points: Sequence[CurvePoint]
    untrained: Sequence[tuple[str, float, float]]

    @property
    def gap(self) -> float:
        """Training accuracy less test accuracy."""
        return self.convexified[0] - self.convexified[1]

    def curves(self) -> dict[str, list[CurvePoint]]:
        """The points of every method, by epsilon."""
        found: dict[str, list[CurvePoint]] = defaultdict(list)
        for point in self.points:
            found[point.method].append(point)
        return {method: sorted(points, key=lambda point: point.epsilon) for method, points in found.items()}


def measured(one: Set, sizes: Values, data: Path, run: Reproduction) -> SetResult:
    """Run what is missing of one data set, and read it.

    Raises Missing where trials failed that no comparison can do without.
    """
    _, every = run.trained(algorithm_1(one, sizes, data))
    trials = [trial for trial in every if trial.metrics]
    groups: dict[tuple[str, float], list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        # Trials of one point differ in their draw alone.
        groups[str(trial.config["noise"]), float(trial.config["noise_multiplier"])].append(trial)
    points = [_point(METHODS[noise], 1 / multiplier, same) for (noise, multiplier), same in groups.items()]
    original: tuple[float, float] | None = None
    untrained: list[tuple[str, float, float]] = []
    if sizes["private"]:
        noises = baseline_noises(one, sizes)
        spec, others = run.trained(beside(one, sizes, data, noises))
        plain = [trial for trial in others if trial.metrics and trial.system == "convexified-loss"]
        original = (_mean(plain, "train_accuracy"), _mean(plain, "baseline_accuracy")) if plain else None
        private, untrained = _private(one, spec, run, noises, trials, others)
        points += private
    if lacking := sorted({LAPLACE, GAUSSIAN} - {point.method for point in points}):
        raise Missing(f"no trial of {' and '.join(lacking)} has a result")
    return SetResult(
        set=one,
        original=original,
        convexified=(_mean(trials, "train_accuracy"), _mean(trials, "baseline_accuracy")),
        leak=_mean(trials, "baseline_leak"),
        stability=_mean(trials, "stability"),
        answers=min(one.asked, one.records) * sizes["repeats"],
        points=points,
        untrained=untrained,
    )


def _private(
    one: Set,
    spec: SweepSpec,
    run: Reproduction,
    noises: Noises,
    attackers: Sequence[TrialRecord],
    trials: Sequence[TrialRecord],
) -> tuple[list[CurvePoint], list[tuple[str, float, float]]]:
    """DP-SGD's models, judged and attacked as Algorithm 1's answers are."""
    from trainables.data import SOURCES
    from trainables.systems.convexified.shadowed import under_attack

    attacker = next((trial for trial in attackers if trial.config["draw"] == 0), None)
    if attacker is None:
        raise Missing("no trial has the attacker's models")
    dataset = SOURCES[spec.data.source].load(spec.data.options())
    judged = under_attack(dataset, _state(run, f"lu2021-{one.name}", attacker), one.records)
    baseline = _mean(attackers, "baseline_accuracy")
    by_noise: dict[float, list[tuple[float, float, float]]] = defaultdict(list)
    for trial in trials:
        if trial.metrics and trial.system == "noisy-adam" and trial.guarantee is not None:
            accuracy, leak = judged(_state(run, spec.name, trial))
            found = trial.guarantee.epsilon, 1 - accuracy / baseline, leak
            by_noise[float(trial.config["noise_multiplier"])].append(found)
    points, untrained = [], []
    for (counting, epsilon), noise in noises.items():
        method = f"DP-SGD ({counting})"
        if noise > NOISE_MAX:
            untrained.append((method, epsilon, noise))
        elif noise in by_noise:
            claimed, loss, leak = (fmean(values) for values in zip(*by_noise[noise], strict=True))
            points.append(CurvePoint(method=method, epsilon=epsilon, claimed=claimed, loss=loss, leak=leak))
    return points, untrained


def _state(run: Reproduction, sweep: str, trial: TrialRecord) -> Mapping[str, np.ndarray]:
    return Attempt.of(run.workspace.trials(sweep), trial.key, trial.attempts).load(trial.step)


def _point(method: str, epsilon: float, trials: Sequence[TrialRecord]) -> CurvePoint:
    return CurvePoint(
        method=method,
        epsilon=float(f"{epsilon:.6g}"),
        claimed=max(trial.guarantee.epsilon for trial in trials if trial.guarantee is not None),
        loss=_mean(trials, "accuracy_loss"),
        leak=_mean(trials, "shadow_leak"),
    )


def _mean(trials: Sequence[TrialRecord], metric: str) -> float:
    return fmean(trial.metrics[metric] for trial in trials)

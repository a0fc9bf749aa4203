"""Trials as points of a figure; and what the shadow attack gets out of DP-SGD's models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from dpcore.convexified.baselines import Counting
from sweeps.reproductions.lu2021.parts import NOISE_MAX, Scope, Set, algorithm_1, baseline_noises, beside
from sweeps.reproductions.sweeping import full_grid, swept
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec

LAPLACE, GAUSSIAN = "Alg. 1 (Lap)", "Alg. 1 (Gaus)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
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
class Measured:
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
    points: Sequence[Point]
    untrained: Sequence[tuple[str, float, float]]

    def curve(self, method: str) -> list[Point]:
        """The points of one method, by epsilon."""
        return sorted((point for point in self.points if point.method == method), key=lambda point: point.epsilon)

    def at(self, method: str, epsilon: float) -> Point | None:
        """One point."""
        return next((point for point in self.curve(method) if point.epsilon == epsilon), None)


def measured(one: Set, scope: Scope, data: Path, workspace: Workspace) -> Measured:
    """Run what is missing of one data set, and read it."""
    spec = full_grid(algorithm_1(one, scope, data))
    trials = _finished(swept(spec, workspace))
    points = [_point(_method(noise), 1 / multiplier, same) for (noise, multiplier), same in _grouped(trials).items()]
    original: tuple[float, float] | None = None
    untrained: list[tuple[str, float, float]] = []
    if scope.private:
        noises = baseline_noises(one, scope)
        other = full_grid(beside(one, scope, data, noises))
        found = _finished(swept(other, workspace))
        plain = [trial for trial in found if trial.system == "convexified-loss"]
        original = _mean(plain, "train_accuracy"), _mean(plain, "baseline_accuracy")
        private, untrained = _private(one, other, workspace, noises, trials, found)
        points += private
    return Measured(
        set=one,
        original=original,
        convexified=(_mean(trials, "train_accuracy"), _mean(trials, "baseline_accuracy")),
        leak=_mean(trials, "baseline_leak"),
        stability=_mean(trials, "stability"),
        answers=min(one.asked, one.records) * scope.draws,
        points=points,
        untrained=untrained,
    )


def _private(
    one: Set,
    spec: SweepSpec,
    workspace: Workspace,
    noises: Mapping[tuple[Counting, float], float],
    attackers: Sequence[TrialRecord],
    trials: Sequence[TrialRecord],
) -> tuple[list[Point], list[tuple[str, float, float]]]:
    """DP-SGD's models, judged and attacked as Algorithm 1's answers are."""
    from trainables.data import SOURCES
    from trainables.systems.convexified.model import logits_of
    from trainables.systems.convexified.published_fit import attack_of, flat_inputs, question_order

    dataset = SOURCES[spec.data.source].load(spec.data.options())
    members, others = (flat_inputs(dataset.facts, split) for split in (dataset.train, dataset.validation))
    member_labels, other_labels = (s.targets.astype(np.int64) for s in (dataset.train, dataset.validation))
    attacker = next(trial for trial in attackers if trial.config["draw"] == 0)
    attack = attack_of(_state(workspace, f"lu2021-{one.name}", attacker))
    # The attacker's own records are no non-members.
    asked = question_order(0, len(others))[: min(one.records, len(others) // 3)]
    baseline = _mean(attackers, "baseline_accuracy")
    by_noise: dict[float, list[tuple[float, float, float]]] = {}
    for trial in trials:
        if trial.system != "noisy-adam" or trial.guarantee is None:
            continue
        state = _state(workspace, spec.name, trial)
        inside, outside = logits_of(state, members), logits_of(state, others[asked])
        accuracy = float((outside.argmax(axis=1) == other_labels[asked]).mean())
        leak = attack.priv_leak(softmax(inside, axis=1), member_labels, softmax(outside, axis=1), other_labels[asked])
        by_noise.setdefault(float(trial.config["noise_multiplier"]), []).append(
            (trial.guarantee.epsilon, 1 - accuracy / baseline, leak)
        )
    points, untrained = [], []
    for (counting, epsilon), noise in noises.items():
        method = f"DP-SGD ({counting})"
        if noise > NOISE_MAX:
            untrained.append((method, epsilon, noise))
        elif noise in by_noise:
            claimed, loss, leak = (fmean(values) for values in zip(*by_noise[noise], strict=True))
            points.append(Point(method=method, epsilon=epsilon, claimed=claimed, loss=loss, leak=leak))
    return points, untrained


def _state(workspace: Workspace, sweep: str, trial: TrialRecord) -> Mapping[str, np.ndarray]:
    return Attempt.of(workspace.trials(sweep), trial.key, trial.attempts).load(trial.step)


def _finished(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [trial for trial in trials if trial.metrics]


def _grouped(trials: Sequence[TrialRecord]) -> dict[tuple[str, float], list[TrialRecord]]:
    """Trials that differ in their draw alone, by law and size of the noise."""
    out: dict[tuple[str, float], list[TrialRecord]] = {}
    for trial in trials:
        key = str(trial.config["noise"]), float(trial.config["noise_multiplier"])
        out.setdefault(key, []).append(trial)
    return out


def _point(method: str, epsilon: float, trials: Sequence[TrialRecord]) -> Point:
    claims = [trial.guarantee.epsilon for trial in trials if trial.guarantee is not None]
    return Point(
        method=method,
        epsilon=float(f"{epsilon:.6g}"),
        claimed=max(claims),
        loss=_mean(trials, "accuracy_loss"),
        leak=_mean(trials, "shadow_leak"),
    )


def _method(noise: str) -> str:
    return LAPLACE if noise == "laplace" else GAUSSIAN


def _mean(trials: Sequence[TrialRecord], metric: str) -> float:
    return fmean(trial.metrics[metric] for trial in trials)

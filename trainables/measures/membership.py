"""What membership attacks gain on a trial's own training records, from scores that the trial's release gives them.

The threshold attack of Yeom, Giacomelli, Fredrikson & Jha (2018): the members' loss is the attacker's score and the
mean training loss its threshold; where labels alone are released, a right label is what it sees.

The likelihood-ratio attack of Carlini, Chien, Nasr, Song, Terzis & Tramer (2022), Algorithm 1, on twins of a trial:
shadow twins, each on a random half of the records, and one more. The attacked model is the last twin, so that its
members are known and the trial's own release stays as it was; beside it the threshold attack.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.audit import attacks
from dpcore.audit.attacks import auc, balanced_splits, decide, mean_training_loss_threshold, tpr_at_fpr
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.randomness import fresh_secret
from trainables.data import records as content
from trainables.hooks import Answering, CanaryTrained, Scored, Twin
from trainables.measures.audits import AuditSetting, answer_scores
from trainables.measures.quality import jackknife_error
from trainables.metrics import STANDARD_ERROR
from trainables.system import Dataset, RunSettings, Split, State, System, TrialRun
from trainables.units import RECORD

AUC, ACCURACY, F1, PRIV_LEAK = "membership_auc", "membership_accuracy", "membership_f1", "priv_leak"
Scores = NDArray[np.float64]


def threshold_attack(
    system: System, member: TrialRun, state: State, data: Dataset, execution: RunSettings
) -> Mapping[str, float]:
    """All four metrics of a finished run, on equally many members and non-members, with their standard errors.

    For a system that answers, a twin with noise of its own is asked about training and validation records in turn,
    since the trial itself was asked about no training record.
    """
    members, others, threshold = (
        _of_model(system, member, state, data)
        if isinstance(system, Scored)
        else _of_answers(system, member, data, execution)
    )
    right, scores = np.repeat([True, False], [len(members), len(others)]), np.concatenate([members, others])
    found: dict[str, float] = {}
    for name, value in _VALUES.items():

        def of(right: NDArray[np.generic], scores: Scores, value: _Value = value) -> float:
            return value(scores[right.astype(bool)], scores[~right.astype(bool)], threshold)

        found[name] = of(right, scores)
        # Both are in a random order: each part has members and others. Units are refused: no two records are alike.
        found[name + STANDARD_ERROR] = jackknife_error(of, right, scores, alike=1)
    return {name: one for name, one in found.items() if math.isfinite(one)}


_Value = Callable[[Scores, Scores, float], float]
_VALUES: Mapping[str, _Value] = {
    AUC: lambda members, others, threshold: auc(members, others),
    ACCURACY: lambda members, others, threshold: decide(members, others, threshold).accuracy,
    F1: lambda members, others, threshold: decide(members, others, threshold).f1,
    PRIV_LEAK: lambda members, others, threshold: decide(members, others, threshold).advantage,
}


def _of_model(system: Scored, member: TrialRun, state: State, data: Dataset) -> tuple[Scores, Scores, float]:
    plan, facts = member.plan, data.facts
    scores = system.membership_scores(plan, facts, state, data.train)
    others = system.membership_scores(plan, facts, state, data.validation)
    rng, count = np.random.default_rng(member.seed), min(len(scores), len(others))
    threshold = mean_training_loss_threshold(-scores)
    return rng.permutation(scores)[:count], rng.permutation(others)[:count], threshold


def _of_answers(
    system: System, member: TrialRun, data: Dataset, execution: RunSettings
) -> tuple[Scores, Scores, float]:
    count = min(member.to_step // 2, len(data.train), len(data.validation))
    if not isinstance(system, Answering) or count < 1:
        raise checks.InvalidValue("queries", member.to_step, "at least 2, for one member and one other record")
    rng = np.random.default_rng(member.seed)
    chosen = [rng.permutation(len(split))[:count] for split in (data.train, data.validation)]
    pairs = [(data.train, chosen[0]), (data.validation, chosen[1])]
    queried = Split(
        {name: np.concatenate([split.inputs[name][rows] for split, rows in pairs]) for name in data.train.inputs},
        np.concatenate([split.targets[rows] for split, rows in pairs]),
    )
    # Every query is asked: the plan's number of answers is at least that of these records.
    run = Twin.of(system.without_its_attack(member.plan), 1, fresh_secret(), 2 * count)
    system.fit([run], replace(data, validation=queried), execution)
    scores = answer_scores(run.outcome(), queried)
    return scores[:count], scores[count:], 0.75


FPRS = (0.001, 0.01, 0.1)
SHARED_BELOW = 64
"""Shadows with, or without, a record below which all records share one variance, as in the publication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """How well one attack tells the twin's members from the other records.

    accuracy, f1  at the attack's own threshold: the mean training loss, or as likely in as out; None where it has none
    tpr_at        {false positive rate: true positive rate}
    """

    name: str
    auc: float
    tpr_at: dict[float, float]
    accuracy: float | None
    f1: float | None
    members: int
    others: int


def likelihood_ratio_attack(setting: AuditSetting, shadows: int) -> tuple[Attacked, ...]:
    """LiRA online and offline, and the loss threshold, from `shadows` twins (even) and an attacked one.

    Raises InvalidValue as `check`.
    """
    check(setting.system, setting.claim, shadows)
    records = len(setting.data.train)
    inside = balanced_splits(records, shadows, setting.rng).inside
    target_inside = setting.rng.random(records) < 0.5
    losses = np.stack([_minus_losses(setting, rows, number) for number, rows in enumerate([*inside, target_inside], 1)])
    # log(p / (1 - p)) of the probability p = exp(-loss); finite where p rounds to 0 or 1.
    clipped = np.clip(-losses, 1e-15, 700.0)
    confidences = -clipped - np.log(-np.expm1(-clipped))
    variance: Literal["shared", "per-example"] = "shared" if shadows // 2 < SHARED_BELOW else "per-example"
    online = attacks.lira_online(confidences[-1], confidences[:-1], inside, variance=variance)
    offline = attacks.lira_offline(confidences[-1], confidences[:-1], ~inside, variance=variance)
    threshold = mean_training_loss_threshold(-losses[-1][target_inside])
    return (
        _attacked("LiRA online", online, target_inside, 0.0),
        _attacked("LiRA offline", offline, target_inside, None),
        _attacked("loss threshold", losses[-1], target_inside, threshold),
    )


def check(system: System, claim: Guarantee, shadows: int) -> None:
    """Raises InvalidValue where the release says nothing about single records, or where records cannot be left out."""
    if claim.unit != RECORD:
        expected = f"none: members are single records, and the claim is per {claim.unit}"
        raise checks.InvalidValue("shadows", shadows, expected, "Audit it with canaries, which are whole units.")
    if not isinstance(system, Scored):
        raise checks.InvalidValue("shadows", shadows, "a system that releases a model", f"{system.name} does not.")
    # Systems that sample for themselves take whoever is there; the others are exact about n.
    if claim.adjacency is not Adjacency.ADD_REMOVE and not isinstance(system, CanaryTrained):
        expected = f"add-remove: under replace-one {system.name} lets no record be left out of a twin"
        raise checks.InvalidValue("adjacency", str(claim.adjacency), expected)
    checks.count(minimum=4, shadows=shadows)
    if shadows % 2:
        expected = "an even number: each record is in one half of the shadows"
        raise checks.InvalidValue("shadows", shadows, expected)


def _minus_losses(setting: AuditSetting, rows: NDArray[np.bool_], number: int) -> NDArray[np.float64]:
    """Scores of all records under twin `number`, trained on those that `rows` marks."""
    run = setting.twin(number)
    # The public n stays: it is a constant that neighbours share.
    part = replace(setting.data, train=content.taken(setting.data.train, np.flatnonzero(rows)))
    setting.system.fit([run], part, setting.execution)
    assert isinstance(setting.system, Scored)
    return setting.system.membership_scores(setting.plan, setting.data.facts, run.outcome(), setting.data.train)


def _attacked(name: str, scores: NDArray[np.float64], inside: NDArray[np.bool_], threshold: float | None) -> Attacked:
    members, others = scores[inside], scores[~inside]
    decisions = None if threshold is None else decide(members, others, threshold)
    return Attacked(
        name=name,
        auc=auc(members, others),
        tpr_at={fpr: tpr_at_fpr(members, others, fpr) for fpr in FPRS},
        accuracy=None if decisions is None else decisions.accuracy,
        f1=None if decisions is None else decisions.f1,
        members=len(members),
        others=len(others),
    )

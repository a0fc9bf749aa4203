"""What a membership attack gains on a trial's own training records, from scores that the trial's release gives them.

Source: the threshold attack of Yeom, Giacomelli, Fredrikson & Jha (2018). The members' loss is the attacker's score and
the mean training loss its threshold; where labels alone are released, a right label is what it sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.attacks import auc, decide, mean_training_loss_threshold
from dpcore.randomness import fresh_secret
from trainables.measures import twins
from trainables.measures.evidence import answer_scores
from trainables.measures.protocols import Answering, AttacksItself, Scored
from trainables.system import Dataset, Execution, Member, Split, State, System

AUC, ACCURACY, F1, PRIV_LEAK = "membership_auc", "membership_accuracy", "membership_f1", "priv_leak"
Scores = NDArray[np.float64]


def attack(system: System, member: Member, state: State, data: Dataset, execution: Execution) -> Mapping[str, float]:
    """All four metrics of a finished run, on equally many members and non-members.

    For a system that answers, a twin with noise of its own is asked about training and validation records in turn,
    since the trial itself was asked about no training record.
    """
    members, others, threshold = (
        _of_model(system, member, state, data)
        if isinstance(system, Scored)
        else _of_answers(system, member, data, execution)
    )
    decisions = decide(members, others, threshold)
    return {
        AUC: auc(members, others),
        ACCURACY: decisions.accuracy,
        F1: decisions.f1,
        PRIV_LEAK: decisions.advantage,
    }


def _of_model(system: Scored, member: Member, state: State, data: Dataset) -> tuple[Scores, Scores, float]:
    plan, facts = member.plan, data.facts
    scores = system.membership_scores(plan, facts, state, data.train)
    others = system.membership_scores(plan, facts, state, data.validation)
    rng, count = np.random.default_rng(member.seed), min(len(scores), len(others))
    threshold = mean_training_loss_threshold(-scores)
    return rng.permutation(scores)[:count], rng.permutation(others)[:count], threshold


def _of_answers(system: System, member: Member, data: Dataset, execution: Execution) -> tuple[Scores, Scores, float]:
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
    plan = system.without_its_attack(member.plan) if isinstance(system, AttacksItself) else member.plan
    run = twins.Twin(twins.member(plan, 1, 2 * count), twins.streams(1, fresh_secret()))
    system.fit([run], replace(data, validation=queried), execution)
    scores = answer_scores(run.outcome(), queried)
    return scores[:count], scores[count:], 0.75

"""The shadow attack of a `convexified-loss` run, on models that other systems trained on the same records."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from trainables.system import Dataset, State
from trainables.systems.convexified.model import logits_of
from trainables.systems.convexified.published_fit import attack_of, flat_inputs, question_order


def under_attack(data: Dataset, attacker: State, records: int) -> Callable[[State], tuple[float, float]]:
    """What judges a `tanh_128` in the state of a finished run: (accuracy, Priv_Leak).

    Both are taken over the training records and over the first `records` validation records, at most a third of them,
    in the order in which draw 0 of the attacker asks: its own records, the last ones, are no non-members. `attacker` is
    the state of a run with shadows.
    """
    attack = attack_of(attacker)
    members, others = (flat_inputs(data.facts, split) for split in (data.train, data.validation))
    member_labels, other_labels = (split.targets.astype(np.int64) for split in (data.train, data.validation))
    asked = question_order(0, len(others))[: min(records, len(others) // 3)]

    def judged(state: State) -> tuple[float, float]:
        inside, outside = logits_of(state, members), logits_of(state, others[asked])
        accuracy = float((outside.argmax(axis=1) == other_labels[asked]).mean())
        leak = attack.priv_leak(softmax(inside, axis=1), member_labels, softmax(outside, axis=1), other_labels[asked])
        return accuracy, leak

    return judged

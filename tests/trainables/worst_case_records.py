"""The attacks on the convexified-loss systems, and 60 records that refute what is published.

plan = tiny_plan(epsilon=0.01)
inside, outside = worst_case_scores(plan, TINY, runs=200)      # [200] each; from released answers alone
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcore.randomness import fresh_secret
from trainables.measures.retraining import outcomes
from trainables.system import Config, DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Task
from trainables.systems.lu2021.convexified_head import CONVEXIFIED_HEAD
from trainables.systems.lu2021.convexified_loss import CONVEXIFIED_LOSS

Array = NDArray[np.float64]

_SYSTEMS = {one.name: one for one in (CONVEXIFIED_LOSS, CONVEXIFIED_HEAD)}

TINY = DatasetSpec(
    dataset="tiny-counterexample",
    task=Task.CLASSIFICATION,
    n=60,
    n_validation=4,
    features={"x": InputSpec(shape=(5,))},
    classes=3,
)
"""Facts of a data set on which one answer refutes the published claim; training takes milliseconds."""

TINY_KNOBS: Config = {"hidden": 8, "batch_size": 60, "epochs": 20, "learning_rate": 0.05, "queries": 1}


def tiny_plan(epsilon: float = 0.01, noise: str = "laplace", facts: DatasetSpec = TINY, **knobs: float) -> PrivacyPlan:
    """A plan of `convexified-loss` for one answer on `facts`, calibrated to the claimed epsilon at delta 1e-5."""
    target = PrivacyTarget(epsilon=epsilon, delta=1e-5)
    planned = CONVEXIFIED_LOSS.plan({**TINY_KNOBS, "noise": noise, **knobs}, facts, target, {})
    assert isinstance(planned, PrivacyPlan), planned
    return planned


def worst_case_scores(
    plan: PrivacyPlan, facts: DatasetSpec, runs: int, secret: bytes | None = None
) -> tuple[Array, Array]:
    """The attack's scores of `runs` independent releases with the record and as many without it; shapes [runs].

    secret  of the releases' noise, drawn afresh by default; given, the scores repeat themselves
    Every run is the system's own `fit` on synthetic neighbours; the attack sees what it released and nothing else.
    """
    system = _SYSTEMS[plan.system]
    pair = system.neighbours(plan, facts)
    secret, execution = fresh_secret() if secret is None else secret, RunSettings()
    scores = [
        outcomes(system, plan, data, runs, pair.score, secret=secret, first=first, execution=execution)
        for data, first in ((pair.with_it, 1), (pair.without_it, runs + 1))
    ]
    return scores[0], scores[1]

"""Records and objectives of small fronts."""

from __future__ import annotations

from dataclasses import replace

from sweeps.reporting.front import FrontAxis
from sweeps.store.records import TrialRecord, TrialState
from tests.sweeps import view_sweeps

ACCURACY, EPSILON = FrontAxis("accuracy", "maximize"), FrontAxis("epsilon", "minimize")

ERROR = FrontAxis("error", "minimize")


def record(number: int, epsilon: float = 1.0, state: TrialState = TrialState.COMPLETE, **metrics: float):
    return TrialRecord(
        key=f"s-{number}",
        number=number,
        state=state,
        config={"system": "noisy-sgd", "target_epsilon": 1.0, "learning_rate": 0.1 * (number + 1)},
        seed=number,
        plan=view_sweeps.plan({"system": "noisy-sgd"}, 1.0, work=10.0 * number),
        violations={},
        metrics=metrics,
        guarantee=view_sweeps.guarantee(epsilon, theorem="a theorem", assumptions=()),
    )


def claiming(number: int, **changes: object) -> TrialRecord:
    base = record(number, accuracy=0.5 + number / 100)
    assert base.guarantee is not None
    return replace(base, guarantee=replace(base.guarantee, **changes))

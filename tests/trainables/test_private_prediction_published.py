"""The rules that the paper prints: each runs, says how firmly it stands, and is charged what is proved to be spent."""

import pytest
import torch

from dpcore.adjacency import Adjacency
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Execution, PrivacyPlan, PrivacyTarget, PublicFacts, Scalar

torch.set_num_threads(1)
DELTA = 1e-5
DIGITS = SOURCES["digits"].load({})
KNOBS: dict[str, dict[str, Scalar]] = {
    "subsample-and-aggregate": {"regularisation": 0.01, "models": 3, "queries": 1},
}


def planned(
    name: str,
    epsilon: float = 1.0,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    solve: str = "noise",
    facts: PublicFacts = DIGITS.facts,
    **knobs: Scalar,
) -> PrivacyPlan:
    target = PrivacyTarget(epsilon=epsilon, delta=DELTA, adjacency=adjacency, solve=solve)
    plan = SYSTEMS[name].plan({**KNOBS[name], **knobs}, facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


# ---- votes


def test_votes_run_at_the_largest_budget_and_the_lowest_temperature():
    """beta of 1000: exp(beta) is beyond a float."""
    cold = planned("subsample-and-aggregate", epsilon=1e4, solve="none", temperature=0.001)
    for plan in (planned("subsample-and-aggregate", epsilon=1000.0), cold):
        run = memory_run(plan)
        SYSTEMS[plan.system].fit([run], DIGITS, Execution())
        assert run.final[0] == 1
    assert cold.schedule[0][0].epsilon == pytest.approx(2000)

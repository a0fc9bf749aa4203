"""Claims of sums: one stands no firmer than its weakest part."""

from dataclasses import replace

import pytest

from dpcore.accounting import headline
from dpcore.events import Adjacency, Unknown
from dpcore.guarantee import Status, weakest
from dpcore.mechanisms import noisy_vote
from dpcore.mechanisms.protocol import Scheduled
from dpcore.rounding import epsilon_text
from sweeps.privacy.totals import procedure_guarantee, summary
from sweeps.reporting.html import guarantee_line
from sweeps.store.records import LedgerEntry, TrialRecord, TrialState
from trainables.data.uniform import UNIFORM
from trainables.system import PrivacyPlan, PrivacyTarget
from trainables.systems.noisy_mean import NOISY_MEAN

CONFIG = {"clip": 0.8, "steps": 10, "shrinkage": 0.9, "prior": 0.4, "step_seconds": 0.0}


def plan_with(status=Status.PROVED, **changes):
    plan = NOISY_MEAN.plan(CONFIG, UNIFORM.facts({}), PrivacyTarget(epsilon=1.0, delta=1e-5), {})
    assert isinstance(plan, PrivacyPlan)
    return replace(plan, guarantee=replace(plan.guarantee, status=status), **changes)


def test_the_lower_end_is_said_of_the_events_and_not_of_what_ran():
    """A hundred votes spend at most 4 by their zCDP; of a hundred releases that are as pure, others spend more."""
    vote = noisy_vote.advanced(4.0, 1e-5, 100, 64, 10)
    ran = noisy_vote.NoisyVote(beta=vote.beta, models=64, classes=10, adjacency=Adjacency.REPLACE_ONE, steps=100)
    counted = headline(ran.event(), 1e-5, Adjacency.REPLACE_ONE)
    assert vote.guarantee.epsilon <= 4.0 < 1.1 * 4.0 < counted.epsilon_lower
    assert "at least" not in guarantee_line(counted)
    assert f"with such events can spend {epsilon_text(counted.epsilon_lower, up=False)}" in guarantee_line(counted)


def test_statuses_are_ordered_from_firm_to_fallen():
    assert weakest(Status.PROVED, Status.ASYMPTOTIC) is Status.ASYMPTOTIC
    assert weakest(Status.REFUTED, Status.MEMBERSHIP_ONLY, Status.PROVED) is Status.REFUTED


@pytest.mark.parametrize("status", [Status.PROVED_UNDER_ASSUMPTIONS, Status.REFUTED])
def test_a_procedure_stands_no_firmer_than_its_weakest_plan(status):
    plans = {"s-0": plan_with(), "s-1": plan_with(status)}
    entries = [LedgerEntry(key=key, attempt=1, from_step=0, to_step=10, executed_to=10) for key in plans]
    assert procedure_guarantee(plans, entries, 1e-5, adaptive=False).status is status
    assert procedure_guarantee(plans, entries, 1e-5, adaptive=True).status is Status.NO_CLAIM


def test_a_total_that_nobody_can_count_is_said_and_stops_nothing():
    plan = plan_with(mechanism=Scheduled(schedule=((Unknown(description="a log that nobody read"), 10),)))
    proposal = {"key": "s-0", "number": 0, "config": {}, "seed": 0, "violations": {}}
    trial = TrialRecord(state=TrialState.COMPLETE, plan=plan, **proposal)
    entry = LedgerEntry(key="s-0", attempt=1, from_step=0, to_step=10, executed_to=10)
    shown = summary([trial], [entry], ())
    assert shown.procedure is None
    assert "a log that nobody read" in shown.uncounted
    assert shown.spent.executed == 10

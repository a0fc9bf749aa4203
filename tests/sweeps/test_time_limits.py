"""`limits.hours` ends a sweep, `limits.trial_minutes` a trial: what is stopped, charged and claimed."""

from __future__ import annotations

import signal
import time

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.execution.limits import (
    CONTROLLER_ENDED,
    HOURS_OVER,
    OVERRAN,
    Deadline,
    seconds_run,
    worker_losses,
)
from sweeps.privacy.totals import summary_in_passing
from sweeps.spec.parse import load_spec
from sweeps.store.records import AttemptRecord, Extension, Outcome, SweepState, TrialState
from sweeps.store.workspace import Workspace
from tests.sweeps import view_sweeps
from tests.sweeps.fake_workers import NAME, FakeSweep
from tests.sweeps.test_extensions import SPEC
from tests.sweeps.tracked_runs import NoViews
from tests.sweeps.view_sweeps import new_sweep
from trainables.worker.ray import launch_from_json, launch_to_json
from trainables.worker.trial import run_launch


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C is an exception, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ran(began, ended, number=0, attempt=1, reason="", outcome=Outcome.SETTLED):
    return AttemptRecord(
        key=f"s-{number}",
        attempt=attempt,
        outcome=outcome,
        reason=reason,
        step=0,
        seconds=0.0,
        started_at=began,
        ended_at=ended,
    )


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], 0),
        ([ran(10, 20)], 10),
        ([ran(10, 20), ran(15, 30, 1), ran(12, 14, 2)], 20),
        ([ran(10, 20), ran(100, 105, 1)], 15),
        # Killed some time after 20, found at 500: until the last that its controller wrote.
        ([ran(10, 20), ran(15, 500, 1, reason=CONTROLLER_ENDED), ran(501, 511, 1, 2)], 20),
        ([ran(10, 500, reason=CONTROLLER_ENDED)], 0),
        ([ran(10, 20), ran(15, None, 1)], 10),
    ],
)
def test_time_is_that_of_attempts(attempts, seconds):
    assert seconds_run(attempts) == seconds


# -- a trial -----------------------------------------------------------------------------------------------


@pytest.fixture
def limited(tmp_path):
    return FakeSweep(tmp_path, change={"limits": {"trial_minutes": 1}})


def test_a_worker_stops_between_two_intervals_and_says_so(limited):
    group = limited.controller.decide()
    assert group.seconds == 60
    assert launch_from_json(launch_to_json(group)) == group
    late = launch_from_json(launch_to_json(group).replace('"seconds": 60.0', '"seconds": 0.0'))
    (answer,) = run_launch(late, session.SOURCES["uniform"].load({"n": 100}), limited.trials, b"s" * 32)
    assert answer == {"key": f"{NAME}-0", "attempt": 1, "overran": ""}


def test_a_trial_that_overran_has_failed_and_is_charged_for_all_of_its_plan(limited):
    group = limited.controller.decide()
    (member,) = group.members
    limited.controller.outcomes.finished(group, [{"key": member.key, "attempt": 1, "overran": ""}])
    (trial,) = limited.store.trials(NAME)
    (entry,) = limited.store.ledger(NAME)
    assert (trial.state, trial.reason) == (TrialState.FAILED, OVERRAN)
    assert (entry.executed_to, entry.steps_spent) == (member.to_step, trial.plan.steps)
    assert limited.controller.decide().members[0].key == f"{NAME}-1"


def test_time_of_lost_attempts_counts_and_none_left_is_not_launched(limited, monkeypatch):
    group = limited.controller.decide()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 40)
    limited.controller.outcomes.lost(group, "its worker process ended")
    again = limited.controller.decide()
    assert (again.members[0].attempt, round(again.seconds)) == (2, 20)
    monkeypatch.setattr(time, "time", lambda: now + 70)
    limited.controller.outcomes.lost(again, "its worker process ended")
    monkeypatch.undo()
    assert limited.controller.decide().members[0].key == f"{NAME}-1"
    first = limited.store.trials(NAME)[0]
    assert (first.state, first.reason, first.attempts) == (TrialState.FAILED, OVERRAN, 2)
    assert limited.store.ledger_of(first.key)[-1].executed_to == first.plan.steps


# -- a sweep -----------------------------------------------------------------------------------------------


def test_a_deadline_interrupts_once_and_only_within_its_block(capsys):
    with pytest.raises(KeyboardInterrupt), Deadline(0.05, "over") as deadline:
        time.sleep(5)
    assert deadline.passed
    assert capsys.readouterr().err == "over\n"
    for seconds in (None, 0.05):
        with Deadline(seconds, "over") as deadline:
            pass
        time.sleep(0.1)
        assert not deadline.passed


@pytest.fixture
def hourly(tmp_path, monkeypatch):
    """A sweep of an hour, which the workers take: 40 minutes for the first trial, as much for the next."""
    workspace = Workspace.at(tmp_path)
    session.create(load_spec(f"{SPEC}limits: {{hours: 1}}\n"), workspace)
    monkeypatch.setattr("sweeps.ray.cluster.check_reachable", lambda *_: None)
    monkeypatch.setattr(session, "Drain", NoViews)
    clock = [time.time()]

    def launches(runner, context, data, first_sign, deadline):
        controller, left = runner.controller, deadline.seconds
        while left > 0 and controller.launched < controller.spec.search.trials:
            group = controller.decide()
            clock[0] += min(2400, left)
            monkeypatch.setattr(time, "time", lambda: clock[0])
            if left < 2400:
                controller.outcomes.settle_running(HOURS_OVER)
                return SweepState.OUT_OF_HOURS
            left -= 2400
            controller.outcomes.lost(group, HOURS_OVER)
            controller.table.waiting.clear()
        return SweepState.FINISHED

    monkeypatch.setattr(session.TuneRunner, "_on_the_cluster", launches)
    return workspace


def test_a_sweep_out_of_hours_says_so_and_goes_on_with_more_alone(hourly, capsys):
    end = session.resume("here", hourly)
    store = hourly.open_store()
    assert (end.state, store.sweep("here").state) == ("out of hours", SweepState.OUT_OF_HOURS)
    assert end.meaning == "the hours of the sweep are over, and no trial can be ranked"
    assert "2 of 3 trials were launched" in end.reasons[0]
    assert "sweeps resume here --hours H" in end.reasons[0]
    attempts = store.attempts("here")
    assert seconds_run(attempts) == pytest.approx(3600, abs=5)
    assert not worker_losses(attempts)
    for more in ({}, {"hours": 1}, {"trials": 5}, {"hours": 0.5}):
        with pytest.raises(InvalidValue, match="hours"):
            session.resume("here", hourly, session.RunOptions(**more))
    assert store.sweep("here").extensions == ()
    capsys.readouterr()
    session.resume("here", hourly, session.RunOptions(hours=4))
    assert "'here' is given 4 hours in all; it had 1 hours." in capsys.readouterr().err
    (kept,) = store.sweep("here").extensions
    assert (kept.hours, kept.trials, kept.launched) == (4.0, None, 2)


def test_more_hours_leave_the_guarantee_where_every_trial_ran(tmp_path):
    """What was planned beforehand is what was counted; less of it is a number that results could have chosen."""
    store = new_sweep(tmp_path, search={"trials": 3, "sampler": "random"})
    lease = store.acquire("views")
    for number in range(3):
        assert number == 0 or not counted(store).is_claim
        view_sweeps.complete(store, lease, number)
        if number == 0:
            assert counted(store).is_claim
            store.extend(lease, Extension(hours=5.0, launched=1, at=1.0))
            assert "2 of its trials have not ended" in str(sweeps.open("views", root=tmp_path))
    assert counted(store).is_claim


def counted(store):
    return summary_in_passing(store.sweep("views"), store.trials("views"), store.ledger("views")).procedure

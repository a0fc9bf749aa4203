"""A sweep that is given more trials than it began with: what may be asked, what is recorded, what its total says."""

from __future__ import annotations

import math
import re
import signal
import time
from collections import Counter
from dataclasses import replace

import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.execution import resume, session
from sweeps.execution.limits import CONTROLLER_ENDED, HOURS_OVER, OVERRAN, Deadline, seconds_run, worker_losses
from sweeps.execution.requests import enqueue
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import summary_of
from sweeps.search.proposer import Proposer
from sweeps.store.records import AttemptRecord, Extension, Outcome, SweepState, TrialState
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import Changed
from tests.sweeps import specs, view_sweeps
from tests.sweeps.fake_workers import NAME, FakeSweep
from tests.sweeps.stores import record
from tests.sweeps.toys import finished, infeasible, spec_with
from tests.sweeps.view_sweeps import NoViews, new_sweep
from trainables.worker.ray import launch_from_json, launch_to_json
from trainables.worker.trial import run_launch

SPEC = specs.mean("here", trials=3, data={"source": "uniform", "n": 100})
GRID = {"sampler": "grid", "trials": 4, "seed": 1, "repeats": 2}
KNOBS = {"hill": {"rate": {"choice": [0.1, 1.0, 10.0]}}}


def proposals(spec, count):
    proposer = Proposer(spec)
    return [proposer.propose() for _ in range(count)]


def trials_of(spec, count):
    return [finished(spec, one) for one in proposals(spec, count)]


def asked(spec, records, trials):
    return resume.extension_for(record(), spec, records, trials)


# -- what may be asked -------------------------------------------------------------------------------------


def test_the_same_number_is_no_extension_and_a_larger_one_is():
    spec = spec_with()
    assert asked(spec, trials_of(spec, 5), 20) is None
    assert asked(spec, trials_of(spec, 5), None) is None
    found = asked(spec, [*trials_of(spec, 5), infeasible(spec, proposals(spec, 6)[5], 1.0)], 30)
    assert (found.trials, found.hours, found.launched) == (30, None, 5)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("trials", [19, 0, -1, True, 20.5, "30", 10_000_001]),
        ("epsilon", [0.0, -1.0, math.nan, math.inf, 1e13, True, "8", 1.0]),
    ],
)
def test_what_is_less_or_no_number_is_refused(name, values):
    for value in values:
        wish = {"trials": value} if name == "trials" else {"trials": None, "epsilon": [value]}
        with pytest.raises(InvalidValue, match=f"{name}={value!r}"):
            resume.extension_for(record(), spec_with(), [], **wish)


def test_a_grid_ends_where_it_ends():
    spec = spec_with(search=GRID, systems=KNOBS)
    assert asked(spec, trials_of(spec, 4), 6).trials == 6
    with pytest.raises(InvalidValue, match="at most 6, all points of the grid"):
        asked(spec, trials_of(spec, 4), 7)
    dry = [infeasible(spec, one, 1.0) for one in proposals(spec, 6)]
    with pytest.raises(InvalidValue, match="ran dry after 6 proposals"):
        asked(spec, dry, 5)


def test_budgets_are_added_where_trials_are_left_for_them():
    spec = spec_with()
    some = trials_of(spec, 5)
    enqueued = [replace(some[4], number=2, request=7), *some[:2], some[3]]
    found = resume.extension_for(record(), spec, enqueued, None, None, [8, 0.5])
    assert (found.trials, found.epsilon, found.launched, found.proposed) == (None, (0.5, 8.0), 3, 3)
    assert resume.extended(spec, [found]).privacy.epsilon == tuple(sorted((*spec.privacy.epsilon, 0.5, 8.0)))
    all_of_them = trials_of(spec, 20)
    with pytest.raises(InvalidValue, match=r"epsilon='8'.*all 20 of sweep .* are launched.*Add --trials N"):
        resume.extension_for(record(), spec, all_of_them, 20, None, [8.0])
    assert resume.extension_for(record(), spec, all_of_them, 21, None, [8.0]).trials == 21


# -- what the search makes of it ---------------------------------------------------------------------------


@pytest.mark.parametrize("search", [{"sampler": "random"}, {"sampler": "random", "stratified": True}, GRID])
def test_budgets_take_part_from_the_extension_on(search):
    spec = spec_with(search={"trials": 20, "seed": 1, **search}, systems=KNOBS)
    more = (Extension(epsilon=(8.0,), proposed=4, launched=4, at=1.0),)
    before, after = Proposer(spec), Proposer(spec, (), more)
    first, extended = ([one.propose().config for _ in range(4)] for one in (before, after))
    assert first == extended
    later = []
    while len(later) < 12 and (proposal := after.propose()) is not None:
        later.append((proposal.config["target_epsilon"], proposal.config["rate"]))
    assert 8.0 in [epsilon for epsilon, _ in later]
    if search is GRID:
        # All of the new points first, each twice, then the rest of the old ones.
        assert [epsilon for epsilon, _ in later[:6]] == [8.0] * 6
        whole = Counter([(one["target_epsilon"], one["rate"]) for one in first] + later)
        assert set(whole.values()) == {2}
        assert len(whole) == 3 * (1 + len(spec.privacy.epsilon))
    elif search.get("stratified"):
        assert set(Counter(epsilon for epsilon, _ in later).values()) == {12 // (1 + len(spec.privacy.epsilon))}


def test_a_spec_with_any_of_its_budgets_or_totals_is_the_same_spec():
    before = sweeps.load(SPEC)
    richer = [Extension(epsilon=(one,), proposed=3, launched=3, at=1.0) for one in (8.0, 2.0)]
    longer = [Extension(trials=trials, launched=3, at=1.0) for trials in (5, 8)]
    for later, changes, same in (
        *((richer, {"privacy.epsilon": budgets}, budgets != [1, 2]) for budgets in ([1, 8], [8, 2, 1], [1, 2])),
        *((longer, {"search.trials": trials}, trials != 6) for trials in (3, 5, 8, 6)),
    ):
        given = sweeps.load(before, changes=changes)
        assert (resume.without_extensions(given, before, later).digest == before.digest) is same
    ends = resume.extended(before, richer).front.reference["epsilon"]
    assert (ends.value, before.front.reference["epsilon"].value) == (8.8, 1.1)
    assert resume.extended(before, longer).search.trials == 8


# -- what its total says -----------------------------------------------------------------------------------


@pytest.fixture
def views(tmp_path):
    """A sweep of three trials by a sampler that looks at nothing, and its lease."""
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    for number in range(3):
        view_sweeps.complete(store, lease, number)
    return store, lease


def counted(store):
    return summary_of(PublishedStore(store), store.sweep("views"), store.trials("views"))


def test_an_extension_takes_the_guarantee_of_the_total_away(views):
    store, lease = views
    assert counted(store).procedure.is_claim
    store.extend(lease, Extension(trials=80, launched=3, at=1.0))
    store.extend(lease, Extension(trials=90, launched=3, at=2.0))
    found = counted(store).procedure
    assert (found.is_claim, found.guarantee.status) == (False, Status.NO_CLAIM)
    said = "it was extended to 80 and then 90 trials when results could be seen"
    assert [choice.what for choice in found.choices] == [said]
    assert said in str(sweeps.open("views", root=store.sweep("views").root))


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A sweep that is over after its three trials, by a session that launches nothing."""
    workspace = Workspace.at(tmp_path)
    session.create(sweeps.load(SPEC), workspace)
    monkeypatch.setattr("sweeps.ray.cluster.check_reachable", lambda *_: None)
    asked_for = []

    def launches(runner, *_):
        controller = runner.controller
        # The sampler's own number stays: NSGA-II's population follows from it.
        asked_for.append((controller.spec.search.trials, controller.proposer._spec.search.trials))
        while controller.launched < controller.spec.search.trials:
            group = controller.decide()
            controller.running -= {one.key for one in group.members}
            for one in group.members:
                controller.store.fail(controller.lease, one.key, one.attempt, None, "not today")
        return SweepState.FINISHED

    monkeypatch.setattr(session.TuneRunner, "_on_the_cluster", launches)
    monkeypatch.setattr(session, "Drain", NoViews)
    return workspace, asked_for


def test_a_session_extends_says_the_cost_and_goes_on_without_being_asked_again(started, capsys):
    workspace, asked_for = started
    session.resume("here", workspace)
    assert capsys.readouterr().err == ""
    session.resume("here", workspace, session.RunOptions(trials=5))
    said = capsys.readouterr().err
    assert "'here' is extended from 3 to 5 trials in all." in said
    assert "all 5 trials together: about epsilon" in said
    assert "It will be no guarantee, because it was extended to 5 trials" in said
    # The same again, as after a crash, and without it.
    session.resume("here", workspace, session.RunOptions(trials=5))
    session.resume("here", workspace, session.RunOptions(spec=sweeps.load(SPEC)))
    session.resume("here", workspace, session.RunOptions(spec=sweeps.load(SPEC, trials=5)))
    store = workspace.open_store()
    kept = store.sweep("here")
    assert [(one.trials, one.launched) for one in kept.extensions] == [(5, 3)]
    assert kept.spec.canonical()["search"]["trials"] == 3
    assert len(store.trials("here", [TrialState.FAILED])) == 5
    assert asked_for == [(3, 3), (5, 3)]
    with pytest.raises(InvalidValue, match="from 5, which sweep 'here' has now"):
        session.resume("here", workspace, session.RunOptions(trials=4))


def test_a_session_adds_a_budget_and_keeps_it(started, capsys):
    workspace, _ = started
    session.resume("here", workspace)
    with pytest.raises(InvalidValue, match="Add --trials N"):
        session.resume("here", workspace, session.RunOptions(epsilon=[8.0]))
    session.resume("here", workspace, session.RunOptions(trials=9, epsilon=[8.0]))
    said = capsys.readouterr().err
    assert "'here' is given epsilon 8 besides 1, for trials that are proposed from now on." in said
    total = float(re.search(r"all 9 trials together: about epsilon ([\d.]+)", said)[1])
    # Nine at epsilon 1 come to 9 at most; three or more of these have 8.
    assert total > 9
    assert "it was extended to 9 trials when results could be seen and it was given the budgets epsilon 8" in said
    session.resume("here", workspace)
    session.resume(
        "here", workspace, session.RunOptions(spec=sweeps.load(SPEC, changes={"privacy.epsilon": [1.0, 8.0]}))
    )
    store = workspace.open_store()
    budgets = [one.config["target_epsilon"] for one in store.trials("here")]
    assert budgets[:3] == [1.0] * 3
    assert set(budgets[3:]) == {1.0, 8.0}
    assert [one.plan.guarantee.epsilon <= one.config["target_epsilon"] for one in store.trials("here")] == [True] * 9
    assert store.sweep("here").extensions[0].epsilon == (8.0,)
    assert store.sweep("here").spec.front.reference["epsilon"].value == 1.1
    assert store.sweep("here").references["epsilon"].value == 8.8
    assert enqueue(store, "here", {"clip": 0.5, "target_epsilon": 8.0}).config["target_epsilon"] == 8.0
    with pytest.raises(InvalidValue, match=r"epsilon=8.0.*a budget besides 1, 8.*each once"):
        session.resume("here", workspace, session.RunOptions(trials=12, epsilon=[8.0]))


def test_a_changed_spec_does_not_extend_unsaid(started):
    """The total would still be called a guarantee of a number that was fixed beforehand."""
    workspace, _ = started
    for trials in (2, 9):
        given = sweeps.load(SPEC, trials=trials)
        with pytest.raises(Changed, match=r"search.trials: 3 -> "):
            session.resume("here", workspace, session.RunOptions(spec=given))
        with pytest.raises(Changed, match=r"search.trials \(--trials extends it\) cannot change"):
            session.resume("here", workspace, session.RunOptions(spec=given, accept=["spec"]))
    assert workspace.open_store().sweep("here").extensions == ()


# `limits.hours` ends a sweep, `limits.trial_minutes` a trial: what is stopped, charged and claimed.


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
        from_step=0,
        to_step=1,
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
    limited.controller.finished(group, [{"key": member.key, "attempt": 1, "overran": ""}])
    (trial,) = limited.store.trials(NAME)
    (entry,) = limited.store.ledger(NAME)
    assert (trial.state, trial.reason) == (TrialState.FAILED, OVERRAN)
    assert (entry.executed_to, entry.steps_spent) == (member.to_step, trial.plan.steps)
    assert limited.controller.decide().members[0].key == f"{NAME}-1"


def test_time_of_lost_attempts_counts_and_none_left_is_not_launched(limited, monkeypatch):
    group = limited.controller.decide()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 40)
    limited.controller.lost(group, "its worker process ended")
    again = limited.controller.decide()
    assert (again.members[0].attempt, round(again.seconds)) == (2, 20)
    monkeypatch.setattr(time, "time", lambda: now + 70)
    limited.controller.lost(again, "its worker process ended")
    monkeypatch.undo()
    assert limited.controller.decide().members[0].key == f"{NAME}-1"
    first = limited.store.trials(NAME)[0]
    assert (first.state, first.reason, first.attempts) == (TrialState.FAILED, OVERRAN, 2)
    assert limited.store.ledger(NAME, first.key)[-1].executed_to == first.plan.steps


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
    session.create(sweeps.load({**SPEC, "limits": {"hours": 1}}), workspace)
    monkeypatch.setattr("sweeps.ray.cluster.check_reachable", lambda *_: None)
    monkeypatch.setattr(session, "Drain", NoViews)
    clock = [time.time()]

    def launches(runner, data, first_sign, deadline):
        controller, left = runner.controller, deadline.seconds
        while left > 0 and controller.launched < controller.spec.search.trials:
            group = controller.decide()
            clock[0] += min(2400, left)
            monkeypatch.setattr(time, "time", lambda: clock[0])
            if left < 2400:
                controller.settle_running(HOURS_OVER)
                return SweepState.OUT_OF_HOURS
            left -= 2400
            controller.lost(group, HOURS_OVER)
            controller.waiting.clear()
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
    """What was planned beforehand is what was counted_total; less of it is a number that results could have chosen."""
    store = new_sweep(tmp_path, search={"trials": 3, "sampler": "random"})
    lease = store.acquire("views")
    for number in range(3):
        assert number == 0 or not counted_total(store).is_claim
        view_sweeps.complete(store, lease, number)
        if number == 0:
            assert counted_total(store).is_claim
            store.extend(lease, Extension(hours=5.0, launched=1, at=1.0))
            assert "2 of its trials have not ended" in str(sweeps.open("views", root=tmp_path))
    assert counted_total(store).is_claim


def counted_total(store):
    return summary_of(PublishedStore(store), store.sweep("views"), store.trials("views")).procedure

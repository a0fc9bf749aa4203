"""Learning curves: the planned points of a trial, once each and on one path, whatever happens to it on the way."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.asha import report_steps, stops
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialState
from tests.sweeps import fake_workers
from tests.sweeps.fake_workers import ASHA, FakeSweep, simulate
from trainables.registry import SYSTEMS

CURVE = {"curve": 3}
TOY = SYSTEMS["noisy-mean"]
SPECS = {bool(rungs): load_spec({**fake_workers.SPEC, "early_stopping": rungs}) for rungs in (None, ASHA)}


def spec_with(curve: int | None = None, rungs: bool = False) -> SweepSpec:
    return SPECS[rungs].model_copy(update={"curve": curve})


@given(steps=st.integers(1, 10**6), count=st.integers(2, 50), rungs=st.booleans())
def test_points_are_even_shares_of_the_plan_and_the_ends_of_its_launches(steps, count, rungs):
    spec = spec_with(count, rungs)
    found = report_steps(spec, TOY, steps)
    assert list(found) == sorted(set(found))
    assert (found[-1], set(stops(spec, steps)) <= set(found)) == (steps, True)
    assert len(found) <= count + len(stops(spec, steps)) - 1
    assert all(any(0 <= step - steps * k / count < 1 for step in found) for k in range(1, count + 1))


def test_a_system_without_a_curve_reports_at_its_ends_and_is_refused_alone():
    assert report_steps(spec_with(4), SYSTEMS["prediction-sensitivity"], 100) == (100,)
    assert report_steps(spec_with(4), TOY, 100) == (25, 50, 75, 100)
    assert report_steps(spec_with(), TOY, 100) == (100,)
    queries = {"data": {"source": "digits"}, "systems": {"prediction-sensitivity": {"queries": 9}}}
    with pytest.raises(SpecErrors, match="curve=5: expected null with prediction-sensitivity, which reports at the"):
        load_spec({**fake_workers.SPEC, **queries, "objectives": ["accuracy"], "curve": 5})


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_each_point_is_told_once_and_on_one_path(seed):
    """`FakeSweep.check_end` looks."""
    rng = random.Random(seed)
    simulate([rng.randrange(512) for _ in range(60)], rng.choice([None, ASHA]), CURVE)


def fixed(folder) -> FakeSweep:
    """Trials of nine steps that report after 3, 6 and 9."""
    system = {"clip": {"uniform": [0.2, 1.0]}, "steps": 9, "shrinkage": 1.0}
    return FakeSweep(folder, change={**CURVE, "systems": {"noisy-mean": system}})


def half_told(folder):
    """A worker that told of step 3, whose checkpoint is at step 4."""
    sweep = fixed(folder)
    sweep.decide()
    (worker,) = sweep.workers
    worker.execute(1, 4, stop_inside=False)
    sweep.tell(worker)
    return sweep, worker


def test_a_running_trial_shows_its_points_with_its_claim_and_goes_on_behind_them(tmp_path):
    sweep, worker = half_told(tmp_path)
    (told,) = sweep.store.curves(fake_workers.NAME)
    assert (told.step, told.attempt, dict(told.metrics)) == (3, 1, {"expected_error": 1 / 3, "estimate": 1.0})
    (record,) = sweep.store.trials(fake_workers.NAME)
    assert (record.state, record.guarantee, record.metrics) == (TrialState.RUNNING, record.plan.guarantee, {})
    sweep.lose(worker)
    sweep.decide()
    again = sweep.workers[0].member
    assert (again.from_step, again.resume_attempt, again.curve) == (4, 1, (6,))
    sweep.finish()
    assert [(one.step, one.attempt) for one in sweep.store.curves(fake_workers.NAME, [again.key])] == [
        (3, 1), (6, 2), (9, 2),
    ]  # fmt: skip


def test_points_that_nobody_heard_of_are_taken_from_the_checkpoint(tmp_path):
    sweep = fixed(tmp_path)
    sweep.decide()
    (worker,) = sweep.workers
    worker.execute(1, 7, stop_inside=False)
    sweep.lease.release()
    sweep.start()
    assert sweep.store.curves(fake_workers.NAME) == []
    sweep.finish()
    curve = sweep.store.curves(fake_workers.NAME, [worker.member.key])
    assert [(one.step, one.attempt) for one in curve] == [(3, 1), (6, 1), (9, 2)]


def test_steps_behind_a_published_point_are_not_run_again(tmp_path):
    """Another run of them would be a second release: the trial fails instead."""
    sweep, worker = half_told(tmp_path)
    worker.attempt.checkpoints.discard()
    sweep.lose(worker)
    sweep.finish()
    record = sweep.store.trials(fake_workers.NAME)[0]
    assert record.state is TrialState.FAILED
    assert "its state after step 3 is missing or damaged" in record.reason
    assert [one.step for one in sweep.store.curves(fake_workers.NAME, [record.key])] == [3]

"""Learning curves: the planned points of a trial, once each and on one path, whatever happens to it on the way."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweeps
from dpcore.checks import InvalidValue
from sweeps.cli.show import show
from sweeps.mlflow import sync
from sweeps.privacy.release import PublishedStore
from sweeps.reporting import figures
from sweeps.reporting.front import FrontAxis
from sweeps.reporting.html import report_page
from sweeps.reporting.summary import SweepSummary
from sweeps.search.asha import report_steps, stops
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Settlement, TrialState
from tests.sweeps import fake_workers
from tests.sweeps.fake_workers import ASHA, FakeSweep, simulate
from tests.sweeps.view_sweeps import launch, new_sweep, prepared, runs_of
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
    worker.attempt.discard()
    sweep.lose(worker)
    sweep.finish()
    record = sweep.store.trials(fake_workers.NAME)[0]
    assert record.state is TrialState.FAILED
    assert "its state after step 3 is missing or damaged" in record.reason
    assert [one.step for one in sweep.store.curves(fake_workers.NAME, [record.key])] == [3]


def test_a_state_before_a_published_point_does_not_stand_in_for_the_one_behind_it(tmp_path):
    """A worker left its checkpoint at step 2; the one at step 4, behind what it told, is damaged."""
    sweep = fixed(tmp_path)
    sweep.decide()
    (worker,) = sweep.workers
    worker.execute(1, 2, stop_inside=False)
    own = Path(worker.attempt.folder.url)
    before = (own / "checkpoint.2.npz").read_bytes()
    worker.execute(1, 2, stop_inside=False)
    sweep.tell(worker)
    (own / "checkpoint.2.npz").write_bytes(before)
    (own / "checkpoint.4.npz").write_bytes(b"")
    sweep.lose(worker)
    sweep.finish()
    record = sweep.store.trials(fake_workers.NAME)[0]
    assert record.state is TrialState.FAILED
    assert [one.step for one in sweep.store.curves(fake_workers.NAME, [record.key])] == [3]


# Curves as they are seen: tables, screen, report and MLflow, of running trials too, each point once.


EARLY = {2: {"accuracy": 0.3, "accuracy_se": 0.02}, 5: {"accuracy": 0.4, "accuracy_se": 0.02}}
ACCURACY = FrontAxis.parse("accuracy:maximize")


@pytest.fixture
def store(tmp_path):
    """Of trials with ten steps one is complete; one runs, and told of its steps 2 and 5; one has told nothing."""
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    for number in range(3):
        key = launch(store, lease, number)
        if number < 2:
            store.add_to_curve(lease, key, 1, EARLY)
    ends(store, lease, 0, 0.6)
    store.lease = lease
    yield store
    store.close()


def ends(store, lease, number, accuracy):
    """It claims its plan, as every trial does."""
    claim = store.trials("views")[number].plan.guarantee
    metrics = {"accuracy": accuracy, "epsilon": claim.epsilon, "seconds": 0.5}
    came = Settlement(executed_to=10, step=10, metrics=metrics, guarantee=claim, seconds=0.5)
    store.settle(lease, f"views-{number}", 1, came)


def shown(tmp_path, capsys, *, trial=None, form="table", **asked):
    show("views", trial, format=form, root=tmp_path, **asked)
    return capsys.readouterr().out


def test_a_table_has_each_point_once_and_of_running_trials_too(store, tmp_path, capsys):
    table = sweeps.open("views", root=tmp_path).curves()
    assert list(table.columns) == [
        "number", "key", "step", "share", "attempt", "metric.accuracy", "metric.accuracy_se",
        "status",
    ]  # fmt: skip
    points = [(0, 2, 0.2), (0, 5, 0.5), (0, 10, 1.0), (1, 2, 0.2), (1, 5, 0.5)]
    assert list(zip(table["number"], table["step"], table["share"], strict=True)) == points
    assert list(table["metric.accuracy"]) == [0.3, 0.4, 0.6, 0.3, 0.4]
    assert math.isnan(table["metric.accuracy_se"][2])
    running = sweeps.open("views", root=tmp_path).curves("state=running")
    assert list(running["key"]) == ["views-1"] * 2
    # The command line has the same.
    rows = json.loads(shown(tmp_path, capsys, curves=True, form="json"))
    assert [(row["number"], row["step"], row["metric.accuracy"]) for row in rows] == [
        (number, step, accuracy) for (number, step, _), accuracy in zip(points, table["metric.accuracy"], strict=True)
    ]
    assert shown(tmp_path, capsys, curves=True, form="csv").splitlines()[1].startswith("0,views-0,2,0.2,1,0.3,0.02")
    assert "50%" in shown(tmp_path, capsys, curves=True, where=["state=running"])


def test_one_trial_shows_its_curve_with_noise_and_claim(store, tmp_path, capsys):
    text = shown(tmp_path, capsys, trial="1")
    assert "curve    2 of 10 steps (20%): accuracy 0.300 ± 0.020\n" in text
    assert "claim    none yet" not in text
    assert "claim    none yet" in shown(tmp_path, capsys, trial="2")
    curve = json.loads(shown(tmp_path, capsys, trial="0", form="json"))["curve"]
    assert [(one["step"], one["attempt"]) for one in curve] == [(2, 1), (5, 1), (10, 1)]


def test_the_report_and_the_plots_draw_front_and_others_apart(store, tmp_path):
    content = SweepSummary(PublishedStore(store), "views")
    assert "<h2>Learning curves</h2>" in report_page(content)
    drawn = figures.curves_figure(content.trials, content.curves, ACCURACY, {"views-0"})
    others, front = drawn["data"]
    assert (others["name"], others["x"]) == ("other trials", [0.2, 0.5, None])
    assert (front["name"], front["y"]) == ("on the front", [0.3, 0.4, 0.6, None])
    assert front["error_y"]["array"] == [0.02, 0.02, 0.0, 0.0]
    assert figures.curves_figure(content.trials, {}, ACCURACY, set()) is None
    plain = sweeps.open("views", root=tmp_path)
    assert len(plain.plots.curves(plain.front().front).data) == 2
    with pytest.raises(InvalidValue, match="metric='loss': expected an objective that training decides: accuracy"):
        plain.plots.curves(plain.front().front, "loss")


def history(uri, key):
    from mlflow import MlflowClient

    run = runs_of(uri)[key][0]
    found = MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, "accuracy")
    return run.info.status, [(one.step, one.value) for one in sorted(found, key=lambda one: one.step)]


def test_mlflow_has_each_point_once_while_a_trial_runs_and_ever_after(store, tmp_path, monkeypatch):
    """What runs is shown as running until it does not, or nobody looks any more."""
    monkeypatch.setattr(sync, "RUNNING_SECONDS", 0.1)
    uri, told, ending = prepared(tmp_path), [(2, 0.3), (5, 0.4)], threading.Event()
    whole = ("FINISHED", [*told, (10, 0.5)])
    feeding = threading.Thread(target=sync.drain, args=(PublishedStore(store), "views", uri, ending))
    feeding.start()

    def seen(reached):
        limit = time.monotonic() + 60
        while time.monotonic() < limit and not reached():
            time.sleep(0.1)
        return reached()

    try:
        assert seen(lambda: not store.backlog("views"))
        assert seen(lambda: "views-2" in runs_of(uri))
        assert history(uri, "views-1") == ("RUNNING", told)
        ends(store, store.lease, 1, 0.5)
        assert seen(lambda: history(uri, "views-1") == whole)
        assert history(uri, "views-2") == ("RUNNING", [])
    finally:
        ending.set()
        feeding.join()
    assert history(uri, "views-2") == ("SCHEDULED", [])
    for _ in range(2):
        # A second feeder finds what the first has written.
        assert sync.drain(PublishedStore(store), "views", uri, ending) == 0
        sync.rebuild(PublishedStore(store), "views", uri)
        assert history(uri, "views-1") == whole
    assert history(uri, "views-0") == ("FINISHED", [*told, (10, 0.6)])

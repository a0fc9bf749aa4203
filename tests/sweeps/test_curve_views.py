"""Curves as they are seen: tables, screen, report and MLflow, of running trials too, each point once."""

from __future__ import annotations

import json
import math
import threading
import time

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.cli.show import show
from sweeps.mlflow import sync
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting import figures
from sweeps.reporting.front import FrontAxis
from sweeps.reporting.html import report_page
from sweeps.reporting.summary import SweepSummary
from sweeps.store.records import Settlement
from tests.sweeps.tracked_runs import prepared, runs_of
from tests.sweeps.view_sweeps import launch, new_sweep

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
    with pytest.raises(InvalidValue, match="--sort='accuracy': expected left out where --curves"):
        shown(tmp_path, capsys, curves=True, sort="accuracy")
    with pytest.raises(InvalidValue, match="--curves=True: expected left out where one trial is shown"):
        shown(tmp_path, capsys, curves=True, trial="0")


def test_curves_are_paged_by_trials_that_have_one(store, tmp_path, capsys, monkeypatch):
    """The third trial has told nothing; a program reads all unless it asks for a page."""
    monkeypatch.setattr("sweeps.reporting.trials.PAGE", 1)
    first = shown(tmp_path, capsys, curves=True)
    assert "views-0" in first
    assert "views-1" not in first
    assert first.splitlines()[-1] == "1 to 1 of 2 trials with a curve (page 1 of 2; --page 2 has the next)"
    second = shown(tmp_path, capsys, curves=True, page=2)
    assert "views-0" not in second
    assert second.splitlines()[-1] == "2 to 2 of 2 trials with a curve (page 2 of 2)"
    assert len(json.loads(shown(tmp_path, capsys, curves=True, form="json"))) == 5
    assert len(json.loads(shown(tmp_path, capsys, curves=True, form="json", page=2))) == 2
    with pytest.raises(InvalidValue, match="a page from 1 to 2"):
        shown(tmp_path, capsys, curves=True, page=3)


def test_one_trial_shows_its_curve_with_noise_and_claim(store, tmp_path, capsys):
    text = shown(tmp_path, capsys, trial="1")
    assert "curve    2 of 10 steps (20%): accuracy 0.300 ± 0.020\n" in text
    assert "claim    none yet" not in text
    assert "claim    none yet" in shown(tmp_path, capsys, trial="2")
    curve = json.loads(shown(tmp_path, capsys, trial="0", form="json"))["curve"]
    assert [(one["step"], one["attempt"]) for one in curve] == [(2, 1), (5, 1), (10, 1)]


def test_the_report_and_the_plots_draw_front_and_others_apart(store, tmp_path):
    content = SweepSummary.load(PublishedStore(store), "views")
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

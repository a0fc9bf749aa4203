"""`sweeps show`: the trials of a sweep, chosen, in order, a page at a time; one trial whole; until the sweep ends."""

from __future__ import annotations

import csv
import io
import json
import math
import platform
import re
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import sweeps as python
from dpcore.events import Adjacency
from dpcore.guarantee import Status
from sweeps.cli import show as showing
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.summary import TrialProgress, progress
from sweeps.reporting.trials import PAGE, selected
from sweeps.store.records import LedgerEntry, Settlement, TrialState
from sweeps.store.workspace import Workspace
from tests.sweeps.view_sweeps import complete, guarantee, launch, mixed_sweep, new_sweep
from trainables.worker.attempt import Attempt

SECOND = 10**9


@pytest.fixture
def show(said):
    return partial(said, "show")


@pytest.fixture
def trials(tmp_path):
    store = mixed_sweep(tmp_path, trials=24)
    found = PublishedStore(store).trials("views")
    yield found
    store.close()


def numbers(out):
    """The first column of the table of trials."""
    return [int(found) for found in re.findall(r"^ *(\d+)  ", out, flags=re.MULTILINE)]


def accuracy(trial):
    return trial.metrics.get("accuracy")


# -- choosing -----------------------------------------------------------------------------------------------


def test_conditions_are_met_by_those_that_meet_them(trials):
    for words, meets in (
        (["state=failed"], lambda one: one.state is TrialState.FAILED),
        (["state!=complete"], lambda one: one.state is not TrialState.COMPLETE),
        (["accuracy>=0.5", "batch_size=64"], lambda one: (accuracy(one) or 0) >= 0.5 and one.knobs["batch_size"] == 64),
        (["metric.accuracy<0.5"], lambda one: accuracy(one) is not None and accuracy(one) < 0.5),
        (["knob.batch_size==128"], lambda one: one.knobs["batch_size"] == 128),
        (["nesterov=true"], lambda one: one.knobs["nesterov"] is True),
        (["model=mlp", "epsilon<=2"], lambda one: one.guarantee is not None and one.guarantee.epsilon <= 2),
        (["model=linear"], lambda one: False),
        (["model<3"], lambda one: False),
        (["nesterov>0"], lambda one: False),
        (["target_epsilon=4", "number > 3"], lambda one: one.target_epsilon == 4 and one.number > 3),
    ):
        expected = [one.number for one in trials if meets(one)]
        assert [one.number for one in selected(trials, words)] == expected, words
        assert 0 <= len(expected) < len(trials), "a condition that holds for all shows nothing"


def test_a_number_is_equal_as_it_is_printed(trials):
    one = next(one for one in trials if accuracy(one) is not None and f"{accuracy(one):.4g}" != repr(accuracy(one)))
    found = selected(trials, f"accuracy={accuracy(one):.4g}")
    assert one.number in [other.number for other in found]
    assert len(found) < len(trials) / 2


def test_the_best_come_first_and_those_without_a_value_last(trials):
    values = [accuracy(one) for one in selected(trials, sort="accuracy", goals={"accuracy": "maximize"})]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
    assert len(known) == 24
    assert values[24:] == [None] * 3
    turned = [accuracy(one) for one in selected(trials, sort="accuracy:ascending", goals={"accuracy": "maximize"})]
    assert turned == [*reversed(known), None, None, None]
    rates = [one.knobs["learning_rate"] for one in selected(trials, sort="learning_rate:descending")]
    assert rates == sorted(rates, reverse=True)


# -- listing ------------------------------------------------------------------------------------------------


def test_a_page_stands_above_what_is_claimed(trials, show):
    first, second = show("views"), show("views", "--page", "2")
    assert numbers(first) + numbers(second) == [one.number for one in trials]
    assert len(numbers(first)) == PAGE
    assert "1 to 20 of 27 (page 1 of 2; --page 2 has the next)" in first
    assert "21 to 27 of 27 (page 2 of 2)" in second
    assert "trial 24: loss=nan: expected finite metrics" in second
    assert first.index("Trials of views") < first.index("whole sweep")


def test_rows_travel_with_all_they_need(trials, show):
    rows = list(csv.DictReader(io.StringIO(show("views", "--format", "csv", "--where", "state=complete"))))
    assert [int(row["number"]) for row in rows] == list(range(24))
    for row, one in zip(rows, trials, strict=False):
        assert (row["key"], float(row["epsilon"])) == (one.key, one.guarantee.epsilon)
        assert float(row["metric.accuracy"]) == accuracy(one)
        assert (row["delta"], row["adjacency"], row["unit"]) == ("1e-05", "add-remove", "record")
        assert row["status"] == "proved (1 assumption)"
        assert row["assumptions"] == "1. floating point: not covered"


# -- running trials -----------------------------------------------------------------------------------------


def entry(**fields):
    return LedgerEntry(**{"key": "views-1", "attempt": 1, "from_step": 0, "to_step": 100, **fields})


def test_the_pace_is_that_of_the_workers_own_files():
    begun = {"claim": 5 * SECOND, "horizon.json": 9 * SECOND}
    assert progress(entry(), begun) == TrialProgress(step=0, until=100, seconds_left=None)
    signs = {**begun, "checkpoint.10.npz": 7 * SECOND, "checkpoint.20.npz": 9 * SECOND}
    assert progress(entry(), signs) == TrialProgress(step=20, until=100, seconds_left=4 / 20 * 80)
    # A launch that went on from step 10 took its 4 s for ten steps.
    assert progress(entry(attempt=2, from_step=10), signs).seconds_left == 4 / 10 * 80
    # On an object store a claim has its holder's name.
    assert progress(entry(), {"claim.ab.cd": 0, "checkpoint.50.npz": SECOND}).seconds_left == 1


def running_sweep(tmp_path):
    store = mixed_sweep(tmp_path, trials=3)
    lease = store.acquire("views")
    store.set_state(lease, "running")
    key = launch(store, lease, 9)
    attempt = Attempt.of(Workspace.at(tmp_path).trials("views"), key, 1)
    attempt.claim(0)
    attempt.reserve_until(4)
    attempt.save(4, {"weights": np.zeros(2)})
    return store, lease


def test_running_trials_come_first_with_their_step(tmp_path, show, command):
    store, lease = running_sweep(tmp_path)
    out = show("views")
    assert numbers(out)[0] == 9
    assert "4/10" in next(line for line in out.splitlines() if re.match(r" *9 ", line))
    shown = python.open("views", root=tmp_path).trials("state=running").loc[9]
    assert (shown["at_step"], shown["node"]) == (4, platform.node())
    assert f"running  at step 4 of 10 on {shown['node']}, about " in show("views", "9")
    # Of records that lie elsewhere nothing is known, and all else is shown.
    elsewhere = ("--store", Workspace.at(tmp_path).store_url, "--root", tmp_path / "other")
    assert "4/10" not in command("show", "views", *elsewhere)[1]
    lease.release()
    store.close()


# -- one trial ----------------------------------------------------------------------------------------------


def test_one_trial_is_shown_whole(trials, show):
    out = show("views", "7")
    one = trials[7]
    for words in (
        "views-7  complete",
        f"knobs    learning_rate {one.knobs['learning_rate']:.6g}, batch_size",
        "plan     Gaussian noise on clipped sums; 10 steps, work 1,000",
        "steps    10 x gaussian (noise_multiplier 4, adjacency add-remove)",
        "launch 1 settled: steps 0 to 10, 10 steps charged, 0.5 s",
        f"metric   accuracy {accuracy(one):.4g} (of validation records, treated as public)",
        "(of the machine: no claim covers it)",
        "claim    epsilon 7.992 at delta 1e-05, differential-privacy, add-remove, per record, by pld, status: proved",
        "theorem  Dong, Roth and Su (2022), Theorem 2.7",
        "  1. floating point: not covered",
    ):
        assert words in out
    assert show("views", one.key) == out
    content = json.loads(show("views", "7", "--json"))
    assert (content["number"], content["epsilon"]) == (7, one.guarantee.epsilon)
    assert content["plan"] == json.loads(json.dumps(one.plan.to_dict()))
    assert [launch["outcome"] for launch in content["launches"]] == ["settled"]


def test_what_went_wrong_is_named_and_never_quoted(tmp_path, trials, show):
    attempt = Attempt.of(Workspace.at(tmp_path).trials("views"), "views-24", 1)
    attempt.claim(0)
    attempt.explain("ValueError: the record of Ada Lovelace")
    out = show("views", "24")
    assert "reason   loss=nan: expected finite metrics" in out
    assert f"error    the whole text is in {attempt.folder.url}/error.txt" in out
    assert "launch 1 failed: steps 0 to 10, 3 steps charged" in out
    assert "Ada" not in out + show("views", "24", "--json")
    assert "never launched, and spent nothing" in show("views", "25")
    assert "launch 1 lost: steps 0 to 10, 10 steps charged (its worker was lost)" in show("views", "26")


# -- watching -----------------------------------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch):
    """What happens between two looks: the seconds that were waited, and what is called at each."""
    seen = SimpleNamespace(waited=[], then=[])

    def sleep(seconds):
        seen.waited.append(seconds)
        seen.then.pop(0)()

    monkeypatch.setattr(showing, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    return seen


def test_it_is_watched_until_it_ends(tmp_path, show, looks):
    store, lease = running_sweep(tmp_path)
    looks.then = [lambda: complete(store, lease, 10), lambda: None, lambda: store.set_state(lease, "finished")]
    out = show("views", "--watch", "--every", "7")
    assert looks.waited == [7.0, 7.0, 7.0]
    # Twice where something changed, not where nothing did, and the whole at the end.
    assert out.count("(Ctrl-C ends the looking, not the sweep)") == 2
    assert "views  running  1 planned, 1 running, 3 complete" in out
    assert "views  running  1 planned, 1 running, 4 complete" in out
    assert out.count(" whole sweep ") == 1
    lease.release()
    store.close()


# -- what is claimed: every epsilon on the screen is a whole claim, rounded up --------------------------------


def sweep_of(tmp_path, *claims):
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    for number, claim in enumerate(claims):
        key = launch(store, lease, number)
        metrics = {"accuracy": 0.5, "epsilon": claim.epsilon}
        store.settle(lease, key, 1, Settlement(executed_to=10, step=10, metrics=metrics, guarantee=claim, seconds=0.5))
    lease.release()
    store.close()


def test_a_claim_is_printed_whole_and_rounded_up(tmp_path, show):
    sweep_of(tmp_path, guarantee(0.5), guarantee(1.2000001, delta=1e-5))
    lines = show("views", "--why").splitlines()
    (claim,) = [line for line in lines if line.startswith("claim")]
    assert claim == (
        "claim    one trial by itself: epsilon 1.201 at delta 1e-05, differential-privacy, add-remove, per record, "
        "by pld, status: proved (1 assumption: 1) (the largest of 2 trials, views-1); may be quoted as one trial's"
    )
    (total,) = [line for line in lines if line.startswith("total")]
    for word in ("epsilon ", "at delta 1e-05", "differential-privacy", "add-remove", "per record", "by ", "status: "):
        assert word in total
    # Nothing prints an epsilon without the rest of its claim.
    assert all("at delta" in line for line in lines if "epsilon" in line)


def test_trials_stand_above_the_verdict_and_every_epsilon_is_of_one_named_kind(tmp_path, show, monkeypatch):
    sweep_of(tmp_path, guarantee(0.5), guarantee(1.2000001))
    monkeypatch.setenv("COLUMNS", "80")
    out = show("views")
    assert max(map(len, out.splitlines())) <= 80
    table, verdict = out.split("Privacy      ")
    assert "1.201" in table
    assert "1.200" not in out
    kind, alone = verdict.splitlines()[:2]
    assert kind == "differential-privacy, add-remove, per record, delta 1e-05, by pld"
    assert alone == " one trial   proved (1 assumption: 1); says nothing of having chosen it among 2"
    assert " whole sweep epsilon " in verdict
    assert "sweeps show views --why" in verdict


def test_a_total_says_who_counted_it_where_trials_were_counted_by_others(tmp_path, show):
    sweep_of(tmp_path, guarantee(0.5, accountant="zcdp"), guarantee(1.5, accountant="zcdp"))
    [_, total] = " ".join(show("views").split()).split(" whole sweep ")
    assert re.match(r"epsilon [\d.]+ at delta 1e-05 by pld, proved", total)


def test_claims_of_different_kinds_never_share_a_number(tmp_path, show):
    asymptotic = guarantee(0.7, accountant="gdp-clt", status=Status.ASYMPTOTIC)
    replaced = guarantee(9.0, adjacency=Adjacency.REPLACE_ONE)
    sweep_of(tmp_path, guarantee(2.0), asymptotic, replaced, guarantee(math.inf, delta=1e-6))
    lines = [line for line in show("views", "--why").splitlines() if line.startswith("claim")]
    assert len(lines) == 4
    for words in (
        ("epsilon 2 at delta 1e-05", "add-remove", "by pld", "status: proved", "(views-0)"),
        ("epsilon 0.7 at delta 1e-05", "by gdp-clt", "status: asymptotic", "(views-1)"),
        ("epsilon 9 at delta 1e-05", "replace-one", "(views-2)"),
        ("epsilon inf at delta 1e-06", "(views-3)"),
    ):
        assert sum(all(word in line for word in words) for line in lines) == 1

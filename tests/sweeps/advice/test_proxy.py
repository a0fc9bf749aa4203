"""Results that a sweep on public records lets one expect: by hand, by simulation, and by a real sweep."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import sweeps
from dpcore.checks import InvalidValue
from sweeps.advice.proxy import FEWEST, Proxy
from sweeps.cli.main import app
from sweeps.execution import session
from sweeps.privacy.published_store import PublishedStore
from sweeps.selection.compare import compared, text
from sweeps.spec import load_spec
from sweeps.util.workspace import Workspace
from tests.sweeps.final_runs import WHY, ran, spec, table

VALUES = (0.2, 0.5, 0.6, 0.7, 0.9)


def proxy(**changes) -> Proxy:
    budgets = ((1.0, VALUES), (4.0, tuple(value + 0.05 for value in VALUES)))
    given = {"sweep": "p", "because": "published", "metric": "accuracy", "goal": "maximize"}
    return Proxy(**given | {"budgets": budgets} | changes)


def test_one_draw_is_the_mean_and_all_there_are_the_best():
    assert proxy().predicted(1.0, 1) == pytest.approx(np.mean(VALUES))
    assert proxy().predicted(1.0, math.inf) == 0.9
    assert proxy().predicted(2.0, 1) == pytest.approx(np.mean(VALUES) + 0.025), "half of the way, by the logarithm"


@pytest.mark.parametrize("trials", [2, 7])
def test_the_best_of_some_is_what_drawing_them_gives(trials):
    """50,000 draws: the mean of the best is known to .001 or so, four deviations here."""
    drawn = np.random.default_rng(0).choice(VALUES, (50_000, trials)).max(axis=1)
    error = drawn.std() / math.sqrt(len(drawn))
    assert abs(proxy().predicted(1.0, trials) - drawn.mean()) < 4 * error


def test_least_is_best_where_an_objective_is_to_be_small():
    falling = proxy(goal="minimize", budgets=((1.0, VALUES[::-1]),))
    assert falling.predicted(1.0, math.inf) == 0.2
    assert falling.predicted(1.0, 3) < np.mean(VALUES)


def test_beyond_its_budgets_nothing_is_said():
    assert proxy().predicted(0.99, 3) is None
    assert proxy().predicted(4.01, 3) is None
    assert proxy(budgets=((1.0, VALUES),)).predicted(1.0, 1) == pytest.approx(np.mean(VALUES))


def test_modes_are_compared_by_what_they_may_spend_on_a_trial():
    known = proxy(budgets=tuple((e, tuple(v + 0.01 * math.log(e) for v in VALUES)) for e in (0.01, 1000.0)))
    found = compared(load_spec({**sweeps.load("toy").canonical(), "name": "t"}), proxy=known)
    best, one = found.row("best, geometric"), found.row("one run")
    assert found.predicted(best) == (known.predicted(best.spent[0], best.expected),)
    assert found.predicted(one)[0] < found.predicted(best)[0] < found.predicted(found.row("public"))[0]
    assert found.predicted(found.row("first, 4 rungs")) == ()
    assert len(found.predicted(found.row("compose, front-loaded"))) == 2
    said = text(found)
    assert "predicted: accuracy of the best of the expected number of trials, as those of p have it" in said
    assert "  predicted  budget for" in said
    without = text(compared(load_spec({**sweeps.load("toy").canonical(), "name": "t"})))
    assert "predicted" not in without


FIXED = {"model": "linear", "epochs": 1, "clip_norm": 1.0, "batch_size": 256}
DIGITS = {
    "data": {"source": "digits", "records_are_public": "the UCI digits are published"},
    "systems": {"noisy-sgd": {**FIXED, "learning_rate": {"log_uniform": [0.1, 2]}}},
    "privacy": {"epsilon": [1, 8], "delta": 1e-4},
    "objectives": [{"metric": "accuracy"}],
    "search": {"trials": 2 * FEWEST, "sampler": "random", "stratified": True},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    sweeps.run({"name": "public", **DIGITS}, root=folder, progress=False)
    # What makes no proxy of this one is seen before its trials are.
    session.create(load_spec({"name": "mine", **DIGITS, "data": {"source": "digits"}}), Workspace.at(folder))
    table(folder, "people", n=2000)
    return folder


def private(root, **sections):
    """A spec on records of its own, which are nobody else's."""
    asked = spec("next", str(root / "people.csv"), data={"n": 2000}, **{"privacy": {"epsilon": 6, "delta": 1e-4}})
    return {**asked, "systems": DIGITS["systems"], **sections}


def test_a_real_proxy_is_asked_by_the_command_and_by_python(root, tmp_path):
    file = tmp_path / "next.json"
    file.write_text(json.dumps(private(root)))
    words = ["check", str(file), "--root", str(root), "--proxy", "public", "--no-rehearsal", "--json"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 0, ended.output
    rows = {row["mode"]: row for row in json.loads(ended.stdout)["modes"]["rows"]}
    found = sweeps.check(private(root), rehearsal=False, proxy="public", root=root).modes
    assert rows["one run"]["predicted"] == list(found.predicted(found.row("one run")))
    [expected] = rows["one run"]["predicted"]
    trials = PublishedStore.open(Workspace.at(root).store_url).trials("public")
    means = [np.mean([one.metrics["accuracy"] for one in trials if one.config["target_epsilon"] == e]) for e in (1, 8)]
    assert expected == pytest.approx(np.interp(math.log(found.row("one run").spent[0]), np.log([1, 8]), means))
    assert not found.proxy.chosen


def test_what_is_no_proxy_is_refused(root, monkeypatch):
    with pytest.raises(InvalidValue, match="all of whose records are declared public"):
        sweeps.check(private(root), rehearsal=False, proxy="mine", root=root)
    monkeypatch.setattr("sweeps.advice.proxy.FEWEST", FEWEST + 1)
    with pytest.raises(InvalidValue, match=f"at least 6 finished trials at some budget \\(this one has {FEWEST}\\)"):
        sweeps.check(private(root), rehearsal=False, proxy="public", root=root)


def test_a_proxy_that_was_judged_otherwise_is_refused(root):
    other = {**private(root), "objectives": [{"metric": "loss"}, {"metric": "auc"}]}
    known = PublishedStore.open(Workspace.at(root).store_url)
    assert Proxy.of(known, "public", load_spec(other)).metric in ("loss", "auc")
    loaded = load_spec(other)
    unknown = loaded.model_copy(update={"objectives": (loaded.objectives[0].model_copy(update={"metric": "mae"}),)})
    with pytest.raises(InvalidValue, match="finished trials with mae"):
        Proxy.of(known, "public", unknown)


JUDGED = {"records": "private", "share": 0.2, "id": "id"}


def test_what_is_private_the_same_or_runs_still_is_no_advice(root, tmp_path):
    """What its numbers tell is not free, or not yet what it will be: all were "a sweep on public records"."""
    public, proxy_file = {"records_are_public": WHY}, table(tmp_path, "proxy", seed=1)
    own = str(root / "people.csv")
    ran(spec("judged", proxy_file, data={**public, "validation": JUDGED}), tmp_path)
    ran(spec("same", own, data={**public, "n": 2000}, search={"trials": FEWEST}), tmp_path)
    ran(spec("running", proxy_file, data=public), tmp_path, state="running")
    for name, said in (
        ("judged", "whose validation records are public too"),
        ("same", "which calls the same ones private"),
        ("running", "a sweep that has ended; it is running"),
    ):
        with pytest.raises(InvalidValue, match=said):
            sweeps.check(private(root), rehearsal=False, proxy=name, root=tmp_path)
    asked = private(root)
    asked["data"] |= public
    # Of a demonstration on the same public records nothing is private.
    assert sweeps.check(asked, rehearsal=False, proxy="same", root=tmp_path).modes.proxy.sweep == "same"


def test_trials_that_were_chosen_are_said_to_be(root, tmp_path):
    public = {"records_are_public": WHY}
    first = {"trials": 4 * FEWEST, "sampler": "tpe", "first": [{"learning_rate": 0.5}]}
    stopping = {"method": "asha", "rungs": 2, "reduction": 2}
    raw = spec("chosen", table(tmp_path, "proxy", seed=1), data=public, search=first, early_stopping=stopping)
    ran(raw, tmp_path)
    known = PublishedStore.open(Workspace.at(tmp_path).store_url)
    found = Proxy.of(known, "chosen", load_spec(private(root)))
    assert len(found.chosen) == 3
    said = text(compared(load_spec({**sweeps.load("toy").canonical(), "name": "t"}), proxy=found))
    words = " ".join(said.split())
    assert "better than draws of a prior: its sampler learned and its early stopping let only the better ones" in words

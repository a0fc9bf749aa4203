"""A recorded sweep as Python has it, against the records themselves."""

from __future__ import annotations

import io
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import sweeps
from dpcore.checks import InvalidValue
from sweeps import progress as display
from sweeps.execution import session
from sweeps.execution.session import Failure, SweepEnd
from sweeps.privacy.release import PublishedStore
from sweeps.reporting import tables
from sweeps.reporting.html import render
from sweeps.store.records import TrialState
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, swept

SPEC = specs.mean(
    NAME,
    trials=12,
    data={"source": "uniform", "n": 100},
    privacy={"epsilon": [0.5, 1.0], "delta": 1e-5},
    objectives=[{"metric": "expected_error"}, {"metric": "epsilon", "goal": "minimize"}],
)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("face")
    swept(root, SPEC, views=False)
    return root


@pytest.fixture
def sweep(root):
    return sweeps.open(NAME, root=root)


@pytest.fixture
def records(sweep):
    return PublishedStore.open(sweep.workspace).trials(NAME)


def test_the_table_of_trials_is_the_records(sweep, records):
    table = sweep.trials()
    assert list(table.index) == [one.number for one in records]
    for number, row in table.iterrows():
        one = records[number]
        assert (row["key"], row["state"], row["system"]) == (one.key, "complete", "noisy-mean")
        assert row["knob.clip"] == one.knobs["clip"]
        assert row["solved.noise_multiplier"] == one.plan.config["noise_multiplier"]
        assert row["metric.expected_error"] == one.metrics["expected_error"]
        assert (row["epsilon"], row["delta"], row["unit"]) == (one.guarantee.epsilon, 1e-5, "record")
        assert row["status"].startswith("proved (")
        assert (row["steps"], row["planned_steps"], row["attempts"]) == (4, 4, 1)
        assert math.isclose(row["finished_at"].timestamp(), one.finished_at, abs_tol=1e-5)
    assert set(table.attrs["assumptions"]) == {line for one in records for line in one.guarantee.assumptions}
    assert not [name for name in table if name.startswith("metric.epsilon")]


def test_the_front_is_that_of_the_command(sweep, tmp_path):
    front = sweep.front()
    table = front.table()
    assert list(table["key"]) == front.keys
    assert table["on_front"].all()
    assert len(front.table(everything=True)) == 12
    assert front.write(tmp_path / "front.json").read_text() == render(front.front, "json")
    assert json.loads((tmp_path / "front.json").read_text())["panels"][0]["hypervolume"] == front.hypervolumes[0]
    assert pd.read_csv(front.write(tmp_path / "front.csv"))["key"].tolist() == front.keys
    assert sweep.front(["expected_error:minimize"], reference={"expected_error": 1.0}).hypervolumes != [None]
    assert len(front.figure().data) > 0


def test_the_best_is_the_best_by_the_first_objective_or_another(sweep, records):
    least = min(records, key=lambda one: one.metrics["expected_error"])
    assert sweep.best().key == least.key
    assert sweep.best("expected_error:maximize").metrics["expected_error"] == max(
        one.metrics["expected_error"] for one in records
    )
    with pytest.raises(InvalidValue, match="accuracy"):
        sweep.best("accuracy:maximize")


def test_a_trial_is_found_by_number_and_key(sweep):
    assert sweep.trial(3) == sweep.trial(f"{NAME}-3") == sweep.trial("3")
    with pytest.raises(InvalidValue, match="0 to 11"):
        sweep.trial(12)


def test_what_it_costs(sweep, records):
    ledger = sweep.ledger()
    assert ledger["charged"].sum() == sum(one.planned_steps for one in records)
    assert sweep.claim.procedure.is_claim
    assert sweep.claim.claims[0].guarantee.epsilon == max(one.guarantee.epsilon for one in records)
    assert f"epsilon {sweep.claim.procedure.guarantee.epsilon:.3f}"[:12] in str(sweep)


def test_what_a_notebook_shows_is_no_markup_of_a_spec(tmp_path):
    reason = "<script>alert(1)</script> benchmark"
    swept(tmp_path, {**SPEC, "data": {**SPEC["data"], "records_are_public": reason}}, views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    for page in (sweep._repr_html_(), sweep.front()._repr_html_(), sweep.claim._repr_html_()):
        assert "&lt;script&gt;" in page
        assert "<script>" not in page
    assert "What the statuses rest on" in sweep.front()._repr_html_()


def printed(sweep):
    """{column: what a notebook prints of the front}"""
    page = sweep.front()._repr_html_()
    table = ElementTree.fromstring(page[page.index("<table") : page.index("</table>") + len("</table>")])
    head, *rows = [[cell.text for cell in row] for row in table.iter("tr")]
    return dict(zip(head, zip(*rows, strict=True), strict=True))


def test_a_notebook_never_prints_less_than_is_claimed(sweep, monkeypatch):
    claimed = sweep.front().table()["epsilon"]
    assert (np.array(printed(sweep)["epsilon ↓"], dtype=float) >= claimed).all()
    assert not {"notion", "delta", "assumptions", "steps"} & printed(sweep).keys(), "what all rows share"
    # The mutant rounds down.
    monkeypatch.setattr(tables, "epsilon_text", lambda epsilon: f"{epsilon - 1e-3:.3f}")
    assert not (np.array(printed(sweep)["epsilon ↓"], dtype=float) >= claimed).all()


# Loading, checking, running and resuming from Python: the commands' own words and errors.


TEXT = """
name: here
data: {source: uniform, n: 100}
systems: {noisy-mean: {clip: {uniform: [0.2, 1.0]}, steps: 4}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: random, trials: 3}
"""


def test_a_spec_is_read_from_whatever_holds_one(tmp_path):
    (tmp_path / "here.yaml").write_text(TEXT)
    read = sweeps.load(TEXT)
    assert read == sweeps.load(tmp_path / "here.yaml") == sweeps.load(str(tmp_path / "here.yaml"))
    assert read == sweeps.load(read.canonical()) == sweeps.load(read)


def test_overrides_are_those_of_the_command_line():
    changed = sweeps.load("toy", trials=7, seed=3, changes={"privacy.epsilon": [1, 2]})
    assert changed == sweeps.load("toy", changes=["search.trials=7", "search.seed=3", "privacy.epsilon=[1, 2]"])
    assert changed != sweeps.load("toy")


def test_a_clients_address_is_refused_before_anything_is_recorded(tmp_path):
    for call in (sweeps.run, sweeps.resume):
        with pytest.raises(InvalidValue, match="sweeps submit"):
            call("toy", address="ray://head:10001", root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_name_is_that_of_a_package_inside():
    """Importing `sweeps.budget` makes `sweeps.budget` that package, whatever it was before."""
    inside = {one.stem for one in Path(sweeps.__file__).parent.iterdir()}
    assert not inside & set(sweeps.__all__)


def test_a_sweep_that_ended_badly_is_returned_with_a_warning(tmp_path, monkeypatch):
    ended = SweepEnd(
        sweep="here",
        state="finished",
        counts={"complete": 2, "failed": 1},
        seconds=1.0,
        ranked=2,
        failure=Failure(trial=1, key="here-1", what="ValueError: too wide"),
    )
    monkeypatch.setattr(session, "resume", lambda *_, **__: ended)
    session.create(sweeps.load(TEXT), Workspace.at(tmp_path))
    with pytest.warns(sweeps.SweepWarning, match=r"some trials failed.*ValueError: too wide"):
        assert sweeps.resume("here", root=tmp_path).end is ended


# What a person without a terminal reads while a sweep runs.


OBJECTIVES = [SimpleNamespace(metric="accuracy", goal="maximize"), SimpleNamespace(metric="epsilon", goal="minimize")]


def trial(number, state=TrialState.COMPLETE, **metrics):
    return SimpleNamespace(key=f"t-{number}", state=state, metrics=metrics, metric=metrics.get)


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as the display reads them."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(display.time, "monotonic", lambda: now.seconds)
    return now


def controller(name, trials, known=()):
    """Of a sweep that is shown."""
    spec = SimpleNamespace(search=SimpleNamespace(trials=trials), objectives=OBJECTIVES)
    return SimpleNamespace(sweep=name, spec=spec, enqueued=0, published=lambda: list(known))


def test_the_rest_is_estimated_from_the_pace_after_the_first_trial_of_this_start(clock):
    """Workers take long to start and a resumed sweep has trials behind it: neither is pace."""
    shows, written, lines = controller("t", 20, [trial(n, accuracy=0.5) for n in range(4)]), io.StringIO(), []
    with display.ProgressDisplay(console=Console(file=written, width=200)) as shown:
        for number, seconds in ((4, 300.0), (5, 10.0), (6, 10.0), (7, 10.0)):
            clock.seconds += seconds
            shown.on_change(shows, trial(number, accuracy=0.5 + number / 100))
            lines.append(written.getvalue().splitlines()[-1].strip())
    assert lines == [
        "5/20 trials  best accuracy 0.54",
        "6/20 trials, about 140 s left  best accuracy 0.55",
        "7/20 trials, about 130 s left  best accuracy 0.56",
        "8/20 trials, about 120 s left  best accuracy 0.57",
    ]


def test_a_notebook_has_one_place_that_is_written_over_and_the_end_is_told(clock, monkeypatch):
    """Of two trials that end at once the second is not left out."""
    shown, shows = [], controller("<t>", 2)

    def show(page, display_id):
        shown.append(page)
        return SimpleNamespace(update=lambda page: shown.__setitem__(0, page))

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=SimpleNamespace(HTML=str, display=show)))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str, display=show))
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    with display.ProgressDisplay(console=Console(file=io.StringIO())) as progress:
        assert not shown, "Ray clears the cell as it starts"
        for number in range(2):
            progress.on_change(shows, trial(number, accuracy=0.5 + number / 10))
        assert shown == ['<progress value="1" max="2"></progress> &lt;t&gt;  1/2 trials  best accuracy 0.5']
    assert shown == ['<progress value="2" max="2"></progress> &lt;t&gt;  2/2 trials  best accuracy 0.6']


def test_a_function_hears_of_each_change_and_its_error_ends_nothing(clock):
    heard, written, shows = [], io.StringIO(), controller("t", 4)

    def told(progress: display.SweepProgress) -> None:
        heard.append(progress)
        if progress.done == 3:
            raise OSError("the pipe is closed")

    with display.ProgressDisplay(Console(file=written), told) as shown:
        for number in range(4):
            clock.seconds += 10
            shown.on_change(shows, trial(number, accuracy=0.5 + number / 10))
    assert [(one.trial, one.done, one.seconds_left) for one in heard] == [
        ("t-0", 1, None), ("t-1", 2, 20), ("t-2", 3, 10),
    ]  # fmt: skip
    assert (heard[-1].best, written.getvalue()) == ({"accuracy": 0.7}, "")

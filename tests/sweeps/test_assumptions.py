"""What a status rests on is told by every view in one way: counted at the status, and listed once."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpcore.guarantee import Status
from sweeps.privacy.ledger import ONE_TRIAL, Assumptions, spans
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.front import sweep_front
from sweeps.reporting.html import render, write_report
from sweeps.store.records import TrialRecord
from sweeps.store.store import Store, open_store
from sweeps.store.workspace import Workspace
from tests.sweeps.view_sweeps import complete, guarantee, new_sweep

CLAIMS = [
    {"assumptions": (ONE_TRIAL, "Floating point is not covered.", "Batches are secret.")},
    {"assumptions": (ONE_TRIAL, "Floating point is not covered.", "The loss is convex.")},
    {"assumptions": (ONE_TRIAL, "Minima are exact."), "status": Status.PROVED_UNDER_ASSUMPTIONS},
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Sweep `mixed`, whose claims rest on different assumptions and have two statuses.

    Sweep `alike`: by a sampler that learns, started from `mixed`.
    """
    root = tmp_path_factory.mktemp("views")
    for name, search in (("mixed", {"sampler": "random"}), ("alike", {"sampler": "tpe", "warm_start": "mixed"})):
        store = new_sweep(root, name, search={"trials": 3, **search})
        lease = store.acquire(name)
        for number, claim in enumerate(CLAIMS):
            complete(store, lease, number, **claim)
        store.set_state(lease, "finished")
        lease.release()
        store.close()
    return Workspace.at(root)


@pytest.fixture
def store(workspace: Workspace) -> Iterator[Store]:
    opened = open_store(workspace.store_url, create=False)
    yield opened
    opened.close()


@pytest.fixture
def run(workspace, command):
    return lambda *words: command(*words, "--root", workspace.root)[1]


def rests_on(text: str, sentences: list[str]) -> set[str]:
    """The sentences that a status in a view names, read as a person would."""
    found = re.fullmatch(r"[a-z-]+ \((\d+) (?:assumption|remark)s?(?:: ([\d, -]+))?\)", text)
    assert found is not None, text
    numbers = set(range(1, len(sentences) + 1)) if found[2] is None else set()
    for run_of in (found[2] or "").split(", ") if found[2] else []:
        first, _, last = run_of.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    assert len(numbers) == int(found[1])
    return {sentences[number - 1] for number in numbers}


def claimed(trial: TrialRecord) -> set[str]:
    return set(trial.guarantee.assumptions)


def test_the_report_and_the_front_page(workspace, store, tmp_path: Path) -> None:
    path = write_report(PublishedStore(store), "mixed", tmp_path / "report.html")
    for page in (path.read_text(), render(sweep_front(PublishedStore(store), "mixed", total=True), "html")):
        body = page.split("<body>", 1)[1].split("<script", 1)[0]
        (found,) = re.findall(r'<div class="card" id="assumptions">.*?<ol>(.*?)</ol></div>', body)
        sentences = [html.unescape(one) for one in re.findall(r"<li>(.*?)</li>", found)]
        for sentence in sentences:
            assert html.unescape(body).count(sentence) == 1
    for trial in store.trials("mixed"):
        row = re.search(rf"<tr><td><button[^>]*>{trial.key}</button>.*?</tr>", path.read_text(), re.DOTALL)[0]
        (status,) = re.findall(r'<span class="badge [^"]*">([^<]*)</span>', row)
        assert claimed(trial) == rests_on(status, sentences)


def test_a_sweep_that_started_from_another_states_both_totals_in_every_view(store, run, tmp_path: Path) -> None:
    words = "search started from the results of sweep 'mixed', which adds its own total: all trials together: epsilon "
    found = sweep_front(PublishedStore(store), "alike", total=True)
    views = {
        "show": run("show", "alike", "--why"),
        "json": json.loads(render(found, "json"))["note"],
        "report": html.unescape(write_report(PublishedStore(store), "alike", tmp_path / "report.html").read_text()),
    }
    for view, text in views.items():
        assert words in text, view
        assert "no guarantee, because the tpe sampler chose trials by the results of earlier ones" in text, view
    # The same number as `mixed` states itself.
    own = sweep_front(PublishedStore(store), "mixed", total=True).procedure
    (started,) = json.loads(render(found, "json"))["started_from"]
    assert (started["sweep"], started["procedure"]["epsilon"]) == ("mixed", own.guarantee.epsilon)
    assert json.loads(run("show", "alike", "--json"))["started_from"] == [started]


def test_wording() -> None:
    one, two = guarantee(1.0), guarantee(1.0, assumptions=("A.", "B.", "floating point: not covered"))
    both = Assumptions.of([one, two, one])
    assert both.sentences == ("floating point: not covered", "A.", "B.")
    assert both.status(one) == "proved (1 assumption: 1)"
    assert both.status(two) == "proved (3 assumptions)"
    assert both.status(guarantee(1.0, status=Status.REFUTED)) == "refuted (1 remark: 1)"
    assert (both.cite(one), both.cite(two)) == ("proved [1]", "proved [1-3]")
    assert spans([1, 2, 3, 5, 6, 8]) == "1-3, 5, 6, 8"

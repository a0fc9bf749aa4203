"""The report page: what it says, that it escapes, and that a real browser draws it without asking anybody."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcore.guarantee import Status
from sweeps.privacy.ledger import Assumptions
from sweeps.privacy.release import PublishedStore, was_published
from sweeps.privacy.totals import Total
from sweeps.reporting.figures import front_figure, parallel_figure
from sweeps.reporting.front import FrontAxis, front
from sweeps.reporting.html import report_page, write_report
from sweeps.reporting.summary import MIN_TRIALS, SweepSummary, importances
from sweeps.store.records import TrialState
from sweeps.store.store import Store
from sweeps.util.text import as_html
from tests.sweeps import view_sweeps
from tests.sweeps.test_pareto import of_systems
from tests.sweeps.view_sweeps import ACCURACY, EPSILON, record

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
# The browser's own errands (dictionaries, updates); the resolver rule below keeps them on this machine.
BROWSER_HOSTS = ("google", "gvt1.com")
NASTY = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return view_sweeps.mixed_sweep(tmp_path_factory.mktemp("report"), trials=40)


@pytest.fixture(scope="module")
def page(store: Store) -> str:
    return report_page(SweepSummary(PublishedStore(store), "views", count_all=True))


def words(page: str) -> str:
    """The text that a person reads, without the scripts."""
    body = page.split("<body>", 1)[1].split("<script", 1)[0]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_the_guarantee_box_says_what_is_and_is_not_claimed(page: str):
    text = words(page)
    for expected in (
        "Claim: one trial by itself",
        "0.999 to 7.992",
        "Dong, Roth and Su (2022), Theorem 2.7",
        "proved",
        "add-remove, per record",
        "Total: all trials together",
        "It covers all results and the choice of the best, but no running times and memory.",
        "What the statuses rest on",
        "Floating point",
        "Selection",
        "42 launches",
        "Infeasible proposals",
        "needs <more> noise than allowed",
        "its worker was lost",
    ):
        assert expected in text, expected
    # No epsilon without its unit; a quote that is the same for all stands once.
    assert "add-remove, by" not in text
    assert re.search(r"Claim: one trial by itself.*add-remove, per record, counted by \w+.*Total: all trials", text)
    assert "epsilon: may be quoted as one trial's" in text
    assert ("<th>status" in page, "<th>quote" in page) == (True, False)


def test_what_is_refuted_stands_in_no_panel_and_in_no_range_of_what_is_proved(tmp_path: Path):
    store = view_sweeps.new_sweep(tmp_path)
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 0)
    view_sweeps.complete(store, lease, 1, status=Status.REFUTED)
    page = report_page(SweepSummary(PublishedStore(store), "views", count_all=True))
    assert len(re.findall(r'id="front-\d"', page)) == 1
    assert "Not in the picture: 1 refuted" in words(page)
    assert "ε = 0.999 at" in words(page)
    assert page.count('class="badge refuted"') >= 3  # the box, the total of claims, the trial's row and plan
    assert "<th>quote" in page


@pytest.mark.parametrize(("objectives", "lines"), [(2, 3), (3, 0)])
def test_a_chart_of_several_systems_names_each_and_draws_its_own_staircase(objectives: int, lines: int):
    """With a third objective a staircase over two would be no front."""
    axes = [ACCURACY, EPSILON, FrontAxis("work", "minimize")][:objectives]
    found = front(of_systems(60), axes)
    chart = front_figure(found, found.panels[0])
    drawn = [trace for trace in chart["data"] if trace["mode"] == "lines"]
    assert len(drawn) == lines
    assert {trace["line"]["shape"] for trace in drawn} <= {"hv"}
    legend = [trace["name"] for trace in chart["data"] if trace.get("showlegend")]
    assert sorted(legend) == ["a (proved)", "a (proved-under-assumptions)", "noisy-sgd (proved)"]
    points = [trace for trace in chart["data"] if trace["mode"] == "markers"]
    assert sum(len(trace["x"]) for trace in points) == 60
    assert {trace["marker"]["symbol"] for trace in points} == {"circle", "square"}


def test_a_knob_that_each_system_fixes_has_no_axis_and_code_is_code():
    """`beta` is 0.9 in one system and absent in the other: that says nothing that the axis of systems does not."""
    trials = [record(number, accuracy=0.5 + number / 10) for number in range(4)]
    trials[:2] = [replace(one, config={**one.config, "system": "noisy-adam", "beta": 0.9}) for one in trials[:2]]
    figure = parallel_figure([was_published(one) for one in trials], [ACCURACY, EPSILON], set())
    assert figure is not None
    shown = figure["layout"]["xaxis"]["ticktext"]
    assert (shown, figure["axes"]) == (["system", "learning<br>rate", "accuracy"], 3)
    assert as_html("set `a.b` <now>") == "set <code>a.b</code> &lt;now&gt;"


def nasty_page(content: SweepSummary) -> str:
    """Whatever a person may call things is called by markup."""
    trials = [replace(trial, config={**trial.config, NASTY: NASTY, "system": NASTY}) for trial in content.trials]
    trials[0] = replace(trials[0], reason=NASTY)
    trials[1] = replace(trials[1], config={**trials[1].config, "system": NASTY + "2"})
    assert content.curves is not None, "read before: the store knows no sweep of that name"
    content.name, content.record, content.trials = NASTY, replace(content.record, name=NASTY), trials
    content.ledger = replace(content.ledger, procedure=None, uncounted=NASTY)
    content.started_from = (Total(sweep=NASTY, in_this_store=False),)
    content.assumptions = Assumptions((*content.assumptions.sentences, NASTY))
    return report_page(content)


def test_importance_finds_the_knob_that_matters_and_admits_ignorance(store: Store):
    content = SweepSummary(PublishedStore(store), "views", count_all=True)
    (one,) = content.importances
    assert next(iter(one.by_knob)) == "target_epsilon"
    assert one.r2 > 0.5
    few = content.in_state(TrialState.COMPLETE)[: MIN_TRIALS - 1]
    assert "needs" in importances(few, [FrontAxis("accuracy", "maximize")])[0].reason
    rng = np.random.default_rng(0)
    noise = [
        replace(trial, metrics={"accuracy": float(rng.normal())}) for trial in content.in_state(TrialState.COMPLETE)
    ]
    ignorant = importances(noise, [FrontAxis("accuracy", "maximize")])[0]
    assert ignorant.r2 <= 0 or max(ignorant.by_knob.values()) < 0.3
    assert ignorant.r2 < one.r2


def browse(path: Path) -> tuple[str, str]:
    """The document after its scripts ran, and what the browser had to say."""
    if not CHROMIUM:
        pytest.fail("no Chromium on this machine: the report page was NOT checked in a browser. Install chromium.")
    flags = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking"
    done = subprocess.run(
        [
            CHROMIUM,
            *flags.split(),
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={path.parent / 'profile'}",
            "--virtual-time-budget=8000",
            "--enable-logging=stderr",
            f"--log-net-log={path.parent / 'net.json'}",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, done.stderr


def console_errors(said: str) -> list[str]:
    return [line for line in said.splitlines() if "CONSOLE" in line]


def requested(folder: Path) -> set[str]:
    """Addresses that the page asked for, from the browser's own record of its network."""
    record = (folder / "net.json").read_text()
    return {
        address
        for address in re.findall(r'"url":"(https?://[^"]+)"', record)
        if not any(host in address for host in BROWSER_HOSTS)
    }


@pytest.mark.parametrize("kind", ["full", "empty", "nasty"])
def test_a_real_browser_draws_it_offline_and_without_complaint(kind: str, store: Store, page: str, tmp_path: Path):
    path = tmp_path / "page.html"
    if kind == "full":
        path.write_text(page)
    elif kind == "nasty":
        path.write_text(nasty_page(SweepSummary(PublishedStore(store), "views")))
        assert "<script>document.title" not in path.read_text()
        assert "<img" not in path.read_text().split("<body>", 1)[1].split('<script type="application/json"', 1)[0]
    else:
        other = view_sweeps.new_sweep(tmp_path, "other")
        write_report(PublishedStore(other), "other", path)
    dom, said = browse(path)
    assert console_errors(said) == []
    assert requested(tmp_path) == set()
    assert "owned" not in re.findall(r"<title>(.*?)</title>", dom)[0].split("&lt;", 1)[0]
    charts = json.loads(re.search(r'id="figures">(.*?)</script>', dom, re.S).group(1))  # type: ignore[union-attr]
    drawn = dom.count('class="main-svg"')
    assert drawn >= 2 * len(charts), (kind, drawn)
    kinds = {trace["type"] for chart in charts.values() for trace in chart["data"]}
    assert kinds <= {"scatter", "bar"}  # SVG, not WebGL
    if kind == "empty":
        assert charts == {}
        assert "there is no front" in words(dom)
    if kind == "full":
        assert {"front-0", "parallel", "importance-0", "progress-0"} <= set(charts)
        assert dom.count('class="point"') > 40


def test_steps_that_no_trial_reported_are_shown_as_spent(tmp_path: Path):
    store = view_sweeps.new_sweep(tmp_path)
    lease = store.acquire("views")
    store.fail(lease, view_sweeps.launch(store, lease, 0), 1, 10, "out of memory")
    text = words(report_page(SweepSummary(PublishedStore(store), "views", count_all=True)))
    assert "nothing is claimed" in text
    assert re.search(r"all trials together ε = \d", text)

"""What people ask of a sweep reaches whoever runs it, and nobody else; notes and tags are shown."""

from __future__ import annotations

import signal
import threading
import time

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.execution import requests
from sweeps.execution.requests import RequestPoller
from sweeps.store.errors import UnknownSweep
from sweeps.store.records import StopRequest
from sweeps.store.store import open_store
from tests.sweeps.stores import SWEEP, record

PROMISED_SECONDS = 5.0


@pytest.fixture(autouse=True)
def interrupts():
    """Ctrl-C is an exception, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    store.create_sweep(record())
    yield store
    store.close()


def heard(store, lease, seconds):
    """Whether the holder of the lease is interrupted within so many seconds."""
    try:
        with RequestPoller(store, lease):
            time.sleep(seconds)
    except KeyboardInterrupt:
        return True
    return False


def test_a_stop_interrupts_whoever_runs_the_sweep_and_names_who_asked(store, tmp_path, capsys):
    lease = store.acquire(SWEEP)
    other = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    asked = threading.Timer(0.5, lambda: requests.stop(other, SWEEP, wait=False))
    asked.start()
    began = time.monotonic()
    assert heard(store, lease, 3 * PROMISED_SECONDS)
    assert time.monotonic() - began < 0.5 + PROMISED_SECONDS
    assert "asked at" in capsys.readouterr().err
    other.close()


@pytest.mark.parametrize("other", ["earlier", "sweep"])
def test_a_stop_of_another_run_or_sweep_is_not_meant(store, monkeypatch, other):
    monkeypatch.setattr(requests, "LISTEN_SECONDS", 0.1)
    earlier = store.acquire(SWEEP)
    earlier.release()
    lease = store.acquire(SWEEP)
    if other == "earlier":
        store.ask(SWEEP, StopRequest(token=earlier.token), "me@here")
    else:
        store.create_sweep(record("second"))
        store.ask("second", StopRequest(token=lease.token), "me@here")
    assert not heard(store, lease, 0.5)


def test_a_stop_waits_until_the_sweep_is_given_up(store, tmp_path):
    lease = store.acquire(SWEEP)
    assert not requests.stop(store, SWEEP, wait=False).ended
    threading.Timer(1.0, lease.release).start()
    answer = requests.stop(store, SWEEP)
    assert (answer.ended, answer.driver.token) == (True, lease.token)
    assert f"sweeps resume {SWEEP}" in str(answer)


def test_a_stop_of_what_nobody_runs_says_so_and_asks_nothing(store):
    answer = requests.stop(store, SWEEP)
    assert (answer.driver, store.requests(SWEEP)) == (None, [])
    assert str(answer) == f"Nobody runs '{SWEEP}', which is created: nothing was asked."
    with pytest.raises(UnknownSweep):
        requests.stop(store, "quick-strat")


def test_notes_and_tags_are_shown_while_another_holds_the_lease(store, tmp_path):
    lease = store.acquire(SWEEP)
    opened = sweeps.open(SWEEP, root=tmp_path)
    opened.note("  wider clip\nnext time ")
    opened.tag(["paper=v2", "lab=a b"])
    opened.tag({"lab": ""})
    store.set_state(lease, "running")
    assert opened.tags == {"paper": "v2"}
    assert opened.notes[0].startswith("wider clip next time (")
    shown = opened.overview()
    assert (shown.to_dict()["tags"], list(shown.notes)) == ({"paper": "v2"}, opened.notes)
    assert {"tags     paper=v2", f"note     {opened.notes[0]}"} <= set(shown.lines())
    (row,) = sweeps.list_sweeps(root=tmp_path).to_dict("records")
    assert (row["tags"], row["notes"]) == ({"paper": "v2"}, opened.notes)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda one: one.note(" "), "note=' ': expected 1 to 2000 letters"),
        (lambda one: one.tag("paper"), "tag='paper': expected KEY=VALUE"),
        (lambda one: one.tag("a b=1"), "tag='a b': expected a key of letters"),
        (lambda one: one.tag({"a": "x" * 501}), "expected a value of at most 500 letters"),
    ],
)
def test_what_is_no_note_or_tag_is_refused_and_not_kept(store, tmp_path, ask, said):
    with pytest.raises(InvalidValue, match=said):
        ask(sweeps.open(SWEEP, root=tmp_path))
    assert store.requests(SWEEP) == []

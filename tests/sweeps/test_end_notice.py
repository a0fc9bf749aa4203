"""Whoever operates a machine is told how each sweep on it ended: once, by a real server or command, without results."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dpcore.checks import InvalidValue
from sweeps.execution import end_notice, session
from sweeps.execution.end_notice import VARIABLE, EndNotice, Operator
from sweeps.store.errors import LeaseLost
from sweeps.util.workspace import Workspace
from tests.sweeps.fake_workers import NAME
from tests.sweeps.test_life_end import begin

NOTICE = EndNotice(sweep="a", state="finished", code=0, meaning="all went well", counts={}, steps=3, launches=1)


@pytest.fixture
def server():
    """A server that keeps what it is told, and answers with `.code` after `.seconds`."""
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            running.hold.wait(running.seconds)
            self.send_response(running.code)
            self.end_headers()

        def log_message(self, *_):
            """Quiet."""

    running = HTTPServer(("127.0.0.1", 0), Handler)
    running.told, running.code, running.seconds, running.hold = told, 200, 0.0, threading.Event()
    running.url = f"http://user:hidden@127.0.0.1:{running.server_port}/end"
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.hold.set()
    running.shutdown()
    running.server_close()


def test_a_sweep_that_ends_by_an_error_is_told_without_its_words(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, server.url)
    workspace = Workspace.at(tmp_path)
    store = workspace.open_store(create=True)
    begin(store, workspace, NAME)
    lease = store.acquire(NAME)
    with pytest.raises(ValueError, match="record"), session._left_as(store, lease, Operator.of_environment()):
        raise ValueError("record 7 is 0.123")
    assert server.told == [
        {
            "sweep": NAME,
            "state": "stopped",
            "exit": 1,
            "meaning": "ended by an error: ValueError",
            "trials": {"complete": 0, "running": 0, "failed": 0, "infeasible": 0, "planned": 0},
            "charged": {"steps": 0, "launches": 0},
        }
    ]
    assert capsys.readouterr().err == ""
    lease.release()
    store.close()


def test_who_lost_the_sweep_does_not_say_that_it_stopped(server, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, server.url)
    workspace = Workspace.at(tmp_path)
    store = workspace.open_store(create=True)
    begin(store, workspace, NAME)
    lease = store.acquire(NAME)
    lease.release()
    other = store.acquire(NAME)
    store.set_state(other, "running")
    with pytest.raises(LeaseLost), session._left_as(store, lease, Operator.of_environment()):
        store.set_state(lease, "finished")
    [told] = server.told
    assert (told["state"], told["meaning"]) == (None, "ended by an error: LeaseLost")
    assert store.sweep(NAME).state == "running"
    other.release()
    store.close()


def test_a_refusal_and_a_silence_are_said_and_change_nothing(server, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, server.url)
    server.code = 500
    Operator.of_environment().tell(NOTICE)
    said = capsys.readouterr().err
    assert "could not be told that the sweep has ended (HTTPError: 500" in said
    monkeypatch.setattr(end_notice, "SECONDS", 0.2)
    server.seconds = 30.0
    Operator.of_environment().tell(NOTICE)
    said += capsys.readouterr().err
    assert "no answer within 0.2 s" in said or "Timeout" in said
    assert "hidden" not in said
    assert [one["charged"] for one in server.told] == [{"steps": 3, "launches": 1}] * 2


def test_a_command_reads_it(tmp_path, monkeypatch):
    place = tmp_path / "told.json"
    script = f"import sys; open({str(place)!r}, 'w').write(sys.stdin.read())"
    monkeypatch.setenv(VARIABLE, f'{sys.executable} -c "{script}"')
    Operator.of_environment().tell(NOTICE)
    assert json.loads(place.read_text()) == NOTICE.to_dict()
    place.unlink()
    Operator.of_environment().tell_apart(NOTICE)
    limit = time.monotonic() + 60
    while not (place.exists() and place.read_text()) and time.monotonic() < limit:
        time.sleep(0.1)
    assert json.loads(place.read_text()) == NOTICE.to_dict(), "by a process that outlives this one"


def test_a_command_that_fails_is_said_by_its_exit_status(monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, f"{sys.executable} -c 'raise SystemExit(7)'")
    Operator.of_environment().tell(NOTICE)
    said = capsys.readouterr().err
    assert "(its exit status was 7; a command is run as words, by no shell)" in said
    assert "CalledProcessError" not in said


@pytest.mark.parametrize("given", ["no-such-command-here --flag", "'unclosed", "ftp://host/x"])
def test_what_cannot_be_told_is_refused_before_anything_runs(given, monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, given)
    with pytest.raises(InvalidValue, match=VARIABLE):
        session.resume("unknown", None)


def test_nobody_is_told_by_default(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Operator.of_environment() == Operator()
    Operator().tell(NOTICE)

"""One patience, on a clock that stands still while the process is stopped, and a word for whoever waits."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from dpcore.checks import InvalidValue
from sweeps.util import log, waiting


@pytest.mark.parametrize(("given", "seconds"), [("", 60.0), (" ", 60.0), ("2.5", 2.5), ("86400", 86400.0)])
def test_patience_is_one_number_of_the_environment(monkeypatch, given, seconds):
    monkeypatch.setenv("SWEEPS_PATIENCE", given)
    assert waiting.patience() == seconds


def test_without_a_word_it_survives_a_failover_and_no_more_than_a_minute(monkeypatch):
    monkeypatch.delenv("SWEEPS_PATIENCE", raising=False)
    assert waiting.patience() == 60.0


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf", "86401", "1m"])
def test_what_is_no_patience_is_named(monkeypatch, given):
    monkeypatch.setenv("SWEEPS_PATIENCE", given)
    with pytest.raises(InvalidValue, match=f"SWEEPS_PATIENCE='{given}': expected seconds above 0.*Unset it for 60"):
        waiting.patience()


STOPPED = """
import os, time
from sweeps.util import waiting as patience
patience.STOPPED_SECONDS = 0.6
patience.TICK_SECONDS = 0.1
clock = patience.ticking()
awake, wall = clock.now(), time.monotonic()
print("ready", flush=True)
while time.monotonic() - wall < 2.5:
    time.sleep(0.05)
print(clock.now() - awake, clock.stopped(), time.monotonic() - wall, flush=True)
"""


def test_time_in_which_the_process_was_stopped_is_nobodys_silence():
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.8)
    os.kill(process.pid, signal.SIGCONT)
    awake, stopped, wall = map(float, process.communicate(timeout=60)[0].split())
    assert stopped >= 1.6
    assert awake == pytest.approx(wall - stopped, abs=0.1)


@pytest.fixture
def quick(monkeypatch):
    """Words after a fraction of a second."""
    monkeypatch.setattr(waiting, "WORD_SECONDS", 0.4)
    monkeypatch.setattr(waiting, "AGAIN_SECONDS", 0.4)


def test_who_waits_says_so_and_that_it_is_over(quick, capsys, tmp_path):
    said = ""
    with log.kept_in(tmp_path / "log"), waiting.wait_for("the moon", 300.0) as wait:
        while said.count("Waiting for") < 2:
            assert 0 < wait.left() < 300, "nothing was said"
            time.sleep(0.1)
            said += capsys.readouterr().err
    said += capsys.readouterr().err
    assert re.search(r"Waiting for the moon, \d s so far; giving up after 300 s \(SWEEPS_PATIENCE\)\.", said)
    assert re.fullmatch(r"Waited \d s for the moon; it goes on\.", said.strip().splitlines()[-1])
    assert [line.split(" ", 1)[1] for line in (tmp_path / "log").read_text().splitlines()] == said.splitlines()


def test_who_does_not_wait_long_says_nothing(quick, capsys):
    with waiting.wait_for("the moon", 30.0):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_several_that_wait_for_one_thing_say_it_once(quick, capsys, monkeypatch):
    monkeypatch.setattr(waiting, "AGAIN_SECONDS", 3600.0)

    def wait(seconds):
        with waiting.wait_for("the moon", 30.0):
            time.sleep(seconds)

    # The first is gone while the others still wait: they have nothing to add.
    threads = [threading.Thread(target=wait, args=(seconds,)) for seconds in (1.5, 2.5, 2.5, 2.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert capsys.readouterr().err.count("Waiting for") == 1


def test_after_its_limit_a_wait_is_ended_from_outside(monkeypatch, capsys):
    over = threading.Event()
    with waiting.wait_for("the moon", 0.2, give_up=over.set):
        assert over.wait(5.0)
    # And not before it, nor after its end.
    over.clear()
    with waiting.wait_for("the moon", 30.0, give_up=over.set):
        assert not over.wait(0.8)
    time.sleep(0.6)
    assert not over.is_set()


def test_words_reach_the_log_when_nobody_listens(tmp_path, monkeypatch):
    out, into = os.pipe()
    os.close(out)
    monkeypatch.setattr(sys, "stderr", os.fdopen(into, "w"))
    with log.kept_in(tmp_path / "log"):
        log.say("The terminal is gone.")
    assert "The terminal is gone." in (tmp_path / "log").read_text()

"""What is said at Ctrl-C is said as the command speaks."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time

import pytest

import sweeps
from sweeps.ray.tuner import _until
from sweeps.util.exits import ExitCode, Interruption
from sweeps.util.log import configured

SAID = "Stopping; once more to end at once."


def interrupted(**wanted) -> None:
    with configured(**wanted), pytest.raises(KeyboardInterrupt), Interruption():
        signal.raise_signal(signal.SIGINT)


def test_an_interruption_is_said_to_people_to_machines_and_not_by_a_quiet_command(capfd):
    interrupted()
    assert capfd.readouterr().err == f"\n{SAID}\n"
    interrupted(as_json=True)
    told = json.loads(capfd.readouterr().err)
    assert (told["event"], told["level"], told["text"].strip()) == ("notice", "info", SAID)
    interrupted(least=logging.WARNING)
    assert capfd.readouterr().err == ""


SWALLOWED = """
import signal, sys
import ray
from sweeps.cli.main import main

heard, wait = [], ray.wait

def deaf(*given, **named):
    heard.append(None)
    if len(heard) == 20:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            print("swallowed", file=sys.stderr)
    return wait(*given, **named)

ray.wait = deaf
sys.argv = ["sweeps", "run", "toy", "--name", "deaf", "--trials", "1000", "-q"]
main()
"""


def test_what_came_once_is_raised_at_every_look():
    with Interruption() as interruption:
        interruption.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                interruption.check()


def test_a_sealed_search_asks_while_it_waits_for_its_end():
    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _until(time.time() + 5, stopped)


def test_an_interruption_that_ray_swallows_ends_the_sweep_all_the_same(tmp_path):
    """Ray looks for signals in its own C++, and drops some of the KeyboardInterrupts that come of them: a sweep that
    was asked to stop ran on to its end."""
    ended = subprocess.run(
        [sys.executable, "-c", SWALLOWED], cwd=tmp_path, timeout=120, capture_output=True, text=True, check=False
    )
    assert "swallowed" in ended.stderr
    assert ended.returncode == ExitCode.INTERRUPTED, ended.stderr
    assert sweeps.open("deaf", root=tmp_path / ".sweeps").state == "stopped"

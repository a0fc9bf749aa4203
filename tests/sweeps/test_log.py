"""What commands say besides their answers: as lines for people or as JSON, more or less of it, nothing of a record."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import threading
import time

import pyarrow
import pytest

from dpcore.checks import InvalidValue
from sweeps.cli.common import clear_errors
from sweeps.cli.run import steadfast_streams
from sweeps.execution import tuner
from sweeps.util import log, waiting
from sweeps.util.exits import Interruption
from sweeps.util.log import LOG, Event, configured, kept_in, say

SMITH = "Smith, 47, positive"
"""Of a record."""


def said(capsys):
    """What a machine reads."""
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_machine_reads_one_object_a_line(capsys, tmp_path):
    with configured(as_json=True), kept_in(tmp_path / LOG):
        say("\ntwo\nlines", trial="toy-1")
        say("over", Event.END, level=logging.WARNING, sweep="other", plain=lambda: print("never"))
    first, second = said(capsys)
    assert list(first) == ["time", "level", "event", "sweep", "trial", "text"]
    assert first["time"].endswith("Z")
    expected = {"level": "info", "event": "notice", "sweep": tmp_path.name, "trial": "toy-1", "text": "two\nlines"}
    assert first == expected | {"time": first["time"]}
    assert (second["level"], second["sweep"], "trial" in second) == ("warning", "other", False)


@pytest.mark.parametrize(
    ("least", "heard"),
    [
        (logging.ERROR, {Event.CLAIM, Event.REFUTED, Event.END, Event.FAILURE, Event.ERROR}),
        (logging.INFO, set(Event) - {Event.DECISION}),
        (logging.DEBUG, set(Event)),
    ],
)
def test_how_much_is_said(least, heard, capsys):
    for as_json in (False, True):
        with configured(least, as_json):
            for event in Event:
                say(str(event), event)
        lines = capsys.readouterr().err.splitlines()
        assert {json.loads(line)["event"] if as_json else line for line in lines} == heard


def test_beside_json_nothing_is_printed_and_the_log_has_it(capsys, tmp_path):
    with configured(as_json=True), kept_in(tmp_path / LOG):
        print(SMITH, file=sys.stderr)
        say("mine")
        with steadfast_streams():
            say("of a run")
    assert [one["text"] for one in said(capsys)] == ["mine", "of a run"]
    assert SMITH in (tmp_path / LOG).read_text()
    print("again", file=sys.stderr)
    assert capsys.readouterr().err == "again\n"


def test_a_pipe_whose_reader_ended_takes_nothing_and_the_log_has_it(capfd, monkeypatch, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe, kept_in(tmp_path / LOG):
        monkeypatch.setattr(sys, "stdout", pipe)
        with steadfast_streams():
            for line in ("lost in the buffer", "first", "second"):
                print(line, flush=True)
    kept = [line.partition(" ")[2] for line in (tmp_path / LOG).read_text().splitlines()]
    assert kept[0].startswith("stdout is closed (Broken pipe). The sweep goes on")
    assert kept[1:] == ["first", "second"]
    assert "stdout is closed" in capfd.readouterr().err


@pytest.mark.parametrize("error", [pyarrow.ArrowInvalid(f"invalid value {SMITH!r}"), KeyError(SMITH)])
def test_no_record_is_in_what_a_machine_reads(error, capsys):
    for as_json in (False, True):
        with configured(as_json=as_json), pytest.raises(SystemExit), clear_errors():
            raise error
        text = capsys.readouterr().err
        assert type(error).__name__ in text
        assert (SMITH in text) is not as_json


# One patience, on a clock that stands still while the process is stopped, and a word for whoever waits.


@pytest.mark.parametrize("given", ["0", "-1", "soon", "nan", "inf", "86401"])
def test_patience_is_one_number_of_the_environment(monkeypatch, given):
    for good, seconds in ((" ", 60.0), ("86400", 86400.0)):
        monkeypatch.setenv("SWEEPS_PATIENCE", good)
        assert waiting.patience() == seconds
    monkeypatch.setenv("SWEEPS_PATIENCE", given)
    with pytest.raises(InvalidValue, match=f"SWEEPS_PATIENCE='{given}': expected seconds above 0.*Unset it for 60"):
        waiting.patience()


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


# What is said at Ctrl-C is said as the command speaks.

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


def test_a_sealed_search_asks_while_it_waits_for_its_end():
    def stopped():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuner._until(time.time() + 5, stopped)

"""What commands say besides their answers: as lines for people or as JSON, more or less of it, nothing of a record."""

from __future__ import annotations

import json
import logging
import sys

import pyarrow
import pytest

import sweeps
from sweeps.cli.main import main
from sweeps.cli.output import clear_errors
from sweeps.execution.end import Failure
from sweeps.execution.session import log_run_config
from sweeps.planning.auto_sampler import resolved
from sweeps.spec import public_facts
from sweeps.util.log import LOG, Event, configured, kept_in, say
from sweeps.util.workspace import Workspace
from trainables.data import abalone, files, table
from trainables.weights import Groups

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
    assert [one["text"] for one in said(capsys)] == ["mine"]
    assert SMITH in (tmp_path / LOG).read_text()
    print("again", file=sys.stderr)
    assert capsys.readouterr().err == "again\n"


@pytest.mark.parametrize("error", [pyarrow.ArrowInvalid(f"invalid value {SMITH!r}"), KeyError(SMITH)])
def test_no_record_is_in_what_a_machine_reads(error, capsys):
    for as_json in (False, True):
        with configured(as_json=as_json), pytest.raises(SystemExit), clear_errors():
            raise error
        text = capsys.readouterr().err
        assert type(error).__name__ in text
        assert (SMITH in text) is not as_json


def quoting(tmp_path):
    """A source of each kind that is given a record which holds SMITH: what loads it."""
    people = pyarrow.table({"id": [1, 2, 3], "who": ["a", "b", SMITH]})
    known = {"known": 0}
    yield lambda: table._positions("people", people, "who", ("a", "b"), "categories")
    yield lambda: table._group_codes("people", people, Groups(column="who", categories=("a", "b")))
    yield lambda: files.codes(tmp_path, "known categories", known, [SMITH])
    yield lambda: files.encoded(tmp_path, {"age": files.DeclaredRange(0, 1)}, [[SMITH]])
    yield lambda: abalone._rings(tmp_path, [SMITH])


def test_no_error_of_our_sources_quotes_a_record_to_a_machine(tmp_path, capsys):
    for load in quoting(tmp_path):
        for as_json in (False, True):
            with configured(as_json=as_json), pytest.raises(SystemExit), clear_errors():
                load()
            text = capsys.readouterr().err
            assert (SMITH in text) is not as_json
            assert ("QuotesRecords" in text) is as_json


def test_a_failure_is_told_without_its_words():
    quoting = Failure(trial=3, key="toy-3", what=SMITH, place="error.txt", quotes=True)
    assert quoting.unquoted() == "Trial 3 (toy-3) failed: its error is in error.txt"
    assert SMITH in quoting.lines()[0]


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["sweeps", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def test_every_command_has_the_options(monkeypatch, capsys, tmp_path):
    missing = ("show", "nowhere", "--root", str(tmp_path))
    assert command(monkeypatch, *missing, "--log", "json") == 2
    (line,) = said(capsys)
    assert (line["level"], line["event"]) == ("error", "error")
    assert command(monkeypatch, *missing, "-q") == 2
    assert capsys.readouterr().err.startswith("sweeps: ")
    assert command(monkeypatch, *missing, "-q", "-v") == 2
    assert "one of -q and -v" in capsys.readouterr().err


def test_what_is_decided_is_said_with_its_reason(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("SWEEPS_PATIENCE", "90")
    spec = sweeps.load("toy", changes=["search.sampler=auto"])
    facts = public_facts(spec)
    workspace = Workspace.at(tmp_path / "root", records=str(tmp_path / "shared"))
    for least in (logging.DEBUG, logging.INFO):
        with configured(least):
            log_run_config(resolved(spec, facts), facts, workspace, "toy", workspace.tracking_uri, None, {})
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["sampler", "patience", "store", "records", "MLflow", "Ray"]
    assert lines[0] == "sampler: auto comes to gp: 60 trials of about 0.1 s each, as planned"
    assert lines[1] == "patience: 90 s, from SWEEPS_PATIENCE"
    assert lines[3] == f"records: {tmp_path / 'shared' / 'toy' / 'trials'}, as told"

"""Commands in the process of a test, and servers of its own."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

import pytest
import typer.main

from sweeps.cli import main as cli
from tests.sweeps import toys
from tests.sweeps.fake_workers import ASHA, CLIPPED, FakeSweep, memory_folder
from tests.sweeps.object_stores import object_store
from tests.sweeps.stores import postgres_server
from trainables.data import SOURCES
from trainables.registry import SYSTEMS

# A process builds its commands once, which takes longer than most of them; here one process runs hundreds.
typer.main.get_command = cache(typer.main.get_command)


@pytest.fixture(scope="session", autouse=True)
def mlflow_tables(tmp_path_factory):
    """MLflow's migrations take a second: here its tables are made once, and copied."""
    if (runs := sys.modules.get("sweeps.mlflow.runs")) is None:
        yield
        return
    make, template = runs._make_tables, tmp_path_factory.mktemp("tables") / "mlflow.db"

    def copied(path: Path) -> None:
        if not template.exists():
            make(template)
        shutil.copy(template, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "_make_tables", copied)
        yield


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs `sweeps ...`: (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "300")

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sweeps", *map(str, words)])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return run


@pytest.fixture
def said(command, tmp_path):
    """What a command prints on the root `tmp_path`; with a code, what it says as it refuses."""

    def run(*words: object, code: int = 0) -> str:
        found, out, err = command(*words, "--root", tmp_path)
        assert found == code, err
        return err if code else out

    return run


@pytest.fixture(scope="module")
def server():
    """A Postgres."""
    with postgres_server() as running:
        yield running


@pytest.fixture(scope="module")
def bucket():
    """An S3-compatible store."""
    with object_store() as running:
        yield running


@pytest.fixture
def folder():
    """In memory."""
    with memory_folder() as found:
        yield found


@pytest.fixture
def rungs(folder):
    """A sweep of fake workers with rungs at 2, 4 and 8 steps."""
    return FakeSweep(folder / "rungs", ASHA, change={"systems": {"noisy-mean": {**CLIPPED, "steps": 8}}})


@pytest.fixture
def toys_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toys are systems and sources like the others."""
    for name, system in toys.SYSTEMS.items():
        monkeypatch.setitem(SYSTEMS, name, system)
    for name, source in toys.SOURCES.items():
        monkeypatch.setitem(SOURCES, name, source)

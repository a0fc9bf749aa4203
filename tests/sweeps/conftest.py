"""Commands in the process of a test."""

from __future__ import annotations

import sys

import pytest

from sweeps.cli import main as cli


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

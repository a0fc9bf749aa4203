"""Files that a person asks for: every command makes the folders, and none leaves half a file."""

from __future__ import annotations

import sys

import pytest

from dpcore.checks import InvalidValue
from sweeps.cli import main as cli
from sweeps.util import files
from tests.sweeps.view_sweeps import mixed_sweep


def called(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["sweeps", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.parametrize(
    "arguments", [["report", "views"], ["pareto", "views", "--format", "csv"], ["pareto", "views", "--format", "html"]]
)
def test_every_writer_makes_the_folders(tmp_path, monkeypatch, arguments):
    mixed_sweep(tmp_path, trials=3)
    target = tmp_path / "new" / "folders" / "page"
    assert called(monkeypatch, *arguments, "-o", target, "--root", tmp_path) == 0
    assert target.stat().st_size > 0
    assert [one.name for one in target.parent.iterdir()] == ["page"]


def test_a_folder_is_no_file_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(InvalidValue, match="folder"):
        files.write_output("x", tmp_path)
    target = tmp_path / "page"
    target.write_text("before")
    monkeypatch.setattr("pathlib.Path.replace", lambda self, other: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        files.write_output("after", target)
    assert target.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["page"]


def test_a_device_takes_the_bytes():
    files.write_output("x", files.Path("/dev/null"))


def test_a_full_disk_is_named_with_the_file(tmp_path, monkeypatch, capsys):
    mixed_sweep(tmp_path, trials=3)
    assert called(monkeypatch, "report", "views", "-o", "/dev/full", "--root", tmp_path) == 2
    assert "/dev/full: No space left on device. Free space, then try again." in capsys.readouterr().err

"""What may have been meant: a name that is alike, and never an unrelated one."""

from __future__ import annotations

import sqlite3

import pytest

from dpcore.checks import InvalidValue
from sweeps.api import places
from sweeps.mlflow.sync import rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.store.records import SweepRecord
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from sweeps.util import files
from sweeps.util.files import path_of
from sweeps.util.text import closest, did_you_mean
from tests.sweeps import view_sweeps
from tests.sweeps.specs import recorded

ALIKE = [
    ("expected_eror", "expected_error"),
    ("batch", "batch_size"),
    ("noisy_sgd", "noisy-sgd"),
    ("sgd", "sgld"),
    ("Accuracy", "accuracy"),
]
UNRELATED = [("noise", "none"), ("sweep", "steps"), ("bananas", "datasets"), ("people", "pixels"), ("x", "xy")]


@pytest.mark.parametrize(("word", "known"), ALIKE)
def test_a_slip_of_the_pen_is_named(word, known):
    assert did_you_mean(word, [known, "zzz"]) == f"Did you mean `{known}`?"


@pytest.mark.parametrize(("word", "known"), UNRELATED)
def test_unrelated_words_are_not_suggested(word, known):
    assert closest(word, [known]) == ""
    assert did_you_mean(word, [known, "other"]) == "Known: `" + "`, `".join(sorted([known, "other"])) + "`."


# Files that a person asks for: every command makes the folders, and none leaves half a file.


def test_a_folder_is_no_file_and_a_failure_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(InvalidValue, match="folder"):
        files.write_output("x", tmp_path)
    target = tmp_path / "new" / "folders" / "page"
    files.write_output("before", target)
    monkeypatch.setattr("pathlib.Path.replace", lambda self, other: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        files.write_output("after", target)
    assert target.read_text() == "before"
    assert [one.name for one in target.parent.iterdir()] == ["page"]


# A path holds whatever a file system takes; the file that is opened is the one that was named, and no other.

NASTY = ["a b", "a?b=c", "a#b", "100%25", "ünïcode ✓", "?mode=memory", "sqlite:", "new\nline"]


@pytest.mark.parametrize("name", NASTY)
def test_the_store_is_where_it_was_named_and_nothing_lies_beside_it(tmp_path, name):
    workspace = Workspace.at(tmp_path / name)
    store = open_store(workspace.store_url)
    store.create_sweep(
        SweepRecord(name="s", spec=recorded({}), digest="d", fingerprints={}, root=workspace.root, created_at=1.0)
    )
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "sweeps.db").is_file()
    assert path_of(workspace.store_url) == tmp_path / name / "sweeps.db"
    assert [one.name for one in open_store(workspace.store_url, create=False).sweeps()] == ["s"]


def test_mlflow_finds_its_database_under_every_name_at_once(tmp_path):
    name = "a b?c#d%25e&f=g ü"
    workspace = Workspace.at(tmp_path / name)
    (tmp_path / name).mkdir()
    store = view_sweeps.mixed_sweep(tmp_path / name)
    rebuild(PublishedStore(store), "views", workspace.tracking_uri, workspace.folder("views"))
    # MLflow 3.17 itself makes an empty folder of the quoted name; whatever is written lies in ours.
    assert all(tmp_path / name in path.parents for path in tmp_path.rglob("*") if path.is_file())
    with sqlite3.connect(tmp_path / name / "mlflow.db") as opened:
        assert opened.execute("SELECT count(*) FROM runs").fetchone()[0] > 1
    opened.close()
    assert list((tmp_path / name).rglob("spec.json"))


def test_the_variable_of_mlflow_is_the_default_of_tracking(monkeypatch, tmp_path):
    monkeypatch.delenv("SWEEPS_TRACKING", raising=False)
    assert places(tmp_path).tracking is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter22secret@127.0.0.1:9")
    assert places(tmp_path).tracking == "http://me:hunter22secret@127.0.0.1:9"
    assert places(tmp_path, tracking="http://other").tracking == "http://other"
    monkeypatch.setenv("SWEEPS_TRACKING", "http://ours")
    assert places(tmp_path).tracking == "http://ours"

"""A path holds whatever a file system takes; the file that is opened is the one that was named, and no other."""

import sqlite3

import pytest

from sweeps.mlflow.sync import rebuild
from sweeps.privacy.published_store import PublishedStore
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import SweepRecord
from sweeps.store.store import open_store
from sweeps.util.files import path_of, url_of
from sweeps.util.workspace import Workspace
from tests.sweeps import view_sweeps

NASTY = [
    "plain",
    "a b",
    "a?b=c",
    "a#b",
    "a%b",
    "100%25",
    "a%3Fb",
    "ünïcode ✓",
    "a&b=c;d",
    "a+b@c:d",
    "'quoted' \"twice\"",
    "[x]{y}$HOME~",
    "?mode=memory",
    "sqlite:",
    "back\\slash",
    "new\nline",
]


@pytest.mark.parametrize("name", NASTY)
def test_the_store_is_where_it_was_named_and_nothing_lies_beside_it(tmp_path, name):
    workspace = Workspace.at(tmp_path / name)
    store = open_store(workspace.store_url)
    store.create_sweep(
        SweepRecord(name="s", spec=RecordedSpec({}), digest="d", fingerprints={}, root=workspace.root, created_at=1.0)
    )
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "sweeps.db").is_file()
    assert path_of(workspace.store_url) == tmp_path / name / "sweeps.db"
    assert [one.name for one in open_store(workspace.store_url, create=False).sweeps()] == ["s"]


def test_a_url_that_is_put_together_by_hand_names_another_file(tmp_path):
    """The mutant: what stood here before."""
    path = tmp_path / "a%25b?c"
    path.mkdir()
    open_store(f"sqlite:///{path}/sweeps.db").close()
    assert not list(path.iterdir())


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


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "postgresql://a@b/c", "http://x", "nonsense"])
def test_other_urls_are_no_files(url):
    assert path_of(url) is None


def test_an_ordinary_url_looks_as_it_always_did():
    assert url_of("/home/me/.sweeps/sweeps.db") == "sqlite:////home/me/.sweeps/sweeps.db"

"""A sealed search goes on where its files are, and by a store that knows what left it: else it is left as it is."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.execution.gc import delete
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting.summary import shown
from sweeps.selection.run import KEY
from sweeps.store.errors import StoreOlder
from sweeps.store.records import SweepState, TrialState
from sweeps.util.workspace import Workspace
from tests.sweeps.sealed_searches import SPEC, Search, files

LONG = {"selection": {**SPEC["selection"], "deadline_minutes": 60}}


class Apart(Search):
    """A search whose store and records are outside of its root."""

    def __init__(self, root: Path) -> None:
        self.elsewhere = {"store": f"sqlite:///{root}/store.db", "records": str(root / "records")}
        at, self.at = Workspace.at, root / "here"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Workspace, "at", lambda _: at(self.at, **self.elsewhere))
            super().__init__(root, **LONG)


def test_a_search_that_is_resumed_from_another_folder_is_not_ended(tmp_path):
    """As on another machine that sees store and records: it released nothing at once, and its trials were deleted."""
    search = Apart(tmp_path)
    work = search.begin()
    there, sizes = Workspace.at(tmp_path / "there", **search.elsewhere), files(work)
    with pytest.raises(InvalidValue, match=r"root=.*there': expected that in which 'sealed' began, .*/here"):
        session.resume(search.name, there)
    assert files(work) == sizes != {}
    record = search.store.sweep(search.name)
    assert (record.state, record.root) == (SweepState.RUNNING, str(search.at))
    assert search.opened() is not None


def test_a_search_that_is_resumed_with_other_records_is_not_ended(tmp_path):
    """It waited until the deadline, released nothing, and destroyed its key."""
    search = Apart(tmp_path)
    work = search.begin()
    sizes = files(work)
    other = Workspace.at(search.at, **(search.elsewhere | {"records": str(tmp_path / "other")}))
    with pytest.raises(
        InvalidValue, match=r"records=.*/other': expected that in which 'sealed' began, .*/records: what"
    ):
        session.resume(search.name, other)
    assert files(work) == sizes
    assert search.opened() is not None
    assert search.store.sweep(search.name).records == str(tmp_path / "records")


def test_a_search_whose_folder_is_lost_says_how_it_ends(tmp_path):
    search = Search(tmp_path, **LONG)
    search.begin()
    shutil.rmtree(search.places.own)
    with pytest.raises(InvalidValue, match="`sweeps delete sealed` ends it, and its price stays paid"):
        session.resume(search.name, search.workspace)
    delete(search.workspace, search.name)
    assert search.store.sweep(search.name).state is SweepState.DELETED


def released(root: Path, *, begun: bool) -> Search:
    """A search that is over, with the store as it was before it was; root and records as they are now."""
    search = Search(root)
    store, older = root / "sweeps.db", root / "older.db"
    if not begun:
        backup(store, older)
    work = search.begin()
    if begun:
        backup(store, older)
    search.serve(work)
    assert search.release(work)
    search.store.close()
    for one in root.glob("sweeps.db*"):
        one.unlink()
    older.rename(store)
    search.store = search.workspace.open_store()
    return search


def backup(store: Path, older: Path) -> None:
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(older)) as target:
        source.backup(target)


@pytest.mark.parametrize("begun", [False, True])
def test_a_store_that_does_not_know_what_left_releases_nothing_more(tmp_path, begun):
    search = released(tmp_path, begun=begun)
    for one in search.places.own.glob("sealed.*"):
        # With these it would not draw; of a root that was restored they are gone.
        if not begun:
            one.unlink()
    with pytest.raises(StoreOlder, match="holds records of trial sealed-0, which the store does not know"):
        session.resume(search.name, search.workspace)
    assert not (search.places.own / KEY).exists()
    assert not search.store.trials(search.name)


def test_without_that_look_a_second_search_is_drawn_at_the_price_of_one(tmp_path):
    search = released(tmp_path, begun=False)
    for one in search.places.own.glob("sealed.*"):
        one.unlink()
    assert search.opened() is not None


def test_the_winner_of_a_deleted_search_keeps_its_claim(tmp_path):
    """It was shown as planned, and as having claimed nothing."""
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    assert search.release(work)
    before = shown(search.name, search.workspace).ledger.claims
    delete(search.workspace, search.name)
    [winner] = PublishedStore(search.store).trials(search.name)
    assert (winner.state, winner.metrics) == (TrialState.COMPLETE, {})
    assert shown(search.name, search.workspace).ledger.claims == before != []

"""A sealed search from its draw to its release: what is drawn once, what lies on the disk, what leaves, and kills.

Store, files, training and release are real; workers run in threads of this process, where Ray would run them elsewhere.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.execution import session
from sweeps.execution.gc import delete
from sweeps.execution.requests import enqueue
from sweeps.privacy.ledger import covers_search
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import joint_totals
from sweeps.selection.run import ANNOUNCED, KEY
from sweeps.store.errors import StoreOlder
from sweeps.store.records import SweepState, TrialState
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from tests.sweeps.sealed_searches import SPEC, Search, files
from tests.sweeps.specs import people, spec_of  # noqa: F401  the fixture
from tests.sweeps.test_sealed_winners import to_reach
from trainables.sealed import TooLarge, run_slot
from trainables.worker.attempt import Attempt
from trainables.worker.files import Damaged


def test_the_winner_is_the_best_of_the_slots_that_were_drawn(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    drawn = work.drawn()
    assert 1 <= drawn.count <= 8 == len(drawn.slots)
    search.serve(work)
    [best] = work.best()
    every = search.every(work)
    assert best.slot == min(range(drawn.count), key=lambda n: (every[n].ranks, n))
    again = every[best.slot]
    assert again.metrics == best.metrics
    assert all(np.array_equal(again.state[name], value) for name, value in best.state.items())
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    slot = drawn.slots[best.slot]
    assert (winner.number, winner.attempts, winner.state) == (0, 1, TrialState.COMPLETE)
    assert (dict(winner.config), winner.seed, winner.plan) == (dict(slot.config), slot.seed, slot.plan)
    assert winner.metrics == dict(best.metrics) | {"epsilon": 3.0}
    assert winner.guarantee == slot.plan.guarantee
    assert (winner.guarantee.epsilon, winner.guarantee.status) == (3.0, Status.PROVED_UNDER_ASSUMPTIONS)
    assert covers_search(winner.guarantee)
    state = Attempt.of(search.workspace.trials(search.name), winner.key, 1).read(slot.plan.steps).state
    assert {name: value.tolist() for name, value in state.items()} == {
        name: value.tolist() for name, value in best.state.items()
    }


def test_what_lies_there_is_alike_whatever_is_drawn_and_however_far_it_is(tmp_path):
    sizes, names = set(), set()
    for number in range(3):
        search = Search(tmp_path / str(number))
        work = search.begin()
        before = files(work)
        search.serve(work)
        after = files(work)
        for path in Path(work.folder.url).iterdir():
            content = path.read_bytes()
            assert not any(word in content for word in (b"noisy-mean", b"following"))
            assert b"PK" not in content[:64]
        assert (search.places.own / KEY).stat().st_mode & 0o777 == 0o600
        assert b"count" not in (search.places.own / ANNOUNCED).read_bytes()
        sizes |= {tuple(sorted(before.items())), tuple(sorted(after.items()))}
        names |= {frozenset(after)}
        assert search.store.counts(search.name) == dict.fromkeys(search.store.counts(search.name), 0)
        assert not search.store.ledger(search.name)
        assert not search.workspace.trials(search.name).names()
    assert len(sizes) == len(names) == 1
    assert set(names.pop()) == {"draw", "0.a", "0.b", "1.a", "1.b"}


def test_a_search_that_has_begun_and_whose_files_are_gone_releases_nothing(tmp_path):
    search = Search(tmp_path)
    search.begin()
    (search.places.own / KEY).unlink()
    assert search.opened() is None
    assert not search.release(None)
    assert search.store.sweep(search.name).state is SweepState.FINISHED
    assert not search.store.trials(search.name)


def test_what_is_late_is_not_the_best_so_far(tmp_path):
    search = Search(tmp_path)
    work = search.ran()
    assert work.best()
    late = replace(work.standing(0), following=0, written=10_000)
    work.keep(0, late)
    assert late.best or work.standing(1).best
    assert not work.best()
    assert not search.release(work)


@pytest.mark.parametrize("more", [{"trials": 100}, {"epsilon": [4.0]}, {"hours": 3.0}, {"accept": ["data"]}])
def test_nothing_is_added_to_it(tmp_path, more):
    search = Search(tmp_path)
    with pytest.raises(InvalidValue, match=r"[Ss]tart a new sweep"):
        session.resume(search.name, search.workspace, session.RunOptions(**more))
    with pytest.raises(InvalidValue, match="this one releases one result"):
        enqueue(search.store, search.name, {"clip": 0.5, "steps": 3})


def test_a_model_that_is_too_large_never_leaves(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    with pytest.raises(TooLarge):
        work.box.seal("here", bytes(100), 99)
    sealed = work.box.seal("here", b"body", 99)
    assert work.box.open("here", sealed) == b"body"
    for place, content in (("there", sealed), ("here", sealed[:-1] + b"x"), ("here", b"")):
        with pytest.raises(Damaged):
            work.box.open(place, content)


def test_a_search_on_private_validation_records(tmp_path, people):  # noqa: F811
    changes = dict(
        data=spec_of(people)["data"],
        systems={
            "noisy-sgd": {"model": "linear", "clip_norm": 1.0, "batch_size": 64, "epochs": 1, "learning_rate": 1.0}
        },
        objectives=[{"metric": "accuracy"}],
        search={"trials": 2},
        selection={"deadline_minutes": 0.1, "mean": 1.5},
        resources={"concurrency": 1},
    )
    # The first training of a process imports what it needs: before a deadline is announced.
    first = Search(tmp_path / "first", **changes)
    work = first.begin()
    run_slot(work.drawn(), 0, work.winner, work.group, first.data, work.ranking)
    search = Search(tmp_path / "second", **changes)
    work = search.ran()
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    assert winner.plan.validation is not None
    assert winner.metrics["accuracy_se"] > 0
    # Its model leaves with a card that says among how many it was chosen: that is a secret, and not 1.
    assert sweeps.open(search.name, root=tmp_path / "second").model(0).card["best_of"] is None


def test_deleting_a_sealed_search_that_is_not_over_destroys_its_key(tmp_path):
    search = Search(tmp_path)
    search.begin()
    # A second name keeps what the first one led to.
    kept = tmp_path / "kept"
    os.link(search.places.own / KEY, kept)
    key = kept.read_bytes()
    delete(search.workspace, search.name)
    assert not search.places.own.exists()
    assert kept.read_bytes() != key


# A sealed search goes on where its files are, and by a store that knows what left it: else it is left as it is.

LONG = {"selection": {**SPEC["selection"], "deadline_minutes": 60}}


class Apart(Search):
    """A search whose store and records are outside of its root."""

    def __init__(self, root: Path) -> None:
        self.elsewhere = {"store": f"sqlite:///{root}/store.db", "records": str(root / "records")}
        at, self.at = Workspace.at, root / "here"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Workspace, "at", lambda _: at(self.at, **self.elsewhere))
            super().__init__(root, **LONG)


def test_a_search_that_is_resumed_from_elsewhere_is_not_ended(tmp_path):
    """It released nothing, at once or after its deadline, and its trials were deleted or its key destroyed."""
    search = Apart(tmp_path)
    sizes, other = files(search.begin()), {"records": str(tmp_path / "other")}
    for there, said in (
        (Workspace.at(tmp_path / "there", **search.elsewhere), r"root=.*there': expected that in which 'sealed' began"),
        (Workspace.at(search.at, **(search.elsewhere | other)), r"records=.*/other': expected that .*/records: what"),
    ):
        with pytest.raises(InvalidValue, match=said):
            session.resume(search.name, there)
        work, record = search.opened(), search.store.sweep(search.name)
        assert files(work) == sizes != {}
        assert (record.state, record.root) == (SweepState.RUNNING, str(search.at))
        assert record.records == str(tmp_path / "records")


def test_a_search_whose_folder_is_lost_says_how_it_ends(tmp_path):
    search = Search(tmp_path, **LONG)
    search.begin()
    shutil.rmtree(search.places.own)
    with pytest.raises(InvalidValue, match="`sweeps delete sealed` ends it, and its price stays paid"):
        session.resume(search.name, search.workspace)
    delete(search.workspace, search.name)
    assert search.store.sweep(search.name).state is SweepState.DELETED


@pytest.mark.parametrize("begun", [False, True])
def test_a_store_that_does_not_know_what_left_releases_nothing_more(tmp_path, begun):
    """One that was restored: from before the search began, or before its release, which destroyed the key."""
    search = Search(tmp_path)
    if begun:
        search.begin()
        (search.places.own / KEY).unlink()
    (Path(search.workspace.trials(search.name).url) / "sealed-0" / "1").mkdir(parents=True)
    with pytest.raises(StoreOlder, match="holds records of trial sealed-0, which the store does not know"):
        session.resume(search.name, search.workspace)
    assert not (search.places.own / KEY).exists()
    assert not search.store.trials(search.name)


def test_the_winner_of_a_deleted_search_keeps_its_claim(tmp_path):
    """It was shown as planned, and as having claimed nothing."""
    search = ended(tmp_path)
    before = Sweep(search.name, search.workspace).overview().ledger.claims
    delete(search.workspace, search.name)
    [winner] = PublishedStore(search.store).trials(search.name)
    assert (winner.state, winner.metrics) == (TrialState.COMPLETE, {})
    assert Sweep(search.name, search.workspace).overview().ledger.claims == before != []


# A sealed search that released nothing has spent its price: every total and page that could leave it out says so.


def ended(root, **changes: Any) -> Search:
    search = Search(root, **changes)
    search.release(search.ran())
    return search


def test_a_search_that_released_nothing_is_not_left_out_of_a_total_with_another(tmp_path):
    """Left out, two searches of epsilon 3 were said to cost 3 together."""
    silent, other = ended(tmp_path, **to_reach(1e6)), ended(tmp_path, name="other")
    store = PublishedStore(other.store)
    assert store.trials(silent.name) == []
    [found] = joint_totals(store, {name: store.trials(name) for name in (silent.name, other.name)})
    assert found.procedure is None
    assert "adds to others by sums alone" in found.uncounted


# What reports, certificates, quotes and ledgers say of a sealed search that is over, and of what it spent.

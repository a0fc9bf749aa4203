"""A sealed search from its draw to its release: what is drawn once, what lies on the disk, what leaves, and kills.

Store, files, training and release are real; workers run in threads of this process, where Ray would run them elsewhere.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.execution import session
from sweeps.execution.gc import delete
from sweeps.execution.requests import enqueue
from sweeps.planning.check import before_launch
from sweeps.privacy.claims import covers_search
from sweeps.selection.run import ANNOUNCED, KEY, opened, release
from sweeps.spec import load_spec
from sweeps.store.records import SweepState, TrialState
from sweeps.util.fingerprint import Changed
from tests.sweeps.sealed_searches import SPEC, Search, files
from tests.sweeps.small_table import N, small_table
from trainables.sealed.draw import Schedule
from trainables.sealed.standing import Box, TooLarge
from trainables.sealed.worker import SealedWork, run_slot, serve
from trainables.worker.attempt import Attempt
from trainables.worker.files import Damaged


def test_the_draw_leaves_no_solved_value_behind_whose_order_would_tell_slots(tmp_path):
    knobs = {"learning_rate": {"uniform": [0.5, 2]}, "clip_norm": 1.0, "batch_size": {"int_uniform": [64, 256]}}
    systems = {"noisy-sgd": {"model": "linear", "epochs": 1} | knobs}
    objectives, trials = [{"metric": "accuracy"}], {"search": {"trials": 2}, "selection": {"deadline_minutes": 1}}
    search = Search(tmp_path, data={"source": "digits"}, systems=systems, objectives=objectives, **trials)
    kept: dict[str, float] = {}
    assert opened(search.store.sweep(search.name), search.spec, search.facts, search.workspace, kept) is not None
    assert kept == {}


def test_the_winner_is_the_best_of_the_slots_that_were_drawn(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    drawn = work.drawn()
    assert 1 <= drawn.count <= 8 == len(drawn.slots)
    search.serve(work)
    [best] = work.best()
    assert best.slot < drawn.count
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    slot = drawn.slots[best.slot]
    assert (winner.number, winner.attempts, winner.state) == (0, 1, TrialState.COMPLETE)
    assert (dict(winner.config), winner.seed, winner.plan) == (dict(slot.config), slot.seed, slot.plan)
    assert winner.metrics == dict(best.metrics) | {"epsilon": 3.0}
    assert "seconds" not in winner.metrics
    assert winner.guarantee == slot.plan.guarantee
    assert (winner.guarantee.epsilon, winner.guarantee.status) == (3.0, Status.PROVED_UNDER_ASSUMPTIONS)
    assert covers_search(winner.guarantee)
    state = Attempt.of(search.workspace.trials(search.name), winner.key, 1).load(slot.plan.steps)
    assert {name: value.tolist() for name, value in state.items()} == {
        name: value.tolist() for name, value in best.state.items()
    }


def test_every_slot_is_worse_or_later_than_the_winner(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    drawn, [best] = work.drawn(), work.best()
    every = [run_slot(drawn, n, work.winner, work.group, search.data, work.ranking) for n in range(drawn.count)]
    assert best.slot == min(range(drawn.count), key=lambda n: (every[n].ranks, n))
    again = every[best.slot]
    assert again.metrics == best.metrics
    assert all(np.array_equal(again.state[name], value) for name, value in best.state.items())


def test_what_lies_there_is_alike_whatever_is_drawn_and_however_far_it_is(tmp_path):
    sizes, names = set(), set()
    for number in range(3):
        search = Search(tmp_path / str(number))
        work = search.begin()
        before = files(work)
        search.serve(work)
        after = files(work)
        sizes |= {tuple(sorted(before.items())), tuple(sorted(after.items()))}
        names |= {frozenset(after)}
        assert search.store.counts(search.name) == dict.fromkeys(search.store.counts(search.name), 0)
        assert not search.store.ledger(search.name)
        assert not search.workspace.trials(search.name).names()
    assert len(sizes) == len(names) == 1
    assert set(names.pop()) == {"draw", "0.a", "0.b", "1.a", "1.b"}


def test_nothing_of_the_draw_is_in_clear(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    for path in Path(work.folder.url).iterdir():
        content = path.read_bytes()
        assert b"noisy-mean" not in content
        assert b"following" not in content
        assert b"PK" not in content[:64]
    assert (search.places.own / KEY).stat().st_mode & 0o777 == 0o600
    assert b"count" not in (search.places.own / ANNOUNCED).read_bytes()


def test_files_are_written_at_the_announced_times_by_idle_workers_too(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    first = work.folder.times()
    search.serve(work)
    times, last = work.folder.times(), work.schedule.last
    for worker in range(2):
        newer = max(times[f"{worker}.a"], times[f"{worker}.b"]) / 1e9
        assert abs(newer - last) < 0.5
        assert times[f"{worker}.a"] != first[f"{worker}.a"]
        assert work.standing(worker).written == work.schedule.records - 1


def test_the_draw_is_made_once(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    drawn = work.drawn()
    again = search.opened()
    assert again is not None
    assert again.drawn() == drawn
    assert (again.schedule, again.workers) == (work.schedule, work.workers)
    # Of another search everything differs.
    other = Search(tmp_path / "other").begin().drawn()
    assert other.coins != drawn.coins
    assert [one.config for one in other.slots] != [one.config for one in drawn.slots]


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_a_lost_worker_goes_on_to_the_same_winner(tmp_path, after, monkeypatch):
    """Killed after so many of its records: what it had not written yet is run again, the same."""
    search = Search(tmp_path)
    work = search.begin()
    drawn = work.drawn()
    expected = [run_slot(drawn, n, work.winner, work.group, search.data, work.ranking) for n in range(drawn.count)]
    pid = os.fork()
    if pid == 0:
        count = 0
        keep = SealedWork.keep

        def counted(self, worker, standing):
            nonlocal count
            if count == after:
                os.kill(os.getpid(), 9)
            keep(self, worker, standing)
            count += 1

        SealedWork.keep = counted  # type: ignore[method-assign]
        serve(work, 0, search.data)
        os._exit(0)
    os.waitpid(pid, 0)
    again = search.opened()
    assert again.drawn() == drawn
    search.serve(again)
    [best] = again.best()
    assert best.slot == min(range(drawn.count), key=lambda n: (expected[n].ranks, n))
    assert best.metrics == expected[best.slot].metrics


def test_a_search_that_has_begun_and_whose_files_are_gone_releases_nothing(tmp_path):
    search = Search(tmp_path)
    search.begin()
    (search.places.own / KEY).unlink()
    assert search.opened() is None
    assert not search.release(None)
    assert search.store.sweep(search.name).state is SweepState.FINISHED
    assert not search.store.trials(search.name)


def test_files_of_a_search_that_never_began_are_drawn_anew(tmp_path):
    search = Search(tmp_path)
    first = search.opened().drawn()
    (search.places.own / ANNOUNCED).unlink()
    assert search.opened().drawn() != first


def test_what_is_late_is_not_the_best_so_far(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    assert work.best()
    late = replace(work.standing(0), following=0, written=10_000)
    work.keep(0, late)
    assert late.best or work.standing(1).best
    assert not work.best()
    assert not search.release(work)


def test_a_release_that_was_killed_ends_the_same_way(tmp_path, monkeypatch):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    [expected] = work.best()
    for name in ("claim", "save"):
        with monkeypatch.context() as patch:
            patch.setattr(Attempt, name, lambda *args, **options: (_ for _ in ()).throw(KeyboardInterrupt))
            lease = search.store.acquire(search.name)
            with pytest.raises(KeyboardInterrupt):
                release(search.store, lease, search.spec, work, search.places, search.workspace.trials(search.name))
            lease.release()
    assert search.release(search.opened())
    [winner] = search.store.trials(search.name)
    assert winner.metrics["estimate"] == expected.metrics["estimate"]
    assert search.release(search.opened())


def test_the_end_leaves_no_key_and_nothing_to_open(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    search.release(work)
    assert not (search.places.own / KEY).exists()
    assert not work.folder.names()
    with pytest.raises(Damaged):
        work.drawn()


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
    for place, content in (("there", sealed), ("here", sealed[:-1]), ("here", sealed[:-1] + b"x"), ("here", b"")):
        with pytest.raises(Damaged):
            work.box.open(place, content)
    with pytest.raises(InvalidValue, match=r"\(hidden\)"):
        Box(b"short")


def test_a_model_without_room_is_refused_before_anything_runs():
    document = {
        **SPEC,
        "data": {"source": "digits"},
        "systems": {
            "noisy-sgd": {"model": "linear", "clip_norm": 1.0, "batch_size": 64, "epochs": 1, "learning_rate": 1.0}
        },
        "objectives": [{"metric": "accuracy"}],
        "selection": {"deadline_minutes": 1, "megabytes": 0.005},
    }
    with pytest.raises(InvalidValue, match=r"selection.megabytes=0.005: expected at least 0.00744, for a model of 650"):
        before_launch(load_spec(document))


def test_a_search_on_private_validation_records(tmp_path):
    changes = dict(
        data=small_table(tmp_path / "people.parquet", np.random.default_rng(3).random(N)),
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
    work = search.begin()
    search.serve(work)
    assert search.release(work)
    [winner] = search.store.trials(search.name)
    assert winner.plan.validation is not None
    assert winner.metrics["accuracy_noise_sd"] > 0
    # Its model leaves with a card that says among how many it was chosen: that is a secret, and not 1.
    model = sweeps.open(search.name, root=tmp_path / "second").model(0)
    assert model.card["best_of"] is None
    assert "chose it among a secret number of trials, by its results" in model.page
    assert "finished trials" not in model.page


def test_announced_times_do_not_depend_on_when_one_looks():
    schedule = Schedule(begins=100.0, deadline=200.0, cadence=7.0)
    times = [schedule.at(number) for number in range(schedule.records)]
    assert times[-1] == schedule.last == 190.0
    assert times[0] >= 100.0
    assert schedule.following(0.0) == 0
    assert [schedule.following(one - 0.01) for one in times] == list(range(schedule.records))
    assert schedule.following(190.0) is None


def test_how_trials_execute_cannot_change_while_a_sealed_search_runs(tmp_path):
    search = Search(tmp_path)
    search.begin()
    changed = load_spec({**SPEC, "execution": {"threads": 2}})
    with pytest.raises(Changed, match="execution and resources cannot change"):
        session.resume(search.name, search.workspace, session.RunOptions(spec=changed))


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

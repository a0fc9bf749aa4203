"""A worker's records, files, clock and memory: what is written is whole, and what is charged is what was reserved."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.sweeps import stores
from trainables.system import Dependence, Launch, TrialRun
from trainables.training.trained_model import METRICS
from trainables.worker import trial
from trainables.worker.attempt import AlreadyExecuted, Attempt, Cancelled, Recovered, TrialResult
from trainables.worker.files import Damaged, Folder
from trainables.worker.ray import _unseen

# The durable record of an attempt: atomic files, fence before horizon, no pickles.


@pytest.fixture
def attempt(tmp_path):
    return Attempt.of(Folder(str(tmp_path)), "s-0", 1)


def test_an_attempt_that_left_nothing_is_charged_whole(attempt):
    # Nothing there shows that this is the folder that a worker would have written to.
    assert attempt.recover(3, 9) == Recovered(9, doubt="nothing is left in its folder")


def claim(attempt):
    attempt.claim(3)


@pytest.mark.parametrize("sign", [Attempt.reserve, claim])
def test_a_folder_that_is_whole_shows_that_nothing_was_executed_and_nothing_will_be(attempt, sign):
    sign(attempt)
    assert attempt.recover(3, 9) == Recovered(3)
    if sign is Attempt.reserve:
        claim(attempt)
    with pytest.raises(Cancelled):
        attempt.reserve_until(5)
    assert attempt.recover(3, 9) == Recovered(5)


def test_a_machine_that_does_not_see_the_mark_runs_nothing(tmp_path):
    """The same path, another disk: its records would lie where nobody looks, and the mark would say that none began."""
    plan = stores.plan(steps=4)
    group = Launch(members=(TrialRun(key="s-0", attempt=1, seed=1, plan=plan, from_step=0, to_step=4),))
    here, elsewhere = Folder(str(tmp_path / "here")), Folder(str(tmp_path / "elsewhere"))
    Attempt.of(here, "s-0", 1).reserve()
    assert _unseen(group, here) == []
    (blind,) = _unseen(group, elsewhere)
    assert "does not see the controller's" in blind["unwritable"]
    Attempt.of(here, "s-0", 1).claim(0)
    # A repetition of the call is refused by the claim itself, for what it is.
    assert _unseen(group, here) == []


def test_no_run_goes_beyond_its_reservation(tmp_path):
    member = TrialRun(key="s-0", attempt=1, seed=1, plan=stores.plan(), from_step=0, to_step=4)
    folder = Folder(str(tmp_path))
    run = trial.open_run(member, folder, b"s" * 32)
    with pytest.raises(ValueError, match="the reservation of s-0 ends at 4"):
        run.reserve_until(5)
    assert Attempt.of(folder, "s-0", 1).recover(0, 4) == Recovered(0)


def test_what_is_withheld_is_in_no_curve_that_is_kept(tmp_path):
    member = TrialRun(key="s-0", attempt=1, seed=1, plan=stores.plan(), from_step=0, to_step=4)
    folder = Folder(str(tmp_path))
    run = trial.open_run(member, folder, b"s" * 32)
    run.launch = trial.LaunchContext(group=Launch(members=(), withheld=frozenset({Dependence.SIDE_CHANNEL})))
    run.report(1, {}, {"work": 1.0, "seconds": 2.0})
    run.checkpoint(2, {}, {})
    assert Attempt.of(folder, "s-0", 1).read(2).curve == {1: {"work": 1.0}}


def test_a_failure_is_told_without_its_words(tmp_path, monkeypatch):
    """They may quote a record."""

    def fit(*_):
        raise ValueError("a private 3.14")

    plan = stores.plan()
    monkeypatch.setattr(trial, "SYSTEMS", {plan.system: SimpleNamespace(fit=fit)})
    group = Launch(members=(TrialRun(key="s-0", attempt=1, seed=1, plan=plan, from_step=0, to_step=4),))
    (told,) = trial.run_launch(group, None, Folder(str(tmp_path)), b"s" * 32)
    assert "ValueError (test_worker.py, line" in told["error"]
    assert "3.14" not in told["error"]


def test_a_horizon_whose_claim_is_gone_is_not_executed_again(attempt):
    attempt.claim(0)
    attempt.reserve_until(5)
    attempt.folder.delete("claim")
    with pytest.raises(AlreadyExecuted):
        attempt.claim(0)


def reported(step):
    return TrialResult(key="s-0", attempt=1, step=step, metrics={"a": 1.0}, seconds=1.0, peak_memory_mb=2.0)


def test_result_and_state_are_one_file(attempt):
    attempt.claim(0)
    attempt.reserve_until(5)
    attempt.save(5, {"w": np.zeros(2)}, reported(5).model_dump())
    assert attempt.recover(0, 5) == Recovered(5, result=reported(5))


@pytest.mark.parametrize("step", [2, 4])
def test_a_result_that_is_not_of_the_end_of_the_reservation_is_none(attempt, step):
    """It would be charged to its own step."""
    attempt.claim(0)
    attempt.reserve_until(5)
    attempt.save(4, {"w": np.zeros(2)}, reported(step).model_dump())
    left = attempt.recover(0, 5)
    assert (left.executed_to, left.result) == (5, None)


def test_a_fenced_worker_starts_no_interval_but_its_horizon_is_charged(attempt):
    attempt.claim(0)
    attempt.reserve_until(3)
    assert attempt.recover(0, 9).executed_to == 3
    with pytest.raises(Cancelled):
        attempt.reserve_until(6)
    # The horizon was written before the fence was seen: a later reader still charges it.
    assert attempt.recover(0, 9).executed_to == 6


def gone(attempt):
    shutil.rmtree(attempt.folder.url)


def another_s(attempt):
    """The folder was removed, and a new sweep of the same name began."""
    gone(attempt)
    claim(Attempt(attempt.folder, attempt.key, attempt.number))


@pytest.mark.parametrize("change", [gone, another_s])
def test_a_worker_whose_folder_is_another_one_now_draws_nothing_and_leaves_nothing(attempt, change):
    """A disk that was unmounted, a folder that was moved or removed: a fence that was up went with it."""
    claim(attempt)
    attempt.reserve_until(5)
    change(attempt)
    before = attempt.folder.times()
    for write in (lambda: attempt.reserve_until(9), lambda: attempt.save(5, {"w": np.zeros(1)})):
        with pytest.raises(OSError, match="no longer the folder that this worker claimed"):
            write()
    assert attempt.folder.times() == before


def test_a_checkpoint_has_one_predecessor(attempt):
    claim(attempt)
    for step in (1, 2, 3, 4):
        attempt.save(step, {"w": np.full(1, step)})
    assert attempt.steps() == [4, 3]
    attempt.folder.write("checkpoint.4.npz", b"")
    assert attempt.readable(1, 9).step == 3
    assert attempt.read(3).state["w"] == [3]
    with pytest.raises(Damaged, match=r"s-0/1/checkpoint\.4\.npz: 0 bytes"):
        attempt.read(4)


def test_a_reader_sees_the_old_content_or_the_new_one(tmp_path):
    """A writer is killed 25 times in the middle of writing: the file is whole each time, and no litter is read."""
    script = textwrap.dedent(
        """
        import sys
        from trainables.worker.files import Folder
        folder, n = Folder(sys.argv[1]), 0
        print("go", flush=True)
        while True:
            n += 1
            folder.write("f", bytes([n % 251]) * 300_000)
        """
    )
    for _ in range(25):
        writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        os.kill(writer.pid, 9)
        writer.wait()
        content = Folder(str(tmp_path)).read("f")
        assert content is None or (len(content) == 300_000 and len(set(content)) == 1)


def test_a_sign_of_life_is_what_its_worker_writes_and_nothing_else(attempt):
    attempt.reserve()
    seen = [attempt.signs()]
    assert seen == [()]
    attempt.claim(0)
    seen.append(attempt.signs())
    for step in (1, 2):
        attempt.reserve_until(step)
        seen.append(attempt.signs())
        attempt.save(step, {"w": np.zeros(1)})
        seen.append(attempt.signs())
    assert len(set(seen)) == len(seen)
    # The controller's own files are no sign of the worker's life.
    attempt.reserve()
    attempt.recover(0, 2)
    assert attempt.signs() == seen[-1]


# Files of records.


def test_a_write_is_whole_and_leaves_nothing_beside_it(tmp_path):
    folder = Folder(str(tmp_path)).child("sweep").child("trial")
    folder.write("f", b"old")
    folder.write("f", b"new")
    assert (folder.read("f"), folder.read("g"), folder.exists("f"), folder.exists("g")) == (b"new", None, True, False)
    assert folder.names() == ["f"]
    assert folder.sizes() == {"f": 3}
    with pytest.raises(TypeError):
        folder.write("f", None)
    assert (folder.names(), folder.read("f")) == (["f"], b"new")
    folder.delete("f")
    folder.delete("f")
    assert folder.names() == []


def test_a_claim_is_one_callers(tmp_path):
    folder = Folder(str(tmp_path)).child("trial")
    assert folder.claim("claim", "a")
    assert not folder.claim("claim", "b")
    assert folder.holds("claim", "a")
    assert not folder.holds("claim", "b")


def test_what_is_no_file_is_damaged_and_a_name_is_one_component(tmp_path):
    folder = Folder(str(tmp_path))
    (tmp_path / "place").mkdir()
    with pytest.raises(Damaged):
        folder.read("place")
    for name in ("", "..", "a/b", "a\\b"):
        with pytest.raises(ValueError, match="one file or folder name"):
            folder.read(name)


# What a trial's seconds and memory hold when several are launched together, or one after the other.

SHARED, OWN, MEASURING = 0.3, 0.1, 0.2
SLACK = 0.15


def shared_training(runs, data, execution):
    time.sleep(SHARED)
    for run in runs:
        run.reserve_until(1)
        time.sleep(OWN)
        run.checkpoint(1, {"w": np.zeros(1)}, {"accuracy": 0.5})


def measured(*arguments):
    time.sleep(MEASURING)
    return {}


def test_a_shared_training_is_every_members_and_the_rest_is_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "SYSTEMS", {"shared": SimpleNamespace(fit=shared_training, metrics=METRICS)})
    monkeypatch.setattr(trial, "measure", measured)
    plan = SimpleNamespace(system="shared", config={})
    members = tuple(
        TrialRun(key=f"timed-{number}", attempt=1, seed=number, plan=plan, from_step=0, to_step=1)
        for number in range(4)
    )
    group = Launch(members=members, measures=("queries",))
    found = trial.run_launch(group, None, Folder(str(tmp_path)), bytes(32))
    for result in found:
        assert SHARED + OWN <= result["seconds"] < SHARED + OWN + SLACK

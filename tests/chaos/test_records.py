"""What a worker left is damaged under a real sweep; the witness counts what was drawn apart from every record.

Printed as a table: what was done, what was seen, steps drawn and steps charged.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sweeps.store.records import TrialRecord, TrialState
from tests.chaos import witness
from tests.chaos.harness import HANG_SECONDS, LONG, Tortured
from tests.chaos.test_vanished_store import under_charged
from trainables.worker.files import with_checksum

SLOW = LONG.replace("step_seconds: 0.1", "step_seconds: 0.4").replace("trials: 14", "trials: 10")
LOOK = "{:<52} {:>8} {:>6} {:>8}  {}"


def newest_checkpoint(folder: Path) -> Path:
    return max(folder.glob("checkpoint.*.npz"), key=lambda path: int(path.name.split(".")[1]))


def states_one(folder: Path) -> None:
    for name in ("horizon.json", "horizon.copy.json"):
        place = f"{folder.parent.name}/{folder.name}/{name}"
        (folder / name).write_bytes(with_checksum(place, b'{"until_step": 1}'))


def both_deleted(folder: Path) -> None:
    (folder / "horizon.json").unlink()
    (folder / "horizon.copy.json").unlink()


def another_trials(folder: Path) -> None:
    others = [path for path in folder.parents[1].glob("*/*/horizon.json") if path.parent != folder]
    (folder / "horizon.json").write_bytes(others[0].read_bytes())


def linked(folder: Path) -> None:
    elsewhere = folder.parents[3] / "elsewhere"
    folder.parent.rename(elsewhere)
    folder.parent.symlink_to(elsewhere)


FAULTS: dict[str, Callable[[Path], object]] = {
    "both horizons say 1": states_one,
    "horizon of 0 bytes": lambda folder: (folder / "horizon.json").write_bytes(b""),
    "horizon of garbage": lambda folder: (folder / "horizon.json").write_bytes(b"\xff{[" * 99),
    "horizon of another trial": another_trials,
    "both horizons deleted": both_deleted,
    "newest checkpoint of 0 bytes": lambda folder: newest_checkpoint(folder).write_bytes(b""),
    "newest checkpoint cut in half": lambda folder: newest_checkpoint(folder).write_bytes(
        newest_checkpoint(folder).read_bytes()[:200]
    ),
    "trial folder is a link": linked,
}


def stopped_worker(sweep: Tortured, but: set[str]) -> tuple[int, Path]:
    """(pid, folder) of a worker in the middle of an attempt that has two checkpoints; from here on it does nothing.

    A worker is known by the witness's file, which it holds open.
    """
    limit = time.monotonic() + 3 * HANG_SECONDS
    while True:
        assert sweep.alive(), f"{sweep.log}\n{sweep.tail()}"
        assert time.monotonic() < limit, f"no checkpoint: {sweep.log}\n{sweep.tail()}"
        running = sweep.store().trials(sweep.name, states=[TrialState.RUNNING]) if sweep.recorded() else []
        now = {f"{one.key}.{one.attempts}" for one in running}
        for pid, command in sweep.descendants():
            for key, _, attempt in (name.rpartition(".") for name in now & held(pid, sweep.witness)):
                folder = sweep.root / sweep.name / "trials" / key / attempt
                if key in but or not command.startswith("ray::") or len(list(folder.glob("checkpoint.*.npz"))) < 2:
                    continue
                os.kill(pid, signal.SIGSTOP)
                (record,) = sweep.store().trials_of(sweep.name, [key])
                if record.state is TrialState.RUNNING and not ended(folder, record):
                    return pid, folder
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.05)


def ended(folder: Path, record: TrialRecord) -> bool:
    """Whether the attempt has its last checkpoint, or was given up."""
    assert record.plan is not None
    steps = record.planned_steps
    return (folder / f"checkpoint.{steps}.npz").exists() or (folder / "fence").exists()


def held(pid: int, folder: Path) -> set[str]:
    """Names of the files in `folder` that a process holds open: a worker keeps those of its earlier trials too."""
    names = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                path = descriptor.readlink()
                if path.parent == folder:
                    names.add(path.name)
    return names


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(900)
def test_records_that_lie_or_are_damaged_cost_their_own_attempt(tmp_path: Path) -> None:
    sweep = Tortured(tmp_path, SLOW, seed=0)
    done: dict[tuple[str, int], str] = {}
    sweep.start()
    for what, damage in FAULTS.items():
        pid, folder = stopped_worker(sweep, but={key for key, _ in done})
        damage(folder)
        os.kill(pid, signal.SIGKILL)
        sweep.struck["worker"] += 1
        done[folder.parent.name, int(folder.name)] = what
        sweep.note(f"{folder.parent.name}.{folder.name}: {what}")
    assert sweep.wait(4 * HANG_SECONDS) in (0, 4), sweep.tail()
    entries = {(one.key, one.attempt): one for one in sweep.store().ledger(sweep.name)}
    drawn = witness.witnessed(sweep.witness)
    states = {record.key: record.state for record in sweep.store().trials(sweep.name)}
    print("\n" + LOOK.format("done", "attempt", "drawn", "charged", "seen"))
    for attempted, what in done.items():
        spent = entries[attempted].steps_spent
        print(LOOK.format(what, f"{attempted[0]}.{attempted[1]}", drawn.get(attempted, 0), spent, states[attempted[0]]))
        assert entries[attempted].executed_to == entries[attempted].to_step, f"{what}: {entries[attempted]}"
    assert under_charged(sweep) == {}
    failed = {key for key, state in states.items() if state is TrialState.FAILED}
    assert failed == {key for (key, _), what in done.items() if what == "trial folder is a link"}
    assert len(states) == 10
    assert len([state for state in states.values() if state is TrialState.COMPLETE]) == 9
    print(sweep.figures())

"""Whatever becomes of what a worker left: no step escapes the ledger, nothing is raised, the other trials finish."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeps.store.errors import StoreOlder
from sweeps.store.records import TrialState
from tests.sweeps.fake_workers import ASHA, CLIPPED, NAME, FakeSweep, first_rung, launched, memory_folder
from trainables.worker.attempt import Traces, charge
from trainables.worker.files import Damaged, with_checksum

FIXED = {"systems": {"noisy-mean": {**CLIPPED, "steps": 12}}}


@pytest.fixture
def sweep(folder):
    return FakeSweep(folder, change=FIXED)


def record_of(worker, name) -> Path:
    return Path(worker.attempt.folder.url) / name


# -- the rule ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("traces", "charged"),
    [
        ({}, 9),
        ({"unclaimed": True}, 3),
        ({"unclaimed": True, "horizon": 5}, 9),
        ({"claimed": True}, 9),
        ({"claimed": True, "mirror": 3}, 3),
        ({"claimed": True, "mirror": 5}, 9),
        ({"claimed": True, "horizon": 5}, 9),
        ({"claimed": True, "horizon": 5, "mirror": 5}, 5),
        ({"claimed": True, "horizon": 7, "mirror": 5}, 7),
        ({"claimed": True, "horizon": 5, "mirror": 7}, 9),
        ({"claimed": True, "horizon": 4, "mirror": 4, "checkpoints": (6,)}, 9),
        ({"claimed": True, "horizon": 6, "mirror": 6, "checkpoints": (6, 4)}, 6),
        ({"claimed": True, "mirror": 3, "checkpoints": (6,)}, 9),
        ({"claimed": True, "horizon": 10, "mirror": 5}, 9),
        ({"claimed": True, "horizon": 2, "mirror": 3}, 9),
        ({"claimed": True, "horizon": Damaged("cut"), "mirror": 5}, 9),
        ({"claimed": True, "horizon": 5, "mirror": 5, "checkpoints": (Damaged("cut"),)}, 9),
        ({"horizon": 5, "mirror": 5}, 9),
    ],
)
def test_what_a_reservation_from_3_to_9_is_charged(traces, charged):
    found = charge(Traces(**traces), 3, 9)
    assert found.executed_to == charged
    assert bool(found.doubt) == (charged == 9)


# -- the faults that were found ---------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", [True, False])
def test_a_state_behind_published_metrics_is_never_made_again(rungs, damaged):
    first = first_rung(rungs)[0]
    path = record_of(first, "checkpoint.2.npz")
    if damaged:
        path.write_bytes(path.read_bytes()[:-9])
    else:
        path.unlink()
    following = launched(rungs).member
    record = rungs.controller.records[first.member.key]
    assert following.key != first.member.key
    assert record.state is TrialState.FAILED
    assert "would be a second release" in record.reason
    # What it reported stays a report, and its steps stay charged.
    assert (record.step, rungs.store.ledger(NAME, first.member.key)[-1].executed_to) == (2, 2)
    rungs.finish()
    assert rungs.store.counts(NAME)["failed"] == 1
    kept = rungs.store.trials(NAME)[0]
    assert (kept.state, kept.reason, dict(kept.metrics)) == (record.state, record.reason, dict(record.metrics))
    rungs.check()


def test_the_state_of_another_path_does_not_stand_in_for_a_published_one(rungs):
    """A worker that was given up ends its rung too late: the same steps, with other noise than what was published."""
    late = launched(rungs)
    late.execute(1, 1, stop_inside=False)
    late.execute(1, 1, stop_inside=True)
    rungs.lose(late)
    worker = launched(rungs)
    assert worker.member.key == late.member.key
    worker.finish_with(0.1)
    rungs.deliver(worker)
    late.execute(1, 1, stop_inside=False)
    assert record_of(late, "checkpoint.2.npz").exists()
    other = launched(rungs)
    other.finish_with(0.2)
    rungs.deliver(other)
    record_of(worker, "checkpoint.2.npz").write_bytes(b"")
    launched(rungs)
    assert rungs.controller.records[late.member.key].state is TrialState.FAILED


def test_a_checkpoint_that_comes_to_light_after_its_attempt_was_settled_is_charged(sweep, folder):
    """A folder that was away when it was settled: the mark stood there, and the worker wrote where nobody looked."""
    worker = launched(sweep)
    own = Path(worker.attempt.folder.url)
    away = folder / "away"
    own.rename(away)
    worker.execute(1, 8, stop_inside=False)
    own.rename(folder / "written")
    away.rename(own)
    sweep.lose(worker)
    assert sweep.store.ledger(NAME, worker.member.key)[-1].executed_to == 0
    for path in (folder / "written").glob("checkpoint.*"):
        path.rename(own / path.name)
    assert launched(sweep).member.from_step == 8
    assert sweep.store.ledger(NAME)[0].executed_to == 12
    sweep.check()
    sweep.finish()
    sweep.check_end(trials=5)


# -- everything else --------------------------------------------------------------------------------------------

DEEP = b"[" * 100_000
LIES: tuple[object, ...] = (-1, 0, 1, 10**30, float("nan"), float("inf"), True, None, "3", [], {}, 2.5)
"""What no worker ever writes in the place of a step, and what it may, elsewhere."""

Older = Mapping[str, bytes]
"""{path of a record below `trials`: an earlier content of it}."""


def records(trials: Path) -> list[Path]:
    """Every file that a worker wrote."""
    return sorted(path for path in trials.rglob("*") if path.is_file() and path.name not in ("fence", "reserved"))


def cut(path: Path, numbers: random.Random, older: Older) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: numbers.randrange(len(content))] if content else b"")


def empty(path: Path, numbers: random.Random, older: Older) -> None:
    path.write_bytes(b"")


def garbage(path: Path, numbers: random.Random, older: Older) -> None:
    path.write_bytes(numbers.randbytes(numbers.choice([1, 64, 65, 300, 70_000])))


def flipped(path: Path, numbers: random.Random, older: Older) -> None:
    content = bytearray(path.read_bytes())
    if content:
        content[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
    path.write_bytes(bytes(content))


def deleted(path: Path, numbers: random.Random, older: Older) -> None:
    path.unlink()


def brought_back(path: Path, numbers: random.Random, older: Older) -> None:
    """An older copy of this one record."""
    name = "/".join(path.parts[-3:])
    if name in older:
        path.write_bytes(older[name])


def exchanged(path: Path, numbers: random.Random, older: Older) -> None:
    """Another trial's, or another attempt's, record of the same kind."""
    kind = path.name.split(".")[0]
    others = [one for one in records(path.parents[2]) if one.name.split(".")[0] == kind and one != path]
    if others:
        path.write_bytes(numbers.choice(others).read_bytes())


def forged(path: Path, numbers: random.Random, older: Older) -> None:
    """Sealed as it should be, with a content that no worker writes."""
    lie = numbers.choice(LIES)
    deep = numbers.random() < 0.2
    if path.name.startswith("checkpoint."):
        step = int(path.name.split(".")[1])
        stated = numbers.choice([lie, step])
        result = {"key": lie, "attempt": 1, "step": stated, "metrics": {"expected_error": lie}, "seconds": lie}
        head = DEEP if deep else json.dumps({"step": stated, "result": numbers.choice([result, lie])}).encode()
        buffer = io.BytesIO()
        np.savez(buffer, head=np.frombuffer(head, dtype=np.uint8), **{"state.total": np.zeros(1)})
        body = buffer.getvalue()
    else:
        body = DEEP[:60_000] if deep else json.dumps(numbers.choice([lie, {"until_step": lie}])).encode()
        if body == b'{"until_step": 1}' or body == b'{"until_step": 0}':
            # These a worker may have written: an older copy.
            return brought_back(path, numbers, older)
    path.write_bytes(with_checksum("/".join(path.parts[-3:]), body))


DAMAGES: tuple[Callable[[Path, random.Random, Older], None], ...] = (
    cut,
    empty,
    garbage,
    flipped,
    deleted,
    brought_back,
    exchanged,
    forged,
)


def tormented(seed: int, damages: int, kinds=DAMAGES, early_stopping=None) -> FakeSweep:
    """A sweep whose workers come some way, lose records, and are lost; then it runs to its end."""
    numbers = random.Random(seed)
    with memory_folder() as folder:
        sweep = FakeSweep(folder, early_stopping, change={**FIXED, "execution": {"retries": 100}})
        trials = Path(sweep.trials.url)
        older: dict[str, bytes] = {}
        for _ in range(3):
            workers = [launched(sweep) for _ in range(2)]
            for worker in workers:
                for interval in range(numbers.randrange(4)):
                    worker.execute(1, 1 + numbers.randrange(4), stop_inside=interval == 2)
                    if numbers.random() < 0.5:
                        older |= {"/".join(path.parts[-3:]): path.read_bytes() for path in records(trials)}
            for _ in range(damages):
                if left := records(trials):
                    numbers.choice(kinds)(numbers.choice(left), numbers, older)
            for worker in workers:
                sweep.lose(worker)
                sweep.check()
        sweep.finish()
        sweep.check()
        states = {record.state for record in sweep.store.trials(NAME)}
        assert states <= {TrialState.COMPLETE, TrialState.FAILED}
        assert TrialState.COMPLETE in states
        sweep.store.close()
        return sweep


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), early_stopping=st.sampled_from([None, ASHA]))
def test_no_damage_to_one_record_under_charges_or_stops_the_sweep(seed, early_stopping):
    tormented(seed, 1, early_stopping=early_stopping)


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), damages=st.integers(2, 6))
def test_nor_does_damage_to_several_that_leaves_no_older_moment(seed, damages):
    """Several records all brought back to one older moment contradict nothing: see `trainables.worker.attempt`."""
    kinds = [one for one in DAMAGES if one not in (brought_back, forged)]
    tormented(seed, damages, kinds)


# -- a store that is older than its records -----------------------------------------------------------------------


@pytest.mark.parametrize("unknown", [f"{NAME}-99/1", f"{NAME}-0/7"])
def test_an_older_copy_of_the_store_is_refused_by_the_records_beside_it(sweep, unknown):
    """What those attempts drew stands in no ledger of it: its totals would be too small."""
    launched(sweep)
    sweep.lease.release()
    (Path(sweep.trials.url) / unknown).mkdir(parents=True)
    with pytest.raises(StoreOlder, match="which the store does not know"):
        sweep.start()


def test_a_store_from_before_a_promotion_is_refused(rungs):
    """A trial that early stopping paused is complete there, and what its promotion drew stands in no ledger of it."""
    first, _ = first_rung(rungs)
    rungs.lease.release()
    (Path(rungs.trials.url) / first.member.key / "2").mkdir()
    with pytest.raises(StoreOlder, match=f"attempt 2 of trial {first.member.key}"):
        rungs.start()

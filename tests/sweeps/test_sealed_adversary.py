"""Nobody outside learns how many trials a sealed search had, what a loser was, or where the winner stood.

In pairs of worlds that differ in one of these alone, any difference of what is seen is a failure; times, which are
never quite the same, are compared by a permutation test that errs once in 1000. Each leak, put in, is found.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest

from sweeps.control import sealed_session
from sweeps.records import Proposal
from sweeps.sealed import opening, releasing
from sweeps.sealed.opening import SealedPlaces
from tests.sweeps.sealed_adversary import Seen, World, watched
from trainables.sealed import worker
from trainables.sealed.box import Box
from trainables.sealed.drawn import Coins
from trainables.sealed.worker import Keeper
from trainables.system import Refusal

pytestmark = [pytest.mark.chaos, pytest.mark.outage]
CAP = 8
TIMED = 7
"""Searches of each world: the least p of a permutation of 14 is 2/3432, below 1/1000."""


def place(best: int, slot: int, *losers: int) -> tuple[int, ...]:
    return (*losers[:slot], best, *losers[slot:])


@pytest.fixture(scope="module")
def standings() -> tuple[int, ...]:
    """Trials of the coins, the best first, by running each alone as the worker does."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return pool.submit(_ranked).result()


def _ranked() -> tuple[int, ...]:
    import tempfile

    from sweeps.spec import load_spec, public_facts
    from tests.sweeps import sealed_adversary as outside
    from trainables.data import SOURCES
    from trainables.sealed.slot import run_slot

    World(CAP, tuple(range(CAP))).force()
    with tempfile.TemporaryDirectory() as folder:
        workspace, spec = outside.made(Path(folder) / "root"), load_spec(outside.SPEC)
        record = workspace.open_store().sweep("sealed")
        work = opening.opened(record, spec, public_facts(spec), workspace, {})
        assert work is not None
        drawn, data = work.drawn(), SOURCES["uniform"].load(spec.data.options())
        found = [run_slot(drawn, n, work.winner, work.group, data, work.ranking) for n in range(CAP)]
    return tuple(sorted(range(CAP), key=lambda n: found[n].ranks if found[n] else (np.inf,)))


@pytest.fixture(scope="module")
def worlds(standings: tuple[int, ...]) -> dict[str, tuple[World, World]]:
    best, *rest = standings
    first = World(CAP, place(best, 0, *rest))
    return {
        "count": (World(1, first.order), first),
        "slot": (first, World(CAP, place(best, 5, *rest))),
        # Another loser in the first place of the second worker, and so on: the last one twice.
        "loser": (first, World(CAP, place(best, 0, *rest[1:], rest[1]))),
    }


def seen(tmp_path: Path, many: list[World]) -> list[Seen]:
    return list(_each(tmp_path, many))


def _each(tmp_path: Path, many: list[World]) -> Iterator[Seen]:
    context = multiprocessing.get_context("fork")
    for start in range(0, len(many), 6):
        group = []
        for number, world in enumerate(many[start : start + 6], start):
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(there, tmp_path / str(number) / "root", world))
            process.start()
            group.append((process, here))
        for process, here in group:
            assert here.poll(30)
            found = here.recv()
            process.join()
            assert isinstance(found, Seen), found
            yield found


def _send(there, root: Path, world: World) -> None:
    try:
        root.parent.mkdir()
        there.send(watched(root, world))
    except BaseException as error:
        import traceback

        there.send("".join(traceback.format_exception(error)))


def told_apart(one: Seen, other: Seen) -> list[str]:
    """What differs, or was read."""
    return [name for name in one.facts if one.facts[name] != other.facts[name]] + one.opened[:1] + other.opened[:1]


def p_value(one: list[float], other: list[float]) -> float:
    """Of the difference of the means, over all ways to part the values: exact, two-sided."""
    values, n = np.array(one + other), len(one)
    gaps = [abs(values[list(part)].sum() * 2 - values.sum()) for part in combinations(range(len(values)), n)]
    return float(np.mean(np.array(gaps) >= gaps[0] - 1e-12))


def test_worlds_look_alike(tmp_path: Path, worlds) -> None:
    first = worlds["count"][1]
    found = seen(tmp_path, [first, worlds["count"][0], worlds["slot"][1], worlds["loser"][1]])
    for other in found[1:]:
        assert told_apart(found[0], other) == []
    assert found[0].facts["ended"] == "after"
    [row] = found[0].facts["store"]["charges"]
    assert row[:3] == ("people", "sweep", "sealed")
    assert len(found[0].facts["store"]["trials"]) == 1
    # What lies there encrypted is noise to whoever has no key, and new at each time.
    for one in found:
        everything = np.frombuffer(b"".join(chain(*one.written.values())), dtype=np.uint8)
        counts = np.bincount(everything, minlength=256)
        expected = len(everything) / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400  # 255 degrees of freedom: once in 10^8
        for name in ("0.a", "0.b", "1.a", "1.b"):
            assert len(one.written[name]) > 3


def test_the_end_comes_at_the_same_time(tmp_path: Path, worlds) -> None:
    for name, (one, other) in worlds.items():
        folder = tmp_path / name
        folder.mkdir()
        found = seen(folder, [one, other] * TIMED)
        late = [each.lateness for each in found]
        assert p_value(late[::2], late[1::2]) > 1e-3, name


def _row_per_slot(patch) -> None:
    honest = releasing._commit

    def leaks(store, lease, spec, work, *rest):
        honest(store, lease, spec, work, *rest)
        refused = Refusal(reason="not chosen", violations={"chosen": 1.0})
        losers = range(1, work.drawn().count)
        store.record_infeasible(lease, [(Proposal(number=n, config={}, seed=n), refused) for n in losers])

    patch.setattr(releasing, "_commit", leaks)


def _file_per_slot(patch) -> None:
    honest = worker._after

    def leaks(work, standing, found):
        work.folder.write(f"slot-{standing.following}", b"")
        return honest(work, standing, found)

    patch.setattr(worker, "_after", leaks)


def _early_exit(patch) -> None:
    class Impatient(Keeper):
        def __exit__(self, kind, *rest):
            super().__exit__(KeyboardInterrupt, *rest)
            self._work.keep(self._worker, self._standing)

    class Clock:
        time = staticmethod(sealed_session.time.time)
        sleep = staticmethod(lambda seconds: None)

    patch.setattr(worker, "Keeper", Impatient)
    patch.setattr(sealed_session, "time", Clock)


def _not_padded(patch) -> None:
    honest = Box.seal
    patch.setattr(Box, "seal", lambda self, place, body, size: honest(self, place, body, len(body)))


def _number_is_slot(patch) -> None:
    honest = releasing._commit

    def leaks(store, lease, spec, work, slot, found, trials):
        patch.setattr(releasing, "NUMBER", found.slot)
        honest(store, lease, spec, work, slot, found, trials)

    patch.setattr(releasing, "_commit", leaks)


def _seed_of_the_slot(patch) -> None:
    patch.setattr(Coins, "seed", lambda self, slot: 1000 + slot)


def _calibrations_in_order(patch) -> None:
    honest = opening.drawn_for

    def leaks(spec, facts, calibrations):
        drawn = honest(spec, facts, calibrations)
        for slot in drawn.slots:
            calibrations.maps[1][f"of {slot.seed}"] = 1.0
        return drawn

    patch.setattr(opening, "drawn_for", leaks)


def _key_stays(patch) -> None:
    patch.setattr(SealedPlaces, "destroy", lambda self: self.records.clear())


def _line_per_slot(patch) -> None:
    honest = worker._after

    def leaks(work, standing, found):
        print("a slot is done")
        return honest(work, standing, found)

    patch.setattr(worker, "_after", leaks)


def _real_times(patch) -> None:
    from sweeps.store import sql_store

    honest = releasing._commit

    def leaks(store, lease, spec, work, slot, found, trials):
        class Clock:
            time = staticmethod(lambda: work.schedule.begins + 0.3 * found.slot)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(sql_store, "time", Clock)
            honest(store, lease, spec, work, slot, found, trials)

    patch.setattr(releasing, "_commit", leaks)


LEAKS = [
    (_row_per_slot, "count", "store"),
    (_file_per_slot, "count", "while it ran"),
    (_early_exit, "count", "ended"),
    (_not_padded, "count", "while it ran"),
    (_number_is_slot, "slot", "at the end"),
    (_seed_of_the_slot, "slot", "store"),
    (_calibrations_in_order, "slot", "store"),
    (_key_stays, "count", '"count": 8'),
    (_line_per_slot, "count", "console"),
    (_real_times, "slot", "store"),
]


@pytest.mark.parametrize(("leak", "pair", "where"), LEAKS, ids=[leak.__name__.strip("_") for leak, *_ in LEAKS])
def test_a_leak_is_found(leak, pair: str, where: str, tmp_path: Path, worlds, monkeypatch) -> None:
    leak(monkeypatch)
    assert any(where in one for one in told_apart(*seen(tmp_path, list(worlds[pair]))))

"""Nobody outside learns how many trials a sealed search had, what a loser was, or where the winners stood.

In pairs of worlds that differ in one of these alone, any difference of what is seen is a failure; times, which are
never quite the same, are compared by a permutation test that errs once in 1000. Each leak, put in, is found. So it is
of every kind of search, and where a session is killed on the way and another goes on.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path

import numpy as np
import pytest

from sweeps.execution import runners
from sweeps.selection import run
from sweeps.selection.run import SealedPlaces
from sweeps.store.records import TARGET_EPSILON, Proposal
from tests.sweeps.sealed_adversary import CAP, Seen, World, watched
from tests.sweeps.sealed_kinds import BUDGETS, FRONT, KINDS, LADDER
from tests.sweeps.sealed_worlds import SECRETS, pairs_of
from trainables.sealed import worker
from trainables.sealed.draw import Coins
from trainables.sealed.worker import TWO, Keeper, SealedWork
from trainables.system import Refusal

pytestmark = [pytest.mark.chaos, pytest.mark.outage]
TIMED = 7
"""Searches of each world: the least p of a permutation of 14 is 2/3432, below 1/1000."""
AT_ONCE = 4

Pairs = dict[str, tuple[World, World]]


@pytest.fixture(scope="module")
def worlds() -> dict[str, Pairs]:
    """Of each kind its pairs."""
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return dict(zip(KINDS, pool.map(pairs_of, KINDS), strict=True))


def seen(tmp_path: Path, many: list[World]) -> list[Seen]:
    return list(_each(tmp_path, many))


def _each(tmp_path: Path, many: list[World]) -> Iterator[Seen]:
    context = multiprocessing.get_context("fork")
    for start in range(0, len(many), AT_ONCE):
        group = []
        for number, world in enumerate(many[start : start + AT_ONCE], start):
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_send, args=(there, tmp_path / str(number) / "root", world))
            process.start()
            group.append((process, here))
        for process, here in group:
            assert here.poll(60)
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


@pytest.mark.parametrize("killed", [False, True], ids=["whole", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_worlds_look_alike(kind: str, killed: bool, tmp_path: Path, worlds) -> None:
    pairs = [replace(world, killed=killed) for secret in SECRETS for world in worlds[kind][secret]]
    found = seen(tmp_path, pairs)
    for one in found:
        assert one.facts["ended"] == "after"
        [row] = one.facts["store"]["charges"]
        assert row[:3] == ("people", "sweep", "sealed")
        assert row[4] in (BUDGETS if kind == LADDER else (3.0,))
        assert len(one.facts["store"]["trials"]) == (2 if kind == FRONT else 1), "not every slot ended in time"
        # What lies there encrypted is noise to whoever has no key, and new at each time.
        everything = np.frombuffer(b"".join(chain(*one.written.values())), dtype=np.uint8)
        counts = np.bincount(everything, minlength=256)
        expected = len(everything) / 256
        assert ((counts - expected) ** 2 / expected).sum() < 400  # 255 degrees of freedom: once in 10^8
        for name in ("0.a", "0.b", "1.a", "1.b"):
            assert len(one.written[name]) > 3
    for secret, one, other in zip(SECRETS, found[::2], found[1::2], strict=True):
        assert told_apart(one, other) == [], secret


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", KINDS)
def test_beginning_and_end_take_the_same_time(kind: str, secret: str, tmp_path: Path, worlds) -> None:
    found = seen(tmp_path, list(worlds[kind][secret]) * TIMED)
    for times in ([one.planning for one in found], [one.lateness for one in found]):
        assert p_value(times[::2], times[1::2]) > 1e-3


def _row_per_slot(patch) -> None:
    honest = run._commit

    def leaks(store, lease, spec, work, *rest):
        honest(store, lease, spec, work, *rest)
        refused = Refusal(reason="not chosen", violations={"chosen": 1.0})
        losers = range(2, 1 + work.drawn().count)
        store.record_infeasible(lease, [(Proposal(number=n, config={}, seed=n), refused) for n in losers])

    patch.setattr(run, "_commit", leaks)


def _file_per_slot(patch) -> None:
    honest = worker.after

    def leaks(work, before, *found):
        work.folder.write(f"slot-{before.following}", b"")
        return honest(work, before, *found)

    patch.setattr(worker, "after", leaks)


def _early_exit(patch) -> None:
    class Impatient(Keeper):
        def __exit__(self, kind, *rest):
            super().__exit__(KeyboardInterrupt, *rest)
            self._work.keep(self._worker, self._standing)

    class Clock:
        time = staticmethod(runners.time.time)
        sleep = staticmethod(lambda seconds: None)

    patch.setattr(worker, "Keeper", Impatient)
    patch.setattr(runners, "time", Clock)


def _not_padded(patch) -> None:
    """A worker's file grows with each slot that it ran."""

    def leaks(self, number, standing):
        body = standing.to_bytes()
        sealed = self.box.seal(self._place(str(number)), body, len(body) + standing.following)
        self.folder.write(f"{number}.{TWO[standing.written % len(TWO)]}", sealed)

    patch.setattr(SealedWork, "keep", leaks)


def _number_is_slot(patch) -> None:
    honest = run._commit

    def leaks(store, lease, spec, work, number, slot, found, trials):
        honest(store, lease, spec, work, found.slot, slot, found, trials)

    patch.setattr(run, "_commit", leaks)


def _seed_of_the_slot(patch) -> None:
    patch.setattr(Coins, "seed", lambda self, slot: 1000 + slot)


def _calibrations_in_order(patch) -> None:
    honest = run.drawn_for

    def leaks(prior):
        drawn = honest(prior)
        for slot in drawn.slots:
            prior.calibrations.maps[1][f"of {slot.seed}"] = 1.0
        return drawn

    patch.setattr(run, "drawn_for", leaks)


def _key_stays(patch) -> None:
    patch.setattr(SealedPlaces, "destroy", lambda self: self.records.clear())


def _line_per_slot(patch) -> None:
    honest = worker.after

    def leaks(*ran):
        print("a slot is done")
        return honest(*ran)

    patch.setattr(worker, "after", leaks)


def _real_times(patch) -> None:
    from sweeps.store import store as sql_store

    honest = run._commit

    def leaks(store, lease, spec, work, number, slot, found, trials):
        span = work.schedule.deadline - work.schedule.begins

        class Clock:
            time = staticmethod(lambda: work.schedule.begins + span * found.slot / CAP)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(sql_store, "time", Clock)
            honest(store, lease, spec, work, number, slot, found, trials)

    patch.setattr(run, "_commit", leaks)


def _only_what_runs_is_drawn(patch) -> None:
    """And not padded: else a block hides it."""
    honest = run.drawn_for

    def leaks(*asked):
        drawn = honest(*asked)
        return replace(drawn, slots=drawn.slots[: drawn.count * drawn.width])

    patch.setattr(run, "drawn_for", leaks)
    patch.setattr(worker, "_BLOCK", 1)


def _says_where_it_goes_on(patch) -> None:
    honest = SealedWork.standing

    def leaks(self, number):
        found = honest(self, number)
        print(f"worker {number} goes on at {found.following}")
        return found

    patch.setattr(worker.SealedWork, "standing", leaks)


def _priced_at_what_ran(patch) -> None:
    """A ladder is settled at the mean of the budgets that were tried, not at that of the success."""
    honest = SealedWork.best

    def leaks(self):
        tried = [one.config[TARGET_EPSILON] for one in self.drawn().slots[: self.drawn().count]]
        settle = run.settle_block
        patch.setattr(run, "settle_block", lambda *where: settle(*where[:-1], float(np.mean(tried))))
        return honest(self)

    patch.setattr(SealedWork, "best", leaks)


Leak = tuple[Callable[..., None], str, str]
OF_ALL: list[Leak] = [
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
    (_only_what_runs_is_drawn, "count", "while it ran"),
    (_says_where_it_goes_on, "count", "console"),
]
LEAKS: list[tuple[str, Leak]] = [
    *((kind, leak) for kind in KINDS for leak in OF_ALL),
    (LADDER, (_priced_at_what_ran, "count", "store")),
]


@pytest.mark.parametrize(("kind", "leak"), LEAKS, ids=[f"{kind}-{leak[0].__name__.strip('_')}" for kind, leak in LEAKS])
def test_a_leak_is_found(kind: str, leak: Leak, tmp_path: Path, worlds, monkeypatch) -> None:
    put_in, secret, where = leak
    put_in(monkeypatch)
    # What a search says as it goes on is said where it does.
    pair = [replace(world, killed=put_in is _says_where_it_goes_on) for world in worlds[kind][secret]]
    assert any(where in one for one in told_apart(*seen(tmp_path, pair)))

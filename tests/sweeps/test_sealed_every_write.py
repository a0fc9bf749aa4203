"""A sealed search of any kind is killed at each of its writes and goes on: one draw, nothing unpaid, its winners."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.selection.filters import DPCharge
from sweeps.selection.run import ANNOUNCED, SealedPlaces, opened
from sweeps.spec.parse import public_facts
from sweeps.store.errors import UnknownSweep
from sweeps.store.population import Population, RowKind
from sweeps.store.records import TARGET_EPSILON, SweepState, TrialState
from sweeps.store.workspace import Workspace
from tests.sweeps.sealed_lives import (
    FIRST,
    FRONT,
    KINDS,
    LADDER,
    NAME,
    POPULATION,
    SECOND,
    SECONDS,
    Nursery,
    specified,
)
from trainables.worker.attempt import Attempt

PRICE = DPCharge(3.0, 1e-5)
KILLED = -signal.SIGKILL
AT_ONCE = int(os.environ.get("SWEEPS_CHAOS_AT_ONCE", "4"))
"""Searches: each waits for its announced end most of the time."""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery.open()
    yield found
    found.close()


def all_of(function: Callable[[Any], Any], cases: Iterable[Any]) -> list[Any]:
    """Of each case, some of them at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(function, cases))


def begun(folder: Path) -> Path:
    """A root with a population whose budget the search will spend, and nothing else."""
    root = folder / "root"
    with closing(Workspace.at(root).open_store(create=True)) as store:
        store.make_population(Population.of(POPULATION, "linear", 5.0, 1e-4))
    return root


@dataclass(frozen=True)
class Seen:
    """What stands in a root, read from outside."""

    state: SweepState | None
    announced: bool
    count: int | None
    """K, as it was drawn; None where nothing is drawn or all of it is destroyed."""
    charged: tuple[Any, ...]
    ran: int
    """Slots that were begun in all lives."""
    trials: tuple[Any, ...]
    left: frozenset[int]
    """Numbers of the trials that are complete."""
    budgets: tuple[float, ...]
    """Of these."""
    weights: tuple[tuple[str, bytes], ...]
    files: frozenset[str]


def seen(root: Path, kind: str) -> Seen:
    workspace = Workspace.at(root)
    places = SealedPlaces.of(workspace, NAME)
    ran = root.with_name("ran")
    with closing(workspace.open_store()) as store:
        charged = tuple((row.kind, row.counted) for row in store.charges(POPULATION))
        try:
            record = store.sweep(NAME)
        except UnknownSweep:
            return Seen(None, False, None, charged, 0, (), frozenset(), (), (), frozenset())
        spec = specified(kind)
        announced, count = (places.own / ANNOUNCED).exists(), None
        if announced and places.key() is not None and record.state is not SweepState.FINISHED:
            work = opened(record, spec, public_facts(spec), workspace, {})
            assert work is not None
            try:
                count = work.drawn().count
            except ValueError:
                count = None
        trials = store.trials(NAME)
        told = tuple((one.number, one.seed, tuple(one.config.items()), tuple(one.metrics.items())) for one in trials)
        left = [one for one in trials if one.state is TrialState.COMPLETE]
        weights: tuple[tuple[str, bytes], ...] = ()
        for one in left if record.state is SweepState.FINISHED else []:
            state = Attempt.of(workspace.trials(NAME), one.key, 1).load(one.plan.steps)
            weights += tuple((f"{one.number}.{name}", np.asarray(value).tobytes()) for name, value in state.items())
    names = frozenset(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return Seen(
        record.state,
        announced,
        count,
        charged,
        ran.stat().st_size if ran.exists() else 0,
        told,
        frozenset(one.number for one in left),
        tuple(float(one.config[TARGET_EPSILON]) for one in left),
        tuple(sorted(weights)),
        names,
    )


Unbroken = dict[str, tuple[Seen, int]]


@dataclass
class Wholes:
    """Searches that nothing breaks, of each kind that is asked for, once."""

    folder: Path
    nursery: Nursery
    known: dict[str, Unbroken] = field(default_factory=dict)

    def of(self, kind: str) -> Unbroken:
        """{word: what an unbroken search with these secrets comes to, and how many writes it makes}."""

        def one(word: str) -> tuple[str, tuple[Seen, int]]:
            root = begun(self.folder / kind / word)
            assert self.nursery.lived(root, kind, word) == 0, root.with_name("error").read_text()
            found = seen(root, kind)
            assert len(found.left) == (2 if kind == FRONT else 1)
            return word, (found, int(root.with_name("counted").read_text()))

        if kind not in self.known:
            self.known[kind] = dict(all_of(one, [FIRST, SECOND]))
        return self.known[kind]


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Wholes:
    return Wholes(tmp_path_factory.mktemp("unbroken"), nursery)


def paid(kind: str, found: Seen) -> tuple[Any, ...]:
    """What the population was charged once anything ran: the whole; of a ladder its success's budget, once that left.

    Between the two it may be either.
    """
    prices = {PRICE.epsilon} if kind != LADDER or found.state is not SweepState.FINISHED else set()
    prices |= set(found.budgets) if kind == LADDER else set()
    return tuple(((RowKind.SWEEP, DPCharge(price, PRICE.delta)),) for price in sorted(prices))


def check_dead(root: Path, kind: str, count: int | None) -> Seen:
    """What holds at any moment at which everything stopped."""
    found = seen(root, kind)
    # Nothing was begun that the population had not been charged for, and the sweep's own row says that it is spent.
    if found.ran:
        assert found.charged in paid(kind, found), "not what is to be paid"
        assert found.announced
        assert found.state is not SweepState.CREATED
    assert len(found.charged) <= 1
    if count is not None and found.count is not None:
        assert found.count == count
    return found


def check_over(root: Path, kind: str, expected: Seen) -> None:
    """The winners are those of the unbroken search, to the last bit, and nothing else is left."""
    found = seen(root, kind)
    assert found.state is SweepState.FINISHED
    assert (found.charged,) == paid(kind, found)
    assert found.trials == expected.trials, "others left"
    assert found.left == expected.left
    assert found.weights == expected.weights
    assert found.weights
    # What a kill leaves of the announcement, which is public, before it has its name.
    assert {one for one in found.files if not fnmatch(one, f"{NAME}/.{ANNOUNCED}.*.tmp")} == expected.files


def killed_and_resumed(folder: Path, wholes: Wholes, kind: str, kills: tuple[int, ...]) -> int:
    """A search that is killed at these writes, one life after the other, and then left alone; how many kills met it.

    Once something ran, the draw is that of the life which announced it. Lives that draw anew draw with other secrets.
    """
    root = begun(folder)
    met, count, drawn_with = 0, None, None
    for life, kill in enumerate((*kills, -1)):
        word = FIRST if life == 0 else SECOND
        code = wholes.nursery.lived(root, kind, word, kill)
        error = root.with_name("error")
        assert code in (0, KILLED), error.read_text() if error.exists() else code
        met += code == KILLED
        found = check_dead(root, kind, count)
        if drawn_with is None and found.announced:
            drawn_with = word
        count = count if count is not None else found.count
        if code == 0:
            break
    assert drawn_with is not None
    check_over(root, kind, wholes.of(kind)[drawn_with][0])
    shutil.rmtree(folder)
    return met


@pytest.mark.parametrize("kind", [FRONT])
def test_a_search_that_is_killed_at_some_of_its_writes(kind, tmp_path, wholes):
    writes = wholes.of(kind)[FIRST][1]
    assert writes > 60
    # Among the first and the last ones: what begins and what is released.
    kills = [(writes // 10,), (writes // 4, writes // 6), (writes - 20,), (writes - 6,)]
    met = all_of(
        lambda each: killed_and_resumed(tmp_path / str(each[0]), wholes, kind, each[1]), list(enumerate(kills))
    )
    assert sum(met) >= len(kills)


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_is_killed_at_every_write(kind, tmp_path, wholes):
    """A kill at every write, then two or three in one search."""
    writes, rng = wholes.of(kind)[FIRST][1], random.Random(15)
    kills = [(number,) for number in range(writes)]
    kills += [tuple(rng.randrange(writes) for _ in range(rng.randint(2, 3))) for _ in range(20)]
    met = all_of(
        lambda each: killed_and_resumed(tmp_path / str(each[0]), wholes, kind, each[1]), list(enumerate(kills))
    )
    print(f"{kind}: {sum(met)} kills in {len(kills)} searches of {writes} writes, {SECONDS:g} s each")
    assert sum(met) >= 100

"""A sealed search is killed at each of its writes and goes on: one draw, nothing unpaid, its unbroken winner."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.selection.filters import DPCharge
from sweeps.population.arithmetic import Population, RowKind
from sweeps.process.workspace import Workspace
from sweeps.records import SweepState
from sweeps.sealed.opening import ANNOUNCED, SealedPlaces, opened
from sweeps.spec import load_spec, public_facts
from sweeps.store import UnknownSweep
from tests.sweeps.sealed_lives import NAME, POPULATION, SECONDS, SPEC, Nursery
from trainables.worker.attempt import Attempt

PRICE = DPCharge(3.0, 1e-5)
KILLED = -signal.SIGKILL
AT_ONCE = 4


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
    weights: tuple[tuple[str, bytes], ...]
    files: frozenset[str]


def seen(root: Path) -> Seen:
    workspace = Workspace.at(root)
    places = SealedPlaces.of(workspace, NAME)
    ran = root.with_name("ran")
    with closing(workspace.open_store()) as store:
        charged = tuple((row.kind, row.charge) for row in store.charges(POPULATION))
        try:
            record = store.sweep(NAME)
        except UnknownSweep:
            return Seen(None, False, None, charged, 0, (), (), frozenset())
        spec = load_spec(SPEC)
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
        weights: tuple[tuple[str, bytes], ...] = ()
        if trials and record.state is SweepState.FINISHED:
            state = Attempt.of(workspace.trials(NAME), trials[0].key, 1).load(trials[0].plan.steps)
            weights = tuple((name, np.asarray(value).tobytes()) for name, value in sorted(state.items()))
    names = frozenset(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return Seen(
        record.state, announced, count, charged, ran.stat().st_size if ran.exists() else 0, told, weights, names
    )


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> dict[str, tuple[Seen, int]]:
    """{word: what an unbroken search with these secrets comes to, and how many writes it makes}."""

    def one(word: str) -> tuple[str, tuple[Seen, int]]:
        root = begun(tmp_path_factory.mktemp("unbroken"))
        assert nursery.lived(root, word) == 0, root.with_name("error").read_text()
        found = seen(root)
        assert found.trials
        return word, (found, int(root.with_name("counted").read_text()))

    return dict(all_of(one, ["first", "second"]))


def check_dead(root: Path, count: int | None) -> Seen:
    """What holds at any moment at which everything stopped."""
    found = seen(root)
    # Nothing was begun that the population had not been charged for, and the sweep's own row says that it is spent.
    if found.ran:
        assert found.charged == ((RowKind.SWEEP, PRICE),)
        assert found.announced
        assert found.state is not SweepState.CREATED
    assert len(found.charged) <= 1
    if count is not None and found.count is not None:
        assert found.count == count
    return found


def check_over(root: Path, expected: Seen) -> None:
    """The winner is that of the unbroken search, to the last bit, and nothing else is left."""
    found = seen(root)
    assert found.state is SweepState.FINISHED
    assert found.charged == ((RowKind.SWEEP, PRICE),)
    assert found.trials == expected.trials
    assert found.weights == expected.weights
    assert found.weights
    # What a kill leaves of the announcement, which is public, before it has its name.
    assert {one for one in found.files if not fnmatch(one, f"{NAME}/.{ANNOUNCED}.*.tmp")} == expected.files


def killed_and_resumed(
    folder: Path, nursery: Nursery, unbroken: dict[str, tuple[Seen, int]], kills: tuple[int, ...], mutant: str = ""
) -> int:
    """A search that is killed at these writes, one life after the other, and then left alone; how many kills met it.

    Once something ran, the draw is that of the life which announced it. Lives that draw anew draw with other secrets.
    """
    root = begun(folder)
    met, count, drawn_with = 0, None, None
    for life, kill in enumerate((*kills, -1)):
        word = "first" if life == 0 else "second"
        code = nursery.lived(root, word, kill, mutant)
        error = root.with_name("error")
        assert code in (0, KILLED), error.read_text() if error.exists() else code
        met += code == KILLED
        found = check_dead(root, count)
        if drawn_with is None and found.announced:
            drawn_with = word
        count = count if count is not None else found.count
        if code == 0:
            break
    assert drawn_with is not None
    check_over(root, unbroken[drawn_with][0])
    shutil.rmtree(folder)
    return met


def test_a_search_that_is_killed_at_some_of_its_writes(tmp_path, nursery, unbroken):
    writes = unbroken["first"][1]
    assert writes > 60
    # Among the first and the last ones: what begins and what is released.
    kills = [(writes // 10,), (writes // 4, writes // 6), (writes - 20,), (writes - 6,)]
    met = all_of(
        lambda each: killed_and_resumed(tmp_path / str(each[0]), nursery, unbroken, each[1]), list(enumerate(kills))
    )
    assert sum(met) >= len(kills)


@pytest.mark.parametrize(
    ("mutant", "caught"),
    [("drawn again", "noisy-mean.*!="), ("charged at the end", "Right contains one more item: .<RowKind.SWEEP")],
)
def test_a_search_that_does_it_wrongly_is_caught(mutant, caught, tmp_path, nursery, unbroken):
    with pytest.raises(AssertionError, match=caught):
        killed_and_resumed(tmp_path / "x", nursery, unbroken, (unbroken["first"][1] // 2,), mutant)


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(3600)
def test_a_search_that_is_killed_at_every_write(tmp_path, nursery, unbroken):
    """A kill at every write, then two or three in one search."""
    writes, rng = unbroken["first"][1], random.Random(15)
    kills = [(number,) for number in range(writes)]
    kills += [tuple(rng.randrange(writes) for _ in range(rng.randint(2, 3))) for _ in range(20)]
    met = all_of(
        lambda each: killed_and_resumed(tmp_path / str(each[0]), nursery, unbroken, each[1]), list(enumerate(kills))
    )
    print(f"{sum(met)} kills in {len(kills)} searches of {writes} writes: one draw each, nothing unpaid, {SECONDS:g} s")
    assert sum(met) >= 100

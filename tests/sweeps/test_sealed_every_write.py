"""A sealed search of any kind is killed at each of its writes and goes on: one draw, nothing unpaid, its winners."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from dpcore.selection.filters import DPCharge
from sweeps.execution import session
from sweeps.selection import run
from sweeps.selection.price import SealedPrior
from sweeps.selection.run import ANNOUNCED, SealedPlaces, opened
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.errors import UnknownSweep
from sweeps.store.population import Population, RowKind
from sweeps.store.records import TARGET_EPSILON, SweepState, TrialState
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import code_digest
from tests.sweeps import sealed_searches
from tests.sweeps.view_sweeps import NoViews
from trainables import sealed
from trainables.worker.attempt import Attempt

# Lives of one sealed search, each of which may end at any of its writes: by a process of its own, killed by SIGKILL.

NAME, POPULATION = "sealed", "people"
SECONDS = 5.0
FIRST, SECOND = "word 1", "word 4"
"""Secrets of 6 trials and 8, of which two leave by two orders, and one of a ladder's meets its target."""
WRITES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"})
BEST, FRONT, LADDER = KINDS = ("best", "front", "ladder")
PRICE = DPCharge(3.0, 1e-5)
BUDGETS = (0.5, 1.0, 3.0)
"""Of a ladder. Its target is met by some half of the trials, of each budget."""


@cache
def specified(kind: str) -> SweepSpec:
    """What is public of a search of this kind."""
    raw = sealed_searches.SPEC
    knobs, privacy, objectives = (
        raw["systems"]["noisy-mean"] | {"step_seconds": 0.01},
        raw["privacy"],
        raw["objectives"],
    )
    selection = {"deadline_minutes": SECONDS / 60, "mean": 4, "megabytes": 0.01}
    if kind == FRONT:
        privacy = {**privacy, "release": "front"}
        objectives = [*objectives, {"metric": "expected_error", "goal": "minimize"}]
        # Towards a prior of 1 the estimate grows and its error does too: two trials leave.
        knobs |= {"prior": 1.0, "shrinkage": {"uniform": [0.2, 1.0]}}
    elif kind == LADDER:
        privacy = {**privacy, "release": "first", "epsilon": list(BUDGETS)}
        selection["target"] = {"metric": "estimate", "at_least": 0.42}
    data, systems = {**raw["data"], "population": POPULATION}, {"noisy-mean": knobs}
    changed = {"data": data, "systems": systems, "privacy": privacy, "objectives": objectives, "selection": selection}
    return load_spec({**raw, **changed})


class Word(random.SystemRandom):
    """What the machine's source would say, from a word; and of `secrets`, what the draw of a search asks for."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word, self._drawn = word, 0

    def token_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_256(f"{self._word} {self._drawn}".encode()).digest(count)

    def getrandbits(self, k: int) -> int:
        return int.from_bytes(self.token_bytes(-(-k // 8))) >> (-k % 8)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)

    def SystemRandom(self) -> Word:
        return self


def _count_writes(root: Path, kill_at: int) -> None:
    """Count them from now on in this process, and kill it before number `kill_at`."""
    count, lock, inside = 0, threading.Lock(), threading.local()

    def one(*_: Any) -> None:
        nonlocal count
        with lock:
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1
            os.pwrite(counted, f"{count:6}".encode(), 0)

    counted = os.open(root.with_name("counted"), os.O_RDWR | os.O_CREAT)

    def heard(name: str, arguments: tuple[Any, ...]) -> None:
        if getattr(inside, "hearing", False):
            return
        inside.hearing = True
        try:
            if name == "open":
                path, _, flags = arguments
                if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and str(path).startswith(str(root)):
                    one()
            elif name in WRITES and (str(arguments[0]).startswith(str(root)) or arguments[-1] != -1):
                # Within an open folder names are relative.
                one()
        finally:
            inside.hearing = False

    sys.addaudithook(heard)

    def statement(connection: Any, cursor: Any, text: str, *_: Any) -> None:
        if text.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE", "CREATE"):
            one()

    event.listen(Engine, "before_cursor_execute", statement)
    event.listen(Engine, "commit", one)


def _in_threads(mark: int) -> Callable[..., None]:
    def on_the_cluster(runner: Any, work: Any, data: Any) -> None:
        run_slot = sealed.run_slot

        def marked(*arguments: Any) -> Any:
            os.write(mark, b".")
            return run_slot(*arguments)

        sealed.run_slot = marked
        with ThreadPoolExecutor(work.workers) as pool:
            list(pool.map(lambda one: sealed.serve(work, one, data), range(work.workers)))

    return on_the_cluster


def live(root: Path, kind: str, word: str, kill_at: int) -> None:
    """Create the search where there is none, and run it until it is over, or until it is killed."""
    mark = os.open(root.with_name("ran"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run.secrets = Word(word)  # type: ignore[assignment]
    session.Drain = NoViews  # type: ignore[assignment,misc]
    session.SelectionRunner._on_the_cluster = _in_threads(mark)  # type: ignore[method-assign]
    _count_writes(root, kill_at)
    workspace = Workspace.at(root)
    with closing(workspace.open_store(create=True)) as store:
        try:
            store.sweep(NAME)
        except UnknownSweep:
            session.create(specified(kind), workspace, NAME)
    session.resume(NAME, workspace)


if not hasattr(sys.modules["__main__"], "__file__"):
    # In the server that lives are forked from: what a first session computes, before any clock runs.
    for one in KINDS:
        run.drawn_for(SealedPrior(specified(one), public_facts(specified(one))))
    code_digest()
    sealed.Box.new_key()

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([__name__])
ENDS = threading.Lock()
"""`start` reads the ends of all other lives, and an end can be read once: by one thread at a time."""


def lived(root: Path, kind: str, word: str, kill_at: int = -1) -> int:
    """How one life ended: 0, or minus the signal."""
    life = FORKED.Process(target=live, args=(root, kind, word, kill_at))
    with ENDS:
        life.start()
    wait([life.sentinel])
    with ENDS:
        life.join()
    return life.exitcode


AT_ONCE = int(os.environ.get("SWEEPS_CHAOS_AT_ONCE", "4"))
"""Searches: each waits for its announced end most of the time."""


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

    charged: tuple[Any, ...]
    state: SweepState | None = None
    announced: bool = False
    count: int | None = None
    """K, as it was drawn; None where nothing is drawn or all of it is destroyed."""
    ran: int = 0
    """Slots that were begun in all lives."""
    trials: tuple[Any, ...] = ()
    left: frozenset[int] = frozenset()
    """Numbers of the trials that are complete."""
    budgets: tuple[float, ...] = ()
    """Of these."""
    weights: tuple[tuple[str, bytes], ...] = ()
    files: frozenset[str] = frozenset()


def seen(root: Path, kind: str) -> Seen:
    workspace, ran = Workspace.at(root), root.with_name("ran")
    places = SealedPlaces.of(workspace, NAME)
    with closing(workspace.open_store()) as store:
        charged = tuple((row.kind, row.counted) for row in store.charges(POPULATION))
        try:
            record = store.sweep(NAME)
        except UnknownSweep:
            return Seen(charged)
        spec, over = specified(kind), record.state is SweepState.FINISHED
        announced, count = (places.own / ANNOUNCED).exists(), None
        if announced and places.key() is not None and not over:
            work = opened(record, spec, public_facts(spec), workspace, {})
            try:
                count = work.drawn().count
            except ValueError:
                count = None
        trials = store.trials(NAME)
        left = [one for one in trials if one.state is TrialState.COMPLETE]
        states = {
            one.number: Attempt.of(workspace.trials(NAME), one.key, 1).read(one.plan.steps).state
            for one in left
            if over
        }
    return Seen(
        charged,
        record.state,
        announced,
        count,
        ran.stat().st_size if ran.exists() else 0,
        tuple((one.number, one.seed, tuple(one.config.items()), tuple(one.metrics.items())) for one in trials),
        frozenset(one.number for one in left),
        tuple(float(one.config[TARGET_EPSILON]) for one in left),
        tuple(
            sorted(
                (f"{number}.{name}", np.asarray(value).tobytes())
                for number, state in states.items()
                for name, value in state.items()
            )
        ),
        frozenset(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()),
    )


Unbroken = Callable[[str], dict[str, tuple[Seen, int]]]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Unbroken:
    """{secret word: what a search that nothing breaks comes to, and how many writes it makes}, of a kind, once."""
    folder = tmp_path_factory.mktemp("unbroken")

    def one(kind: str, word: str) -> tuple[Seen, int]:
        root = begun(folder / kind / word)
        assert lived(root, kind, word) == 0
        found = seen(root, kind)
        assert len(found.left) == (2 if kind == FRONT else 1)
        return found, int(root.with_name("counted").read_text())

    return cache(lambda kind: dict(all_of(lambda word: (word, one(kind, word)), (FIRST, SECOND))))


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
    assert (found.left, found.weights) == (expected.left, expected.weights)
    assert found.weights
    # What a kill leaves of the announcement, which is public, before it has its name.
    assert {one for one in found.files if not fnmatch(one, f"{NAME}/.{ANNOUNCED}.*.tmp")} == expected.files


def killed_and_resumed(folder: Path, unbroken: Unbroken, kind: str, kills: tuple[int, ...]) -> int:
    """A search that is killed at these writes, one life after the other, and then left alone; how many kills met it.

    Once something ran, the draw is that of the life which announced it. Lives that draw anew draw with other secrets.
    """
    root = begun(folder)
    met, count, drawn_with = 0, None, None
    for life, kill in enumerate((*kills, -1)):
        word = FIRST if life == 0 else SECOND
        code = lived(root, kind, word, kill)
        assert code in (0, -signal.SIGKILL)
        met += code != 0
        found = check_dead(root, kind, count)
        if drawn_with is None and found.announced:
            drawn_with = word
        count = count if count is not None else found.count
        if code == 0:
            break
    assert drawn_with is not None
    check_over(root, kind, unbroken(kind)[drawn_with][0])
    shutil.rmtree(folder)
    return met


def all_killed(folder: Path, unbroken: Unbroken, kind: str, kills: list[tuple[int, ...]]) -> int:
    numbered = enumerate(kills)
    return sum(all_of(lambda each: killed_and_resumed(folder / str(each[0]), unbroken, kind, each[1]), numbered))


def test_a_search_that_is_killed_at_some_of_its_writes(tmp_path, unbroken):
    writes = unbroken(FRONT)[FIRST][1]
    assert writes > 60
    # Among the first and the last ones: what begins and what is released.
    kills = [(writes // 10,), (writes // 4, writes // 6), (writes - 20,), (writes - 6,)]
    assert all_killed(tmp_path, unbroken, FRONT, kills) >= len(kills)


@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_is_killed_at_every_write(kind, tmp_path, unbroken):
    """A kill at every write, then two or three in one search."""
    writes, rng = unbroken(kind)[FIRST][1], random.Random(15)
    kills = [(number,) for number in range(writes)]
    kills += [tuple(rng.randrange(writes) for _ in range(rng.randint(2, 3))) for _ in range(20)]
    met = all_killed(tmp_path, unbroken, kind, kills)
    print(f"{kind}: {met} kills in {len(kills)} searches of {writes} writes, {SECONDS:g} s each")
    assert met >= 100

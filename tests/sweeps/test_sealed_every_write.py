"""A sealed search of any kind is killed at each of its writes and goes on: one draw, nothing unpaid, its winners."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from dpcore.selection.filters import DPCharge
from sweeps.execution import session
from sweeps.selection import run
from sweeps.selection.run import ANNOUNCED, SealedPlaces, opened
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.errors import UnknownSweep
from sweeps.store.population import Population, RowKind
from sweeps.store.records import TARGET_EPSILON, SweepState, TrialState
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import code_digest
from trainables.sealed import search, worker
from trainables.worker.attempt import Attempt

# Lives of one sealed search, each of which may end at any of its writes: by a process of its own, killed by SIGKILL.


NAME, POPULATION = "sealed", "people"
SECONDS = 5.0
FIRST, SECOND = "word 1", "word 4"
"""Secrets of 6 trials and 8, of which two leave by two orders, and one of a ladder's meets its target."""
SPEC: dict[str, Any] = {
    "name": NAME,
    "data": {"source": "uniform", "n": 1000, "population": POPULATION},
    "systems": {
        "noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_log_uniform": [1, 64]}, "step_seconds": 0.01}
    },
    "privacy": {"epsilon": 3, "delta": 1e-5, "scope": "sweep", "release": "best"},
    "objectives": [{"metric": "estimate", "goal": "maximize"}],
    "search": {"trials": 8},
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 4, "megabytes": 0.01},
    "resources": {"concurrency": 2},
}
WRITES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"})


BEST, FRONT, LADDER = "best", "front", "ladder"
KINDS = (BEST, FRONT, LADDER)
BUDGETS = (0.5, 1.0, 3.0)
"""Of a ladder. Its target is met by some half of the trials, of each budget."""
TARGET = 0.42


def spec_of(kind: str, best: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a search of this kind, from that of the same search with `release: best`."""
    privacy, selection = (dict(best[section]) for section in ("privacy", "selection"))
    objectives = list(best["objectives"])
    systems = best["systems"]
    if kind == FRONT:
        privacy["release"] = "front"
        objectives.append({"metric": "expected_error", "goal": "minimize"})
        # Towards a prior of 1 the estimate grows and its error does too: two trials leave.
        drawn_to_one = {"prior": 1.0, "shrinkage": {"uniform": [0.2, 1.0]}}
        systems = {name: {**knobs, **drawn_to_one} for name, knobs in systems.items()}
    elif kind == LADDER:
        privacy |= {"release": "first", "epsilon": list(BUDGETS)}
        selection["target"] = {"metric": "estimate", "at_least": TARGET}
    changed = {
        "systems": systems,
        "privacy": privacy,
        "selection": selection,
        "objectives": objectives,
    }
    return {**best, **changed}


def specified(kind: str) -> SweepSpec:
    """What is public of a search of this kind."""
    return load_spec(spec_of(kind, SPEC))


class Word(random.SystemRandom):
    """What the machine's source would say, from a word."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word, self._drawn = word, 0

    def token(self, count: int) -> bytes:
        self._drawn += 1
        return hashlib.shake_256(f"{self._word} {self._drawn}".encode()).digest(count)

    def getrandbits(self, k: int) -> int:
        return int.from_bytes(self.token(-(-k // 8))) >> (-k % 8)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)


class _Secrets:
    """Of `secrets`, what the draw of a search asks for."""

    def __init__(self, word: str) -> None:
        self._word = Word(word)

    def token_bytes(self, count: int) -> bytes:
        return self._word.token(count)

    def SystemRandom(self) -> Word:
        return self._word


def _count_writes(root: Path, kill_at: int) -> None:
    """Count them from now on in this process, and kill it before number `kill_at`."""
    count, lock, inside = 0, threading.Lock(), threading.local()

    def one() -> None:
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
    event.listen(Engine, "commit", lambda _: one())


@contextmanager
def _no_view(*_: Any, **__: Any) -> Iterator[Any]:
    class Drain:
        delivered, uri = False, None

        def start(self) -> None:
            pass

    yield Drain()


def _in_threads(mark: int) -> Callable[..., None]:
    def on_the_cluster(runner: Any, work: Any, context: Any, data: Any) -> None:
        run_slot = worker.run_slot

        def marked(*arguments: Any) -> Any:
            os.write(mark, b".")
            return run_slot(*arguments)

        worker.run_slot = marked
        threads = [threading.Thread(target=worker.serve, args=(work, one, data)) for one in range(work.workers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    return on_the_cluster


def live(root: Path, kind: str, word: str, kill_at: int) -> None:
    """Create the search where there is none, and run it until it is over, or until it is killed."""
    mark = os.open(root.with_name("ran"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run.secrets = _Secrets(word)  # type: ignore[assignment]
    session.Drain = _no_view  # type: ignore[assignment,misc]
    session.SelectionRunner._on_the_cluster = _in_threads(mark)  # type: ignore[method-assign]
    _count_writes(root, kill_at)
    workspace = Workspace.at(root)
    with closing(workspace.open_store(create=True)) as store:
        try:
            store.sweep(NAME)
        except UnknownSweep:
            session.create(specified(kind), workspace, NAME)
    session.resume(NAME, workspace)


NURSERY = """
import json, os, signal, sys, traceback
from pathlib import Path
from tests.sweeps.test_sealed_every_write import live, warm
warm()
# Who waits for a life is not waited for.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("warm", flush=True)
for line in sys.stdin:
    root, kind, word, kill_at = json.loads(line)
    if os.fork():
        continue
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(Path(root), kind, word, kill_at)
            code = 0
        except BaseException:
            Path(root).with_name("error").write_text(traceback.format_exc())
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(root).with_name("told").write_text(str(code))
    os.rename(Path(root).with_name("told"), Path(root).with_name("code"))
    os._exit(0)
"""


def warm() -> None:
    """What a first session imports and computes, before any clock runs."""
    from sweeps.selection.price import SealedPrior
    from sweeps.spec.parse import public_facts

    for kind in KINDS:
        spec = specified(kind)
        run.drawn_for(SealedPrior(spec, public_facts(spec)))
    code_digest()
    search.Box.new_key()


@dataclass(frozen=True, slots=True)
class Nursery:
    """A process that forks lives, as many at once as are asked for: each waits for announced ends most of the time."""

    process: subprocess.Popen[str]

    @classmethod
    def open(cls) -> Nursery:
        """With its imports paid."""
        command, cwd = [sys.executable, "-c", NURSERY], Path(__file__).parents[2]
        found = cls(subprocess.Popen(command, cwd=cwd, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        assert found.process.stdout is not None
        assert found.process.stdout.readline() == "warm\n"
        return found

    def lived(self, root: Path, kind: str, word: str, kill_at: int = -1) -> int:
        """How one life ended: 0, or minus the signal."""
        assert self.process.stdin is not None
        ended = root.with_name("code")
        self.process.stdin.write(json.dumps([str(root), kind, word, kill_at]) + "\n")
        self.process.stdin.flush()
        while not ended.exists():
            assert self.process.poll() is None
            time.sleep(0.02)
        code = int(ended.read_text())
        ended.unlink()
        return code

    def close(self) -> None:
        """It ends when nothing is asked any more."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


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

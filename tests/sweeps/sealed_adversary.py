"""Who stands outside a sealed search: all that can be seen of it, and searches whose secrets are forced.

A search runs in a process of its own, its workers in threads of that. Two worlds share their coins: the same trials
stand in other places, or other numbers of them run. So whatever is seen must be the same, byte for byte, but for times;
those are told apart by what was announced: before it, fifths of the span up to the deadline, and after it. How long it
took until the announcement, and from the deadline to the end, is measured.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.execution import session
from sweeps.execution.runners import RunContext, SelectionRunner
from sweeps.privacy.population import Population
from sweeps.selection import run
from sweeps.selection.run import Announcement
from sweeps.spec import SweepSpec, load_spec, public_facts
from sweeps.store.records import SweepState
from sweeps.util.exits import Interruption
from sweeps.util.workspace import Workspace
from tests.sweeps.sealed_kinds import spec_of
from trainables.data import SOURCES
from trainables.sealed import worker
from trainables.sealed.draw import Coins
from trainables.sealed.standing import KEY_BYTES, Box
from trainables.sealed.worker import serve
from trainables.worker.files import Damaged

SECONDS = 4.0
KILLED_AT = 0.22
"""Of the span, where a search is killed: some slots have run by then, and some have not."""
CAP = 8
SPEC: dict[str, Any] = {
    "name": "sealed",
    "data": {"source": "uniform", "n": 1000, "population": "people"},
    "systems": {
        "noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_uniform": [6, 8]}, "step_seconds": 0.04}
    },
    "privacy": {"epsilon": 3, "delta": 1e-5, "scope": "sweep", "release": "best"},
    "objectives": [{"metric": "estimate", "goal": "maximize"}],
    "search": {"trials": CAP},
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 3, "megabytes": 0.01},
    "resources": {"concurrency": 2},
}
_LAUNCH = re.compile(r"^[0-9a-f]{16}$")
"""Fresh at each launch, as the claim is that stands beside the records."""
_TEMPORARY = re.compile(r"(\.tmp|-wal|-shm|\.db|-journal)$")


_HONEST = Coins.of


@dataclass(frozen=True, slots=True)
class World:
    """The secrets of one search.

    kind    of search
    count   how many slots run
    order   which trial stands in each slot
    killed  whether its session is killed on the way, and another goes on; nothing secret
    coins   that all randomness of the trials follows from
    """

    kind: str
    count: int
    order: tuple[int, ...] = tuple(range(CAP))
    killed: bool = False
    coins: bytes = bytes(32)

    @property
    def spec(self) -> SweepSpec:
        """What is public of it."""
        return load_spec(spec_of(self.kind, SPEC))

    def force(self) -> None:
        """In this process, until another is."""
        order, secret = self.order, Coins(self.coins)
        Coins.of = lambda self, use, slot: _HONEST(self, use, order[slot])  # type: ignore[method-assign]
        run.Coins = lambda _: secret  # type: ignore[assignment,misc]
        run.draw = lambda law, source: self.count  # type: ignore[assignment]


@dataclass(slots=True)
class Seen:
    """What one search shows.

    facts    that must be the same in all worlds
    written  names of what was written under encryption, with each of its contents
    opened   what was read with anything that lay there at the end
    planning seconds from the start of the session to what was announced
    lateness seconds between the deadline and the end
    """

    facts: dict[str, Any] = field(default_factory=dict)
    written: dict[str, list[bytes]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    planning: float = 0.0
    lateness: float = 0.0


class InThreads(SelectionRunner):
    """Workers in threads of this process, where Ray would run them elsewhere."""

    def _on_the_cluster(self, work: Any, context: Any, data: Any) -> None:
        threads = [threading.Thread(target=serve, args=(work, one, data)) for one in range(work.workers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


def made(root: Path, spec: SweepSpec) -> Workspace:
    """A population and a sweep that is to be charged to it."""
    workspace = Workspace.at(root)
    with closing(workspace.open_store(create=True)) as store:
        store.make_population(Population.of("people", "linear", 5.0, 1e-4))
    session.create(spec, workspace)
    return workspace


def session_of(workspace: Workspace, spec: SweepSpec) -> None:
    """A session, as `sweeps.execution.session.resume` goes through it."""
    data = SOURCES[spec.data.source].load(spec.data.options())
    with closing(workspace.open_store()) as store:
        lease, record = store.acquire("sealed"), store.sweep("sealed")
        context = RunContext(
            sweep="sealed",
            workspace=workspace,
            address=None,
            interruption=Interruption(),
            on_cluster_lost=lambda: None,
        )
        runner = InThreads.prepared(store, lease, record, spec, public_facts(spec), context)
        if not runner.over:
            store.set_state(lease, SweepState.RUNNING)
        ended = runner.run(context, [data], lambda: None)
        store.set_state(lease, ended)
        lease.release()


def watched(root: Path, world: World) -> Seen:
    """One search in `world`, seen from outside. Call it in a process that is thrown away."""
    world.force()
    log = root.parent / f"{root.name}.console"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT)
    for number in (1, 2):
        os.dup2(descriptor, number)
    sys.stdout = sys.stderr = open(descriptor, "w", buffering=1)  # noqa: SIM115
    seen, over = Seen(), threading.Event()
    spec = world.spec
    workspace, sizes = made(root, spec), set()
    begun = time.time()
    first = _session_apart(workspace, spec) if world.killed else None

    def look() -> None:
        while not over.wait(0.01):
            for path in list((root / "sealed" / "sealed").glob("*")):
                with suppress(FileNotFoundError):
                    if not _TEMPORARY.search(path.name):
                        kept, content = seen.written.setdefault(path.name, []), path.read_bytes()
                        sizes.add((path.name, len(content)))
                        if content not in kept:
                            kept.append(content)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    if first is not None:
        _kill_on_the_way(root / "sealed", first)
    session_of(workspace, spec)
    ended = time.time()
    over.set()
    watcher.join()
    announced = Announcement.read(root / "sealed")
    assert announced is not None
    schedule = announced.schedule
    length = schedule.deadline - schedule.begins
    seen.planning, seen.lateness = schedule.begins - begun, ended - schedule.deadline

    def when(moment: float) -> str:
        if moment < schedule.begins:
            return "before"
        return f"fifth {int(5 * (moment - schedule.begins) // length)}" if moment < schedule.deadline else "after"

    masked = (str(root), "ROOT")
    seen.facts = {
        "store": _dump(root / "sweeps.db", when, masked),
        "pages of the store": _pages(root / "sweeps.db"),
        "while it ran": sorted(sizes),
        "at the end": [
            (str(path.relative_to(root)), *_status(path, when), _digest(path))
            for path in sorted((root / "sealed").rglob("*"))
            if path.is_file() and path.name not in ("sealed.json", "secret", "claim")
        ],
        "console": log.read_text().replace(*masked),
        "ended": when(ended),
        "announced": (round(length, 3), round(schedule.cadence, 3), announced.workers),
    }
    for path in (root / "sealed").rglob("*"):
        if path.is_file() and path.stat().st_size == KEY_BYTES and path.name != "secret":
            for content in seen.written.get(worker.DRAW, []):
                with suppress(Damaged):
                    seen.opened.append(Box(path.read_bytes()).open(f"sealed-0/{worker.DRAW}", content).decode())
    return seen


def _session_apart(workspace: Workspace, spec: SweepSpec) -> int:
    """A session in a process of its own, whose number this is."""
    child = os.fork()
    if child == 0:
        try:
            session_of(workspace, spec)
        finally:
            os._exit(1)
    return child


def _kill_on_the_way(folder: Path, process: int) -> None:
    while (announced := Announcement.read(folder)) is None:
        assert os.waitpid(process, os.WNOHANG) == (0, 0), "the session ended before it announced anything"
        time.sleep(0.005)
    schedule = announced.schedule
    moment = schedule.begins + KILLED_AT * (schedule.deadline - schedule.begins)
    time.sleep(max(0.0, moment - time.time()))
    os.kill(process, signal.SIGKILL)
    _, code = os.waitpid(process, 0)
    assert os.WTERMSIG(code) == signal.SIGKILL


def _status(path: Path, when: Callable[[float], str]) -> tuple[int, int, str]:
    found = path.stat()
    return found.st_size, found.st_mode, when(found.st_mtime)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _pages(path: Path) -> tuple[int, ...]:
    """How many it has, and how many of them are free: of its log too, which is folded in at any time."""
    with closing(sqlite3.connect(path)) as connection:
        return tuple(connection.execute(f"PRAGMA {of}").fetchone()[0] for of in ("page_count", "freelist_count"))


def _dump(path: Path, when: Callable[[float], str], masked: tuple[str, str]) -> dict[str, list[Any]]:
    """Every row of every table, in the order in which they lie there."""
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in sorted(names)}

    def shown(value: Any) -> Any:
        if isinstance(value, float) and value > 1e9:
            return when(value)
        return _LAUNCH.sub("LAUNCH", value.replace(*masked)) if isinstance(value, str) else value

    # Of the store's own random keys there is one set in each store.
    return {
        name: [tuple(shown(value) for value in row) for row in found] for name, found in rows.items() if name != "keys"
    }

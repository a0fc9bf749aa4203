"""Who stands outside a sealed search: all that can be seen of it, and searches whose secrets are forced.

A search runs in a process of its own, its workers in threads of that. Two worlds share their coins: the same trials
stand in other places, or other numbers of them run. So whatever is seen must be the same, byte for byte, but for times;
those are told apart by what was announced: fifths of the span up to the deadline, and after it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeps.control import session
from sweeps.control.interruption import Interruption
from sweeps.control.open_course import Surroundings
from sweeps.control.sealed_session import SealedCourse
from sweeps.population.arithmetic import Population
from sweeps.process.workspace import Workspace
from sweeps.records import SweepState
from sweeps.sealed import opening
from sweeps.sealed.opening import Announcement
from sweeps.spec import load_spec, public_facts
from trainables.data import SOURCES
from trainables.sealed import worker
from trainables.sealed.box import KEY_BYTES, Box
from trainables.sealed.drawn import Coins
from trainables.sealed.worker import serve
from trainables.worker.sealed import Damaged

SECONDS = 1.5
SPEC: dict[str, Any] = {
    "name": "sealed",
    "data": {"source": "uniform", "n": 1000, "population": "people"},
    "systems": {
        "noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_log_uniform": [1, 20]}, "step_seconds": 0.01}
    },
    "privacy": {"epsilon": 3, "delta": 1e-5, "scope": "sweep", "release": "best"},
    "objectives": [{"metric": "estimate", "goal": "maximize"}],
    "search": {"trials": 8},
    "selection": {"deadline_minutes": SECONDS / 60, "mean": 3, "megabytes": 0.01},
    "resources": {"concurrency": 2},
}
_LAUNCH = re.compile(r"^[0-9a-f]{16}$")
"""Fresh at each launch, as the claim is that stands beside the records."""
_TEMPORARY = re.compile(r"(\.tmp|-wal|-shm|\.db|-journal)$")


@dataclass(frozen=True, slots=True)
class World:
    """The secrets of one search: how many slots run, and which trial stands in each."""

    count: int
    order: tuple[int, ...]
    coins: bytes = b"0123456789abcdef0123456789abcdef"

    def force(self) -> None:
        """In this process, for good."""
        honest, order, secret = Coins.of, self.order, Coins(self.coins)
        Coins.of = lambda self, use, slot: honest(self, use, order[slot])  # type: ignore[method-assign]
        opening.Coins = lambda _: secret  # type: ignore[assignment,misc]
        opening.draw = lambda law, source: self.count  # type: ignore[assignment]


@dataclass(slots=True)
class Seen:
    """What one search shows.

    facts    that must be the same in all worlds
    written  names of what was written under encryption, with each of its contents
    opened   what was read with anything that lay there at the end
    lateness seconds between the deadline and the end
    """

    facts: dict[str, Any] = field(default_factory=dict)
    written: dict[str, list[bytes]] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)
    lateness: float = 0.0


class InThreads(SealedCourse):
    """Workers in threads of this process, where Ray would run them elsewhere."""

    def _on_the_cluster(self, work: Any, around: Any) -> None:
        threads = [threading.Thread(target=serve, args=(work, one, around.loaded[0])) for one in range(work.workers)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


def made(root: Path) -> Workspace:
    """A population and a sweep that is to be charged to it."""
    workspace = Workspace.at(root)
    with closing(workspace.open_store(create=True)) as store:
        store.make_population(Population.of("people", "linear", 5.0, 1e-4))
    session.create(load_spec(SPEC), workspace)
    return workspace


def session_of(workspace: Workspace) -> None:
    """A session, as `sweeps.control.session.resume` goes through it."""
    spec = load_spec(SPEC)
    data = SOURCES[spec.data.source].load(spec.data.options())
    with closing(workspace.open_store()) as store:
        lease, record = store.acquire("sealed"), store.sweep("sealed")
        log = workspace.folder("sealed") / "ray.log"
        course = InThreads.prepared(store, lease, record, spec, public_facts(spec), workspace, None, log)
        if not course.over:
            store.set_state(lease, SweepState.RUNNING)
        ended = course.run(
            Surroundings(
                loaded=[data],
                workspace=workspace,
                interruption=Interruption(),
                on_cluster_lost=lambda name: None,
                on_first_sign=lambda: None,
            )
        )
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
    workspace, sizes = made(root), set()

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
    session_of(workspace)
    ended = time.time()
    over.set()
    watcher.join()
    announced = Announcement.read(root / "sealed")
    assert announced is not None
    schedule = announced.schedule
    length = schedule.deadline - schedule.begins
    seen.lateness = ended - schedule.deadline

    def when(moment: float) -> str:
        return f"fifth {int(5 * (moment - schedule.begins) // length)}" if moment < schedule.deadline else "after"

    masked = (str(root), "ROOT")
    seen.facts = {
        "store": _dump(root / "sweeps.db", when, masked),
        "while it ran": sorted(sizes),
        "at the end": [
            (str(path.relative_to(root)), path.stat().st_size, path.stat().st_mode, _digest(path))
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


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _dump(path: Path, when: Any, masked: tuple[str, str]) -> dict[str, list[Any]]:
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

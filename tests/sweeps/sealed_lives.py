"""Lives of one sealed search, each of which may end at any of its writes: by a process of its own, killed by SIGKILL.

Store, population, files, training and release are the product's, and so is the whole session; workers run in threads of
the session's process, where Ray would run them elsewhere, and no view is told. What is secret follows from a word in
place of the machine's source, so that the same search can be had unbroken.

A write is what changes a file (opened to be written, renamed, removed), by an audit hook of the interpreter, and each
statement and commit of the store. The kill comes before the n-th.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from sweeps.execution import session
from sweeps.selection import run
from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec
from sweeps.store.errors import UnknownSweep
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import code_digest
from trainables.sealed import standing, worker

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
LOGS = ("ray.log", "controller.log")


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
from tests.sweeps.sealed_lives import live, warm
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
    standing.Box.new_key()


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

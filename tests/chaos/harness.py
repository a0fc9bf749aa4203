"""Runs a real sweep in real processes, of which parts are killed or stopped, and checks what must hold afterwards."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psutil

from sweeps.store.errors import StoreError
from sweeps.store.store import Store, open_store
from tests.chaos import witness
from tests.sweeps.left_behind import tree

ROOT = Path(__file__).parents[2]
HANG_SECONDS = 60.0
LONGEST_SECONDS = float(os.environ.get("SWEEPS_CHAOS_PATIENCE_SECONDS", "240"))
"""For anything that a loaded machine has to do; what is measured is printed."""
CLUSTER_LOST = 75
Victim = Literal["controller", "worker", "raylet"]


class Journal:
    """What happened and when, and waiting that says in it what it waited for."""

    longest_seconds = LONGEST_SECONDS

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.log: list[str] = []

    def words(self) -> str:
        """Everything that can explain a failure."""
        return "\n".join(self.log)

    def in_vain(self) -> None:
        """Fails where what is waited for can not come any more."""

    def note(self, event: str) -> float:
        """What was done, and when."""
        now = time.monotonic()
        self.log.append(f"{now - self.began:6.1f} s  {event}")
        return now

    def until(self, what: str, holds: Callable[[], bool]) -> float:
        """Wait for it; seconds waited."""
        began = time.monotonic()
        while not holds():
            assert time.monotonic() - began < self.longest_seconds, f"waited for {what}: {self.words()}"
            self.in_vain()
            time.sleep(0.1)
        waited = time.monotonic() - began
        self.note(f"{what}, after {waited:.1f} s")
        return waited


def below(top: int) -> list[tuple[int, str]]:
    """(pid, command line) of every process below `top`."""
    found = []
    for one in tree(top)[1:]:
        with suppress(psutil.NoSuchProcess):
            found.append((one.pid, " ".join(one.cmdline())))
    return found


def held(pid: int, folder: Path) -> set[str]:
    """Names of the files in `folder` that a process holds open: a worker keeps those of its earlier trials too."""
    names = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                path = descriptor.readlink()
                if path.parent == folder:
                    names.add(path.name)
    return names


class Attacked(Journal):
    """One sweep of the watched toy: its process, everything that it says, and when it said it.

    options   of the command line
    before    words before its command
    """

    def __init__(self, folder: Path, spec: Mapping[str, Any], *options: str, store: str = "", **extra: str) -> None:
        super().__init__()
        self.folder, self.root, self.trials = folder, folder / "state", spec["search"]["trials"]
        self.spec, self.witness = folder / "spec.yaml", folder / "witness"
        # JSON is YAML.
        self.spec.write_text(json.dumps(spec))
        self.name = spec["name"]
        self.url = store or f"sqlite:///{self.root}/sweeps.db"
        self.options, self.before = ["--root", str(self.root), *options], list[str]()
        # Not as an argument: a URL with a password is refused there.
        named = {"SWEEPS_STORE": store} if store else {}
        self.environment = {**witness.watched(folder), "PYTHONUNBUFFERED": "1", **named, **extra}
        self.said: list[str] = []
        self.struck: Counter[str] = Counter()
        self.process: subprocess.Popen[str]

    # -- its process ------------------------------------------------------------------------------------------

    def start(self) -> subprocess.Popen[str]:
        """Run it, or resume it when its record exists."""
        words = ["resume", self.name] if self.recorded() else ["run", str(self.spec)]
        self.process = subprocess.Popen(
            [*self.before, sys.executable, "-m", "sweeps.cli", *words, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self.process,), daemon=True).start()
        self.note(f"{words[0]} pid {self.process.pid}")
        return self.process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.said.append(line.rstrip())

    def text(self) -> str:
        """Everything said so far."""
        return "\n".join(self.said)

    def words(self) -> str:
        return "\n".join([*self.log, self.text()[-4000:]])

    def end(self, *codes: int) -> float:
        """Seconds until the process ended, with one of these codes; a hang is a failure."""
        began = time.monotonic()
        try:
            code = self.process.wait(self.longest_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"hung: {self.words()}") from None
        assert code in codes, f"exit code {code}: {self.words()}"
        return time.monotonic() - began

    def go_on(self) -> None:
        """Resume it to its end, when it did not come to that by itself."""
        if self.process.wait(self.longest_seconds) != 0:
            self.start()
            self.end(0)

    # -- its records ------------------------------------------------------------------------------------------

    def opened(self) -> Store:
        return open_store(self.url, create=False, patience_seconds=5.0)

    def recorded(self) -> bool:
        """Whether the sweep's row is there; a kill may have come before the first table."""
        with suppress(StoreError), closing(self.opened()) as store:
            return self.name in {sweep.name for sweep in store.sweeps()}
        return False

    def _counted(self, count: Callable[[Store], int]) -> int:
        if not self.recorded():
            return 0
        with closing(self.opened()) as store:
            return count(store)

    def attempts(self) -> int:
        return self._counted(lambda store: len(store.ledger(self.name)))

    def finished(self) -> int:
        """Complete trials; 0 while there is no store."""
        return self._counted(lambda store: store.counts(self.name).get("complete", 0))

    def drawn(self) -> dict[tuple[str, int], int]:
        return witness.witnessed(self.witness)

    def check(self, *seen: str) -> None:
        """Nothing lost, doubled or under-charged, and MLflow tells the same; prints what happened."""
        with closing(self.opened()) as store:
            figures = witness.check(store, self.name, self.trials, self.drawn(), self.words())
        print("\n" + "\n".join([*self.log, " | ".join([*seen, figures])]))

    # -- kills ------------------------------------------------------------------------------------------------

    def strike(self, victim: Victim, draw: random.Random) -> bool:
        """Kill one part now; False when there was none of that kind."""
        if victim == "controller":
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
        else:
            pids = [pid for pid, command in below(self.process.pid) if _is(victim, command)]
            if not pids:
                return False
            os.kill(draw.choice(pids), signal.SIGKILL)
        self.struck[victim] += 1
        self.note(f"killed {victim} after {self.attempts()} attempts")
        if victim == "raylet":
            self.end(CLUSTER_LOST)
            assert "go on with" in self.text(), self.words()
        return True

    def torture(self, victims: list[Victim], draw: random.Random, ahead: Sequence[int]) -> None:
        """Strike each at a random moment, start it again when it is down, then let it finish.

        ahead  how many more launches are waited for before a strike: one of these
        """
        self.start()
        for victim in victims:
            while True:
                if self.process.poll() is not None:
                    # Killed by us, or ended because its cluster died; anything else is a failure.
                    self.end(-signal.SIGKILL, CLUSTER_LOST)
                    self.start()
                # Some strikes hit the start, most hit a moment after a few more launches.
                wanted = self.attempts() + draw.choice(ahead)
                self.until("more attempts", partial(self._reached, wanted))
                time.sleep(draw.uniform(0, 0.4))
                if self.process.poll() is None and self.strike(victim, draw):
                    break
                assert self.process.returncode != 0, f"over before {victim} was struck: {self.words()}"
        if self.process.poll() is not None:
            self.end(-signal.SIGKILL, CLUSTER_LOST)
            self.start()
        self.end(0)

    def _reached(self, attempts: int) -> bool:
        return self.process.poll() is not None or self.attempts() >= attempts


def _is(victim: Victim, command: str) -> bool:
    if victim == "raylet":
        return "raylet/raylet" in command
    # A raylet ends itself when one of its agents dies: they are no workers.
    return command.startswith("ray::") and "Agent" not in command

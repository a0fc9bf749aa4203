"""One sweep beside which things fall silent: what it said and when, what it charged, what was drawn."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

from sweeps.privacy.ledger import total
from sweeps.store.errors import StoreError
from sweeps.store.records import TrialState
from sweeps.store.store import Store, open_store
from tests.chaos import witness
from tests.chaos.journal import Journal

LONGEST_SECONDS = 240.0
"""For anything that a loaded machine has to do; what is measured is printed."""


class Silenced(Journal):
    """The sweep's process and everything that it says, with the times at which it did."""

    longest_seconds = LONGEST_SECONDS

    def __init__(self, folder: Path, *, store: str = "", tracking: str = "", trials: int = 8, patience: float = 20.0):
        super().__init__()
        self.folder, self.root, self.store_url = folder, folder / "state", store
        self.spec, self.trials = folder / "spec.yaml", trials
        made = witness.spec("silent", trials=trials, steps=(15, 25), step_seconds=0.1)
        self.spec.write_text(f"{made}limits: {{stall_seconds: 20}}\n")
        self.witness = folder / "witness"
        self.witness.mkdir()
        witness.install(folder / "packages")
        self.options = ["--root", str(self.root)]
        self.options += ["--store", store] if store else []
        self.options += ["--tracking", tracking] if tracking else []
        self.environment = {
            **witness.environment(folder / "packages", self.witness),
            "PYTHONUNBUFFERED": "1",
            "SWEEPS_PATIENCE": str(patience),
        }
        self.said: list[tuple[float, str]] = []

    def start(self, command: str = "run") -> subprocess.Popen[str]:
        """`run` it, or `resume` it."""
        words = ["run", str(self.spec)] if command == "run" else ["resume", "silent"]
        process = subprocess.Popen(
            [sys.executable, "-m", "sweeps.cli", *words, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        self.process = process
        return process

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.said.append((time.monotonic(), line.rstrip()))

    def text(self) -> str:
        """Everything said so far."""
        return "\n".join(line for _, line in self.said)

    def opened(self) -> Store:
        return open_store(self.store_url or f"sqlite:///{self.root}/sweeps.db", create=False, patience_seconds=5.0)

    def finished(self) -> int:
        """Complete trials; 0 while there is no store."""
        try:
            store = self.opened()
        except StoreError:
            return 0
        try:
            return store.counts("silent").get("complete", 0) if store.sweeps() else 0
        finally:
            store.close()

    def words(self) -> str:
        return "\n".join([*self.log, self.text()[-4000:]])

    def longest_silence(self, since: float, until: float) -> float:
        """Seconds without a word between two moments."""
        times = [since, *(at for at, _ in self.said if since < at < until), until]
        return max(late - early for early, late in pairwise(times))

    def end(self, code: int) -> float:
        """Seconds until the process ended, with this code."""
        began = time.monotonic()
        assert self.process.wait(LONGEST_SECONDS) == code, self.words()
        return time.monotonic() - began

    def go_on(self) -> None:
        """Resume it to its end, when it did not come to that by itself."""
        if self.process.wait(LONGEST_SECONDS) != 0:
            self.start("resume")
            self.end(0)

    def check(self, fault: str, seen: str, silence: float) -> None:
        """Nothing lost, doubled or under-charged; prints the row of the table of faults."""
        store = self.opened()
        records, entries = store.trials("silent"), store.ledger("silent")
        assert [record.number for record in records] == list(range(self.trials)), self.words()
        assert {record.state for record in records} == {TrialState.COMPLETE}, self.words()
        charged = {}
        for entry in entries:
            assert entry.executed_to is not None, f"{entry} was never settled: {self.words()}"
            charged[entry.key, entry.attempt] = entry.executed_to - entry.from_step
        drawn = witness.witnessed(self.witness)
        for attempt, draws in drawn.items():
            assert draws <= charged[attempt], f"{attempt}: {draws} drawn, {charged[attempt]} charged: {self.words()}"
        spent = total(entries)
        print(
            f"\n{fault} | {seen} | longest silence {silence:.1f} s | attempts {spent.attempts}, drawn "
            f"{sum(drawn.values())}, charged {spent.executed}, needed {spent.path}"
        )
        print("\n".join(self.log))
        store.close()

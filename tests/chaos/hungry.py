"""A third party's system: the toy, some of whose trials take memory until they are ended.

Trial 1 does so on its first attempt only, trial 2 on every attempt, after they have noted what they may execute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainables.system import Dataset, Run, RunSettings
from trainables.systems.noisy_mean import NoisyMean

CHUNK = 128 * 2**20
MOST = 5 * 2**30
"""So much is taken at most, in case that nobody ends it."""


class _Run:
    def __init__(self, run: Any) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def reserve_until(self, until_step: int) -> None:
        self._run.reserve_until(until_step)
        member = self._run.member
        number = int(member.key.rpartition("-")[2])
        if number == 2 or (number == 1 and member.attempt == 1):
            held: list[bytes] = []
            while len(held) * CHUNK < MOST:
                # Written to, or the system would not hand it out.
                held.append(b"1" * CHUNK)
                time.sleep(0.05)
            time.sleep(60)


class HungryMean(NoisyMean):
    """See the module's text."""

    name = "hungry-mean"

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """As the toy, hungry."""
        super().fit([_Run(run) for run in runs], data, execution)  # type: ignore[misc]


HUNGRY_MEAN = HungryMean()


def install(folder: Path) -> None:
    """Make `folder` hold a distribution that offers this system; put it on PYTHONPATH."""
    distribution = folder / "hungry-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: hungry\nVersion: 1\n")
    entry = f"{HungryMean.name} = {__name__}:HUNGRY_MEAN"
    (distribution / "entry_points.txt").write_text(f"[private_sweeps.systems]\n{entry}\n")

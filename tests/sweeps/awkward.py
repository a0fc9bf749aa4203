"""A third party's system whose trials end as badly as its one knob says."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.system import Dataset, Run, RunSettings
from trainables.systems.noisy_mean import NoisyMean, NoisyMeanHyperparameters

MOODS = ("fine", "nan", "raise", "die", "silent", "hang", "stop")


@hyperparameters
class AwkwardHyperparameters(NoisyMeanHyperparameters):
    """Of `awkward-mean`."""

    mood: str = hyperparameter(choices=MOODS, default="fine", doc="its end")


class AwkwardMean(NoisyMean):
    """The toy with a mood: "nan" reports NaN, "raise" raises, "die" kills its own worker, "silent" reports nothing.

    "hang" never comes back from its first step, "stop" stops its whole process there.
    """

    name = "awkward-mean"
    params = AwkwardHyperparameters

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """As the toy, up to the mood."""
        for run in runs:
            mood = run.member.plan.config["mood"]
            if mood == "raise":
                raise ArithmeticError("the mood is bad")
            if mood == "die":
                run.reserve_until(1)
                os.kill(os.getpid(), signal.SIGKILL)
            if mood in ("hang", "stop"):
                run.reserve_until(1)
                if mood == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                threading.Event().wait()
            super().fit([_WORSE[mood](run) if mood in _WORSE else run], data, execution)


class _Nan:
    def __init__(self, run: Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def checkpoint(self, step: int, state: Any, metrics: Any) -> None:
        self._run.checkpoint(step, state, {**metrics, "expected_error": float("nan")})


class _Silent(_Nan):
    def checkpoint(self, step: int, state: Any, metrics: Any) -> None:
        self._run.checkpoint(step, state, {})


_WORSE = {"nan": _Nan, "silent": _Silent}
AWKWARD_MEAN = AwkwardMean()


def install(folder: Path) -> None:
    """Make `folder` hold a distribution that offers this system; put it on PYTHONPATH."""
    distribution = folder / "awkward-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: awkward\nVersion: 1\n")
    entry = f"{AwkwardMean.name} = {__name__}:AWKWARD_MEAN"
    (distribution / "entry_points.txt").write_text(f"[private_sweeps.systems]\n{entry}\n")

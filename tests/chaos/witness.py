"""A third party's systems, with a witness of every draw of noise that the records know nothing of.

One byte is appended to `$SWEEPS_WITNESS/<key>.<attempt>` before each draw, by its own file descriptor. A process that
is killed takes no byte back, so the file's size is the number of steps that this attempt executed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcore.mechanisms.output_perturbation import Normals
from sweeps.privacy.ledger import spending
from sweeps.store.records import TrialState
from sweeps.store.store import Store
from tests.sweeps import specs
from trainables.system import Dataset, Run, RunSettings
from trainables.systems import noisy_mean
from trainables.systems.noisy_mean import NoisyMean
from trainables.systems.noisy_sgd import NoisySGD

ROOT = Path(__file__).parents[2]
FOLDER = "SWEEPS_WITNESS"
SGD_STEP_SECONDS = 0.05
"""Steps take a while, so that strikes fall into them."""


def _file_of(run: Run) -> int:
    """A second process under the same key and attempt would draw the same noise again: refused here."""
    name = f"{run.member.key}.{run.member.attempt}"
    return os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)


@dataclass
class _Witnessed:
    inner: Any
    file: int

    def __call__(self, shape: tuple[int, ...]) -> Any:
        os.write(self.file, b".")
        return self.inner(shape)

    def fill_(self, tensor: Any) -> Any:
        os.write(self.file, b".")
        time.sleep(SGD_STEP_SECONDS)
        return self.inner.fill_(tensor)


class WitnessedMean(NoisyMean):
    """The toy, watched."""

    name = "witnessed-mean"

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        door = noisy_mean.normals

        def witnessed(run: Run, execution: RunSettings) -> Normals:
            return _Witnessed(door(run, execution), _file_of(run))

        noisy_mean.normals = witnessed  # type: ignore[assignment]
        try:
            super().fit(runs, data, execution)
        finally:
            noisy_mean.normals = door


class WitnessedSGD(NoisySGD):
    """NoisySGD, watched."""

    name = "witnessed-sgd"

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        from trainables.training import private_sgd

        source = private_sgd.noise_source
        for run in runs:
            file = _file_of(run)
            private_sgd.noise_source = lambda *given, file=file: _Witnessed(source(*given), file)  # type: ignore[assignment]
            try:
                super().fit([run], data, execution)
            finally:
                private_sgd.noise_source = source
                os.close(file)


class HungryMean(NoisyMean):
    """The toy. Trial 1 on its first attempt, and trial 2 on every one, take memory until they are ended.

    They do so after they have noted what they may execute.
    """

    name = "hungry-mean"
    chunk, most = 128 * 2**20, 5 * 2**30
    """What is taken at once, and at most, in case that nobody ends it."""

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        super().fit([_HungryRun(run) for run in runs], data, execution)  # type: ignore[misc]


class _HungryRun:
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
            while len(held) * HungryMean.chunk < HungryMean.most:
                # Written to, or the system would not hand it out.
                held.append(b"1" * HungryMean.chunk)
                time.sleep(0.05)
            time.sleep(60)


WITNESSED_MEAN = WitnessedMean()
WITNESSED_SGD = WitnessedSGD()
HUNGRY_MEAN = HungryMean()


def spec(
    name: str,
    *,
    trials: int,
    steps: tuple[int, int],
    step_seconds: float,
    checkpoint_seconds: float = 0.3,
    **sections: Any,
) -> dict[str, Any]:
    """A sweep of the watched toy."""
    knobs = {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_uniform": list(steps)}, "step_seconds": step_seconds}
    return specs.mean(
        name,
        trials,
        systems={"witnessed-mean": knobs},
        privacy={"epsilon": [0.5, 1.0], "delta": 1e-5},
        objectives=[{"metric": "expected_error"}, {"metric": "epsilon", "goal": "minimize"}],
        execution={"checkpoint_seconds": checkpoint_seconds, "retries": 20},
        **sections,
    )


def install(folder: Path) -> None:
    """Make `folder` hold a distribution that offers these systems; put it on PYTHONPATH."""
    distribution = folder / "witness-1.dist-info"
    distribution.mkdir(parents=True, exist_ok=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1\n")
    named = {"WITNESSED_MEAN": WITNESSED_MEAN, "WITNESSED_SGD": WITNESSED_SGD, "HUNGRY_MEAN": HUNGRY_MEAN}
    entries = "\n".join(f"{system.name} = {__name__}:{name}" for name, system in named.items())
    (distribution / "entry_points.txt").write_text(f"[private_sweeps.systems]\n{entries}\n")


def watched(folder: Path) -> dict[str, str]:
    """Environment of a process whose workers find the systems and leave what they drew below `folder`."""
    install(folder / "packages")
    (folder / "witness").mkdir(exist_ok=True)
    path = os.pathsep.join([str(ROOT), str(folder / "packages")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path, FOLDER: str(folder / "witness")}


def witnessed(folder: Path) -> dict[tuple[str, int], int]:
    """{(key, attempt): draws of noise}."""
    found = {}
    for path in folder.iterdir():
        key, _, attempt = path.name.rpartition(".")
        found[key, int(attempt)] = path.stat().st_size
    return found


def check(store: Store, name: str, trials: int, drawn: dict[tuple[str, int], int], words: str) -> str:
    """Nothing is lost, doubled or under-charged in a sweep that is over; the figures, in words."""
    records, entries = store.trials(name), store.ledger(name)
    assert [record.number for record in records] == list(range(trials)), words
    assert {record.state for record in records} == {TrialState.COMPLETE}, words
    charged = {}
    for entry in entries:
        assert entry.executed_to is not None, f"{entry} was never settled: {words}"
        charged[entry.key, entry.attempt] = entry.executed_to - entry.from_step
    for attempt, draws in drawn.items():
        assert attempt in charged, f"{attempt}: {draws} steps without a reservation: {words}"
        assert draws <= charged[attempt], f"{attempt}: {draws} drawn, {charged[attempt]} charged: {words}"
    for record in records:
        assert record.plan is not None
        assert record.guarantee is not None
        assert record.guarantee.epsilon <= float(record.config["target_epsilon"]), words
        assert record.step == record.planned_steps, words
        path = sum(amount for (key, _), amount in charged.items() if key == record.key)
        assert path >= record.planned_steps, f"{record.key}: {path} steps charged: {words}"
    spent = spending(entries)
    return (
        f"attempts {spent.attempts}, steps drawn {sum(drawn.values())}, charged {spent.executed}, needed {spent.path}"
    )

"""A third party's system: the toy, with a witness of every draw of noise that the records know nothing of.

One byte is appended to `$SWEEPS_WITNESS/<key>.<attempt>` before each draw, by its own file descriptor. A process that
is killed takes no byte back, so the file's size is the number of steps that this attempt executed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpcore.mechanisms.noise_families import Normals
from trainables.system import Dataset, Run, RunSettings
from trainables.systems import noisy_mean
from trainables.systems.noisy_mean import NoisyMean

FOLDER = "SWEEPS_WITNESS"


@dataclass
class _Witnessed:
    inner: Normals
    file: int

    def __call__(self, shape: tuple[int, ...]) -> Any:
        os.write(self.file, b".")
        return self.inner(shape)


class WitnessedMean(NoisyMean):
    """See the module's text."""

    name = "witnessed-mean"

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """As the toy, watched."""
        door = noisy_mean.normals

        def witnessed(run: Run, execution: RunSettings) -> Normals:
            name = f"{run.member.key}.{run.member.attempt}"
            # A second worker under the same key and attempt would be a second draw of the same noise: refused here.
            file = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            return _Witnessed(door(run, execution), file)

        noisy_mean.normals = witnessed  # type: ignore[assignment]
        try:
            super().fit(runs, data, execution)
        finally:
            noisy_mean.normals = door


WITNESSED_MEAN = WitnessedMean()


ROOT = Path(__file__).parents[2]
SPEC = """
name: {name}
data: {{source: uniform, n: 500}}
systems:
  witnessed-mean:
    clip: {{uniform: [0.2, 1.0]}}
    steps: {{int_uniform: [{fewest}, {most}]}}{more_knobs}
    step_seconds: {step_seconds}
privacy: {{epsilon: [0.5, 1.0], delta: 1.0e-5}}
objectives: [{{metric: expected_error, goal: minimize}}{more_objectives}]
search: {{sampler: random, trials: {trials}, seed: {seed}}}
execution: {{checkpoint_seconds: {checkpoint_seconds}, retries: 20}}
"""


def spec(
    name: str,
    *,
    trials: int,
    steps: tuple[int, int],
    step_seconds: float,
    seed: int = 11,
    checkpoint_seconds: float = 0.3,
    fronts: bool = False,
) -> str:
    """A sweep of this system, as a file's text. With `fronts`, over all its knobs and epsilon beside the error."""
    return SPEC.format(
        name=name,
        fewest=steps[0],
        most=steps[1],
        more_knobs="\n    shrinkage: {uniform: [0.0, 1.0]}\n    prior: {uniform: [0.0, 1.0]}" if fronts else "",
        step_seconds=step_seconds,
        more_objectives=", {metric: epsilon, goal: minimize}" if fronts else "",
        trials=trials,
        seed=seed,
        checkpoint_seconds=checkpoint_seconds,
    )


def environment(packages: Path, drawn: Path) -> dict[str, str]:
    """Of a process whose workers find the system in `packages`, and leave what they drew in `drawn`."""
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)])}
    return {**os.environ, **own, FOLDER: str(drawn)}


def install(folder: Path) -> None:
    """Make `folder` hold a distribution that offers this system; put it on PYTHONPATH."""
    distribution = folder / "witness-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: witness\nVersion: 1\n")
    entry = f"{WitnessedMean.name} = {__name__}:WITNESSED_MEAN"
    (distribution / "entry_points.txt").write_text(f"[private_sweeps.systems]\n{entry}\n")


def witnessed(folder: Path) -> dict[tuple[str, int], int]:
    """{(key, attempt): draws of noise}."""
    found = {}
    for path in folder.iterdir():
        key, _, attempt = path.name.rpartition(".")
        found[key, int(attempt)] = path.stat().st_size
    return found

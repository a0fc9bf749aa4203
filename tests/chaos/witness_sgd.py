"""NoisySGD as a third party's system, with a witness of every draw of noise (see tests.chaos.witness)."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.witness import FOLDER
from trainables.system import Dataset, Run, RunSettings
from trainables.systems.noisy_sgd import NoisyOptimiser, NoisySGDKnobs

STEP_SECONDS = 0.05


@dataclass
class _Witnessed:
    inner: Any
    file: int

    def fill_(self, tensor: Any) -> Any:
        os.write(self.file, b".")
        time.sleep(STEP_SECONDS)
        return self.inner.fill_(tensor)


class WitnessedSGD(NoisyOptimiser[NoisySGDKnobs]):
    """Its steps take a while, so that strikes fall into them."""

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """As NoisySGD, watched."""
        from trainables.training import private_sgd

        source = private_sgd.noise_source
        for run in runs:
            name = f"{run.member.key}.{run.member.attempt}"
            # A second process under the same key and attempt would draw the same noise again: refused here.
            file = os.open(Path(os.environ[FOLDER]) / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
            private_sgd.noise_source = lambda *given, file=file: _Witnessed(source(*given), file)  # type: ignore[assignment]
            try:
                super().fit([run], data, execution)
            finally:
                private_sgd.noise_source = source
                os.close(file)


WITNESSED_SGD = WitnessedSGD("witnessed-sgd", NoisySGDKnobs)


def install(folder: Path) -> None:
    """Make `folder` hold a distribution that offers this system; put it on PYTHONPATH."""
    distribution = folder / "witness_sgd-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: witness-sgd\nVersion: 1\n")
    entry = f"{WITNESSED_SGD.name} = {__name__}:WITNESSED_SGD"
    (distribution / "entry_points.txt").write_text(f"[private_sweeps.systems]\n{entry}\n")

"""Small plans and runs of the Bayesian systems."""

from __future__ import annotations

import numpy as np
import torch

from tests.trainables.recording import MemoryRun, memory_run
from trainables.system import Dataset, PrivacyPlan, PrivacyTarget, RunSettings, System
from trainables.systems.triastcyn2020.systems import BAYESIAN_VARIATIONAL

TARGET = PrivacyTarget(epsilon=1e6, delta=1e-5, solve="none")
AVERAGE = PrivacyTarget(epsilon=3.0, delta=1e-10, solve="none")
SHARED = {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 40, "epochs": 4.0, "noise_multiplier": 2.0}
SMALL = {"model": "linear", **SHARED}
CPU = torch.device("cpu")


def planned(system: System, data: Dataset, target: PrivacyTarget = TARGET, **changes: object) -> PrivacyPlan:
    base = SHARED if system is BAYESIAN_VARIATIONAL else SMALL
    plan = system.plan({**base, **changes}, data.facts, target, {})  # type: ignore[dict-item]
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def fitted(system: System, plan: PrivacyPlan, data: Dataset, **run: object) -> MemoryRun:
    one = memory_run(plan, **run)  # type: ignore[arg-type]
    system.fit([one], data, RunSettings())
    return one


def parameters(run: MemoryRun) -> dict[str, np.ndarray]:
    return {name: array for name, array in run.final[1].items() if not name.startswith("bayesian.")}

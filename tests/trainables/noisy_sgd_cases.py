"""Small plans, data and runs of NoisySGD, NoisyAdam, and of whoever takes such hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainables.recording import MemoryRun, facts_of, memory_run
from trainables.data.records import dataset
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split, System
from trainables.systems.noisy_sgd import NOISY_ADAM, NOISY_SGD

TARGET = PrivacyTarget(epsilon=4.0, delta=1e-4)

BOTH = pytest.mark.parametrize("system", [NOISY_SGD, NOISY_ADAM], ids=lambda system: system.name)


def config(**changes: object) -> dict:
    return {"learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 128, "epochs": 5.0, "hidden": 16} | changes


def planned(system: System, facts: DatasetSpec, target: PrivacyTarget = TARGET, **changes: object) -> PrivacyPlan:
    plan = system.plan(config(**changes), facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def given_noise(system: System, facts: DatasetSpec, noise: float, **changes: object) -> PrivacyPlan:
    target = PrivacyTarget(epsilon=1e6, delta=1e-4, solve="none")
    return planned(system, facts, target, noise_multiplier=noise, **changes)


def fitted(system: System, plan: PrivacyPlan, data: Dataset, **run: object) -> MemoryRun:
    one = memory_run(plan, **run)  # type: ignore[arg-type]
    system.fit([one], data, RunSettings())
    return one


def tiny(n: int = 200) -> Dataset:
    """Two Gaussian clouds in three dimensions, cut to [0, 1]."""
    rng = np.random.default_rng(7)
    labels = np.arange(n) % 2
    points = np.clip(0.3 + 0.4 * labels[:, None] + 0.1 * rng.standard_normal((n, 3)), 0, 1).astype(np.float32)
    facts = facts_of((3,), dataset="tiny", n=n, n_validation=n)
    whole = Split(inputs={"x": points}, targets=labels)
    return dataset(facts, whole, whole)


def parameters(state: object) -> np.ndarray:
    return np.concatenate([array.ravel() for name, array in sorted(state.items()) if name.startswith("parameter.")])  # type: ignore[attr-defined]

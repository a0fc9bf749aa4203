"""Data, plans and trainings by one or several workers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainables.recording import MemoryRun, memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.data.records import dataset
from trainables.parallel.sums import serve
from trainables.system import Dataset, DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, RunSettings, Split, Task

# Each statistical test fails by chance with probability at most ALARM; secrets are fixed besides.
ALARM = 1e-6

GIVEN = PrivacyTarget(epsilon=1e6, delta=1e-4, solve="none")

WORKERS = pytest.mark.parametrize("workers", [1, 2, 4])


def clouds(n: int = 300, classes: int = 3) -> Dataset:
    """Gaussian clouds, one per class, in four dimensions."""
    rng = np.random.default_rng(7)
    labels = np.arange(n) % classes
    points = np.clip(0.2 + 0.25 * labels[:, None] + 0.1 * rng.standard_normal((n, 4)), 0, 1).astype(np.float32)
    facts = DatasetSpec(
        dataset="clouds",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n,
        features={"x": InputSpec(shape=(4,))},
        classes=classes,
    )
    whole = Split(inputs={"x": points}, targets=labels)
    return dataset(facts, whole, whole)


def images(n: int = 60) -> Dataset:
    rng = np.random.default_rng(3)
    facts = DatasetSpec(
        dataset="images",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=n,
        features={"image": InputSpec(shape=(28, 28))},
        classes=10,
    )
    whole = Split(inputs={"image": rng.random((n, 28, 28), dtype=np.float32)}, targets=np.arange(n) % 10)
    return dataset(facts, whole, whole)


def basis(n: int) -> Dataset:
    """Record i is the i-th unit vector: under a linear model it moves column i of the weights and no other."""
    facts = DatasetSpec(
        dataset="basis",
        task=Task.CLASSIFICATION,
        n=n,
        n_validation=1,
        features={"x": InputSpec(shape=(n,))},
        classes=2,
    )
    train = Split(inputs={"x": np.eye(n, dtype=np.float32)}, targets=np.arange(n) % 2)
    one = Split(inputs={"x": train.inputs["x"][:1]}, targets=train.targets[:1])
    return Dataset(facts=facts, train=train, validation=one, fingerprint="")


def planned(system, data: Dataset, **changes) -> PrivacyPlan:
    config = {"model": "mlp", "hidden": 8, "learning_rate": 0.5, "clip_norm": 0.7, "batch_size": 30, "epochs": 2.0}
    plan = system.plan(config | {"noise_multiplier": 1.0} | changes, data.facts, GIVEN, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def fitted(system, plan: PrivacyPlan, data: Dataset, workers: int = 0, bridged: bool = False, **run) -> MemoryRun:
    """Trained by `workers` workers; 0: by this process alone."""
    settings, how = run.pop("settings", {}), run.pop("how", serve)
    one = memory_run(plan, **run)
    team = ThreadTeam(data, workers, bridged, how) if workers else None
    system.fit([one], data, RunSettings(team=team, **settings))
    return one

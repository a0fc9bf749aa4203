"""For tests of systems without a controller: a run that keeps its records in memory, and two classes of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from dpcore.events import Event, blocks
from dpcore.randomness import Streams
from trainables.measures.audits import AuditSetting
from trainables.registry import SYSTEMS
from trainables.system import Dataset, DatasetSpec, InputSpec, PrivacyPlan, Run, Split, State, Task, TrialRun
from trainables.team import GradientTask
from trainables.training.released import build_model


@dataclass
class MemoryRun(Run):
    """The `Run` protocol over lists."""

    member: TrialRun
    start_step: int
    state: State | None
    streams: Streams
    horizons: list[int] = field(default_factory=list)
    checkpoints: list[tuple[int, State, Mapping[str, float]]] = field(default_factory=list)
    curve: dict[int, Mapping[str, float]] = field(default_factory=dict)

    def reserve_until(self, until_step: int) -> None:
        self.horizons.append(until_step)

    def report(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        assert self.horizons[-1] >= step
        self.curve[step] = dict(metrics)

    def checkpoint(self, step: int, state: State, metrics: Mapping[str, float]) -> None:
        assert self.horizons
        assert self.horizons[-1] >= step
        self.checkpoints.append((step, {name: array.copy() for name, array in state.items()}, dict(metrics)))

    @property
    def final(self) -> tuple[int, State, Mapping[str, float]]:
        return self.checkpoints[-1]


def memory_run(
    plan: PrivacyPlan,
    *,
    from_step: int = 0,
    to_step: int | None = None,
    state: State | None = None,
    attempt: int = 1,
    seed: int = 0,
    key: str = "test-0",
    secret: bytes = b"a secret of tests, never of a sweep",
    curve: tuple[int, ...] = (),
) -> MemoryRun:
    stop = plan.steps if to_step is None else to_step
    member = TrialRun(key=key, attempt=attempt, seed=seed, plan=plan, from_step=from_step, to_step=stop, curve=curve)
    streams = Streams(secret=secret, seed=seed, key=key, attempt=attempt)
    return MemoryRun(member=member, start_step=from_step, state=state, streams=streams)


CPU = torch.device("cpu")


def linear(data: Dataset) -> nn.Module:
    return build_model({"model": "linear"}, 0, data.facts, CPU)


def gradient_task(**changes: Any) -> GradientTask:
    """One step of a linear model over all units."""
    given: dict[str, Any] = {"config": {"model": "linear"}, "model_seed": 0, "rate": 1.0, "clip_norm": 1.0, "steps": 1}
    return GradientTask(**given | {"sampling_seed": bytes(32)} | changes)


def facts_of(shape: tuple[int, ...] = (4,), **changes: Any) -> DatasetSpec:
    """A classification by one input x."""
    given: dict[str, Any] = {"dataset": "made", "task": Task.CLASSIFICATION, "n": 100, "n_validation": 0, "classes": 2}
    return DatasetSpec(**{**given, "features": {"x": InputSpec(shape=shape)}, **changes})


def counted(plan: PrivacyPlan) -> tuple[tuple[Event, int], ...]:
    """What a plan counts, in order: (the event of one step, how many)."""
    return tuple(blocks(plan.event()))


def audited(plan: PrivacyPlan, data: Dataset, seed: int = 0, secret: bytes = bytes(32)) -> AuditSetting:
    """The audit of a plan's claim."""
    rng = np.random.default_rng(seed)
    return AuditSetting(system=SYSTEMS[plan.system], plan=plan, claim=plan.guarantee, data=data, rng=rng, secret=secret)


def blobs(n: int, n_validation: int, classes: int = 2, seed: int = 7, spread: float = 0.1) -> Dataset:
    """Classes in four dimensions, well separated by default."""
    rng = np.random.default_rng(seed)

    def split(count: int) -> Split:
        labels = rng.integers(classes, size=count)
        labels[:classes] = np.arange(classes)
        points = np.eye(4)[labels] + spread * rng.standard_normal((count, 4))
        return Split(inputs={"x": points.astype(np.float32)}, targets=labels)

    facts = facts_of(dataset="blobs", n=n, n_validation=n_validation, classes=classes)
    return Dataset(facts=facts, train=split(n), validation=split(n_validation), fingerprint="blobs")

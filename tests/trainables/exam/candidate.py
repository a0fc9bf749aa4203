"""Who sits the exam: a system, and a configuration that runs in a fraction of a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from dpcore.events import Adjacency
from tests.trainables.recording import MemoryRun, memory_run
from trainables.reports import PrivateValidation
from trainables.system import Config, Dataset, PrivacyPlan, PrivacyTarget, RunSettings, Scalar, System


@dataclass(frozen=True, eq=False)
class Candidate:
    """config    all knobs that have no default and are not solved for
    data      small records that it runs on
    solve     as of `PrivacyTarget`: "none" where the noise follows from the target, or from nothing
    noisy     whether training draws noise from the run's source at all
    others    {knob: another value of it}, where the exam cannot think of one that makes sense
    beside    {knob: other knobs without which it means nothing}
    chance    {how names of the state begin: why an attempt that goes on has other values there}
    silent    {knob: why neither plan nor release depends on it}
    telling   other knobs, under which every declared metric is reported
    """

    system: System
    config: Config
    data: Callable[[], Dataset]
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    solve: str = "noise"
    epsilon: float = 2.0
    delta: float = 1e-4
    noisy: bool = True
    others: Mapping[str, Scalar] = field(default_factory=dict)
    beside: Mapping[str, Config] = field(default_factory=dict)
    chance: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    telling: Config = field(default_factory=dict)

    @cached_property
    def records(self) -> Dataset:
        """Its data."""
        return self.data()

    @property
    def target(self) -> PrivacyTarget:
        """What it has to meet."""
        return PrivacyTarget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, solve=self.solve)  # type: ignore[arg-type]

    def asked(self, changes: Config = MappingProxyType({})) -> dict[str, Scalar]:
        """Its configuration with defaults, as a spec completes it, and these changes."""
        defaults = {one.name: one.default for one in self.system.hyperparameters if one.default is not None}
        return {**defaults, **self.config, **changes}

    def planned(self, changes: Config = MappingProxyType({})) -> PrivacyPlan:
        """Its plan. Raises AssertionError for a refusal, InvalidValue for a configuration without sense."""
        plan = self.system.plan(MappingProxyType(self.asked(changes)), self.records.facts, self.target, {})
        assert isinstance(plan, PrivacyPlan), plan
        return plan

    @cached_property
    def plan(self) -> PrivacyPlan:
        """Its plan, once."""
        return self.planned()

    def run(self, plan: PrivacyPlan, source: str = "pseudorandom", **run: Any) -> MemoryRun:
        """One training of it in memory. `run`: what `memory_run` takes."""
        return self.fit(memory_run(plan, **run), source)

    def fit(self, run: Any, source: str, **execution: Any) -> Any:
        """The run, trained; what it shows stands in its `shown`. `execution`: what `RunSettings` takes besides."""
        run.shown = []
        run.released = lambda **arrays: run.shown.append(arrays)
        self.system.fit([run], self.records, RunSettings(noise_source=source, **execution))  # type: ignore[arg-type]
        return run

    def privately(self) -> Candidate:
        """The same on records whose validation part is private, and parted by ids of their own."""
        facts = replace(self.records.facts, private_validation=PrivateValidation(parts="a hash of each record's id"))
        records = replace(self.records, facts=facts)
        return replace(self, data=lambda: records)

    def released(self, plan: PrivacyPlan, source: str = "pseudorandom", **run: Any) -> dict[str, np.ndarray]:
        """All that leaves one training: what it shows, its final state, its metrics."""
        one: Any = self.run(plan, source, **run)
        _, state, metrics = one.final
        parts = [*one.shown, state, metrics]
        return {f"{place}.{key}": np.array(value) for place, part in enumerate(parts) for key, value in part.items()}


def same(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> bool:
    """Whether two releases are alike to the last bit."""
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key], equal_nan=one[key].dtype.kind == "f") for key in one
    )

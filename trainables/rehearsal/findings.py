"""What a rehearsal runs, and what it finds. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from trainables.plugins import place_of
from trainables.system import Config, DatasetSpec, PrivacyPlan


class CannotRun(ValueError):
    """A trial of this configuration would fail. The message says at what, why, and where in whose code."""

    @classmethod
    def by(cls, error: BaseException, doing: str) -> CannotRun:
        """What `error` means for the person whose code or spec it came from. Only made-up records can be quoted."""
        said = str(error) or "no message"
        if isinstance(error, CannotRun | InvalidValue):
            return cls(said)
        where = place_of(error)
        return cls(f"{doing}: {type(error).__name__}: {said}" + (f" ({where})" if where else ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimits:
    """What fits in memory where the batch of a step, in each of the trials that run at once, does not.

    needed_mb    that the batch takes in one trial, in MiB
    free_mb      that all trials share
    microbatch   records of one pass that fit; None: the batch does, in fewer trials
    concurrency  trials at once that fit; None: as many as were meant to
    """

    needed_mb: float
    free_mb: float
    microbatch: int | None
    concurrency: int | None

    def __str__(self) -> str:
        fitting = {"records of a pass (execution.microbatch)": self.microbatch}
        fitting["trials at once (resources.concurrency)"] = self.concurrency
        most = " and ".join(f"{most:,} {of}" for of, most in fitting.items() if most is not None)
        return (
            f"a batch takes about {self.needed_mb:,.0f} MB in each trial, and {self.free_mb:,.0f} MB are free for all "
            f"that run at once: at most {most} fit"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One forward and backward pass over a whole batch, at the first weights.

    records    how many passed, or units; fewer than `planned` where the whole batch would have taken too long here
    planned    expected records of a batch, or units
    seconds    that it took; the least of a few where it is quick
    memory_mb  by how much the peak memory grew for it, in MiB; None where that cannot be told apart
    device     on what: "cpu" or "cuda"
    loss       mean over the records
    routes     {parameter: how its gradient is found for each record}; {} where no gradient is clipped
    looped     operations and layers that go through records one at a time: right, and slow
    unreached  trainable parameters on which no loss depends: they would be filled with noise alone
    unit_records  records of a unit, at most; 1 where batches are of records
    limits     what fits in memory; None where everything does
    """

    records: int
    planned: int
    seconds: float
    memory_mb: float | None
    device: str
    loss: float
    parameters: int
    routes: Mapping[str, str]
    looped: tuple[str, ...]
    unreached: tuple[str, ...]
    unit_records: int = 1
    limits: MemoryLimits | None = None

    @property
    def gradient_seconds(self) -> float:
        """Of one record's gradient: what `PrivacyPlan.work` counts of a system that trains a network."""
        return self.seconds / (self.records * self.unit_records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One configuration that ran.

    records, steps  made-up training records, and steps of the plan over them
    seconds         that these steps took, metrics included
    reported        names of the metrics that the trial reported, and of measures that were asked for
    step            None for a system that trains no network
    trial_seconds   of all steps that are planned, at the pace of this one; None without it
    """

    system: str
    config: Config
    records: int
    steps: int
    seconds: float
    reported: tuple[str, ...]
    step: Step | None
    trial_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trial in small.

    plan        what runs, from its first step on
    facts       those that it was planned from
    records     made-up training records, or units
    validation  made-up validation records
    steps       of the plan that are run
    """

    plan: PrivacyPlan
    facts: DatasetSpec
    records: int
    validation: int
    steps: int

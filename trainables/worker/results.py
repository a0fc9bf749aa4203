"""What a finished reservation reports, as it travels: inside the last checkpoint, and back through Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainables.worker.sealed import Damaged, number


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The report of one attempt that reached the end of its reservation.

    step            that end: the steps behind `metrics`
    seconds         of training
    peak_memory_mb  largest memory of the trial's processes, in MiB
    """

    key: str
    attempt: int
    step: int
    metrics: Mapping[str, float]
    seconds: float
    peak_memory_mb: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "metrics": dict(self.metrics)}

    @classmethod
    def from_dict(cls, data: object, *, key: str, attempt: int, step: int) -> TrialResult:
        """The inverse of `to_dict`, for this attempt and this end of its reservation and no other. Raises Damaged."""
        place = f"result of {key}, attempt {attempt}"
        if not isinstance(data, Mapping):
            raise Damaged(f"{place}: {type(data).__name__}, expected an object")
        for name, expected in (("key", key), ("attempt", attempt), ("step", step)):
            if data.get(name) != expected or isinstance(data.get(name), bool):
                raise Damaged(f"{place}: {name} is not {expected!r}")
        metrics = data.get("metrics")
        if not isinstance(metrics, Mapping) or not all(isinstance(name, str) for name in metrics):
            raise Damaged(f"{place}: its metrics are no object")
        return cls(
            key=key,
            attempt=attempt,
            step=step,
            metrics={name: number(place, name, value) for name, value in metrics.items()},
            seconds=number(place, "seconds", data.get("seconds")),
            peak_memory_mb=number(place, "peak_memory_mb", data.get("peak_memory_mb")),
        )

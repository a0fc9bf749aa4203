"""What an attempt reports, as it travels: inside its checkpoints, and back through Ray."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trainables.worker.sealed import Damaged, number, whole_number

_STEP = re.compile(r"[1-9]\d{0,17}", re.ASCII)

Curve = Mapping[int, Mapping[str, float]]
"""{number of steps: metrics of the model after them}, of one attempt, between the ends of its reservation."""


def curve_to_json(curve: Curve) -> dict[str, dict[str, float]]:
    """Plain JSON values."""
    return {str(step): dict(metrics) for step, metrics in curve.items()}


def curve_from_json(data: object, place: str, above: int, below: int) -> Curve:
    """The inverse, for steps in (above, below), in order. Raises Damaged."""
    if not isinstance(data, Mapping):
        raise Damaged(f"{place}: its curve is no object")
    found = {}
    for text, metrics in data.items():
        written = int(text) if isinstance(text, str) and _STEP.fullmatch(text) else text
        step = whole_number(place, "a step of its curve", written, 1, max(below - 1, 1))
        if (
            not above < step < below
            or not isinstance(metrics, Mapping)
            or not all(isinstance(name, str) for name in metrics)
        ):
            raise Damaged(f"{place}: its curve says what no worker can have meant")
        found[step] = {name: number(place, name, value) for name, value in metrics.items()}
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """New points of the curve of an attempt that goes on: a durable checkpoint covers their steps."""

    key: str
    attempt: int
    curve: Curve

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"key": self.key, "attempt": self.attempt, "curve": curve_to_json(self.curve)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, from_step: int, to_step: int) -> Told:
        """The inverse of `to_dict`, for this reservation. Raises Damaged."""
        place = f"curve of {data['key']}, attempt {data['attempt']}"
        curve = curve_from_json(data["curve"], place, from_step, to_step)
        return cls(key=data["key"], attempt=data["attempt"], curve=curve)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The report of one attempt that reached the end of its reservation.

    step            that end: the steps behind `metrics`
    seconds         of training
    peak_memory_mb  largest memory of the trial's processes, in MiB
    curve           what it told before that
    """

    key: str
    attempt: int
    step: int
    metrics: Mapping[str, float]
    seconds: float
    peak_memory_mb: float
    curve: Curve = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**own, "metrics": dict(self.metrics), "curve": curve_to_json(self.curve)}

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
            # Whose reservation began where is the ledger's to say.
            curve=curve_from_json(data.get("curve", {}), place, 0, step),
        )

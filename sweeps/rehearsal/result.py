"""The result of a rehearsal, as `sweeps check` prints it or refuses the spec for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainables.rehearsal import Rehearsed, Step
from trainables.system import Config, Scalar

ONE_PASS = "one pass"


class WouldFail(ValueError):
    """Trials of this spec would fail. The message has a line for each reason, with the part of the spec it is in."""

    def __init__(self, reasons: Sequence[tuple[str, str]]) -> None:
        self.reasons = tuple(reasons)
        alike = Counter(reason for _, reason in reasons)
        first: dict[str, str] = {}
        for label, reason in reasons:
            first.setdefault(reason, label)
        more = {reason: f" (and {count - 1} more like it)" if count > 1 else "" for reason, count in alike.items()}
        lines = [f"  {label}{more[reason]}: {reason}" for reason, label in first.items()]
        super().__init__(
            "\n".join(["trials of this spec would fail, as a rehearsal on made-up records shows:", *lines])
            + "\nNo record was read. `sweeps check --no-rehearsal` plans without running anything."
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration that ran, by the name of its corner, and as it was proposed."""

    label: str
    proposed: Config
    found: Rehearsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The configurations that ran on made-up records.

    infeasible  corners of the space of which nothing could be launched
    left        corners that there was no time for
    """

    ran: tuple[Tried, ...]
    infeasible: int
    left: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "ran": [{"label": one.label} | one.found.to_dict() for one in self.ran],
            "infeasible": self.infeasible,
            "left": self.left,
            "seconds": self.seconds,
        }

    def render(self) -> str:
        """For people."""
        count = len(self.ran)
        lines = [f"rehearsal of {count} configuration{'s' * (count != 1)} on made-up records: no record was read"]
        for one in self.ran:
            lines.append(f"  {one.label}: {_step_text(one.found)}")
            if one.found.step is not None:
                lines += [f"    {line}" for line in _gradients(one.found.step)]
        for system, reported in {one.found.system: one.found.reported for one in reversed(self.ran)}.items():
            lines.append(f"  {system} reports {', '.join(reported)}")
        if self.infeasible:
            lines.append(f"  {self.infeasible} corners of the space hold nothing that may be launched")
        if self.left:
            lines.append(f"  {self.left} more corners of the space were left out: the time was up")
        return "\n".join(lines)


def label(system: str, knobs: Mapping[str, Scalar]) -> str:
    """A corner by the knobs that decide its shapes."""
    listed = ", ".join(f"{name}={value}" for name, value in knobs.items())
    return f"{system} ({listed})" if listed else system


def _step_text(one: Rehearsed) -> str:
    step = one.step
    if step is None:
        return f"{one.steps} step{'s' * (one.steps != 1)} on {one.records} records took {one.seconds:.2g} s"
    of = f"{step.records}" if step.records == step.planned else f"{step.records} of the planned {step.planned}"
    memory = "" if step.memory_mb is None else f" and {max(step.memory_mb, 1.0):.0f} MB"
    return (
        f"loss {step.loss:.4g}, {step.parameters:,} weights; a step over {of} takes {step.seconds:.2g} s{memory} "
        f"({step.device})"
    )


def _gradients(step: Step) -> Iterator[str]:
    """How each record's gradient is found, with the layers that are slow or untouched by name."""
    routes = Counter(sorted(step.routes.values(), key=lambda way: way != ONE_PASS))
    if routes:
        yield "records kept apart; gradients: " + ", ".join(f"{count} in {way}" for way, count in routes.items())
    for way in routes:
        if way != ONE_PASS and way != "unreached":
            yield f"{way}: {', '.join(name for name, one in step.routes.items() if one == way)}"
    if step.looped:
        yield f"right but slow, records go through one at a time: {', '.join(step.looped)}"
    if step.unreached:
        yield (
            f"NO loss depends on {', '.join(step.unreached)}: noise alone would be added. Use them, or set "
            "requires_grad to False"
        )

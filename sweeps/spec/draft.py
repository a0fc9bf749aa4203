"""A spec as far as it could be read, which is what the checks across its sections look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeps.spec.same_as import Knobs
from sweeps.spec.sections import (
    Data,
    EarlyStopping,
    ExecutionOptions,
    FrontOptions,
    Limits,
    ObjectiveOptions,
    Privacy,
    Resources,
    Search,
    Selection,
    Tracking,
)
from trainables.data.splits import RecordsPart
from trainables.system import PublicFacts, System


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Sections as they were read; one that is wrong by itself is None, and nothing is held against it.

    systems          {name: its knobs}, canonical, of the systems that are known
    chosen           these systems
    facts            None where the data section is wrong
    part             of the records that the data section asks for; None: all of them
    written_privacy  the privacy section as it was written, which may be wrong elsewhere than where a check looks
    """

    data: Data | None
    privacy: Privacy | None
    objectives: Sequence[ObjectiveOptions] | None
    report: Sequence[str] | None
    curve: int | None
    search: Search | None
    selection: Selection | None
    early_stopping: EarlyStopping | None
    limits: Limits | None
    resources: Resources | None
    execution: ExecutionOptions | None
    tracking: Tracking | None
    front: FrontOptions | None
    constraints: Sequence[str] | None
    systems: Mapping[str, Knobs]
    chosen: Sequence[System]
    facts: PublicFacts | None
    part: RecordsPart | None
    written_privacy: Mapping[str, Any]

    @property
    def asked(self) -> tuple[tuple[str, str], ...]:
        """(path, metric) of each that a trial has to report."""
        objectives = [(f"objectives.{i}.metric", one.metric) for i, one in enumerate(self.objectives or ())]
        return (*objectives, *((f"report.{i}", metric) for i, metric in enumerate(self.report or ())))

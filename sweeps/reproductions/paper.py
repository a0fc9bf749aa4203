"""A paper's file: its title, what it printed, its statements, its sweeps, and how much of it each effort runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from sweeps.reproductions.effort import FULL, Effort, reduced
from sweeps.reproductions.statements import Statement
from sweeps.reproductions.templates import Values, filled


@dataclass(frozen=True, slots=True)
class Paper:
    """One file of this folder.

    statements  by group
    sweeps      specs of grid sweeps, as templates; a list among the knobs of a system is searched
    printed     its numbers and settings, by the names that the paper's module reads
    sizes       {effort: {field: size}}, and under `said` the words of those that are told when they are cut
    """

    title: str
    statements: Mapping[str, Sequence[Statement]]
    sweeps: Any
    printed: Mapping[str, Any]
    sizes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(cls, name: str) -> Paper:
        """The packaged file of a paper."""
        raw = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
        groups = {group: [Statement.read(row) for row in rows] for group, rows in raw.pop("statements").items()}
        return cls(raw.pop("title"), groups, raw.pop("sweeps"), sizes=raw.pop("sizes", {}), printed=raw)

    def sized(self, effort: Effort) -> dict[str, Any]:
        """How much an effort runs, by name; `effort.repeats` stands for the `repeats` of the file."""
        return {**self.sizes[effort.name], **({"repeats": effort.repeats} if effort.repeats else {})}

    def cut(self, sizes: Values) -> list[str]:
        """What sizes leave out of the full ones, one by one. More repeats than the full one's leave nothing out."""
        full = self.sized(FULL)
        told = {name: words for name, words in self.sizes["said"].items() if sizes[name] != []}
        least = {name: min(sizes[name], full[name]) for name in told if name.endswith("repeats")}
        return reduced(*({words: one[name] for name, words in told.items()} for one in ({**sizes, **least}, full)))


def spec_of(template: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """A sweep's spec: the template with its values; of a list among the knobs one is chosen, or its only one fixed."""
    spec: dict[str, Any] = filled(template, values)
    systems = {system: {name: choice(one) for name, one in knobs.items()} for system, knobs in spec["systems"].items()}
    return {**spec, "systems": systems}


def choice(knob: Any) -> Any:
    """A knob that is searched where it is a list of several; anything else is its one value."""
    if not isinstance(knob, list):
        return knob
    return knob[0] if len(knob) == 1 else {"choice": knob}

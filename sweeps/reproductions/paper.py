"""A paper's file: its title, what it printed, its statements, and how much of it each effort runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, TypeVar

import yaml

from sweeps.reproductions.effort import FULL, Effort, reduced
from sweeps.reproductions.statements import Statement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paper:
    """One file of this folder.

    statements  by group
    printed     its numbers and settings, by the names that the paper's module reads
    sizes       {effort: {field: size}}, and under `said` the words of those that are told when they are cut
    """

    title: str
    statements: Mapping[str, Sequence[Statement]]
    printed: Mapping[str, Any]
    sizes: Mapping[str, Mapping[str, Any]]

    @classmethod
    def load(cls, name: str) -> Paper:
        """The packaged file of a paper."""
        raw = yaml.safe_load(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
        groups = {group: [Statement.read(row) for row in rows] for group, rows in raw.pop("statements").items()}
        return cls(raw.pop("title"), groups, sizes=raw.pop("sizes", {}), printed=raw)

    def scope(self, kind: type[T], effort: Effort) -> T:
        """How much an effort runs; `effort.repeats` stands for the `repeats` of the file."""
        sizes = {name: tuple(one) if isinstance(one, list) else one for name, one in self.sizes[effort.name].items()}
        return kind(**sizes | ({"repeats": effort.repeats} if effort.repeats else {}))

    def cut(self, scope: Any) -> list[str]:
        """What a scope leaves out of the full one, size by size. More repeats than the full one's leave nothing out."""
        ours, full = asdict(scope), asdict(self.scope(type(scope), FULL))
        told = {name: words for name, words in self.sizes["said"].items() if ours[name] != ()}
        least = {name: min(ours[name], full[name]) for name in told if name.endswith("repeats")}
        return reduced(*({words: one[name] for name, words in told.items()} for one in (ours | least, full)))

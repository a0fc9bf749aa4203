"""What differs between two specs, and whether it decides what is trained, claimed or proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sweeps.spec.sections import SweepSpec, has_meaning


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One value that differs between two specs; None where one of them lacks it.

    meaning  whether resuming under it would continue a different sweep
    """

    path: str
    old: object
    new: object
    meaning: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.old!r} -> {self.new!r}"


@dataclass(frozen=True, slots=True)
class SpecDiff:
    """Every difference between two specs; empty, and false, when there is none."""

    changes: tuple[SpecChange, ...]

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __iter__(self) -> Iterator[SpecChange]:
        return iter(self.changes)

    def __str__(self) -> str:
        return "\n".join(f"  {change}" for change in self.changes)


def diff(old: SweepSpec, new: SweepSpec) -> SpecDiff:
    """What changed, path by path. No change with `meaning` is the same as equal digests."""
    before, after = dict(_leaves("", old.canonical())), dict(_leaves("", new.canonical()))
    return SpecDiff(
        tuple(
            SpecChange(path, before.get(path), after.get(path), has_meaning(path))
            for path in dict.fromkeys([*before, *after])
            if path not in before or path not in after or before[path] != after[path]
        )
    )


def _leaves(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, inner in value.items() for leaf in _leaves(f"{path}.{key}" if path else key, inner)]
    return [(path, value)]

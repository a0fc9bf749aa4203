"""Knobs that take the value of another one: `clip_norm: {same_as: noisy-sgd.clip_norm}`.

Within a system the two have one value, which a point states once, under the name of the other. Across systems a knob
has the other's values, so that a point means the same in both: each trial is of one system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.process.suggestions import did_you_mean
from sweeps.spec.domains import Domain
from sweeps.spec.problems import Problems
from trainables.system import Parameter, Scalar, System

SAME_AS = "same_as"


@dataclass(frozen=True, slots=True)
class SameAs:
    """The value of `knob` of `system`."""

    system: str
    knob: str

    def to_dict(self) -> dict[str, str]:
        """As it is written in a spec."""
        return {SAME_AS: f"{self.system}.{self.knob}"}

    def __str__(self) -> str:
        return f"same as {self.system}.{self.knob}"


Knob = Scalar | Domain | SameAs
Knobs = dict[str, Knob]
"""Of one system, by name."""


def read_same_as(path: str, raw: Mapping[object, object], system: str, problems: Problems) -> SameAs | None:
    """The knob that is named; None after noting what is wrong with how it is written."""
    for key in raw:
        if key != SAME_AS:
            expected = f"no `{key}` beside `{SAME_AS}`, which takes all from the other knob"
            problems.add(f"{path}.{key}", raw[key], expected, "Drop one of the two.")
            return None
    named = raw[SAME_AS]
    if not isinstance(named, str) or not named.rpartition(".")[2]:
        problems.add(f"{path}.{SAME_AS}", named, "KNOB of this system, or SYSTEM.KNOB")
        return None
    of, _, knob = named.rpartition(".")
    return SameAs(of or system, knob)


def check_same_as(
    systems: Mapping[str, Knobs],
    known: Mapping[str, System],
    conditions: Mapping[str, Mapping[str, object]],
    fits: Callable[[str, object, Parameter], bool],
    problems: Problems,
) -> None:
    """Takes out of `systems`, after noting why, each knob that cannot take the other's value.

    conditions  {system: {knob: its `when`}}
    fits        (path, what the other is written as, parameter) -> whether the knob may have these values; notes why not
    """
    bad = []
    for system, name, same in _found(systems):
        path = f"systems.{system}.{name}"
        parameter = next(one for one in known[system].parameters if one.name == name)
        before = len(problems.errors)
        other = _other(f"{path}.{SAME_AS}", (system, name), same, systems, known, problems)
        if same.knob in conditions.get(same.system, {}) and (same.system != system or parameter.default is None):
            lacking = "" if same.system != system else f", since {name} has no default"
            expected = f"a knob that is always there{lacking}"
            problems.add(f"{path}.{SAME_AS}", same.to_dict()[SAME_AS], expected, f"{same.knob} has a `when`.")
        values = other.to_dict() if isinstance(other, Domain) else other
        if len(problems.errors) > before or other is None or not fits(f"{path}.{SAME_AS}", values, parameter):
            bad.append((system, name))
    for system, name in bad:
        del systems[system][name]


def _found(systems: Mapping[str, Knobs]) -> Iterator[tuple[str, str, SameAs]]:
    for system, knobs in systems.items():
        for name, knob in knobs.items():
            if isinstance(knob, SameAs):
                yield system, name, knob


def _other(
    path: str,
    own: tuple[str, str],
    same: SameAs,
    systems: Mapping[str, Knobs],
    known: Mapping[str, System],
    problems: Problems,
) -> Scalar | Domain | None:
    """What the other knob is; None after noting why it can't be followed, or where it is wrong by itself."""
    written = same.to_dict()[SAME_AS]
    if same.system not in systems:
        names = [f"{one}.{same.knob}" for one in systems if same.knob in systems[one] and (one, same.knob) != own]
        problems.add(
            path, written, f"a knob of a system of the sweep: {', '.join(systems)}", did_you_mean(written, names)
        )
        return None
    other = systems[same.system].get(same.knob)
    if other is None:
        parameters = {one.name for one in known[same.system].parameters}
        if same.knob not in parameters:
            remedy = did_you_mean(same.knob, systems[same.system])
            problems.add(path, written, f"a knob of {same.system}", remedy)
        elif same.knob in known[same.system].solves.values():
            problems.add(path, written, f"a knob with a value before it is planned: {same.knob} is solved")
        return None
    if (same.system, same.knob) == own:
        problems.add(path, written, "another knob")
        return None
    if isinstance(other, SameAs):
        remedy = "" if (other.system, other.knob) == own else f"Write {SAME_AS}: {other.to_dict()[SAME_AS]}."
        problems.add(path, written, "a knob with values of its own", remedy)
        return None
    return other


def renamed(knobs: Any, old: str, new: str) -> Any:
    """The knobs of a system as they are written, those that follow one of system `old` following it as `new`."""
    if not isinstance(knobs, Mapping):
        return knobs
    return {name: _renamed(knob, old, new) for name, knob in knobs.items()}


def _renamed(knob: Any, old: str, new: str) -> Any:
    if not isinstance(knob, Mapping) or not isinstance(knob.get(SAME_AS), str):
        return knob
    system, dot, name = knob[SAME_AS].rpartition(".")
    return {**knob, SAME_AS: f"{new if system == old else system}{dot}{name}"}


def alone(systems: Mapping[str, Mapping[str, Knob]], system: str) -> Knobs:
    """The knobs of one system: one that takes the value of another system's has the other's values."""
    return {name: _here(knob, system, systems) for name, knob in systems[system].items()}


def _here(knob: Knob, system: str, systems: Mapping[str, Mapping[str, Knob]]) -> Knob:
    return systems[knob.system][knob.knob] if isinstance(knob, SameAs) and knob.system != system else knob


def spelled_out(systems: Mapping[str, Mapping[str, Knob]], system: str) -> dict[str, Scalar | Domain]:
    """The knobs of one system, each with all the values that it may take."""
    out: dict[str, Scalar | Domain] = {}
    for name, knob in systems[system].items():
        own = systems[knob.system][knob.knob] if isinstance(knob, SameAs) else knob
        assert not isinstance(own, SameAs)
        out[name] = own
    return out

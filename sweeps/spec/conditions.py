"""Knobs that are there only where others have certain values: `hidden: {choice: [32, 64], when: {model: mlp}}`.

All that a `when` names has to hold, and a knob that is not there itself holds nothing: conditions form chains. Where a
knob is not there, its system uses the declared default, so one without a default is always there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sweeps.process.suggestions import did_you_mean
from sweeps.spec.domains import Domain, When, is_one_of
from sweeps.spec.problems import Problems
from sweeps.spec.same_as import Knobs, SameAs
from sweeps.spec.values import meant
from trainables.system import Scalar, System

WHEN = "when"


def with_conditions(
    system: System, written: Mapping[str, object], knobs: Knobs, resolved: Knobs, problems: Problems
) -> Knobs:
    """`knobs` with the conditions that stand beside them; what is wrong with one is noted, and it is left out.

    written   {knob: its `when` as it was written}
    resolved  the knobs with the values of those of other systems (`sweeps.spec.same_as.alone`)
    """
    path, own = f"systems.{system.name}", dict(knobs)
    needed = {one.name for one in system.parameters if one.default is None}
    for name, raw in written.items():
        domain = own.get(name)
        if not isinstance(domain, Domain):
            continue
        here = f"{path}.{name}.{WHEN}"
        if name in needed:
            expected = f"no `{WHEN}`: {name} has no default that {system.name} could use where it is not there"
            problems.add(here, raw, expected, "Leave it out.")
        elif not isinstance(raw, Mapping) or not raw:
            problems.add(here, raw, "a mapping from other knobs to values", "For example {model: mlp}.")
        else:
            own[name] = replace(domain, when=_read(here, raw, resolved, system, problems))
    searched = {name: knob for name, knob in own.items() if isinstance(knob, Domain)}
    for name in searched:
        circle = _circle(name, searched, ())
        if circle:
            problems.add(f"{path}.{name}.{WHEN}", " -> ".join(circle), "conditions that do not go in a circle")
            own[name] = replace(searched[name], when=())
            searched[name] = own[name]  # type: ignore[assignment]
    for name, domain in searched.items():
        for other, values in needs(name, searched).items():
            if not values:
                expected = f"conditions that can hold together: those of {name} leave {other} no value"
                problems.add(f"{path}.{name}.{WHEN}", domain.condition, expected)
    return own


def _read(path: str, raw: Mapping[object, object], knobs: Knobs, system: System, problems: Problems) -> When:
    found: dict[str, tuple[Scalar, ...]] = {}
    for other, written in raw.items():
        here = f"{path}.{other}"
        knob = knobs.get(str(other))
        if knob is None:
            _note_unknown(here, str(other), written, knobs, system, problems)
        elif isinstance(knob, SameAs):
            expected = f"a knob with values of its own: {other} takes those of {knob.knob}"
            problems.add(here, written, expected, f"Name {knob.knob}.")
        elif isinstance(knob, Domain) and not knob.separate:
            expected = f"a knob whose values can be told apart (choice, whole numbers, steps): {other} is {knob}"
            problems.add(here, written, expected, "Give it a `step`, or a `choice`.")
        elif values := _values(here, str(other), written, knob, problems):
            found[str(other)] = values
    return tuple(sorted(found.items()))


def _note_unknown(path: str, other: str, written: object, knobs: Knobs, system: System, problems: Problems) -> None:
    if other not in {one.name for one in system.parameters}:
        problems.add(path, written, f"a knob of {system.name}", did_you_mean(other, knobs))
    elif other in system.solves.values():
        problems.add(path, written, f"a knob with a value before it is planned: {other} is solved")
    # Any other one is wrong by itself, and was noted.


def _values(
    path: str, other: str, written: object, knob: Scalar | Domain, problems: Problems
) -> tuple[Scalar, ...] | None:
    several = written if isinstance(written, list | tuple) else [written]
    if not several:
        problems.add(path, written, f"at least one value of {other}")
        return None
    found: list[Scalar] = []
    for one in several:
        value = meant(knob, one)
        if value is None:
            takes = str(knob) if isinstance(knob, Domain) else f"{knob!r} alone"
            problems.add(path, one, f"a value that {other} takes in this sweep: {takes}")
            return None
        if is_one_of(value, found):
            problems.add(path, written, "each value once")
            return None
        found.append(value)
    return tuple(found)


def _circle(name: str, searched: Mapping[str, Domain], before: tuple[str, ...]) -> tuple[str, ...]:
    """The way from `name` back to itself through what knobs depend on; () where there is none."""
    way = (*before, name)
    if name in before:
        return way if name == before[0] else ()
    for other, _ in searched[name].when:
        if other in searched and (found := _circle(other, searched, way)):
            return found
    return ()


def needs(name: str, searched: Mapping[str, Domain]) -> dict[str, tuple[Scalar, ...]]:
    """What other knobs have to be for `name` to be there, those included on which they depend in turn."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for other, values in searched[name].when:
        own = {other: values, **(needs(other, searched) if other in searched else {})}
        for knob, allowed in own.items():
            found[knob] = tuple(one for one in found.get(knob, allowed) if is_one_of(one, allowed))
    return found

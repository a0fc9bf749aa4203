"""The `systems` section: each knob read as a fixed value or a domain, then held against the system's parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.domains import KINDS, Domain, When, as_number, is_one_of, meant
from sweeps.spec.problems import Problems
from sweeps.util.suggest import closest, did_you_mean
from trainables import plugins
from trainables.system import DatasetSpec, Hyperparameter, Scalar, System

# Knobs that take the value of another one: `clip_norm: {same_as: noisy-sgd.clip_norm}`.
#
# Within a system the two have one value, which a point states once, under the name of the other. Across systems a
# knob has the other's values, so that a point means the same in both: each trial is of one system.

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
    fits: Callable[[str, object, Hyperparameter], bool],
    problems: Problems,
) -> None:
    """Takes out of `systems`, after noting why, each knob that cannot take the other's value.

    conditions  {system: {knob: its `when`}}
    fits        (path, what the other is written as, parameter) -> whether the knob may have these values; notes why not
    """
    bad = []
    for system, name, same in _found(systems):
        path = f"systems.{system}.{name}"
        parameter = next(one for one in known[system].hyperparameters if one.name == name)
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
        parameters = {one.name for one in known[same.system].hyperparameters}
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


# Knobs that are there only where others have certain values: `hidden: {choice: [32, 64], when: {model: mlp}}`.
#
# All that a `when` names has to hold, and a knob that is not there itself holds nothing: conditions form chains.
# Where a knob is not there, its system uses the declared default, so one without a default is always there.

WHEN = "when"


def with_conditions(
    system: System, written: Mapping[str, object], knobs: Knobs, resolved: Knobs, problems: Problems
) -> Knobs:
    """`knobs` with the conditions that stand beside them; what is wrong with one is noted, and it is left out.

    written   {knob: its `when` as it was written}
    resolved  the knobs with the values of those of other systems (`sweeps.spec.hyperparameters.alone`)
    """
    path, own = f"systems.{system.name}", dict(knobs)
    needed = {one.name for one in system.hyperparameters if one.default is None}
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
    if other not in {one.name for one in system.hyperparameters}:
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


# Domains under Optuna's names: {float: {low, high, log, step}}, {int: {...}} and {categorical: [...]}.
#
# They are other spellings of the domains of a spec, into which they are translated before anything looks at them: one
# form is checked, stored and digested.

NAMES = ("float", "int", "categorical")
_KEYS = ("low", "high", "log", "step")


def translated(path: str, raw: Mapping[Any, Any], problems: Problems) -> Mapping[Any, Any] | None:
    """`raw` with such a domain in the words of a spec; as it is without one; None after noting what is wrong."""
    given = [name for name in NAMES if name in raw]
    if not given:
        return raw
    if len(given) + sum(kind in raw for kind in KINDS) > 1:
        problems.add(path, dict(raw), "exactly one domain of " + ", ".join((*KINDS, *NAMES)))
        return None
    name, others = given[0], {key: value for key, value in raw.items() if key != given[0]}
    inside, here = raw[name], f"{path}.{name}"
    if name == "categorical":
        return {"choice": inside, **others}
    before = len(problems.errors)
    if "step" in others:
        problems.add(f"{path}.step", others["step"], f"`step` among the keys of `{name}`", "Move it there.")
    if not isinstance(inside, Mapping) or "low" not in inside or "high" not in inside:
        problems.add(here, inside, "{low: A, high: B}, and log: true or step: C where it is meant")
        return None
    for key in inside:
        if key not in _KEYS:
            problems.add(f"{here}.{key}", inside[key], f"a key of `{name}`", did_you_mean(key, _KEYS))
    log, step = inside.get("log", False), inside.get("step")
    if not isinstance(log, bool):
        problems.add(f"{here}.log", log, "true or false")
    if len(problems.errors) > before:
        return None
    # Optuna writes the step of 1 of an int too, where it is the only one that may be.
    stepped = step is not None and not (name == "int" and step == 1 and not isinstance(step, bool))
    kind = ("int_" if name == "int" else "") + ("log_" if log else "") + "uniform"
    return {kind: [inside["low"], inside["high"]], **({"step": step} if stepped else {}), **others}


def read_systems(
    raw: object, systems: Mapping[str, System], solve: str | None, facts: DatasetSpec | None, problems: Problems
) -> dict[str, Knobs]:
    """Canonical knobs of every system: defaults filled in, numbers typed as the parameter says.

    solve, facts  from the other sections; None when those are themselves wrong, and then not checked against
    """
    if not isinstance(raw, Mapping) or not raw:
        problems.add(
            "systems", raw, "a mapping from system names to knobs", f"Known systems: {', '.join(sorted(systems))}."
        )
        return {}
    out: dict[str, Knobs] = {}
    conditions: dict[str, dict[str, object]] = {}
    for name, knobs in raw.items():
        path = f"systems.{name}"
        if name not in systems and not _is_met(path, str(name), systems, problems):
            continue
        if name not in systems:
            remedy = plugins.withheld_systems().get(str(name)) or did_you_mean(name, systems)
            problems.add(path, name, "the name of a system", remedy)
        elif knobs is not None and not isinstance(knobs, Mapping):
            problems.add(path, knobs, "a mapping from knobs to values or domains")
        else:
            written, conditions[str(name)] = _without_conditions(knobs or {})
            out[str(name)] = _read_knobs(path, written, systems[name], solve, facts, problems)
    return _joined({name: out[name] for name in sorted(out)}, conditions, systems, facts, problems)


def _without_conditions(knobs: Mapping[Any, object]) -> tuple[dict[Any, object], dict[str, object]]:
    """Knobs without their `when`, and these by knob. Beside `same_as` it stays, to be refused."""
    out, conditions = dict[Any, object](), dict[str, object]()
    for name, knob in knobs.items():
        out[name] = knob
        if isinstance(knob, Mapping) and WHEN in knob and SAME_AS not in knob:
            out[name] = {key: value for key, value in knob.items() if key != WHEN}
            if knob[WHEN] is not None:
                conditions[str(name)] = knob[WHEN]
    return out, conditions


def _joined(
    read: dict[str, Knobs],
    conditions: Mapping[str, Mapping[str, object]],
    systems: Mapping[str, System],
    facts: DatasetSpec | None,
    problems: Problems,
) -> dict[str, Knobs]:
    """With what knobs have to do with each other: conditions, and values that they share."""

    def fits(path: str, written: object, parameter: Hyperparameter) -> bool:
        return read_knob(path, written, parameter, facts, problems) is not None

    check_same_as(read, systems, conditions, fits, problems)
    return {
        name: with_conditions(systems[name], conditions[name], knobs, alone(read, name), problems)
        for name, knobs in read.items()
    }


def _is_met(path: str, name: str, systems: Mapping[str, System], problems: Problems) -> bool:
    """Imports a `module:object`; False after noting why it cannot be had. Any other name is left to be looked up."""
    from trainables.registry import Systems

    if isinstance(systems, Systems) and plugins.OBJECT.fullmatch(name):
        try:
            systems[name]
        except InvalidValue as error:
            problems.add(path, error.value, error.expected, error.remedy)
            return False
        except Exception as error:
            problems.add(path, name, f"a module that can be imported ({type(error).__name__}: {error})")
            return False
    return True


def _read_knobs(
    path: str,
    raw: dict[Any, object],
    system: System,
    solve: str | None,
    facts: DatasetSpec | None,
    problems: Problems,
) -> Knobs:
    parameters = {parameter.name: parameter for parameter in system.hyperparameters}
    solved = _solved(path, system, solve, problems)
    out: Knobs = {}
    for name, value in raw.items():
        here = f"{path}.{name}"
        if name not in parameters:
            problems.add(here, value, f"a hyperparameter of {system.name}", did_you_mean(name, parameters))
        elif name == solved:
            problems.add(
                here,
                value,
                f"no value, since privacy.solve is {solve!r} and sets it",
                "Remove it, or choose another `privacy.solve` to search it.",
            )
        else:
            knob: Scalar | Domain | SameAs | None
            if isinstance(value, Mapping) and SAME_AS in value:
                knob = read_same_as(here, value, system.name, problems)
            else:
                knob = read_knob(here, value, parameters[name], facts, problems)
            if knob is not None and not _is_absent(parameters[name], knob):
                out[name] = knob
    for name, parameter in parameters.items():
        if name in raw or name == solved or (solve is None and name in system.solves.values()):
            continue
        if parameter.default is None:
            problems.add(f"{path}.{name}", None, f"a value or a domain ({parameter.doc})", f"Add `{name}:`.")
        elif not _is_absent(parameter, parameter.default):
            out[name] = parameter.default
    return {name: out[name] for name in sorted(out)}


def _is_absent(parameter: Hyperparameter, knob: Scalar | Domain | SameAs) -> bool:
    """Whether a canonical spec leaves it out, as specs did before the system had this hyperparameter."""
    return parameter.absent_unless_given and knob == parameter.default


def _solved(path: str, system: System, solve: str | None, problems: Problems) -> str | None:
    # A system without anything to solve (a baseline without noise, a published noise formula) runs beside the others.
    if solve is None or solve == "none" or not system.solves:
        return None
    if solve not in system.solves:
        known = ", ".join([*system.solves, "none"])
        problems.add(
            path, system.name, f"a system that can solve {solve!r}", f"Set `privacy.solve` to one of: {known}."
        )
        return None
    return system.solves[solve]


def read_knob(
    path: str, raw: object, parameter: Hyperparameter, facts: DatasetSpec | None, problems: Problems
) -> Scalar | Domain | None:
    """One knob, canonical, or None after noting what is wrong with it."""
    high = _upper_bound(parameter, facts)
    if not isinstance(raw, Mapping):
        return _read_scalar(path, raw, parameter, high, problems)
    translation = translated(path, raw, problems)
    if translation is None:
        return None
    raw = translation
    domains = [key for key in raw if key in KINDS]
    unknown = [key for key in raw if key not in (*KINDS, "points", "step")]
    for key in unknown:
        known = (*KINDS, *NAMES)
        problems.add(f"{path}.{key}", raw[key], "a domain: " + ", ".join(known), closest(key, known))
    if unknown:
        return None
    if len(domains) != 1:
        problems.add(path, dict(raw), "exactly one domain of " + ", ".join(KINDS))
        return None
    kind = domains[0]
    if kind == "choice":
        return _read_choice(path, raw, parameter, high, problems)
    return _read_range(path, kind, raw, parameter, high, problems)


def _read_choice(
    path: str, raw: Mapping[Any, Any], parameter: Hyperparameter, high: float | None, problems: Problems
) -> Domain | None:
    here, values = f"{path}.choice", raw["choice"]
    for key in ("points", "step"):
        if key in raw:
            problems.add(f"{path}.{key}", raw[key], f"no `{key}` beside `choice`", "A choice is its own grid.")
    if not isinstance(values, list | tuple) or not values:
        problems.add(here, values, "a list of at least one value")
        return None
    read = [_read_scalar(f"{here}.{i}", value, parameter, high, problems) for i, value in enumerate(values)]
    good = [value for value in read if value is not None]
    if len(good) < len(values):
        return None
    if len(set(good)) < len(good):
        problems.add(here, list(values), "each value once", "A repeated value would be drawn more often.")
        return None
    return Domain(kind="choice", values=tuple(good))


def _read_range(
    path: str, kind: str, raw: Mapping[Any, Any], parameter: Hyperparameter, high: float | None, problems: Problems
) -> Domain | None:
    here, ends = f"{path}.{kind}", raw[kind]
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        problems.add(here, ends, "two numbers, [low, high]")
        return None
    numbers = [as_number(end) for end in ends]
    bottom, top = numbers
    if bottom is None or top is None or not (math.isfinite(bottom) and math.isfinite(top)):
        problems.add(here, list(ends), "two finite numbers, [low, high]")
        return None
    before = len(problems.errors)
    if bottom > top:
        problems.add(here, list(ends), "low <= high", f"Swap them: [{ends[1]}, {ends[0]}].")
    if "log" in kind and min(bottom, top) <= 0:
        problems.add(here, list(ends), "low above 0, since the range is logarithmic", "Raise low, or drop `log_`.")
    if kind.startswith("int") and not (bottom.is_integer() and top.is_integer()):
        problems.add(here, list(ends), "whole numbers")
    if parameter.kind == "choice":
        problems.add(here, list(ends), f"`choice`, since {parameter.name} is no number")
    elif parameter.kind == "int" and not kind.startswith("int"):
        problems.add(here, list(ends), "an integer domain", f"Use `int_{kind}`, or `choice`.")
    if len(problems.errors) == before:
        _check_bounds(here, list(ends), bottom, top, parameter, high, problems)
    points = raw.get("points")
    if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 1):
        problems.add(f"{path}.points", points, "a whole number of at least 1")
    step = None if raw.get("step") is None else _step(f"{path}.step", kind, raw, bottom, top, problems)
    if len(problems.errors) > before:
        return None
    return Domain(kind=kind, low=bottom, high=top, points=points, step=step)  # type: ignore[arg-type]


def _step(path: str, kind: str, raw: Mapping[Any, Any], bottom: float, top: float, problems: Problems) -> float | None:
    """The distance of two values of a range, of which whole ones fit into it."""
    step = as_number(raw["step"])
    if "log" in kind:
        problems.add(path, raw["step"], "no `step` beside a logarithmic range", "Use `points` for a grid, or `choice`.")
    elif raw.get("points") is not None:
        problems.add(path, raw["step"], "no `step` beside `points`", "A grid takes every step.")
    elif step is None or not math.isfinite(step) or step <= 0 or (kind.startswith("int") and not step.is_integer()):
        problems.add(path, raw["step"], f"a {'whole' if kind.startswith('int') else 'finite'} number above 0")
    elif top >= bottom and (Decimal(str(top)) - Decimal(str(bottom))) % Decimal(str(step)) != 0:
        problems.add(path, raw["step"], f"whole steps from {bottom:g} to {top:g}", "Change an end, or the step.")
    return step


def _read_scalar(
    path: str, raw: object, parameter: Hyperparameter, high: float | None, problems: Problems
) -> Scalar | None:
    if parameter.kind == "choice":
        return _read_word(path, raw, parameter, problems)
    number = as_number(raw)
    if number is None or not math.isfinite(number):
        kind = "a whole number" if parameter.kind == "int" else "a finite number"
        remedy = "Lists are written {choice: [...]}." if isinstance(raw, list | tuple) else ""
        problems.add(path, raw, f"{kind} or a domain", remedy)
        return None
    if parameter.kind == "int" and not number.is_integer():
        problems.add(path, raw, "a whole number")
        return None
    before = len(problems.errors)
    _check_bounds(path, raw, number, number, parameter, high, problems)
    if len(problems.errors) > before:
        return None
    return int(number) if parameter.kind == "int" else number


def _read_word(path: str, raw: object, parameter: Hyperparameter, problems: Problems) -> Scalar | None:
    if not parameter.choices:
        if isinstance(raw, str) and raw:
            return raw
        problems.add(path, raw, f"a text ({parameter.doc})", "Quote it." if raw is not None else "")
        return None
    for choice in parameter.choices:
        if type(raw) is type(choice) and raw == choice:
            return choice
    if not isinstance(raw, str | bool):
        number = as_number(raw)
        for choice in parameter.choices:
            if number is not None and not isinstance(choice, str | bool) and choice == number:
                return choice
    known = [str(choice) for choice in parameter.choices]
    problems.add(path, raw, "one of " + ", ".join(known), closest(raw, known))
    return None


def _upper_bound(parameter: Hyperparameter, facts: DatasetSpec | None) -> float | None:
    # A parameter counted in records cannot exceed the records that there are.
    if parameter.unit == "records" and facts is not None:
        return facts.n if parameter.high is None else min(parameter.high, facts.n)
    return parameter.high


def _check_bounds(
    path: str, raw: object, bottom: float, top: float, parameter: Hyperparameter, high: float | None, problems: Problems
) -> None:
    if parameter.low is not None and bottom < parameter.low:
        problems.add(path, raw, f"{parameter.name} of at least {parameter.low:g}", _sentence(parameter.doc))
    if high is not None and top > high:
        of_n = " (the number of records, n)" if high != parameter.high else ""
        problems.add(path, raw, f"{parameter.name} of at most {high:g}{of_n}", _sentence(parameter.doc))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."

"""The `systems` section: each knob read as a fixed value or a domain, then held against the system's parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.process.suggestions import closest, did_you_mean
from sweeps.spec.conditions import WHEN, with_conditions
from sweeps.spec.domains import KINDS, Domain
from sweeps.spec.optuna_names import NAMES, translated
from sweeps.spec.problems import Problems
from sweeps.spec.same_as import SAME_AS, Knobs, SameAs, alone, check_same_as, read_same_as
from sweeps.spec.values import as_number
from trainables import plugins
from trainables.system import Parameter, PublicFacts, Scalar, System


def read_systems(
    raw: object, systems: Mapping[str, System], solve: str | None, facts: PublicFacts | None, problems: Problems
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
    facts: PublicFacts | None,
    problems: Problems,
) -> dict[str, Knobs]:
    """With what knobs have to do with each other: conditions, and values that they share."""

    def fits(path: str, written: object, parameter: Parameter) -> bool:
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
    facts: PublicFacts | None,
    problems: Problems,
) -> Knobs:
    parameters = {parameter.name: parameter for parameter in system.parameters}
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


def _is_absent(parameter: Parameter, knob: Scalar | Domain | SameAs) -> bool:
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
    path: str, raw: object, parameter: Parameter, facts: PublicFacts | None, problems: Problems
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
    path: str, raw: Mapping[Any, Any], parameter: Parameter, high: float | None, problems: Problems
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
    path: str, kind: str, raw: Mapping[Any, Any], parameter: Parameter, high: float | None, problems: Problems
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


def _read_scalar(path: str, raw: object, parameter: Parameter, high: float | None, problems: Problems) -> Scalar | None:
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


def _read_word(path: str, raw: object, parameter: Parameter, problems: Problems) -> Scalar | None:
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


def _upper_bound(parameter: Parameter, facts: PublicFacts | None) -> float | None:
    # A parameter counted in records cannot exceed the records that there are.
    if parameter.unit == "records" and facts is not None:
        return facts.n if parameter.high is None else min(parameter.high, facts.n)
    return parameter.high


def _check_bounds(
    path: str, raw: object, bottom: float, top: float, parameter: Parameter, high: float | None, problems: Problems
) -> None:
    if parameter.low is not None and bottom < parameter.low:
        problems.add(path, raw, f"{parameter.name} of at least {parameter.low:g}", _sentence(parameter.doc))
    if high is not None and top > high:
        of_n = " (the number of records, n)" if high != parameter.high else ""
        problems.add(path, raw, f"{parameter.name} of at most {high:g}{of_n}", _sentence(parameter.doc))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."

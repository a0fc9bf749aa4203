"""The `systems` section: each knob read as a fixed value or a domain, then held against the system's parameters.

A knob is refused by its first mistake; the mistakes of all knobs are noted together.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.domains import KINDS, SAME_AS, Domain, Knob, Knobs, SameAs, When, as_number, is_one_of, meant
from sweeps.spec.problems import Problems
from sweeps.util.text import closest, did_you_mean
from trainables import plugins
from trainables.metrics import WITH
from trainables.models.registry import builder_of
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, Hyperparameter, Scalar, System

WHEN = "when"
_WITH = WITH.removesuffix(".")
OPTUNA_NAMES = ("float", "int", "categorical")
"""Other spellings of domains, as Optuna has them: {float: {low, high, log, step}}, {int: {...}}, {categorical: [...]}.
They are translated before anything looks at them."""
_KEYS = ("low", "high", "log", "step")
_DOMAIN_WORDS = {*KINDS, *OPTUNA_NAMES, "points", "step", WHEN, SAME_AS}


def read_systems(raw: object, solve: str | None, facts: DatasetSpec | None, problems: Problems) -> dict[str, Knobs]:
    """Canonical knobs of every system: defaults filled in, numbers typed as the parameter says.

    solve, facts  from the other sections; None when those are themselves wrong, and then not checked against
    """
    if not isinstance(raw, Mapping) or not raw:
        remedy = f"Known systems: {', '.join(sorted(SYSTEMS))}."
        problems.add("systems", raw, "a mapping from system names to knobs", remedy)
        return {}
    reader, out = _Reader(solve, facts, problems), dict[str, Knobs]()
    for name, knobs in sorted(raw.items(), key=lambda item: str(item[0])):
        path = f"systems.{name}"
        with problems.noted():
            system = _system(path, name)
            if knobs is not None and not isinstance(knobs, Mapping):
                raise InvalidValue(path, knobs, "a mapping from knobs to values or domains")
            out[name] = reader.knobs(path, _flat(path, knobs or {}, system), system)
    reader.check_same_as(out)
    return {name: reader.with_conditions(SYSTEMS[name], knobs, alone(out, name)) for name, knobs in out.items()}


def _system(path: str, name: object) -> System:
    if name in SYSTEMS:
        return SYSTEMS[str(name)]
    if isinstance(name, str) and plugins.OBJECT.fullmatch(name):
        try:
            return SYSTEMS[name]
        except InvalidValue as error:
            raise InvalidValue(path, error.value, error.expected, error.remedy) from error
    remedy = plugins.withheld_systems().get(str(name)) or did_you_mean(name, SYSTEMS)
    raise InvalidValue(path, name, "the name of a system", remedy)


# Several knobs as one mapping, each called by its place in the spec: `lora: {rank: 4, alpha: 16}` is lora.rank and
# lora.alpha, `learning_rate: {peak: 1, warmup: 0.1}` is learning_rate and learning_rate.warmup. So are arguments of a
# model of one's own: `with: {width: {choice: [64, 128]}}` is with.width.


def _flat(path: str, knobs: Mapping[Any, object], system: System) -> dict[Any, object]:
    """Every knob by its place. Raises InvalidValue."""
    own, flat = {one.name: one for one in system.hyperparameters}, dict[Any, object]()
    for name, knob in knobs.items():
        inner = own[name].inner if name in own else ""
        places = {one.removeprefix(f"{name}."): one for one in own if one.startswith(f"{name}.")}
        places |= {inner: name} if inner else {}
        written = places.keys() & knob.keys() if isinstance(knob, Mapping) else set()
        if name != _WITH and (name in own or not places) and not written:
            flat[name] = knob
            continue
        if not isinstance(knob, Mapping | None):
            inside = "arguments of the model's builder" if name == _WITH else ", ".join(places)
            raise InvalidValue(f"{path}.{name}", knob, f"a mapping from {inside} to values or domains")
        for key, one in (knob or {}).items():
            if inner and key in _DOMAIN_WORDS:
                expected = f"`{inner}` before its domain, where other keys stand beside it"
                raise InvalidValue(f"{path}.{name}.{key}", one, expected, f"Write {inner}: {{{key}: ...}}.")
            place = places.get(key, f"{name}.{key}")
            if place in flat or (place != name and place in knobs):
                raise InvalidValue(f"{path}.{place}", one, "one value or domain, and it has two")
            flat[place] = one
    return flat


def _of_kind(known: Hyperparameter | None, name: str, builder: str, knob: object) -> Hyperparameter:
    """As the signature declares it; where that says nothing, of the kind of the values that are written."""
    if known is not None and (known.kind != "choice" or known.choices or isinstance(known.default, str)):
        return known
    values = next(iter(knob.values()), None) if isinstance(knob, Mapping) else knob
    listed = values if isinstance(values, list | tuple) else [values]
    if listed and all(isinstance(one, bool) for one in listed):
        return Hyperparameter(name=name, kind="choice", doc=f"argument of {builder}", choices=(False, True))
    numbers = [one for one in listed if as_number(one) is not None]
    kind = (
        "choice" if len(numbers) < len(listed) else "int" if all(isinstance(one, int) for one in numbers) else "float"
    )
    return Hyperparameter(name=name, kind=kind, doc=f"argument of {builder}")  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the knobs of one system after the other.

    solve       from the privacy section; None where that is wrong, and then not checked against
    facts       of the data; None where they are wrong
    declared    {system: its hyperparameters by name}, with the arguments of its models, once they were read
    conditions  {system: {knob: its `when` as it was written}}, likewise
    """

    solve: str | None
    facts: DatasetSpec | None
    problems: Problems
    declared: dict[str, dict[str, Hyperparameter]] = field(default_factory=dict)
    conditions: dict[str, dict[str, object]] = field(default_factory=dict)

    def knobs(self, path: str, written: Mapping[Any, object], system: System) -> Knobs:
        """Those of one system, without conditions; what is wrong with them is noted."""
        raw, conditions = dict(written), self.conditions.setdefault(system.name, {})
        for name, knob in written.items():
            # Beside `same_as` it stays, to be refused.
            if isinstance(knob, Mapping) and WHEN in knob and SAME_AS not in knob:
                raw[name] = {key: value for key, value in knob.items() if key != WHEN}
                if knob[WHEN] is not None:
                    conditions[str(name)] = knob[WHEN]
        parameters = {parameter.name: parameter for parameter in system.hyperparameters}
        parameters |= self._arguments(path, raw, conditions, system)
        self.declared[system.name] = parameters
        solve, solved = self.solve, None
        # A system without anything to solve (a baseline without noise, a published noise formula) runs beside the
        # others.
        if solve not in (None, "none") and system.solves:
            solved = system.solves.get(str(solve))
            if solved is None:
                remedy = f"Set `privacy.solve` to one of: {', '.join([*system.solves, 'none'])}."
                self.problems.add(path, system.name, f"a system that can solve {solve!r}", remedy)
        out: Knobs = {}
        for name, value in raw.items():
            here = f"{path}.{name}"
            with self.problems.noted():
                if name not in parameters:
                    expected = f"a hyperparameter of {system.name}"
                    if str(name).startswith(WITH):
                        expected = f"an argument of a model of one's own that {system.name} trains"
                    raise InvalidValue(here, value, expected, did_you_mean(name, parameters))
                if name == solved:
                    remedy = "Remove it, or choose another `privacy.solve` to search it."
                    raise InvalidValue(here, value, f"no value, since privacy.solve is {solve!r} and sets it", remedy)
                if isinstance(value, Mapping) and SAME_AS in value:
                    out[name] = _read_same_as(here, value, system.name, parameters)
                else:
                    out[name] = _KnobReader(parameters[name], self.facts).read(here, value)
        for name, parameter in parameters.items():
            if name in raw or name == solved or (solve is None and name in system.solves.values()):
                continue
            if parameter.default is None:
                expected = f"a value or a domain ({parameter.doc})"
                self.problems.add(f"{path}.{name}", None, expected, f"Add `{name}:`.")
            elif not name.startswith(WITH):
                out[name] = parameter.default
        return dict(sorted(out.items()))

    def _arguments(
        self, path: str, raw: Mapping[Any, object], conditions: Mapping[str, object], system: System
    ) -> dict[str, Hyperparameter]:
        """What the builders that `model` may name take, by their names; what one of them does not take is noted."""
        given = {str(name): knob for name, knob in raw.items() if str(name).startswith(WITH)}
        model = raw.get("model")
        names = model.get("choice", model.get("categorical", ())) if isinstance(model, Mapping) else [model]
        builders = [one for one in names if isinstance(one, str) and plugins.OBJECT.fullmatch(one)]
        found, needed = dict[str, Hyperparameter](), dict[str, Hyperparameter]()
        if "model" not in {one.name for one in system.hyperparameters}:
            return found
        for builder in builders:
            try:
                known = builder_of(builder)
            except InvalidValue as error:
                self.problems.add(f"{path}.model", error.value, error.expected, error.remedy)
                continue
            needed |= {name: known.parameters[name] for name in known.required - given.keys()}
            for name, knob in given.items():
                if known.takes(name):
                    found[name] = _of_kind(known.parameters.get(name), name, builder, knob)
                elif name not in conditions:
                    remedy = did_you_mean(name.removeprefix(WITH), [one.removeprefix(WITH) for one in known.parameters])
                    if len(builders) > 1:
                        remedy = "Give it a `when: {model: ...}` with the builders that take it."
                    self.problems.add(f"{path}.{name}", knob, f"an argument of {builder}", remedy)
                    found.setdefault(name, _of_kind(None, name, builder, knob))
        return found | needed

    def check_same_as(self, systems: dict[str, Knobs]) -> None:
        """Takes out of `systems` each knob that cannot take the other's value; why is noted."""
        good = {system: dict(knobs) for system, knobs in systems.items()}
        for system, knobs in systems.items():
            for name, same in knobs.items():
                if isinstance(same, SameAs) and not self._may_follow(system, name, same, systems):
                    del good[system][name]
        systems |= good

    def _may_follow(self, system: str, name: str, same: SameAs, systems: Mapping[str, Knobs]) -> bool:
        path, parameter = f"systems.{system}.{name}.{SAME_AS}", self.declared[system][name]
        with self.problems.noted():
            other = _followed(path, (system, name), same, systems)
            if same.knob in self.conditions.get(same.system, {}) and (
                same.system != system or parameter.default is None
            ):
                lacking = "" if same.system != system else f", since {name} has no default"
                expected = f"a knob that is always there{lacking}"
                raise InvalidValue(path, str(same.to_dict()[SAME_AS]), expected, f"{same.knob} has a `when`.")
            if other is not None:
                values = other.to_dict() if isinstance(other, Domain) else other
                _KnobReader(parameter, self.facts).read(path, values)
                return True
        return False

    # Knobs that are there only where others have certain values: `hidden: {choice: [32, 64], when: {model: mlp}}`.
    #
    # All that a `when` names has to hold, and a knob that is not there itself holds nothing: conditions form chains.
    # Where a knob is not there, its system uses the declared default, so one without a default is always there.

    def with_conditions(self, system: System, knobs: Knobs, resolved: Knobs) -> Knobs:
        """`knobs` with the conditions that stand beside them; one that is wrong is noted, and left out.

        resolved  the knobs with the values of those of other systems (`alone`)
        """
        path, own = f"systems.{system.name}", dict(knobs)
        needed = {one.name for one in system.hyperparameters if one.default is None}
        for name, raw in self.conditions[system.name].items():
            domain, here = own.get(name), f"{path}.{name}.{WHEN}"
            if not isinstance(domain, Domain):
                continue
            with self.problems.noted():
                if name in needed:
                    expected = f"no `{WHEN}`: {name} has no default that {system.name} could use where it is not there"
                    raise InvalidValue(here, raw, expected, "Leave it out.")
                if not isinstance(raw, Mapping) or not raw:
                    raise InvalidValue(here, raw, "a mapping from other knobs to values", "For example {model: mlp}.")
                own[name] = replace(domain, when=_read_when(here, raw, resolved, system, self.problems))
        searched = {name: knob for name, knob in own.items() if isinstance(knob, Domain)}
        try:
            TopologicalSorter({name: [one for one, _ in domain.when] for name, domain in searched.items()}).prepare()
        except CycleError as error:
            circle = error.args[1]
            expected = "conditions that do not go in a circle"
            self.problems.add(f"{path}.{min(circle)}.{WHEN}", " -> ".join(circle), expected)
            return own | {name: replace(domain, when=()) for name, domain in searched.items()}
        for name, domain in searched.items():
            for other, values in needs(name, searched).items():
                if not values:
                    expected = f"conditions that can hold together: those of {name} leave {other} no value"
                    self.problems.add(f"{path}.{name}.{WHEN}", domain.condition, expected)
        return own


@dataclass(frozen=True, slots=True)
class _KnobReader:
    """Reads what is written of a hyperparameter, a fixed value or a domain. Every method raises InvalidValue.

    facts  of the data; None where they are wrong
    """

    parameter: Hyperparameter
    facts: DatasetSpec | None

    def read(self, path: str, raw: object) -> Scalar | Domain:
        """The canonical value, or the domain."""
        if not isinstance(raw, Mapping):
            return self._scalar(path, raw)
        raw, known = _translated(path, raw), (*KINDS, *OPTUNA_NAMES)
        for key in raw:
            if key not in (*KINDS, "points", "step"):
                raise InvalidValue(f"{path}.{key}", raw[key], "a domain: " + ", ".join(known), closest(key, known))
        domains = [key for key in raw if key in KINDS]
        if len(domains) != 1:
            raise InvalidValue(path, dict(raw), "exactly one domain of " + ", ".join(KINDS))
        (kind,) = domains
        return self._choice(path, raw) if kind == "choice" else self._range(path, kind, raw)

    def _check_bounds(self, path: str, written: object, bottom: float, top: float) -> None:
        one, high, of_n = self.parameter, self.parameter.high, ""
        # A parameter counted in records cannot exceed the records that there are.
        if one.unit == "records" and self.facts is not None and (high is None or self.facts.n < high):
            high, of_n = self.facts.n, " (the number of records, n)"
        doc = f"{one.doc[:1].upper()}{one.doc[1:]}."
        if one.low is not None and bottom < one.low:
            raise InvalidValue(path, written, f"{one.name} of at least {one.low:g}", doc)
        if high is not None and top > high:
            raise InvalidValue(path, written, f"{one.name} of at most {high:g}{of_n}", doc)

    def _scalar(self, path: str, written: object) -> Scalar:
        whole = self.parameter.kind == "int"
        if self.parameter.kind == "choice":
            return self._word(path, written)
        number, word = as_number(written), self.parameter.word
        if word and written == word:
            return word
        if number is None or not math.isfinite(number):
            remedy = "Lists are written {choice: [...]}." if isinstance(written, list | tuple) else ""
            expected = f"{'a whole' if whole else 'a finite'} number{f', {word}' if word else ''} or a domain"
            raise InvalidValue(path, written, expected, remedy or (closest(written, [word]) if word else ""))
        if whole and not number.is_integer():
            raise InvalidValue(path, written, "a whole number")
        self._check_bounds(path, written, number, number)
        return int(number) if whole else number

    def _word(self, path: str, raw: object) -> Scalar:
        one = self.parameter
        if one.listed and isinstance(raw, list) and raw and all(isinstance(part, str) and part for part in raw):
            return ",".join(raw)
        if not one.choices:
            if isinstance(raw, str) and (raw or raw == one.default):
                return raw
            raise InvalidValue(path, raw, f"a text ({one.doc})", "Quote it." if raw is not None else "")
        value = meant(Domain(kind="choice", values=tuple(one.choices)), raw)
        if value is None:
            known = [str(choice) for choice in one.choices]
            raise InvalidValue(path, raw, "one of " + ", ".join(known), closest(raw, known))
        return value

    def _choice(self, path: str, raw: Mapping[Any, Any]) -> Domain:
        here, values = f"{path}.choice", raw["choice"]
        for key in ("points", "step"):
            if key in raw:
                expected = f"no `{key}` beside `choice`"
                raise InvalidValue(f"{path}.{key}", raw[key], expected, "A choice is its own grid.")
        if not isinstance(values, list | tuple) or not values:
            raise InvalidValue(here, values, "a list of at least one value")
        read = tuple(self._scalar(f"{here}.{i}", value) for i, value in enumerate(values))
        if len(set(read)) < len(read):
            raise InvalidValue(here, list(values), "each value once", "A repeated value would be drawn more often.")
        return Domain(kind="choice", values=read)

    def _range(self, path: str, kind: str, raw: Mapping[Any, Any]) -> Domain:
        here, ends = f"{path}.{kind}", raw[kind]
        ends = list(ends) if isinstance(ends, list | tuple) else ends
        low, high = map(as_number, ends) if isinstance(ends, list) and len(ends) == 2 else (None, None)
        if low is None or high is None or not -math.inf < low <= high < math.inf:
            swapped = low is not None and high is not None and low > high
            remedy = f"Swap them: [{ends[1]}, {ends[0]}]." if swapped else ""
            raise InvalidValue(here, ends, "two finite numbers, [low, high], the lower one first", remedy)
        if "log" in kind and low <= 0:
            expected = "low above 0, since the range is logarithmic"
            raise InvalidValue(here, ends, expected, "Raise low, or drop `log_`.")
        if kind.startswith("int") and not (low.is_integer() and high.is_integer()):
            raise InvalidValue(here, ends, "whole numbers")
        if self.parameter.kind == "choice":
            raise InvalidValue(here, ends, f"`choice`, since {self.parameter.name} is no number")
        if self.parameter.kind == "int" and not kind.startswith("int"):
            raise InvalidValue(here, ends, "an integer domain", f"Use `int_{kind}`, or `choice`.")
        self._check_bounds(here, ends, low, high)
        points = raw.get("points")
        if points is not None and (isinstance(points, bool) or not isinstance(points, int) or points < 1):
            raise InvalidValue(f"{path}.points", points, "a whole number of at least 1")
        step = None if raw.get("step") is None else _read_step(f"{path}.step", kind, raw, low, high)
        return Domain(kind=kind, low=low, high=high, points=points, step=step)  # type: ignore[arg-type]


def _read_step(path: str, kind: str, raw: Mapping[Any, Any], low: float, high: float) -> float:
    """The distance of two values of a range, of which whole ones fit into it."""
    written, whole = raw["step"], kind.startswith("int")
    step = as_number(written)
    if "log" in kind or raw.get("points") is not None:
        raise InvalidValue(path, written, "no `step` in a logarithmic range, or beside `points`", "Drop it.")
    if step is None or not math.isfinite(step) or step <= 0 or (whole and not step.is_integer()):
        raise InvalidValue(path, written, f"a {'whole' if whole else 'finite'} number above 0")
    if (Decimal(str(high)) - Decimal(str(low))) % Decimal(str(step)) != 0:
        raise InvalidValue(path, written, f"whole steps from {low:g} to {high:g}", "Change an end, or the step.")
    return step


def _translated(path: str, raw: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """`raw` with a domain of Optuna's in the words of a spec; as it is without one."""
    name, *more = [one for one in (*OPTUNA_NAMES, *KINDS) if one in raw] or [""]
    if more:
        raise InvalidValue(path, dict(raw), "exactly one domain of " + ", ".join((*KINDS, *OPTUNA_NAMES)))
    if name not in OPTUNA_NAMES:
        return raw
    others, inside = {key: value for key, value in raw.items() if key != name}, raw[name]
    if name == "categorical":
        return {"choice": inside, **others}
    log = inside.get("log", False) if isinstance(inside, Mapping) else None
    if log is None or not {"low", "high"} <= inside.keys() <= {*_KEYS} or not isinstance(log, bool) or "step" in others:
        expected = "{low: A, high: B}, and log: true or step: C among these keys where it is meant"
        raise InvalidValue(f"{path}.{name}", inside, expected)
    step = inside.get("step")
    # Optuna writes the step of 1 of an int too, where it is the only one that may be.
    stepped = step is not None and not (name == "int" and step == 1 and not isinstance(step, bool))
    kind = ("int_" if name == "int" else "") + ("log_" if log else "") + "uniform"
    return {kind: [inside["low"], inside["high"]], **({"step": step} if stepped else {}), **others}


# Knobs that take the value of another one (`sweeps.spec.domains.SameAs`).


def _read_same_as(path: str, raw: Mapping[str, object], system: str, own: Collection[str]) -> SameAs:
    for key in raw:
        if key != SAME_AS:
            expected = f"no `{key}` beside `{SAME_AS}`, which takes all from the other knob"
            raise InvalidValue(f"{path}.{key}", raw[key], expected, "Drop one of the two.")
    named = raw[SAME_AS]
    if not isinstance(named, str) or not named.rpartition(".")[2]:
        raise InvalidValue(f"{path}.{SAME_AS}", named, "KNOB of this system, or SYSTEM.KNOB")
    same = SameAs.from_dict(raw)
    return same if same.system and named not in own else SameAs(system, named)


def _followed(path: str, own: tuple[str, str], same: SameAs, systems: Mapping[str, Knobs]) -> Scalar | Domain | None:
    """What the other knob is; None where it is wrong by itself. Raises InvalidValue where it can't be followed."""
    places = {(system, name): knob for system, knobs in systems.items() for name, knob in knobs.items()}
    known = {place: knob for place, knob in places.items() if place != own and not isinstance(knob, SameAs)}
    place = same.system, same.knob
    if place not in known and (place in places or not _is_wrong(same.knob, same.system, systems)):
        written, followed = same.to_dict()[SAME_AS], places.get(place)
        expected = "another knob of the sweep, with values of its own before a trial is planned"
        remedy = did_you_mean(written, [".".join(one) for one in known])
        if isinstance(followed, SameAs) and (followed.system, followed.knob) in known:
            remedy = f"Write {SAME_AS}: {followed.to_dict()[SAME_AS]}, which it follows."
        raise InvalidValue(path, written, expected, remedy)
    return known.get(place)


def _is_wrong(name: str, system: str, systems: Collection[str]) -> bool:
    """Whether a knob that is not there should be: then it is wrong by itself, and that was said."""
    own = SYSTEMS[system] if system in systems else None
    return own is not None and name in {one.name for one in own.hyperparameters} - {*own.solves.values()}


def renamed(knobs: Any, old: str, new: str) -> Any:
    """The knobs of a system as they are written, those that follow one of system `old` following it as `new`."""
    if not isinstance(knobs, Mapping):
        return knobs
    if isinstance(knobs.get(SAME_AS), str):
        same = SameAs.from_dict(knobs)
        return {**knobs, **SameAs(new, same.knob).to_dict()} if same.system == old else knobs
    return {name: renamed(knob, old, new) for name, knob in knobs.items()}


def alone(systems: Mapping[str, Mapping[str, Knob]], system: str) -> Knobs:
    """The knobs of one system: one that takes the value of another system's has the other's values."""
    return {
        name: systems[knob.system][knob.knob] if isinstance(knob, SameAs) and knob.system != system else knob
        for name, knob in systems[system].items()
    }


def spelled_out(systems: Mapping[str, Mapping[str, Knob]], system: str) -> dict[str, Scalar | Domain]:
    """The knobs of one system, each with all the values that it may take."""
    out: dict[str, Scalar | Domain] = {}
    for name, knob in systems[system].items():
        own = systems[knob.system][knob.knob] if isinstance(knob, SameAs) else knob
        assert not isinstance(own, SameAs)
        out[name] = own
    return out


def _read_when(path: str, raw: Mapping[object, object], knobs: Knobs, system: System, problems: Problems) -> When:
    found: dict[str, tuple[Scalar, ...]] = {}
    for key, written in raw.items():
        other, here = str(key), f"{path}.{key}"
        knob = knobs.get(other)
        with problems.noted():
            if knob is None and _is_wrong(other, system.name, (system.name,)):
                continue
            if knob is None or isinstance(knob, SameAs) or (isinstance(knob, Domain) and not knob.separate):
                expected = f"a knob of {system.name} with values of its own that can be told apart before it is planned"
                remedy = did_you_mean(other, knobs) if knob is None else f"{other} is {knob}: give it steps or choices."
                raise InvalidValue(here, written, expected, remedy)
            several = written if isinstance(written, list | tuple) else [written]
            values = [value for one in several if (value := meant(knob, one)) is not None]
            twice = any(is_one_of(one, values[:i]) for i, one in enumerate(values))
            if not values or len(values) < len(several) or twice:
                takes = str(knob) if isinstance(knob, Domain) else f"{knob!r} alone"
                raise InvalidValue(here, written, f"values that {other} takes in this sweep, each once: {takes}")
            found[other] = tuple(values)
    return tuple(sorted(found.items()))


def needs(name: str, searched: Mapping[str, Domain]) -> dict[str, tuple[Scalar, ...]]:
    """What other knobs have to be for `name` to be there, those included on which they depend in turn."""
    found: dict[str, tuple[Scalar, ...]] = {}
    for other, values in searched[name].when:
        own = {other: values, **(needs(other, searched) if other in searched else {})}
        for knob, allowed in own.items():
            found[knob] = tuple(one for one in found.get(knob, allowed) if is_one_of(one, allowed))
    return found

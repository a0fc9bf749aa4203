"""The JSON schema of a spec, for editors: every knob of every system, every option of every data source.

It refuses nothing that `load_spec` takes, but for numbers and truth values that are written as texts. It cannot refuse
all that `load_spec` does, which holds sections against each other: an editor's green light is no `sweeps check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.search import samplers
from sweeps.spec.domains import KINDS, SAME_AS
from sweeps.spec.hyperparameters import OPTUNA_NAMES, WHEN
from sweeps.spec.sections import FUNCTION, SweepSpec
from trainables.data import SOURCES
from trainables.data.derived import Derived
from trainables.data.options import Option
from trainables.data.source import FEATURE_OPTIONS, DataSource
from trainables.metrics import WITH
from trainables.registry import SYSTEMS
from trainables.system import Hyperparameter, System

JsonSchema = dict[str, Any]
_SCALAR: JsonSchema = {"type": ["string", "number", "boolean"]}
_CONDITIONS: JsonSchema = {
    "description": "there only where other knobs of the system have one of these values",
    "type": ["object", "null"],
    "minProperties": 1,
    "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]},
}


def knob(parameter: Hyperparameter) -> JsonSchema:
    """A fixed value of a hyperparameter, or a domain to search."""
    outer: JsonSchema = {"description": parameter.doc}
    if parameter.default is not None:
        outer["default"] = parameter.default
    value = _value(parameter)
    values: JsonSchema = {"type": "array", "items": value, "minItems": 1}
    forms = [value, _object({SAME_AS: {"type": "string", "minLength": 1}}, [SAME_AS])]
    forms += [_object({kind: values, WHEN: _CONDITIONS}, [kind]) for kind in ("choice", "categorical")]
    if parameter.kind != "choice":
        kinds = [*KINDS[:-1], *OPTUNA_NAMES[:-1]]
        forms += [_range(kind, value) for kind in kinds if parameter.kind == "float" or kind.startswith("int")]
    return outer | {"anyOf": forms}


def _value(parameter: Hyperparameter) -> JsonSchema:
    if parameter.kind == "choice":
        least = 0 if parameter.default == "" else 1
        text: JsonSchema = {"type": "string", "minLength": least}
        value = {"enum": list(parameter.choices)} if parameter.choices else text
        return {"anyOf": [value, {"type": "array", "items": text, "minItems": 1}]} if parameter.listed else value
    number: JsonSchema = {"type": "integer" if parameter.kind == "int" else "number"}
    if parameter.low is not None:
        number["minimum"] = parameter.low
    if parameter.high is not None:
        number["maximum"] = parameter.high
    return {"anyOf": [number, {"const": parameter.word}]} if parameter.word else number


def _range(kind: str, value: JsonSchema) -> JsonSchema:
    points: JsonSchema = {"type": ["integer", "null"], "minimum": 1}
    step: JsonSchema = {"type": ["number", "null"], "exclusiveMinimum": 0}
    ends: JsonSchema = {"type": "array", "items": value, "minItems": 2, "maxItems": 2}
    if kind in OPTUNA_NAMES:
        ends = _object({"low": value, "high": value, "log": {"type": "boolean"}, "step": step}, ["low", "high"])
    return _object({kind: ends, "points": points, "step": step, WHEN: _CONDITIONS}, [kind])


def _object(properties: Mapping[str, JsonSchema], required: list[str]) -> JsonSchema:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def spec_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a spec over everything that is installed."""
    schema: JsonSchema = SweepSpec.model_json_schema(mode="validation")
    parts, sections = schema["$defs"], schema["properties"]
    sampler = parts["Search"]["properties"]["sampler"]
    del sampler["type"]
    sampler["anyOf"] = [{"enum": samplers.known()}, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]
    reference = parts["FrontOptions"]["properties"]["reference"]
    reference["additionalProperties"] = {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/Reference"}]}
    sections["systems"] = {
        "description": "Each system with its knobs: fixed values, or domains to search.",
        "type": "object",
        "minProperties": 1,
        "properties": {name: _system(system) for name, system in SYSTEMS.items()},
        # Of a system of the user's own, only its module knows the knobs; whether it may run is not an editor's to say.
        "patternProperties": {f"^{FUNCTION.pattern}$": {"type": ["object", "null"]}},
        "additionalProperties": False,
    }
    _add_sources(parts["Data"])
    for name, field in SweepSpec.model_fields.items():
        if not field.is_required() and {"type": "null"} not in sections[name].get("anyOf", ()):
            sections[name] = {"anyOf": [sections[name], {"type": "null"}]}
    schema["patternProperties"] = {"^x-": {}}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "sweep spec"
    return schema


def _system(system: System) -> JsonSchema:
    # What a calibration may solve for is given only where it does not.
    needed = [
        one.name for one in system.hyperparameters if one.default is None and one.name not in system.solves.values()
    ]
    knobs = {one.name: knob(one) for one in system.hyperparameters}
    for first in dict.fromkeys(one.name.partition(".")[0] for one in system.hyperparameters if "." in one.name):
        # Several as one mapping: `learning_rate: {peak: 0.1, warmup: 0.1}`.
        inner = {one.inner if one.name == first else one.name.removeprefix(f"{first}."): knob(one)
                 for one in system.hyperparameters if one.name.partition(".")[0] == first}  # fmt: skip
        alone: JsonSchema = knobs.get(first, {"type": "null"})
        knobs[first] = {"anyOf": [alone, _object(inner, [])]}
    # What a builder of the user's own takes, only its module knows.
    builder: JsonSchema = {"patternProperties": {f"^{WITH}": {}}} if "model" in knobs else {}
    if builder:
        knobs["with"] = {"description": "arguments of a model of one's own", "type": ["object", "null"]}
    return {
        "description": system.source,
        "type": "object" if needed else ["object", "null"],
        "properties": knobs,
        "required": needed,
        "additionalProperties": False,
    } | builder


def _add_sources(data: JsonSchema) -> None:
    """The options that each source has, as conditions on its name."""
    data["properties"] |= _known(FEATURE_OPTIONS)
    common = list(data["properties"])
    packaged = [{"const": name, "description": source.doc} for name, source in SOURCES.items()]
    # Of a source of the user's own, only its module knows the options.
    data["properties"]["source"] = {"oneOf": [*packaged, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]}
    data["allOf"] = [{"if": _named("source", name), "then": _options(one, common)} for name, one in SOURCES.items()]


def _named(key: str, name: str) -> JsonSchema:
    return {"properties": {key: {"const": name}}, "required": [key]}


def _options(source: DataSource, common: list[str]) -> JsonSchema:
    """What may stand beside `source: NAME`; of a source over another one, that one's options too."""
    known = _known(source.options)
    names = [*common, *known]
    if not isinstance(source, Derived):
        return {"properties": known, "propertyNames": {"enum": names}}
    # Of options of the source that it is over their names alone: what they take depends on it.
    known["of"] = {"description": known["of"]["description"], "enum": list(source.sources)}
    names += [one.name for other in source.sources.values() for one in other.options]
    return {"properties": known, "required": ["of"], "propertyNames": {"enum": list(dict.fromkeys(names))}}


def _known(options: Iterable[Option]) -> dict[str, JsonSchema]:
    return {
        one.name: {"description": one.doc, **({} if one.default is None else {"default": one.default}), **one.schema}
        for one in options
    }

"""The JSON schema of a spec, for editors: every knob of every system, every option of every data source.

It refuses nothing that `load_spec` takes. It cannot refuse all that `load_spec` does, which holds sections against each
other: an editor's green light is no `sweeps check`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.search import registry
from sweeps.spec import json_values
from sweeps.spec.json_values import JsonSchema
from sweeps.spec.model import FUNCTION, SweepSpec
from trainables.data.derived import Derived
from trainables.data.source import FEATURE_OPTIONS, DataSource
from trainables.system import System


def spec_schema(
    systems: Mapping[str, System] | None = None, sources: Mapping[str, DataSource] | None = None
) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a spec.

    systems, sources  registries that it knows; the installed ones by default
    """
    from trainables.data import SOURCES
    from trainables.registry import SYSTEMS

    schema: JsonSchema = json_values.widened(SweepSpec.model_json_schema(mode="validation"))
    parts, sections = schema["$defs"], schema["properties"]
    parts |= json_values.SHARED
    sampler = parts["Search"]["properties"]["sampler"]
    del sampler["type"]
    sampler["anyOf"] = [{"enum": registry.nameable()}, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]
    reference = parts["FrontOptions"]["properties"]["reference"]
    reference["additionalProperties"] = {"anyOf": [{"type": "number"}, json_values.NUMERIC_TEXT, _of("Reference")]}
    sections["systems"] = _systems(systems or SYSTEMS)
    _add_sources(parts["Data"], sources or SOURCES)
    for name, field in SweepSpec.model_fields.items():
        if not field.is_required() and {"type": "null"} not in sections[name].get("anyOf", ()):
            sections[name] = {"anyOf": [sections[name], {"type": "null"}]}
    schema["patternProperties"] = {"^x-": {}}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "sweep spec"
    return schema


def _of(part: str) -> JsonSchema:
    return {"$ref": f"#/$defs/{part}"}


def _systems(systems: Mapping[str, System]) -> JsonSchema:
    return {
        "description": "Each system with its knobs: fixed values, or domains to search.",
        "type": "object",
        "minProperties": 1,
        "properties": {name: _system(system) for name, system in systems.items()},
        # Of a system of the user's own, only its module knows the knobs; whether it may run is not an editor's to say.
        "patternProperties": {f"^{FUNCTION.pattern}$": {"type": ["object", "null"]}},
        "additionalProperties": False,
    }


def _system(system: System) -> JsonSchema:
    # What a calibration may solve for is given only where it does not.
    needed = [one.name for one in system.parameters if one.default is None and one.name not in system.solves.values()]
    return {
        "description": system.source,
        "type": "object" if needed else ["object", "null"],
        "properties": {one.name: json_values.knob(one) for one in system.parameters},
        "required": needed,
        "additionalProperties": False,
    }


def _add_sources(data: JsonSchema, sources: Mapping[str, DataSource]) -> None:
    """The options that each source has, as conditions on its name."""
    data["properties"] |= {one.name: _option(one.doc, one.default, one.schema) for one in FEATURE_OPTIONS}
    common = dict(data["properties"])
    packaged = [{"const": name, "description": source.doc} for name, source in sources.items()]
    # Of a source of the user's own, only its module knows the options.
    data["properties"]["source"] = {"oneOf": [*packaged, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]}
    data["allOf"] = [
        {"if": _named("source", name), "then": _options(source, list(common))} for name, source in sources.items()
    ]


def _named(key: str, name: str) -> JsonSchema:
    return {"properties": {key: {"const": name}}, "required": [key]}


def _options(source: DataSource, common: list[str]) -> JsonSchema:
    """What may stand beside `source: NAME`; of a source over another one, that one's options too."""
    known = {one.name: _option(one.doc, one.default, one.schema) for one in source.options}
    names = [*common, *known]
    if not isinstance(source, Derived):
        return {"properties": known, "propertyNames": {"enum": names}}
    known["of"] = {"description": known["of"]["description"], "enum": list(source.sources)}
    inner = []
    for name, other in source.sources.items():
        others = {one.name: _option(one.doc, one.default, one.schema) for one in other.options if one.name not in known}
        then = {"properties": others, "propertyNames": {"enum": [*names, *others]}}
        inner.append({"if": _named("of", name), "then": then})
    return {"properties": known, "required": ["of"], "allOf": inner}


def _option(doc: str, default: object, schema: Mapping[str, object]) -> JsonSchema:
    return {"description": doc, **({} if default is None else {"default": default}), **schema}

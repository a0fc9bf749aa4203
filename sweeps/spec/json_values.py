"""JSON schemas of single values, as wide as what a spec is read by: a number may be written as a text, for example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.spec.conditions import WHEN
from sweeps.spec.domains import KINDS
from sweeps.spec.optuna_names import NAMES
from sweeps.spec.same_as import SAME_AS
from trainables.system import Parameter

JsonSchema = dict[str, Any]

SHARED: dict[str, JsonSchema] = {
    "NumericText": {
        "description": "a number as a text: YAML 1.1 tools write 1e-5 so",
        "type": "string",
        "pattern": r"^\s*[+-]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][+-]?\d[\d_]*)?\s*$",
    }
}
"""What the schemas below refer to, for the `$defs` of the whole."""
NUMERIC_TEXT: JsonSchema = {"$ref": "#/$defs/NumericText"}
_TRUTH_WORDS = ("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes")
_TRUTH_TEXT = "^(" + "|".join("".join(f"[{c}{c.upper()}]" for c in word) for word in _TRUTH_WORDS) + ")$"
_TRUTH = [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": _TRUTH_TEXT}]
_SCALAR: JsonSchema = {"type": ["string", "number", "boolean"]}
_CONDITIONS: JsonSchema = {
    "description": "there only where other knobs of the system have one of these values",
    "type": ["object", "null"],
    "minProperties": 1,
    "additionalProperties": {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}]},
}
_OUTER = ("title", "description", "default")


def widened(schema: Any) -> Any:
    """A pydantic schema, taking the other spellings that pydantic reads: numbers and truth values as texts."""
    if isinstance(schema, list):
        return [widened(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") not in ("number", "integer", "boolean"):
        return {
            name: {key: widened(one) for key, one in inner.items()}
            if name in ("properties", "$defs")
            else widened(inner)
            for name, inner in schema.items()
        }
    outer = {name: value for name, value in schema.items() if name in _OUTER}
    if schema["type"] == "boolean":
        return outer | {"anyOf": _TRUTH}
    return outer | {"anyOf": [{k: v for k, v in schema.items() if k not in _OUTER}, NUMERIC_TEXT]}


def knob(parameter: Parameter) -> JsonSchema:
    """A fixed value of a hyperparameter, or a domain to search."""
    outer: JsonSchema = {"description": parameter.doc}
    if parameter.default is not None:
        outer["default"] = parameter.default
    value = _value(parameter)
    values: JsonSchema = {"type": "array", "items": value, "minItems": 1}
    forms = [value, _object({SAME_AS: {"type": "string", "minLength": 1}}, [SAME_AS])]
    forms += [_object({kind: values, WHEN: _CONDITIONS}, [kind]) for kind in ("choice", "categorical")]
    if parameter.kind != "choice":
        kinds = [*KINDS[:-1], *NAMES[:-1]]
        forms += [_range(kind, value) for kind in kinds if parameter.kind == "float" or kind.startswith("int")]
    return outer | {"anyOf": forms}


def _value(parameter: Parameter) -> JsonSchema:
    if parameter.kind == "choice":
        return {"enum": list(parameter.choices)} if parameter.choices else {"type": "string", "minLength": 1}
    number: JsonSchema = {"type": "integer" if parameter.kind == "int" else "number"}
    if parameter.low is not None:
        number["minimum"] = parameter.low
    if parameter.high is not None:
        number["maximum"] = parameter.high
    return {"anyOf": [number, NUMERIC_TEXT]}


def _range(kind: str, value: JsonSchema) -> JsonSchema:
    points: JsonSchema = {"type": ["integer", "null"], "minimum": 1}
    step: JsonSchema = {"anyOf": [{"type": ["number", "null"], "exclusiveMinimum": 0}, NUMERIC_TEXT]}
    ends: JsonSchema = {"type": "array", "items": value, "minItems": 2, "maxItems": 2}
    if kind in NAMES:
        ends = _object({"low": value, "high": value, "log": {"type": "boolean"}, "step": step}, ["low", "high"])
    return _object({kind: ends, "points": points, "step": step, WHEN: _CONDITIONS}, [kind])


def _object(properties: Mapping[str, JsonSchema], required: list[str]) -> JsonSchema:
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}

"""JSON schemas of those options of a table that have a structure of their own, for an editor to complete by."""

from __future__ import annotations

_WHOLE = {"type": "integer", "minimum": 1}
_SHAPE = {"type": "array", "items": _WHOLE}
_FORMS: tuple[tuple[dict[str, object], list[str]], ...] = (
    ({"low": {"type": "number"}, "high": {"type": "number"}, "shape": _SHAPE}, ["low", "high"]),
    ({"categories": {"type": "array", "minItems": 1}, "shape": _SHAPE}, ["categories"]),
    ({"codes": _WHOLE, "shape": _SHAPE}, ["codes"]),
)
COLUMNS: dict[str, object] = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "anyOf": [
            {"type": "object", "properties": known, "required": needed, "additionalProperties": False}
            for known, needed in _FORMS
        ]
    },
}
"""JSON schema of `data.columns`."""
VALIDATION: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {
        "path": {"type": "string"},
        "n": _WHOLE,
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "id": {},
        "key": {},
        "records": {"enum": ["public", "private"]},
        "budget_share": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
        "bins": {"enum": ["loss", "score"]},
        "disjoint": {"type": "boolean"},
    },
    "required": ["records"],
    "additionalProperties": False,
}
"""JSON schema of `data.validation`."""
WEIGHT: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {"column": {"type": "string", "minLength": 1}, "high": {"type": "number", "exclusiveMinimum": 0}},
    "required": ["column", "high"],
    "additionalProperties": False,
}
"""JSON schema of `data.weight`."""
GROUPS: dict[str, object] = {
    "type": ["object", "null"],
    "properties": {"column": {"type": "string", "minLength": 1}, "categories": {"type": "array", "minItems": 2}},
    "required": ["column", "categories"],
    "additionalProperties": False,
}
"""JSON schema of `data.groups`."""

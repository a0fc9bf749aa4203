"""Options of data sources: one pydantic model a source, from which reading, errors, help and JSON schema follow.

    class MineOptions(InFolder, Limit):
        form: Literal["long", "wide"] = Field("long", description="which of the two files is read", examples=["wide"])

Everything that is wrong is said at once, each error with its path, value, expectation and remedy (`InvalidOptions`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from dpcore.checks import InvalidValue


def whole(value: object) -> object:
    """A whole number as one, however it is written: 1e3 is 1000. Anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, Field(strict=True, ge=1), BeforeValidator(whole)]
"""A count."""
Seed = Annotated[int, Field(strict=True, ge=0)]
"""Of a public draw."""
Share = Annotated[float, Field(strict=True, gt=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
Word = Annotated[str, Field(min_length=1, coerce_numbers_to_str=True)]
"""The name of a column, or a public key: a number is taken as it is written."""


def bounds(value: object) -> tuple[float, float]:
    """[low, high] as declared. Raises InvalidValue."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        low, high = value
        numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in value)
        # Their distance too: what is scaled by it would be 0 for every record.
        if numbers and math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low):
            return float(low), float(high)
    expected = "two finite numbers, low < high, at a finite distance, chosen without looking at the records"
    raise InvalidValue("", value, expected)


Bounds = Annotated[tuple[float, float], BeforeValidator(bounds)]


class Options(BaseModel):
    """The options of a source; those of a source without any."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InFolder(Options):
    """Of a source with files."""

    path: str | None = Field(None, description="the folder with its files; --data DIR sets it", examples=["data"])


class Limit(Options):
    """Of a source of which a part may be used."""

    limit: Whole | None = Field(
        None, description="how many training records are used, the first ones; of them comes a part", examples=[1000]
    )

    def used(self, n: int) -> int:
        """How many of n training records are used: a public choice."""
        return n if self.limit is None else min(self.limit, n)


class FeatureOptions(Options):
    """Of every source: the public map that its records are seen through (`trainables.features`)."""

    features: Text | None = Field(
        None,
        description="a public map that records are seen through: a name, module:function, or a file of torch.export",
        examples=["scattering"],
    )
    features_from: str | None = Field(
        None,
        description="on whose records a map of one's own was fitted, and why none of them is private here",
        examples=["trained on ImageNet by its authors, which holds no record of these"],
        min_length=10,
        max_length=500,
    )
    features_bounds: Bounds | None = Field(
        None, description="[low, high] that what a map of one's own says is cut to", examples=[[-10, 10]]
    )
    features_groups: Whole | None = Field(
        None,
        description="in how many groups channels are normalised, each record by itself; none unless given",
        examples=[27],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a source, as `sweeps datasets NAME` and the JSON schema of a spec list it.

    doc      what it says, as the rest of a sentence
    default  what it is where a spec leaves it out; None where it then says nothing, or has to be given
    example  a value of it, as YAML or JSON has it; None where there is none
    schema   JSON schema of its values, which refuses nothing that the source takes; {} says nothing of them
    """

    name: str
    doc: str
    default: object = None
    example: object = None
    schema: Mapping[str, object] = field(default_factory=dict)


@lru_cache
def listed(model: type[Options]) -> tuple[Option, ...]:
    """Every option of a model, in order."""
    written = model.model_json_schema()
    found = []
    for name, one in model.model_fields.items():
        schema = _inlined(written["properties"][name], written.get("$defs", {}))
        choices = f": {', '.join(map(str, schema['enum']))}" if "enum" in schema else ""
        found.append(
            Option(
                name=name,
                doc=f"{one.description or ''}{choices}",
                default=None if one.is_required() else one.default,
                example=(one.examples or [None])[0],
                schema={key: each for key, each in schema.items() if key not in ("description", "default", "examples")},
            )
        )
    return tuple(found)


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema that refers to nothing, without the titles that pydantic makes of names."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        definition = _inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions)
        return definition | {key: one for key, one in schema.items() if key != "$ref"}
    return {
        key: _inlined(one, definitions) for key, one in schema.items() if key != "title" or not isinstance(one, str)
    }


class InvalidOptions(InvalidValue):
    """Everything that is wrong with the options of a source; by itself it says the first of it."""

    def __init__(self, errors: Iterable[InvalidValue]) -> None:
        self.errors = tuple(errors)
        first = self.errors[0]
        super().__init__(first.name, first.value, first.expected, first.remedy)


Read = TypeVar("Read", bound=Options)


def read(model: type[Read], source: str, given: Mapping[str, object]) -> Read:
    """What a spec says to `source`. Raises InvalidOptions."""
    try:
        return model.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidOptions(_said(model, source, one) for one in error.errors(include_url=False)) from None


def apart(model: type[Options], options: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Those that a model has, and the others."""
    known = model.model_fields
    own = {name: value for name, value in options.items() if name in known}
    return own, {name: value for name, value in options.items() if name not in known}


EXPECTED = {
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "float_type": "a number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters",
    "list_type": "a list",
    "tuple_type": "a list",
    "too_short": "at least {min_length} entries",
}
"""What was expected, by pydantic's type of an error."""


def _said(model: type[Options], source: str, error: ErrorDetails) -> InvalidValue:
    """One of pydantic's errors in our words."""
    path = ".".join(["data", *map(str, error["loc"])])
    value, kind, context = error["input"], error["type"], error.get("ctx", {})
    option = model.model_fields.get(str(error["loc"][0])) if error["loc"] else None
    description, inner = _innermost(model, error["loc"])
    remedy = f"It says {description}." if description else ""
    match kind:
        case "value_error" if isinstance(own := context["error"], InvalidValue):
            return InvalidValue(
                f"{path}.{own.name}" if own.name else path, own.value, own.expected, own.remedy or remedy
            )
        case "extra_forbidden" if option is None:
            return _unknown(source, str(error["loc"][0]), value, model.model_fields)
        case "extra_forbidden":
            return InvalidValue(path, value, f"one of the keys {', '.join(inner.model_fields)}", remedy)
        case "missing":
            return InvalidValue(path, None, "a value", f"Add `{error['loc'][-1]}:`. {remedy}")
        case "model_type" | "dict_type" | "dataclass_type":
            return InvalidValue(path, value, "a mapping", remedy)
        case "literal_error":
            return InvalidValue(path, value, f"one of {context['expected']}".replace("'", ""), remedy)
    expected = EXPECTED[kind].format_map(context) if kind in EXPECTED else error["msg"]
    return InvalidValue(path, value, expected, remedy)


def _innermost(model: type[BaseModel], location: Iterable[object]) -> tuple[str, type[BaseModel]]:
    """What the innermost option at a place says of itself, and the model that it is of, or has."""
    description = ""
    for part in location:
        inner = model.model_fields.get(str(part))
        if inner is None:
            continue
        description = inner.description or description
        kinds = [inner.annotation, *get_args(inner.annotation)]
        kinds += [one for kind in kinds for one in get_args(kind)]
        model = next((one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), model)
    return description, model


def _unknown(source: str, name: str, value: object, known: Iterable[str]) -> InvalidValue:
    if name == "path":
        return InvalidValue("data.path", value, f"no folder: {source} needs none", "Leave --data out.")
    if name == "unit":
        return no_unit(source, value)
    remedy = f"Its options: {', '.join(known) or 'none'}."
    return InvalidValue(f"data.{name}", value, f"an option of {source}", remedy)


def no_unit(source: str, value: object) -> InvalidValue:
    """What is said where a unit is asked of a source that cannot group its records."""
    return InvalidValue(
        "data.unit",
        value,
        f"no unit: {source} does not know whose its records are",
        "Use the source table or a MovieLens one, or make the claim per record.",
    )

"""Hyperparameters as one typed record per system: `read` is the only place that casts a configuration.

    @hyperparameters
    class Mine:
        noise_multiplier: float = hyperparameter(low=0.2, high=1000.0, doc="noise over clip norm; solved by default")
        model: str = hyperparameter(default="mlp", doc="name of a model")

A field of type int or float is a number, any other a choice. Several of one kind are declared by a `name` with a dot,
and a spec may write them as one mapping: `lora: {rank: 4, alpha: 16}` is `lora.rank: 4`, `lora.alpha: 16`. A subclass
adds its own behind those of its base; one that it declares anew keeps its place. A field without `hyperparameter` is
what a plan records besides: it is read from a plan's configuration like one, and nobody searches it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from dpcore.checks import InvalidValue
from trainables.metrics import WITH, Config, Scalar
from trainables.system import Hyperparameter

Record = TypeVar("Record")
_ABOUT, _ARGUMENTS, _NAME = "hyperparameter", "arguments", "name"


def hyperparameter(
    *,
    doc: str,
    name: str = "",
    unit: str = "1",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[Scalar, ...] = (),
    default: Scalar | None = None,
    absent_unless_given: bool = False,
    inner: str = "",
    word: str = "",
) -> Any:
    """One hyperparameter; arguments as in `trainables.system.Hyperparameter`. Its name is the field's by default."""
    about = {"doc": doc, "unit": unit, "low": low, "high": high, "choices": choices, "default": default}
    about |= {"absent_unless_given": absent_unless_given, "inner": inner, "word": word}
    return field(metadata={_ABOUT: about, _NAME: name})


def builder_arguments() -> Any:
    """A field of type `Arguments`: all of a configuration whose names begin with `WITH`."""
    return field(default=(), metadata={_ARGUMENTS: True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(hyperparameter, builder_arguments))
def hyperparameters(made: type[Record]) -> type[Record]:
    """The decorator of such a record: a frozen dataclass with fields by keyword."""
    return dataclass(frozen=True, kw_only=True)(made)


@cache
def parameters(record: Hashable) -> tuple[Hyperparameter, ...]:
    """Every hyperparameter of a record, in order."""
    types = _types(record)
    kinds = {float: "float", int: "int"}
    return tuple(
        Hyperparameter(name=_name(one), kind=kinds.get(types[one.name], "choice"), **one.metadata[_ABOUT])  # type: ignore[arg-type]
        for one in fields(record)  # type: ignore[arg-type]
        if _ABOUT in one.metadata
    )


def complete(record: type, config: Config, solved: str | None = None) -> dict[str, Scalar]:
    """Every hyperparameter of `config`, defaults included but for those that are absent unless given, as it was given.

    solved  may be missing: it is what the calibration solves for
    Raises InvalidValue, naming the first that is missing.
    """
    full: dict[str, Scalar] = {}
    for one in parameters(record):
        value = config.get(one.name, None if one.absent_unless_given else one.default)
        if value is not None:
            full[one.name] = value
        elif one.name != solved and not one.absent_unless_given:
            raise InvalidValue(one.name, None, f"a value ({one.doc})")
    if any(_ARGUMENTS in one.metadata for one in fields(record)):
        full |= {name: value for name, value in config.items() if name.startswith(WITH)}
    return full


def read(record: type[Record], config: Config, solved: str | None = None) -> Record:
    """`config` as a record of that type; of what it holds besides nothing is read.

    solved  where it is missing it reads as a number that every mechanism refuses, until its solution replaces it
    Raises InvalidValue for what is missing, and for what is no value of its type.
    """
    types, values = _types(record), dict[str, Any]()  # type: ignore[arg-type]
    for one in fields(record):  # type: ignore[arg-type]
        if _ARGUMENTS in one.metadata:
            given = ((name.removeprefix(WITH), value) for name, value in config.items() if name.startswith(WITH))
            values[one.name] = tuple(sorted(given))
            continue
        name, value = _name(one), config.get(_name(one), _default(one))
        if value is not None:
            word = one.metadata.get(_ABOUT, {}).get("word") or None
            values[one.name] = _cast(name, 0 if value == word else value, types[one.name])
        elif name == solved:
            values[one.name] = math.nan if types[one.name] is float else 0
        else:
            about = one.metadata.get(_ABOUT, {})
            raise InvalidValue(name, None, f"a value ({about.get('doc', 'as plans record it')})")
    return record(**values)


@cache
def _types(record: Hashable) -> Mapping[str, type]:
    return get_type_hints(record)


def _name(one: Field[Any]) -> str:
    return one.metadata.get(_NAME) or one.name


def _default(one: Field[Any]) -> Scalar | None:
    about: Mapping[str, Any] = one.metadata.get(_ABOUT, {})
    return about.get("default")


def _cast(name: str, value: Scalar, kind: type) -> Scalar:
    try:
        return kind(value)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise InvalidValue(name, value, f"a value of type {kind.__name__}") from None

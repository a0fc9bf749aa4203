"""Hyperparameters as one typed record per system: `read` is the only place that casts a configuration.

    @hyperparameters
    class Mine:
        '''Of my system.

        noise_multiplier  noise over clip norm; solved by default
        model             name of a model
        '''

        noise_multiplier: float = hyperparameter(low=0.2, high=1000.0)
        model: str = hyperparameter(default="mlp")

What each one is, its class's text says in a table: its field's name, two blanks or more, and what it is, which may go
on in further lines, indented. A field of type int or float is a number, any other a choice. Several of one kind are
declared by a `name` with a dot, and a spec may write them as one mapping: `lora: {rank: 4, alpha: 16}` is
`lora.rank: 4`, `lora.alpha: 16`. A subclass adds its own behind those of its base; one that it declares anew keeps its
place.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, TypeVar, dataclass_transform, get_type_hints

from dpcore.checks import InvalidValue
from trainables.metrics import WITH, Config, Scalar
from trainables.system import Hyperparameter

Record = TypeVar("Record")
_ABOUT, _ARGUMENTS = "hyperparameter", "arguments"
_SAID = re.compile(r"^(\w+) {2,}(\S.*(?:\n +\S.*)*)", re.MULTILINE)
"""One hyperparameter in the text of its class."""


def hyperparameter(**about: Any) -> Any:
    """One hyperparameter; arguments as in `trainables.system.Hyperparameter`. Its name is the field's by default, its
    doc what its class's text says."""
    return field(metadata={_ABOUT: about})


def builder_arguments() -> Any:
    """A field of type `Arguments`: all of a configuration whose names begin with `WITH`."""
    return field(default=(), metadata={_ARGUMENTS: True})


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(hyperparameter, builder_arguments))
def hyperparameters(made: type[Record]) -> type[Record]:
    """The decorator of such a record: a frozen dataclass with fields by keyword."""
    return dataclass(frozen=True, kw_only=True)(made)


@cache
def _described(record: type) -> Mapping[str, Hyperparameter]:
    """The hyperparameters of a record by field, in order."""
    types, texts = _types(record), [inspect.cleandoc(one.__doc__ or "") for one in reversed(record.__mro__)]
    docs = {name: " ".join(doc.split()) for text in texts for name, doc in _SAID.findall(text)}
    kinds: dict[type, Literal["float", "int"]] = {float: "float", int: "int"}
    return {
        one.name: Hyperparameter(
            **{"name": one.name, "doc": docs.get(one.name, ""), **one.metadata.get(_ABOUT, {})},
            kind=kinds.get(types[one.name], "choice"),
        )
        for one in fields(record)
        if _ARGUMENTS not in one.metadata
    }


def parameters(record: type) -> tuple[Hyperparameter, ...]:
    """Every hyperparameter of a record, in order."""
    return tuple(_described(record).values())


def complete(record: type, config: Config) -> dict[str, Scalar]:
    """Every hyperparameter of `config` as it was given, defaults included; without what is missing."""
    full = {one.name: config.get(one.name, one.default) for one in parameters(record)}
    if any(_ARGUMENTS in one.metadata for one in fields(record)):
        full |= {name: value for name, value in config.items() if name.startswith(WITH)}
    return {name: value for name, value in full.items() if value is not None}


def read(record: type[Record], config: Config, solved: str | None = None) -> Record:
    """`config` as a record of that type; of what it holds besides nothing is read.

    solved  where it is missing it reads as a number that every mechanism refuses, until its solution replaces it
    Raises InvalidValue for what is missing, and for what is no value of its type.
    """
    types, known, values = _types(record), _described(record), dict[str, Any]()  # type: ignore[arg-type]
    for one in fields(record):  # type: ignore[arg-type]
        if _ARGUMENTS in one.metadata:
            given = ((name.removeprefix(WITH), value) for name, value in config.items() if name.startswith(WITH))
            values[one.name] = tuple(sorted(given))
            continue
        about, kind = known[one.name], types[one.name]
        value = config.get(about.name, about.default)
        if value is not None:
            values[one.name] = _cast(about.name, 0 if value == (about.word or None) else value, kind)
        elif about.name == solved:
            values[one.name] = math.nan if kind is float else 0
        else:
            raise InvalidValue(about.name, None, f"a value ({about.doc})")
    return record(**values)


@cache
def _types(record: type) -> Mapping[str, type]:
    return get_type_hints(record)


def _cast(name: str, value: Scalar, kind: type) -> Scalar:
    try:
        return kind(value)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise InvalidValue(name, value, f"a value of type {kind.__name__}") from None

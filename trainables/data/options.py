"""Options of data sources: one typed record per source, read in one place and listed by `sweeps datasets NAME`.

    @options
    class Mine(Limit, InFolder):
        form: str = word("long", "wide", doc="which of the two published files is read")

Errors name the value and the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from dpcore import checks
from dpcore.checks import InvalidValue
from trainables.units import Unit

Record = TypeVar("Record")
Reader = Callable[[str, object], object]
"""(name, value as given) -> value as used. Raises InvalidValue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a source.

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


def option(
    read: Reader, *, doc: str, example: object, schema: Mapping[str, object] | None = None, default: object = MISSING
) -> Any:
    """One option; without a default it has to be given, and `read` refuses None. `example`, `schema`: see `Option`."""
    about = {"doc": doc, "read": read, "example": example, "schema": schema or {}}
    return field(metadata=about) if default is MISSING else field(default=default, metadata=about)


def as_given(name: str, value: object) -> object:
    """Reads an option that its source checks itself."""
    return value


def word(*choices: str, doc: str) -> Any:
    """One of some words, by default the first."""

    def read(name: str, value: object) -> object:
        if value not in choices:
            remedy = f"It says {doc}; left out, it is {choices[0]}."
            raise InvalidValue(f"data.{name}", value, "one of " + ", ".join(choices), remedy)
        return value

    schema = {"enum": list(choices)}
    return option(read, doc=f"{doc}: {', '.join(choices)}", example=choices[-1], schema=schema, default=choices[0])


def whole(*, doc: str, example: int, minimum: int = 1, default: object = MISSING) -> Any:
    """An integer of at least `minimum`. With None as default, None may be given too."""

    def read(name: str, value: object) -> int | None:
        return None if value is None and default is None else count(name, value, doc=doc, minimum=minimum)

    schema: dict[str, object] = {"type": "integer", "minimum": minimum}
    if default is None:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return option(read, doc=doc, example=example, schema=schema, default=default)


def count(name: str, value: object, *, doc: str, minimum: int = 1) -> int:
    """`value` of option `name`, an integer of at least `minimum`. Raises InvalidValue, which says what it is: `doc`."""
    try:
        checks.count(minimum=minimum, value=value)  # type: ignore[arg-type]
    except InvalidValue as error:
        raise InvalidValue(f"data.{name}", value, error.expected, f"It says {doc}.") from None
    return int(value)  # type: ignore[call-overload, no-any-return]


def unit(*columns: str) -> Any:
    """{column: NAME, max_records: k}, or nothing. `columns`: those there are, if known."""

    def read(name: str, value: object) -> Unit | None:
        if value is None:
            return None
        if not isinstance(value, Mapping) or set(value) != {"column", "max_records"}:
            remedy = "It says whose the records are, and how many of one unit are used."
            raise InvalidValue(f"data.{name}", value, "{column: NAME, max_records: k}", remedy)
        column = value["column"]
        if not isinstance(column, str) or not column or (columns and column not in columns):
            whose = "the name of the column that says whose a record is"
            raise InvalidValue(f"data.{name}.column", column, f"one of {', '.join(columns)}" if columns else whose)
        largest = count(f"{name}.max_records", value["max_records"], doc="how many records of one unit are used")
        return Unit(column=column, max_records=largest)

    column = {"enum": list(columns)} if columns else {"type": "string", "minLength": 1}
    grouped = {
        "type": "object",
        "properties": {"column": column, "max_records": {"type": "integer", "minimum": 1}},
        "required": ["column", "max_records"],
        "additionalProperties": False,
    }
    return option(
        read,
        doc="{column: NAME, max_records: k}, what one neighbour of a claim differs in",
        example={"column": columns[0] if columns else "person_id", "max_records": 50},
        schema={"anyOf": [grouped, {"type": "null"}]},
        default=None,
    )


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option, word, whole, unit))
def options(made: type[Record]) -> type[Record]:
    """The decorator of such a record: a frozen dataclass with fields by keyword."""
    return dataclass(frozen=True, kw_only=True)(made)


@options
class NoOptions:
    """Of a source without any, and the base of all others."""


@options
class InFolder(NoOptions):
    """Of a source with files."""

    path: object = option(
        as_given,
        doc="the folder with its files; --data DIR sets it",
        example="data",
        schema={"type": ["string", "null"]},
        default=None,
    )


@options
class Limit(NoOptions):
    """Of a source of which a part may be used."""

    limit: int | None = whole(
        doc="how many training records are used, the first ones; of them comes a part",
        example=1000,
        default=None,
    )

    def used(self, n: int) -> int:
        """How many of n training records are used: a public choice."""
        return n if self.limit is None else min(self.limit, n)


def listed(record: type) -> tuple[Option, ...]:
    """Every option of a record, in order."""
    return tuple(
        Option(
            name=one.name,
            doc=one.metadata["doc"],
            default=None if one.default is MISSING else one.default,
            example=one.metadata["example"],
            schema=one.metadata["schema"],
        )
        for one in fields(record)
    )


def read(record: type[Record], source: str, given: Mapping[str, object]) -> Record:
    """What a spec says to `source`, checked. Raises InvalidValue, for an option that it does not have too."""
    known = {one.name: one for one in fields(record)}  # type: ignore[arg-type]
    for name, value in given.items():
        if name in known:
            continue
        if name == "path":
            raise InvalidValue("data.path", value, f"no folder: {source} needs none", "Leave --data out.")
        if name == "unit":
            no_unit(source, given)
        remedy = f"Its options: {', '.join(known) or 'none'}."
        raise InvalidValue(f"data.{name}", value, f"an option of {source}", remedy)
    return record(
        **{
            name: one.metadata["read"](name, given.get(name))
            for name, one in known.items()
            if name in given or one.default is MISSING
        }
    )


def no_unit(source: str, given: Mapping[str, object]) -> None:
    """Raises InvalidValue where a unit is asked of a source that cannot group its records."""
    if "unit" in given:
        raise InvalidValue(
            "data.unit",
            given["unit"],
            f"no unit: {source} does not know whose its records are",
            "Use the source table or a MovieLens one, or make the claim per record.",
        )


def folder(source: str, path: object, *names: str) -> Path:
    """The folder with `source`'s files: one of `names` below option `path`, or `path` itself.

    Raises InvalidValue when there is none.
    """
    remedy = f"Pass the folder that holds {names[0]}/ with --data DIR, or set data.path in the spec."
    if not isinstance(path, str) or not path:
        raise InvalidValue("data.path", path, f"the folder with the {source} files", remedy)
    root = Path(path).expanduser()
    if not root.is_dir():
        raise InvalidValue("data.path", path, "a folder that exists", remedy)
    return next((root / name for name in names if (root / name).is_dir()), root)


def existing(source: str, file: Path) -> Path:
    """`file`, if it is there and not empty. Raises InvalidValue."""
    if not file.is_file():
        raise InvalidValue(
            "data.path",
            str(file.parent),
            f"a folder with the file {file.name} of {source}",
            "Pass the folder that holds it with --data DIR, or set data.path in the spec.",
        )
    if file.stat().st_size == 0:
        raise InvalidValue("data.path", str(file), "a file with records, this one is empty", "Fetch the file again.")
    return file

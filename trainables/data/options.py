"""Options of a data source, read with errors that name the value and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpcore import checks
from dpcore.checks import InvalidValue
from trainables.units import Unit


def only(source: str, options: Mapping[str, object], *known: str) -> None:
    """Raises InvalidValue for an option that `source` does not have."""
    for name in options:
        if name not in known:
            if name == "path":
                raise InvalidValue("data.path", options[name], f"no folder: {source} needs none", "Leave --data out.")
            if name == "unit":
                no_unit(source, options)
            listed = ", ".join(known) or "none"
            raise InvalidValue(f"data.{name}", options[name], f"an option of {source}", f"Its options: {listed}.")


def no_unit(source: str, options: Mapping[str, object]) -> None:
    """Raises InvalidValue where a unit is asked of a source that cannot group its records."""
    if "unit" in options:
        raise InvalidValue(
            "data.unit",
            options["unit"],
            f"no unit: {source} does not know whose its records are",
            "Use the source table or a MovieLens one, or make the claim per record.",
        )


def choice(options: Mapping[str, object], name: str, choices: tuple[str, ...]) -> str:
    """A word of `choices`; the first one when the option is absent. Raises InvalidValue."""
    value = options.get(name, choices[0])
    if value not in choices:
        raise InvalidValue(f"data.{name}", value, "one of " + ", ".join(choices))
    return str(value)


def limited(options: Mapping[str, object], n: int) -> int:
    """How many of n training records are used: option `limit`, a public choice. Raises InvalidValue."""
    limit = options.get("limit")
    if limit is None:
        return n
    _whole("limit", limit)
    return min(int(limit), n)  # type: ignore[call-overload]


def unit(options: Mapping[str, object], *columns: str) -> Unit | None:
    """Option `unit`, {column: NAME, max_records: k}: None without it. `columns`: those there are, if known.

    Raises InvalidValue.
    """
    raw = options.get("unit")
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or set(raw) != {"column", "max_records"}:
        raise InvalidValue("data.unit", raw, "{column: NAME, max_records: k}")
    column = raw["column"]
    if not isinstance(column, str) or not column or (columns and column not in columns):
        expected = f"one of {', '.join(columns)}" if columns else "the name of the column that says whose a record is"
        raise InvalidValue("data.unit.column", column, expected)
    return Unit(column=column, max_records=whole({"unit.max_records": raw["max_records"]}, "unit.max_records"))


def whole(options: Mapping[str, object], name: str, default: int | None = None) -> int:
    """An integer of at least 1. Raises InvalidValue."""
    value = options.get(name, default)
    _whole(name, value)
    return int(value)  # type: ignore[call-overload]


def _whole(name: str, value: object) -> None:
    try:
        checks.count(minimum=1, value=value)  # type: ignore[arg-type]
    except InvalidValue:
        raise InvalidValue(f"data.{name}", value, "an integer of at least 1") from None


def folder(source: str, options: Mapping[str, object], *names: str) -> Path:
    """The folder with `source`'s files: one of `names` below option `path`, or `path` itself.

    Raises InvalidValue when there is none.
    """
    remedy = f"Pass the folder that holds {names[0]}/ with --data DIR, or set data.path in the spec."
    path = options.get("path")
    if not isinstance(path, str) or not path:
        raise InvalidValue("data.path", path, f"the folder with the {source} files", remedy)
    root = Path(path).expanduser()
    if not root.is_dir():
        raise InvalidValue("data.path", path, "a folder that exists", remedy)
    for name in names:
        if (root / name).is_dir():
            return root / name
    return root


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

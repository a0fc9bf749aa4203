"""The data sets below `--data`: a part whose set is missing, or refused by its source, is said loudly and left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpcore.checks import InvalidValue, QuotesRecords
from sweeps.reproductions.result import Result, Say

FOLDERS = {"adult": ("a9a", "adult"), "mnist": ("mnist", "MNIST/raw", "MNIST"), "idc": ("IDC_regular_ps50_idx5", "idc")}
"""Of a source, where they are not its name. torchvision's capitals are found, and not told."""


class Missing(Exception):
    """A part has nothing to compare, for want of a data set or of finished trials; the text says so in a few words."""


def section(options: Mapping[str, Any], data: Path) -> dict[str, Any]:
    """The `data` section of a spec. Adult comes in its own columns where only those files are there."""
    made = {**options, "path": str(data.absolute())}
    return {**made, "form": "raw"} if _raw_adult(options, data) else made


@contextmanager
def needing(options: Mapping[str, Any], data: Path, result: Result, say: Say) -> Iterator[None]:
    """What is inside needs the set of `options`, a `data` section.

    Raises Missing, once it is said and cut, when its folder is not below `data` or its files are refused.
    """
    from sweeps.spec.problems import SpecErrors

    place = _place(options, data)
    if not any((data / name).is_dir() for name in _folders(options)):
        _tell(f"missing: {place}: its rows are not trained", result, say)
        raise Missing(f"missing: {place}")
    if _raw_adult(options, data):
        _tell(f"Adult: UCI's columns from adult/, since there is no a9a/ in {data}", result, say)
    try:
        yield
    except (InvalidValue, SpecErrors) as error:
        names = [one.path for one in error.errors] if isinstance(error, SpecErrors) else [error.name]
        # Anything else that is invalid is no matter of files.
        if any(name.split(".")[0] != "data" for name in names):
            raise
        refused = f"missing: {place} is refused: its rows are not trained. "
        told = error.unquoted if isinstance(error, QuotesRecords) else str(error)
        _tell(f"{refused}{error}", result, say, refused + told)
        raise Missing(f"missing: {place} is refused") from error


def _tell(line: str, result: Result, say: Say, logged: str | None = None) -> None:
    """Several parts share a set: it is said once.

    logged  for a log, where `line` might quote a record
    """
    if line not in result.cut:
        result.cut.append(line)
        say(line if logged is None else logged)


def _folders(options: Mapping[str, Any]) -> tuple[str, ...]:
    name = _source(options)
    return FOLDERS.get(name, (name,))


def _source(options: Mapping[str, Any]) -> str:
    """The source of the records, whatever is made of them."""
    return str(options.get("of", options["source"]))


def _place(options: Mapping[str, Any], data: Path) -> str:
    first, *others = _folders(options)
    told = [first, *(name for name in others if name.islower())]
    return f"{' or '.join(f'{name}/' for name in told)} in {data}"


def _raw_adult(options: Mapping[str, Any], data: Path) -> bool:
    return _source(options) == "adult" and not (data / "a9a").is_dir() and (data / "adult").is_dir()

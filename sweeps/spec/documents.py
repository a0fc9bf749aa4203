"""Files of specs: YAML, TOML or JSON by the name's ending, read into the same plain values with the same errors."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from datetime import date, time
from pathlib import Path
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.problems import Problems
from sweeps.spec.yaml_text import DEEPEST, LONGEST_NUMBER, read_yaml

_ONCE = "Only the last of two would count: remove or rename one."


def read_file(path: Path) -> Any:
    """The document in a file: TOML or JSON where its name ends so, else YAML.

    Raises SpecErrors with all that is wrong with the text, InvalidValue where it is none in UTF-8, and OSError.
    """
    form = path.suffix.lower()
    name = {".toml": "TOML", ".json": "JSON"}.get(form, "YAML")
    try:
        # An editor of Windows may begin a file with a mark.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        expected = f"{name} text in UTF-8 ({error.reason} at byte {error.start})"
        raise InvalidValue("spec", str(path), expected) from error
    problems = Problems()
    document = _READERS[form](text, problems) if form in _READERS else read_yaml(text, problems)
    problems.raise_any()
    return document


def _json(text: str, problems: Problems) -> Any:
    repeated: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        repeated.extend(name for i, name in enumerate(names) if name in names[:i])
        return dict(pairs)

    try:
        document = json.loads(text, object_pairs_hook=once, parse_int=_int)
    except json.JSONDecodeError as error:
        problems.add(f"line {error.lineno}", error.msg, "valid JSON", "Check commas, quotes and brackets there.")
        return None
    except (ValueError, RecursionError) as error:
        problems.add("document", *_too_much(error))
        return None
    for name in repeated:
        problems.add("document", name, "each key once", _ONCE)
    return _shallow(document, problems)


def _toml(text: str, problems: Problems) -> Any:
    try:
        return _shallow(_plain(tomllib.loads(text)), problems)
    except tomllib.TOMLDecodeError as error:
        what, at, place = str(error).partition(" (at ")
        line = re.match(r"line \d+", place) if at else None
        remedy = (
            _ONCE if "overwrite" in what or "twice" in what else "Check quotes, brackets and names of tables there."
        )
        problems.add(line.group() if line else "document", what, "valid TOML", remedy)
    except (ValueError, RecursionError) as error:
        problems.add("document", *_too_much(error))
    return None


def _int(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(digits)
    return int(digits)


def _shallow(document: Any, problems: Problems) -> Any:
    """The document, if it is no deeper than a YAML one may be."""
    level, depth = [document], 0
    while level:
        inside = [
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, dict | list)
        ]
        level, depth = [one for values in inside for one in values], depth + 1
        if depth > DEEPEST:
            problems.add("document", *_too_much(RecursionError()))
            return None
    return document


def _too_much(error: Exception) -> tuple[str, str]:
    if isinstance(error, RecursionError):
        return f"more than {DEEPEST} levels deep", f"at most {DEEPEST} levels of values in values"
    return "a number of very many digits", f"numbers of at most {LONGEST_NUMBER} digits"


def _plain(value: Any) -> Any:
    """Dates and times of TOML are texts, as those of YAML are here."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, date | time) else value


_READERS: dict[str, Callable[[str, Problems], Any]] = {".toml": _toml, ".json": _json}

"""Files of specs: YAML, TOML or JSON by the name's ending, read into the same plain values with the same errors."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from datetime import date, time
from pathlib import Path
from typing import Any

import yaml

from dpcore.checks import InvalidValue
from sweeps.spec.problems import Problems

# YAML as people mean it: the scalars of YAML 1.2, and a repeated key is an error.
#
# PyYAML reads YAML 1.1, where `1e-5` is a text, `no` and `on` are truth values, `1:30` is ninety and `010` is eight.
# Here `1e-5` is a number, only `true` and `false` are truth values, and dates stay texts.

DEEPEST, LARGEST, LONGEST_NUMBER = 50, 100_000, 300
"""Levels, values and digits that a document may have: far beyond any spec, far below what Python gives up on."""


class _TooMuch(Exception):
    """A document that no spec can be: where, what stands there, what was expected."""


def _inside(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [one for pair in node.value for one in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own way to declare resolvers)

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[tuple[str, int]] = []
        self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """One value, as PyYAML reads it, but no deeper than DEEPEST and no more often than LARGEST."""
        self._depth += 1
        try:
            line = self.peek_event().start_mark.line + 1  # type: ignore[no-untyped-call]
            aliased = self.check_event(yaml.AliasEvent)  # type: ignore[no-untyped-call]
            if self._depth > DEEPEST:
                raise _TooMuch(
                    f"line {line}", f"{DEEPEST} levels deep", f"at most {DEEPEST} levels of values in values"
                )
            node: yaml.Node | None = super().compose_node(parent, index)  # type: ignore[no-untyped-call]
        finally:
            self._depth -= 1
        if node is None:
            return None
        if aliased:
            if id(node) not in self._sizes:
                raise _TooMuch(f"line {line}", "an alias of a value that it stands in", "values that end")
        else:
            self._sizes[id(node)] = size = 1 + sum(self._sizes[id(one)] for one in _inside(node))
            if size > LARGEST:
                raise _TooMuch(f"line {line}", "aliases of aliases", f"at most {LARGEST} values, aliases written out")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    self.repeated.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(pattern), list(first))


_resolve("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF")
_resolve("null", r"^(?:~|null|Null|NULL|)$", "~nN\0")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])  # type: ignore[no-untyped-call]
_resolve("int", r"^[-+]?[0-9]+$", "-+0123456789")
_resolve(
    "float",
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    "-+.0123456789",
)
_resolve("merge", r"^<<$", "<")


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > LONGEST_NUMBER:
        digits = f"{node.value[:10]}... of {len(node.value)} digits"
        raise _TooMuch(f"line {node.start_mark.line + 1}", digits, f"a number of at most {LONGEST_NUMBER} digits")
    return int(node.value, 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _int)


def read_yaml(text: str, problems: Problems) -> Any:
    """The document as plain values; syntax errors, repeated keys and what is no spec's size go to `problems`."""
    repeated: list[tuple[str, int]] = []
    try:
        loader = _Loader(text)
        try:
            document, repeated = loader.get_single_data(), loader.repeated
        finally:
            loader.dispose()  # type: ignore[no-untyped-call]
    except _TooMuch as error:
        problems.add(*error.args)
        return None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else "document"
        what = getattr(error, "problem", None) or str(error)
        problems.add(line, what, "valid YAML", "Check indentation, colons and brackets there.")
        return None
    except (ValueError, TypeError, KeyError) as error:
        # A tag that its value does not fit: PyYAML hands on what Python says.
        problems.add("document", str(error), "values that fit their tags", "Leave out `!!`: no spec needs a tag.")
        return None
    for key, number in repeated:
        problems.add(f"line {number}", key, "each key once", "Only the last of two would count: remove or rename one.")
    return document


def read_document(text: str) -> Any:
    """The same, alone. Raises SpecErrors with all that is wrong with the text."""
    document = read_yaml(text, problems := Problems())
    problems.raise_any()
    return document


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
        document = json.loads(text, object_pairs_hook=once, parse_int=_json_int)
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


def _json_int(digits: str) -> int:
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

"""YAML as people mean it: the scalars of YAML 1.2, and a repeated key is an error.

PyYAML reads YAML 1.1, where `1e-5` is a text, `no` and `on` are truth values, `1:30` is ninety and `010` is eight.
Here `1e-5` is a number, only `true` and `false` are truth values, and dates stay texts.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from dpcore.checks import InvalidValue
from sweeps.spec.problems import Problems


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own way to declare resolvers)

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[tuple[str, int]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    self.repeated.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value, 10))


def read_document(text: str) -> Any:
    """The document as plain values. Raises SpecErrors: broken YAML by its line, and every repeated key."""
    problems = Problems()
    try:
        loader = _Loader(text)
        document = loader.get_single_data()
        # No value that stands in itself, nor one deeper than Python goes.
        json.dumps(document, default=str, skipkeys=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else "document"
        what = getattr(error, "problem", None) or str(error)
        problems.add(line, what, "valid YAML", "Check indentation, colons and brackets there.")
    except RecursionError:
        problems.add("document", "values in values", "fewer levels of them")
    except (ValueError, TypeError, KeyError) as error:
        problems.add("document", str(error), "values that fit their tags", "No spec needs `!!`, or so many digits.")
    else:
        for key, number in loader.repeated:
            remedy = "Only the last of two would count: remove or rename one."
            problems.add(f"line {number}", key, "each key once", remedy)
    problems.raise_any()
    return document


def read_file(path: Path) -> Any:
    """The document in a file. Raises SpecErrors, InvalidValue where it is no text in UTF-8, and OSError."""
    try:
        # An editor of Windows may begin a file with a mark.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        expected = f"YAML text in UTF-8 ({error.reason} at byte {error.start})"
        raise InvalidValue("spec", str(path), expected) from error
    return read_document(text)

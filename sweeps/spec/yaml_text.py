"""YAML as people mean it: the scalars of YAML 1.2, and a repeated key is an error.

PyYAML reads YAML 1.1, where `1e-5` is a text, `no` and `on` are truth values, `1:30` is ninety and `010` is
eight. Here `1e-5` is a number, only `true` and `false` are truth values, and dates stay texts.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from sweeps.spec.problems import Problems

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

"""The data sources and their options, as `sweeps datasets` prints them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.cli.output import print_json
from sweeps.util.suggest import did_you_mean

if TYPE_CHECKING:
    from trainables.data.options import Option
    from trainables.data.source import DataSource


def datasets_command(name: str | None, *, as_json: bool) -> None:
    """Every data source in a line, or one with its options. Raises InvalidValue for an unknown name."""
    from trainables.data import SOURCES

    if name is not None and name not in SOURCES:
        raise InvalidValue("NAME", name, "the name of a data source", did_you_mean(name, SOURCES))
    shown = list(SOURCES.values()) if name is None else [SOURCES[name]]
    if as_json:
        print_json([_document(source) for source in shown])
        return
    for source in shown:
        print(f"{source.name:14} {source.doc}")
        if name is not None:
            for one in source.options:
                default = "" if one.default in (None, "") else f" (default {one.default})"
                print(f"  {one.name:12} {one.doc}{default}")
                if one.example is not None:
                    print(textwrap.indent(_as_yaml(one), " " * 15))


def _as_yaml(one: Option) -> str:
    """The option with its example, as a spec has it: values of values on lines of their own."""
    import yaml

    if not isinstance(one.example, dict | list):
        return f"{one.name}: {one.example}"
    return yaml.safe_dump({one.name: one.example}, default_flow_style=None, sort_keys=False).rstrip()


def _document(source: DataSource) -> dict[str, Any]:
    options = [
        {"name": one.name, "doc": one.doc, "default": one.default, "example": one.example} for one in source.options
    ]
    return {"name": source.name, "doc": source.doc, "options": options}

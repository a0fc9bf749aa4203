"""The systems as `sweeps systems` lists them: hyperparameters, metrics, and on what each metric depends."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from dpcore.checks import InvalidValue
from sweeps.cli.output import print_json
from sweeps.util.text import did_you_mean
from trainables.measures.objectives import MEASURES, missing, wanted
from trainables.registry import SYSTEMS
from trainables.system import Hyperparameter, traits_of

if TYPE_CHECKING:
    from trainables.data.options import Option
    from trainables.data.source import DataSource


def described(name: str | None = None) -> list[dict[str, Any]]:
    """Plain JSON values of every system, or of the one called `name`. Raises InvalidValue for an unknown name."""
    if name is not None and name not in SYSTEMS:
        raise InvalidValue("NAME", name, "the name of a system", did_you_mean(name, SYSTEMS))
    return [
        {
            "name": system.name,
            "source": system.source,
            "claim": str(traits_of(system).standing),
            "parameters": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "range": _range(one),
                    "default": one.default if one.default is not None else "required",
                    "unit": one.unit,
                    "doc": one.doc,
                }
                for one in system.hyperparameters
            ],
            "metrics": [
                {name: str(getattr(one, name)) for name in ("name", "goal", "doc", "released", "depends")}
                for one in system.metrics
            ],
            "asked": [name for name in wanted(tuple(MEASURES), system) if not missing(name, system)],
        }
        for system in (SYSTEMS.values() if name is None else [SYSTEMS[name]])
    ]


def _range(one: Hyperparameter) -> str:
    """The values that `one` may take, in words; an end that is not bounded is not written as a number."""
    if one.kind == "choice":
        return ", ".join(map(str, one.choices)) or "text"
    if one.low is None and one.high is None:
        return "any number"
    if one.low is None:
        return f"up to {one.high}"
    return f"from {one.low}" if one.high is None else f"{one.low} .. {one.high}"


def print_systems(name: str | None = None) -> None:
    """For people: one table for each system. Raises as `described`."""
    console = Console()
    for system in described(name):
        table = Table(title=f"{system['name']}  ({system['source']}), its claim: {system['claim']}")
        for heading in ("parameter", "kind", "range", "default", "meaning"):
            table.add_column(heading, overflow="fold")
        for one in system["parameters"]:
            table.add_row(one["name"], one["kind"], one["range"], str(one["default"]), one["doc"])
        console.print(table)
        for one in system["metrics"]:
            depends = f"Made of {one['released']} ({one['depends']})."
            console.print(f"  {one['name']} ({one['goal']}): {one['doc']}. {depends}", highlight=False)
        if system["asked"]:
            console.print(
                f"  Where `report` or an objective asks for them: {', '.join(system['asked'])}", highlight=False
            )


# The data sources and their options, as `sweeps datasets` prints them.


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

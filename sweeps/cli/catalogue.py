"""The systems as `sweeps systems` lists them: hyperparameters, metrics, and on what each metric depends."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from dpcore.checks import InvalidValue
from sweeps.util.suggest import did_you_mean
from trainables.measures.objectives import MEASURES, missing, wanted
from trainables.registry import SYSTEMS
from trainables.system import Parameter


def described(name: str | None = None) -> list[dict[str, Any]]:
    """Plain JSON values of every system, or of the one called `name`. Raises InvalidValue for an unknown name."""
    if name is not None and name not in SYSTEMS:
        raise InvalidValue("NAME", name, "the name of a system", did_you_mean(name, SYSTEMS))
    return [
        {
            "name": system.name,
            "source": system.source,
            "parameters": [
                {
                    "name": one.name,
                    "kind": one.kind,
                    "range": _range(one),
                    "default": one.default if one.default is not None else "required",
                    "unit": one.unit,
                    "doc": one.doc,
                }
                for one in system.parameters
            ],
            "metrics": [
                {name: str(getattr(one, name)) for name in ("name", "goal", "doc", "released", "depends")}
                for one in system.metrics
            ],
            "asked": [name for name in wanted(tuple(MEASURES), system) if not missing(name, system)],
        }
        for system in (SYSTEMS.values() if name is None else [SYSTEMS[name]])
    ]


def _range(one: Parameter) -> str:
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
        table = Table(title=f"{system['name']}  ({system['source']})")
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

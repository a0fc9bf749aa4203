"""Commands that need no sweep: systems, data sources, the spec's schema, words explained, papers beside ours."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from dpcore.checks import InvalidValue
from sweeps.cli.common import DEFAULT_ROOT, Answer, AsJson, DataFolder, Root, StoreUrl, answers, print_json
from sweeps.privacy.release import PublishedStore, Release
from sweeps.reporting.terminal import GLOSSARY
from sweeps.reporting.terminal import explain as explained
from sweeps.spec.schema import spec_schema
from sweeps.store.workspace import Workspace
from sweeps.util.log import say
from sweeps.util.text import did_you_mean
from trainables.data import SOURCES
from trainables.publishing import MEASURES, missing, wanted
from trainables.registry import SYSTEMS
from trainables.system import Hyperparameter, traits_of

if TYPE_CHECKING:
    from sweeps.papers import Result
    from trainables.data.options import Option


@answers
def explain(
    word: Annotated[str | None, typer.Argument(help="epsilon, claim, total, status, ...; default: all words.")] = None,
) -> Answer:
    """What a word means that is printed here."""
    if word is not None:
        found = explained(word)
        return found.to_dict(), found
    listed = f"{', '.join(GLOSSARY)}\n`sweeps explain WORD` says what one of them means."
    return [one.to_dict() for one in GLOSSARY.values()], listed


def schema() -> None:
    """JSON schema of a spec, for editors."""
    print_json(spec_schema())


def systems(
    name: Annotated[str | None, typer.Argument(help="One of them; default: all.")] = None, as_json: AsJson = False
) -> None:
    """Every system, or one, with its hyperparameters and metrics."""
    found = described(name)
    if as_json:
        return print_json(found)
    console = Console()
    for system in found:
        title = f"{system['name']}  ({system['source']}), its claim: {system['claim']}"
        table = _folding("parameter", "kind", "range", "default", "meaning", title=title)
        for one in system["parameters"]:
            table.add_row(one["name"], one["kind"], one["range"], str(one["default"]), one["doc"])
        console.print(table)
        for one in system["metrics"]:
            depends = f"Made of {one['released']} ({one['depends']})."
            console.print(f"  {one['name']} ({one['goal']}): {one['doc']}. {depends}", highlight=False)
        if system["asked"]:
            asked = ", ".join(system["asked"])
            console.print(f"  Where `report` or an objective asks for them: {asked}", highlight=False)


def described(name: str | None = None) -> list[dict[str, Any]]:
    """Plain JSON values of every system, or of the one called `name`. Raises InvalidValue for an unknown name."""
    if name is not None and name not in SYSTEMS:
        raise InvalidValue("NAME", name, "the name of a system", did_you_mean(name, SYSTEMS))
    parameters = ("name", "kind", "unit", "doc")
    metrics = ("name", "goal", "doc", "released", "depends")
    return [
        {
            "name": system.name,
            "source": system.source,
            "claim": str(traits_of(system).standing),
            "parameters": [
                {key: getattr(one, key) for key in parameters}
                | {"range": _range(one), "default": "required" if one.default is None else one.default}
                for one in system.hyperparameters
            ],
            "metrics": [{key: str(getattr(one, key)) for key in metrics} for one in system.metrics],
            "asked": [name for name in wanted(tuple(MEASURES), system) if not missing(name, system)],
        }
        for system in (SYSTEMS.values() if name is None else [SYSTEMS[name]])
    ]


def _range(one: Hyperparameter) -> str:
    """The values that `one` may take, in words; an end that is not bounded is not written as a number."""
    if one.kind == "choice":
        return ", ".join(map(str, one.choices)) or "text"
    word = f", or {one.word}" if one.word else ""
    if one.low is None and one.high is None:
        return "any number" + word
    if one.low is None:
        return f"up to {one.high}{word}"
    return (f"from {one.low}" if one.high is None else f"{one.low} .. {one.high}") + word


def datasets(
    name: Annotated[str | None, typer.Argument(help="Of one of them, its options too.")] = None, as_json: AsJson = False
) -> None:
    """Every data source, or one with its options."""
    if name is not None and name not in SOURCES:
        raise InvalidValue("NAME", name, "the name of a data source", did_you_mean(name, SOURCES))
    shown = list(SOURCES.values()) if name is None else [SOURCES[name]]
    if as_json:
        names = ("name", "doc", "default", "example")
        options = [[{key: getattr(one, key) for key in names} for one in source.options] for source in shown]
        documents = zip(shown, options, strict=True)
        return print_json([{"name": one.name, "doc": one.doc, "options": listed} for one, listed in documents])
    for source in shown:
        print(f"{source.name:14} {source.doc}")
        for one in source.options if name is not None else ():
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


def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper, by first author and year; `bu2020` for example.")],
    data: DataFolder = None,
    grid: Annotated[str, typer.Option(help="coarse (minutes) or paper (the published grid, hours).")] = "coarse",
    repeats: Annotated[int | None, typer.Option(help="Trainings with different seeds for each point.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what takes a minute or less.")] = False,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """A paper's tables and figures beside ours. A killed reproduction resumes when it is run again."""
    from sweeps import papers
    from sweeps.papers import PUBLIC

    effort = papers.Effort(grid=grid, repeats=repeats, quick=quick)  # type: ignore[arg-type]  # checked by Effort
    workspace, console = Workspace.at(root, store=store), Console(stderr=as_json)
    started, heading = time.monotonic(), Release(public_because=PUBLIC).heading

    def told(line: str) -> None:
        say(line, plain=lambda: console.print(line, highlight=False))

    result = papers.reproduce(paper, data, workspace, effort, told)
    cost = f"{time.monotonic() - started:.0f} s this time; {_trained(paper, workspace)}"
    if as_json:
        return print_json({"heading": heading, **result.to_dict(), "cost": cost})
    console.print(heading, highlight=False)
    _print(console, result)
    console.print(f"cost: {cost}", highlight=False)


def _print(console: Console, result: Result) -> None:
    for table in result.tables:
        shown = _folding(*table.columns, title=table.title)
        for row in table.rows:
            shown.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(shown)
    claims = _folding("claim", "published", "ours", "holds", "note", title=result.title)
    for claim in result.rows:
        ours = "" if claim.ours is None else str(claim.ours)
        claims.add_row(claim.claim, str(claim.published), ours, claim.verdict, claim.note)
    console.print(claims)
    for line in result.cut:
        console.print(f"cut: {line}", highlight=False)
    for plot in result.plots:
        console.print(f"plot: {plot}", highlight=False)


def _folding(*columns: str, title: str) -> Table:
    """A table whose long words are broken, never cut: two methods may begin alike."""
    shown = Table(title=title)
    for one in columns:
        shown.add_column(one, overflow="fold")
    return shown


def _trained(paper: str, workspace: Workspace) -> str:
    """The trials behind it, over all the times it was run."""
    store = PublishedStore(workspace.open_store(create=True))
    sweeps = [sweep.name for sweep in store.sweeps() if sweep.name.startswith(f"{paper}-")]
    metrics = [trial.metrics for sweep in sweeps for trial in store.trials(sweep) if trial.metrics]
    peak = max((one.get("peak_memory_mb", 0.0) for one in metrics), default=0.0)
    return f"{len(metrics)} trials of {len(sweeps)} sweeps in all, peak memory of a worker {peak:.0f} MB"

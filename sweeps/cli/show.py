"""`sweeps show`: a list of sweeps, one sweep with a page of its trials, or one trial; once, or until it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dpcore.checks import InvalidValue
from sweeps.cli.common import DEFAULT_ROOT, AsJson, Root, StoreUrl, print_answer, print_json
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.summary import CLAIMED, SweepSummary, assumptions_of, curve_columns, curve_rows, list_summaries
from sweeps.reporting.tables import csv_text
from sweeps.reporting.terminal import account_lines, counts_text, print_plain
from sweeps.reporting.trials import Listed, page_of, place_of, selected
from sweeps.store.records import ENDED, by_trial
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from sweeps.util.text import closest


def show(
    sweep: Annotated[str | None, typer.Argument(help="One sweep; default: a list of all.")] = None,
    trial: Annotated[str | None, typer.Argument(help="One of its trials, by number or key: all of it.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="state=failed, accuracy>=0.9, model!=linear, ...: list those trials alone; repeatable."),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Metric (best first), knob or column; NAME:descending turns it.")
    ] = None,
    page: Annotated[int | None, typer.Option(help="Which 20 trials; csv and json have all by default.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again until the sweep ends.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two looks of --watch.")] = 2.0,
    why: Annotated[
        bool, typer.Option("--why", help="The whole account: claims, totals, and everything that they rest on.")
    ] = False,
    curves: Annotated[
        bool, typer.Option("--curves", help="Metrics at planned steps, one row each: of all trials, or of --where.")
    ] = False,
    format: Annotated[str, typer.Option(help="table, csv or json.")] = "table",
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Where a sweep stands: what one trial and all of them promise, steps charged, and its trials; or one trial whole.

    Running trials come first, with their step and the seconds left to the end of their launch.
    """
    form = "json" if as_json else format
    if form not in FORMATS:
        raise InvalidValue("--format", form, f"one of {', '.join(FORMATS)}", closest(form, FORMATS))
    if not SHORTEST <= every < float("inf"):
        raise InvalidValue("--every", every, f"seconds, at least {SHORTEST:g}")
    chosen = {"--where": where, "--sort": sort, "--page": page, "--watch": watch, "--curves": curves, "--why": why}
    whose = "one trial is shown" if trial is not None else "no sweep is named" if sweep is None else ""
    for name, value in chosen.items():
        if value and whose:
            raise InvalidValue(name, value, f"left out where {whose}", "It chooses among the trials of one sweep.")
        if curves and value and name in ("--sort", "--watch", "--why"):
            raise InvalidValue(name, value, "left out where --curves is asked for", "--where chooses the trials.")
        if form != "table" and value and name in ("--watch", "--why"):
            raise InvalidValue(name, form, "no other format than table", "--json without it has all that there is now.")
    workspace = Workspace.at(root, store=store)
    # A program reads them all unless it asks for a page.
    page = page if page is not None or form != "table" else 1
    if sweep is None:
        _sweeps(list_summaries(workspace), form)
    elif trial is not None:
        found = Sweep(sweep, workspace).describe(trial)
        if form == "csv":
            raise InvalidValue("--format", form, "table or json for one trial", "`--where number=N` gives its row.")
        print_answer(form == "json", found.to_dict(), found)
    elif why:
        print("\n".join(_summary(workspace, sweep).lines()))
    elif curves:
        _curves(workspace, sweep, where or [], page, form)
    elif watch:
        _watched(workspace, sweep, page, every, where=where or [], sort=sort)
    else:
        _sweep(workspace, sweep, page, form, where=where or [], sort=sort)


FORMATS = ("table", "csv", "json")
SHORTEST = 0.2
"""Seconds between two looks of `--watch`, at least."""


def _sweeps(rows: list[dict[str, Any]], form: str) -> None:
    if form == "json":
        return print_json(rows)
    names = ["sweep", "state", "complete", "running", "failed", "infeasible", "planned"]
    shown = [said for said in ("tags", "notes") if any(row[said] for row in rows)]
    for row in rows:
        row |= {"tags": " ".join(f"{key}={value}" for key, value in row["tags"].items()), "notes": len(row["notes"])}
    if form == "csv":
        sys.stdout.write(csv_text([*names, "tags", "notes"], rows))
        return
    table = Table(*names, *shown)
    for row in rows:
        table.add_row(*(str(row[name]) for name in (*names, *shown)))
    Console().print(table)


def _sweep(workspace: Workspace, sweep: str, page: int | None, form: str, **chosen: Any) -> None:
    trials = Listed(PublishedStore.open(workspace), workspace, sweep, page=page, **chosen)
    if form == "csv":
        sys.stdout.write(trials.as_csv())
        return
    found = _summary(workspace, sweep)
    if form == "json":
        print_json({**found.to_dict(), "listed": trials.to_dict()})
        return
    console = Console()
    lines = [found.heading] if found.heading else []
    called = "" if found.record.called == found.name else f" ({found.name} in keys and folders)"
    print_plain(console, *lines, f"{found.record.called}{called} · {found.record.state} · {counts_text(found.counts)}")
    if any(found.counts.values()):
        console.print(trials.table(found.assumptions))
    print_plain(console, "", *account_lines(found, console.width))


def _summary(workspace: Workspace, sweep: str) -> SweepSummary:
    return SweepSummary(PublishedStore.open(workspace), sweep, workspace)


def _curves(workspace: Workspace, sweep: str, where: Sequence[str], page: int | None, form: str) -> None:
    store = PublishedStore.open(workspace)
    heading = store.heading(sweep)
    curves = by_trial(store.curves(sweep))
    told = [trial for trial in selected(store.trials(sweep), where) if trial.key in curves]
    shown = told if page is None else page_of(told, page)
    rows = curve_rows(shown, curves, heading)
    if form == "json":
        print_json(rows)
    elif form == "csv":
        sys.stdout.write(csv_text(curve_columns(rows), rows))
    elif not rows:
        print("No trial has told anything yet.")
    else:
        if heading:
            print(heading)
        columns = [name for name in curve_columns(rows) if name not in ("number", *CLAIMED)]
        table = Table(*(name.removeprefix("metric.") for name in columns))
        for row in rows:
            table.add_row(*(_cell(name, row.get(name)) for name in columns))
        Console().print(table)
        if page is not None and len(told) > len(shown):
            print(place_of(page, len(shown), len(told), " trials with a curve"))


def _cell(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0%}" if name == "share" else f"{value:.4g}"
    return "" if value is None else str(value)


def _watched(workspace: Workspace, sweep: str, page: int | None, every: float, **chosen: Any) -> None:
    """A look every `every` seconds, and the whole at the end; Ctrl-C ends the looking alone."""
    store, console, before, over = PublishedStore.open(workspace), Console(), "", False
    live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
    try:
        with live or nullcontext():
            while not over:
                # The state first: what is listed then is not older than the end.
                state = store.sweep(sweep).state
                trials = Listed(store, workspace, sweep, page=page, **chosen)
                over, view = state in ENDED, _glance(store, sweep, state, trials)
                if live is not None:
                    live.update(view, refresh=True)
                elif not over:
                    # Without a terminal there is nothing to write over: what changed is printed.
                    with console.capture() as captured:
                        console.print(view)
                    if captured.get() != before:
                        before = captured.get()
                        console.file.write(before)
                if not over:
                    time.sleep(every)
    except KeyboardInterrupt:
        return
    _sweep(workspace, sweep, page, "table", **chosen)


def _glance(store: PublishedStore, sweep: str, state: str, trials: Listed) -> RenderableType:
    counts = ", ".join(f"{count} {word}" for word, count in store.counts(sweep).items())
    heading = [Text(trials.heading)] if trials.heading else []
    return Group(
        *heading,
        Text(f"{sweep}  {state}  {counts}  (Ctrl-C ends the looking, not the sweep)"),
        trials.table(assumptions_of(trials.trials)),
    )

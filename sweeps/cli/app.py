"""The command line. Each command is a thin skin over a Python call; heavy imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sweeps.cli.arguments import hide_passwords
from sweeps.cli.output import clear_errors, print_json
from sweeps.process import exits
from sweeps.provenance.user_code import working_folder_is_importable
from trainables.worker.redaction import redacted, shown_url

# Typer has a click of its own in some releases, and the installed one in others.
_UsageError: Any = typer.BadParameter.__bases__[0]


class _Careful(TyperGroup):
    """Its complaints quote arguments without their passwords."""

    def invoke(self, ctx: Any) -> Any:
        """As any group."""
        with _quoting_no_password():
            return super().invoke(ctx)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        """As any group."""
        with _quoting_no_password():
            return super().make_context(*arguments, **options)


@contextmanager
def _quoting_no_password() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = redacted(error.message)
        raise


app = typer.Typer(
    cls=_Careful,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Hyperparameter sweeps for differentially private machine learning.",
    epilog=exits.TABLE,
)

Root = Annotated[Path, typer.Option("--root", envvar="SWEEPS_ROOT", help="Folder of store, records and reports.")]
StoreUrl = Annotated[str | None, typer.Option("--store", envvar="SWEEPS_STORE", help="Store by SQLAlchemy URL.")]
Records = Annotated[
    str | None,
    typer.Option("--records", envvar="SWEEPS_RECORDS", help="Workers' records: a folder or URL that every node sees."),
]
TrackingUri = Annotated[str | None, typer.Option("--tracking", envvar="SWEEPS_TRACKING", help="MLflow tracking URI.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
DataDir = Annotated[Path | None, typer.Option("--data", help="Folder with the data set's upstream files.")]
ClusterAddress = Annotated[str | None, typer.Option("--address", help="Ray cluster: auto or HOST:PORT.")]
Address = Annotated[str | None, typer.Option("--address", help="Ray cluster: auto, HOST:PORT or ray://HOST:PORT.")]
Changes = Annotated[
    list[str] | None, typer.Option("--set", help="path.to.key=VALUE (YAML) over the spec's own; repeatable.")
]
DEFAULT_ROOT = Path(".sweeps")


def main() -> None:
    """Entry point of the `sweeps` command: bad input becomes one clear message and exit code 2."""
    hide_passwords()
    with clear_errors():
        working_folder_is_importable()
        app()


def _workspace(root: Path, store: str | None, tracking: str | None = None, records: str | None = None) -> Any:
    from sweeps.process.workspace import Workspace

    return Workspace.at(root, store=store, tracking=tracking, records=records)


@app.command()
def check(
    spec: Annotated[str, typer.Argument(help="Spec file, or the name of a packaged example.")],
    data: DataDir = None,
    trials: Annotated[int | None, typer.Option(help="Override search.trials.")] = None,
    changes: Changes = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try it out on made-up records: shapes, loss, isolation, time of a step, metrics.")
    ] = True,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    address: ClusterAddress = None,
    as_json: Json = False,
) -> None:
    """Validate a spec, print its plan (space, noise, cost, total) and rehearse it on made-up records.

    No record is read: of data files only names and types of columns. Resources are held against this machine, or the
    cluster of --address. With --no-rehearsal nothing but the spec is looked at. The store is opened only for a spec
    that names an earlier sweep in search.warm_start.
    """
    from sweeps.check.checking import checked
    from sweeps.examples import load_example_or_file

    loaded = load_example_or_file(spec, data=data, trials=trials, changes=changes or ())
    started_from = _started_from(loaded, _workspace(root, store or loaded.store))
    found = checked(loaded, rehearsal=rehearsal, address=address, **started_from)
    if as_json:
        print_json(found.to_dict())
    else:
        print(found.render())


def _started_from(spec: Any, workspace: Any) -> dict[str, Any]:
    if spec.search.warm_start is None:
        return {}
    from sweeps.ledger.totals import earlier_totals
    from sweeps.release.publisher import Publisher

    opened = Publisher.open(workspace.store_url)
    return {
        "warm": opened.trials(spec.search.warm_start),
        "started_from": earlier_totals(opened, spec.search.warm_start),
    }


@app.command()
def run(
    spec: Annotated[str, typer.Argument(help="Spec file, or the name of a packaged example.")],
    name: Annotated[str | None, typer.Option(help="Name of the sweep; default: the spec's, numbered if taken.")] = None,
    trials: Annotated[int | None, typer.Option(help="Override search.trials.")] = None,
    seed: Annotated[int | None, typer.Option(help="Override search.seed.")] = None,
    changes: Changes = None,
    data: DataDir = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    records: Records = None,
    tracking: TrackingUri = None,
    address: Address = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try a model of your own out on made-up records first, in a process of its own.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Start a sweep and run it to its end. By ray://HOST:PORT it is submitted: the controller runs on the cluster."""
    if _by_client(address, as_json):
        places = _places_there(root, store, records, tracking)
        return _submit(spec, address, name=name, trials=trials, seed=seed, changes=changes, data=data, **places)
    from sweeps.check.checking import before_launch
    from sweeps.cli.running import drive
    from sweeps.control import session
    from sweeps.examples import load_example_or_file

    loaded = load_example_or_file(spec, data=data, trials=trials, seed=seed, changes=changes or ())
    before_launch(loaded, address, rehearsal=rehearsal)
    workspace = _workspace(root, store or loaded.store, tracking, records)
    drive(session.create(loaded, workspace, name), workspace, address=address, shown=_shown if as_json else None)


@app.command()
def resume(
    sweep: str,
    spec: Annotated[Path | None, typer.Option(help="Compare with this spec first.")] = None,
    accept: Annotated[list[str] | None, typer.Option(help="Go on although this changed: spec, code or data.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    records: Records = None,
    tracking: TrackingUri = None,
    address: Address = None,
    as_json: Json = False,
) -> None:
    """Go on with a sweep from wherever it stopped."""
    if _by_client(address, as_json, spec):
        return _submit(sweep, address, resume=True, accept=accept, **_places_there(root, store, records, tracking))
    from sweeps.cli.running import drive
    from sweeps.provenance.fingerprint import check_accepted
    from sweeps.spec import load_spec

    check_accepted(accept or [])

    workspace = _workspace(root, store, tracking, records)
    given = load_spec(spec) if spec is not None else None
    drive(sweep, workspace, spec=given, accept=accept or [], address=address, shown=_shown if as_json else None)


def _by_client(address: str | None, as_json: bool, spec: Path | None = None) -> bool:
    """Tune moves itself to the cluster for a Ray client, and the controller has to be where Tune is."""
    from dpcore.checks import InvalidValue

    if address is None or not address.startswith("ray://"):
        return False
    expected = "left out with a ray:// address"
    if as_json:
        raise InvalidValue("json", True, expected, "Ask `sweeps show NAME --json --store URL` afterwards.")
    if spec is not None:
        raise InvalidValue("spec", str(spec), expected, "Compare on the cluster itself: --address auto there.")
    return True


def _submit(what: str, address: str | None, **options: Any) -> None:
    from sweeps.submission.command import submit

    assert address is not None
    submit(what, address, **options)


def _places_there(root: Path, store: str | None, records: str | None, tracking: str | None) -> dict[str, Any]:
    """The folder here is none there: without --root, the submission's own."""
    places: dict[str, Any] = {"store": store, "records": records, "tracking": tracking}
    return places if root == DEFAULT_ROOT else {**places, "root": str(root)}


@app.command()
def show(
    sweep: Annotated[str | None, typer.Argument(help="One sweep; default: a list of all.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Where a sweep stands: its trials, what one of them and all of them promise, the steps that were charged."""
    from rich.console import Console
    from rich.table import Table

    from sweeps.release.publisher import Publisher

    workspace = _workspace(root, store)
    opened = Publisher.open(workspace.store_url)
    if sweep is None:
        rows = [{"sweep": one.name, "state": one.state, **opened.counts(one.name)} for one in opened.sweeps()]
        if as_json:
            print_json(rows)
            return
        table = Table("sweep", "state", "complete", "running", "failed", "infeasible", "planned")
        for row in rows:
            table.add_row(*(str(row[column.header]) for column in table.columns))  # type: ignore[index]
        Console().print(table)
        return
    from sweeps.cli.showing import shown

    found = shown(sweep, workspace)
    if as_json:
        print_json(found.to_dict())
        return
    for line in found.lines():
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def _shown(sweep: str, workspace: Any) -> dict[str, Any]:
    from sweeps.cli.showing import shown

    return shown(sweep, workspace).to_dict()


@app.command()
def pareto(
    sweep: Annotated[str | None, typer.Argument(help="A sweep of the store.")] = None,
    mlflow: Annotated[tuple[str, str] | None, typer.Option(help="URI EXPERIMENT: read the front from MLflow.")] = None,
    objective: Annotated[list[str] | None, typer.Option(help="METRIC:maximize or METRIC:minimize; repeatable.")] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(help="METRIC=VALUE: where its axis ends for the hypervolume, instead of the spec's; repeatable."),
    ] = None,
    mix: Annotated[str, typer.Option(help="Allow one panel each: notion,status,adjacency,delta,unit.")] = "",
    format: Annotated[
        str | None, typer.Option(help="table, csv, parquet, json, html or png; else by the name of --output.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (parquet, html and png need one).")
    ] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """The exact non-dominated front and its hypervolume."""
    from sweeps.front.command import pareto_command

    pareto_command(
        sweep=sweep,
        mlflow=mlflow,
        objectives=objective or [],
        references=reference or [],
        mix=[name for name in mix.split(",") if name],
        form="json" if as_json else format,
        output=output,
        workspace=_workspace(root, store),
    )


@app.command()
def report(
    sweep: str,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page to write.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained HTML page about a sweep."""
    from sweeps.release.publisher import Publisher
    from sweeps.report import write_report

    workspace = _workspace(root, store)
    path = write_report(Publisher.open(workspace.store_url), sweep, output or workspace.report(sweep))
    if as_json:
        print_json({"sweep": sweep, "report": str(path)})
    else:
        print(path)


@app.command()
def track(
    sweep: str,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    tracking: TrackingUri = None,
    as_json: Json = False,
) -> None:
    """Rebuild the sweep's MLflow experiment from the store, and say what of it the store had not written."""
    from sweeps.release.publisher import Publisher
    from sweeps.tracking import rebuild

    workspace = _workspace(root, store, tracking)
    shown = shown_url(workspace.tracking_uri)
    rebuilt = rebuild(Publisher.open(workspace.store_url), sweep, workspace.tracking_uri, workspace.folder(sweep))
    if as_json:
        print_json({"sweep": sweep, "runs": rebuilt.runs, "mended": rebuilt.mended, "tracking": shown})
    else:
        for sentence in rebuilt.mended:
            print(sentence)
        print(f"{rebuilt.runs} runs in {shown}")


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="The paper, by first author and year; `bu2020` for example.")],
    data: DataDir = None,
    grid: Annotated[str, typer.Option(help="coarse (minutes) or paper (the published grid, hours).")] = "coarse",
    repeats: Annotated[int | None, typer.Option(help="Trainings with different seeds for each point.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only what takes a minute or less.")] = False,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: Json = False,
) -> None:
    """A paper's tables and figures beside ours. A killed reproduction resumes when it is run again."""
    from sweeps.reproductions import Effort
    from sweeps.reproductions.command import reproduce_command

    effort = Effort(grid=grid, repeats=repeats, quick=quick)  # type: ignore[arg-type]  # checked by Effort
    reproduce_command(paper, data, _workspace(root, store), effort, as_json=as_json)


@app.command()
def systems(as_json: Json = False) -> None:
    """Every system with its hyperparameters and metrics."""
    from rich.console import Console
    from rich.table import Table

    from trainables.registry import SYSTEMS

    if as_json:
        print_json([_system(system) for system in SYSTEMS.values()])
        return
    for system in SYSTEMS.values():
        table = Table("parameter", "kind", "range", "default", "meaning", title=f"{system.name}  ({system.source})")
        for one in _system(system)["parameters"]:
            table.add_row(one["name"], one["kind"], one["range"], str(one["default"]), one["doc"])
        Console().print(table)
        for metric in system.metrics:
            Console().print(
                f"  {metric.name} ({metric.goal}): {metric.doc}. Depends on {metric.released}: {metric.depends}.",
                highlight=False,
            )


def _system(system: Any) -> dict[str, Any]:
    return {
        "name": system.name,
        "source": system.source,
        "parameters": [
            {
                "name": one.name,
                "kind": one.kind,
                "range": ", ".join(map(str, one.choices)) if one.choices else f"{one.low} .. {one.high}",
                "default": one.default if one.default is not None else "required",
                "unit": one.unit,
                "doc": one.doc,
            }
            for one in system.parameters
        ],
        "metrics": [
            {"name": one.name, "goal": one.goal, "doc": one.doc, "released": one.released, "depends": str(one.depends)}
            for one in system.metrics
        ],
    }


@app.command()
def datasets(as_json: Json = False) -> None:
    """Every data source."""
    from trainables.data import SOURCES

    if as_json:
        print_json([{"name": source.name, "doc": source.doc} for source in SOURCES.values()])
        return
    for source in SOURCES.values():
        print(f"{source.name:14} {source.doc}")


@app.command()
def schema() -> None:
    """JSON schema of a spec, for editors."""
    from sweeps.spec import spec_schema

    print_json(spec_schema())


def _mount() -> None:
    from sweeps.account import account_app
    from sweeps.audit.command import audit
    from sweeps.submission.command import submit

    app.add_typer(account_app, name="account")
    app.command()(audit)
    app.command()(submit)


_mount()

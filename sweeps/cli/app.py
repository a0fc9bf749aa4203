"""The command line. Each command is a thin skin over a Python call; heavy imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sweeps.account import account_app
from sweeps.audit.audit_command import audit
from sweeps.certificate.certify_command import certify
from sweeps.cli.explain_command import explain
from sweeps.cli.hidden_passwords import hide_passwords
from sweeps.cli.life import delete, enqueue, gc, note, rename, stop, tag
from sweeps.cli.options import (
    DEFAULT_ROOT,
    Accepted,
    AsJson,
    Changes,
    ClusterAddress,
    DataFolder,
    Hours,
    MoreBudgets,
    NewName,
    NewTotal,
    Records,
    Root,
    Seed,
    SpecSource,
    StoreUrl,
    TrackingUri,
    Trials,
)
from sweeps.cli.output import clear_errors, print_json
from sweeps.cli.show_command import show
from sweeps.cli.submit import submit
from sweeps.cli.voice import voiced
from sweeps.export.export_command import export, predict
from sweeps.held_out.held_out_command import held_out_test
from sweeps.population.budget_command import budget
from sweeps.util import exits
from sweeps.util.fingerprint import working_folder_is_importable
from sweeps.util.log import speaking
from trainables.worker.redaction import redacted, shown_url

# Typer has a click of its own in some releases, and the installed one in others.
_UsageError: Any = typer.BadParameter.__bases__[0]


class _Careful(TyperGroup):
    """Its complaints quote arguments without their passwords; its commands have the options of `sweeps.cli.voice`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        voiced(self)
        for command in self.commands.values():
            # Rich keeps the ends of a docstring's lines, wherever those of the terminal are.
            command.help = "\n\n".join(" ".join(one.split()) for one in (command.help or "").split("\n\n"))

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
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    epilog=exits.TABLE,
)


def main() -> None:
    """Entry point of the `sweeps` command: bad input becomes one clear message and exit code 2."""
    hide_passwords()
    with speaking(), clear_errors():
        working_folder_is_importable()
        app()


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(version("private-sweeps"))
        raise typer.Exit


@app.callback()
def sweeps(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Hyperparameter sweeps for differentially private machine learning."""


def _workspace(root: Path, store: str | None, tracking: str | None = None, records: str | None = None) -> Any:
    from sweeps.util.workspace import Workspace

    return Workspace.at(root, store=store, tracking=tracking, records=records)


@app.command()
def init(
    file: Annotated[str, typer.Argument(help="Parquet or CSV of your own: a file, a folder or a URL.")],
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Spec to write; default: print it.")] = None,
) -> None:
    """Write a commented spec for a table, from the names and types of its columns; `check` names the blanks in it."""
    from sweeps.face import opening

    text = opening.init(file, label=label, output=output)
    print(text if output is None else output, end="" if output is None else "\n")


@app.command()
def check(
    spec: SpecSource,
    data: DataFolder = None,
    trials: Trials = None,
    changes: Changes = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try it out on made-up records: shapes, loss, isolation, time of a step, metrics.")
    ] = True,
    modes: Annotated[
        bool, typer.Option("--modes", help="Compare what each way to charge for the search would cost.")
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option("--proxy", help="With --modes: a sweep on public records, by which results are predicted."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="With --modes: its plot, FILE.html.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    address: Annotated[str | None, typer.Option("--address", help="Ray cluster: auto or HOST:PORT.")] = None,
    as_json: AsJson = False,
) -> None:
    """Validate a spec, print its plan (space, noise, cost, total) and rehearse it on made-up records.

    No record is read: of data files only names and types of columns. Resources are held against this machine, or the
    cluster of --address. With --no-rehearsal nothing but the spec is looked at. The store is opened only for a spec
    that names an earlier sweep (search.warm_start, search.chosen_from), or declares data.population, and for --proxy.
    """
    from sweeps.face import opening

    found = opening.check(
        spec,
        data=data,
        trials=trials,
        changes=changes or (),
        rehearsal=rehearsal,
        modes=modes or output is not None,
        proxy=proxy,
        root=root,
        store=store,
        address=address,
    )
    if output is not None:
        found.write(output)
    if as_json:
        print_json(found.to_dict())
    else:
        print(found)


@app.command()
def run(
    spec: SpecSource,
    name: NewName = None,
    trials: Trials = None,
    seed: Seed = None,
    changes: Changes = None,
    data: DataFolder = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    records: Records = None,
    tracking: TrackingUri = None,
    address: ClusterAddress = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try a model of your own out on made-up records first, in a process of its own.")
    ] = True,
    models: Annotated[
        str | None,
        typer.Option(
            help="Whose models MLflow shows at the end: front (the best eight; default), none, or numbers 0,3."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a sweep and run it to its end. By ray://HOST:PORT it is submitted: the controller runs on the cluster."""
    if client := _client_address(address, as_json):
        places = _places_on_cluster(root, store, records, tracking)
        return submit(spec, client, name=name, trials=trials, seed=seed, changes=changes, data=data, **places)
    from sweeps.cli.running import drive
    from sweeps.face import opening

    created, workspace = opening.created(
        spec,
        name=name,
        trials=trials,
        seed=seed,
        changes=changes or (),
        data=data,
        root=root,
        store=store,
        records=records,
        tracking=tracking,
        address=address,
        rehearsal=rehearsal,
        models=models,
    )
    drive(created, workspace, address=address, as_json=as_json)


@app.command()
def resume(
    sweep: str,
    spec: Annotated[Path | None, typer.Option(help="Compare with this spec first.")] = None,
    accept: Accepted = None,
    trials: NewTotal = None,
    hours: Hours = None,
    epsilon: MoreBudgets = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    records: Records = None,
    tracking: TrackingUri = None,
    address: ClusterAddress = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a sweep from wherever it stopped; with --trials, --hours or --epsilon, beyond what it began with."""
    if client := _client_address(address, as_json, spec):
        places = _places_on_cluster(root, store, records, tracking)
        return submit(sweep, client, resume=True, accept=accept, trials=trials, hours=hours, epsilon=epsilon, **places)
    from sweeps.cli.running import drive
    from sweeps.spec import load_spec
    from sweeps.util.fingerprint import check_accepted

    check_accepted(accept or [])
    workspace = _workspace(root, store, tracking, records)
    given = load_spec(spec) if spec is not None else None
    drive(
        sweep,
        workspace,
        spec=given,
        accept=accept or [],
        trials=trials,
        hours=hours,
        epsilon=epsilon or [],
        address=address,
        as_json=as_json,
    )


def _client_address(address: str | None, as_json: bool, spec: Path | None = None) -> str | None:
    """The address if it is that of a Ray client: Tune would move itself to the cluster, and the controller has to be
    where Tune is, so the sweep is submitted. Raises InvalidValue for options that this leaves without an answer."""
    from dpcore.checks import InvalidValue

    if address is None or not address.startswith("ray://"):
        return None
    expected = "left out with a ray:// address"
    if as_json:
        raise InvalidValue("json", True, expected, "Ask `sweeps show NAME --json --store URL` afterwards.")
    if spec is not None:
        raise InvalidValue("spec", str(spec), expected, "Compare on the cluster itself: --address auto there.")
    return address


def _places_on_cluster(root: Path, store: str | None, records: str | None, tracking: str | None) -> dict[str, Any]:
    """Where a submitted sweep keeps its files. A root that was not named is the submission's own: the default one
    here is no folder of the cluster."""
    places: dict[str, Any] = {"store": store, "records": records, "tracking": tracking}
    return places if root == DEFAULT_ROOT else {**places, "root": str(root)}


app.command()(show)


@app.command()
def pareto(
    sweeps: Annotated[list[str] | None, typer.Argument(help="Sweeps of the store, on the same records.")] = None,
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
    as_refuted: Annotated[
        bool, typer.Option("--as-refuted", help="Draw trials whose claim is refuted too, under that word.")
    ] = False,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """The exact non-dominated front and its hypervolume; of several sweeps with the total over all of them."""
    from sweeps.front.pareto_command import pareto_command

    pareto_command(
        sweeps=sweeps or [],
        mlflow=mlflow,
        objectives=objective or [],
        references=reference or [],
        mix=[name for name in mix.split(",") if name],
        form="json" if as_json else format,
        output=output,
        workspace=_workspace(root, store),
        as_refuted=as_refuted,
    )


@app.command()
def report(
    sweep: str,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Page to write.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page about a sweep."""
    from sweeps.face import opening

    path = opening.open(sweep, root=root, store=store).report(output)
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
    as_json: AsJson = False,
) -> None:
    """Rebuild the sweep's MLflow experiment from the store, and say what of it the store had not written."""
    from sweeps.face import opening

    opened = opening.open(sweep, root=root, store=store, tracking=tracking)
    shown, rebuilt = shown_url(opened.workspace.tracking_uri), opened.track()
    if as_json:
        print_json({"sweep": sweep, "runs": rebuilt.runs, "mended": rebuilt.mended, "tracking": shown})
    else:
        for sentence in rebuilt.mended:
            print(sentence)
        print(f"{rebuilt.runs} runs in {shown}")
        if rebuilt.models is not None:
            print(*rebuilt.models.lines(), sep="\n", end="\n" if list(rebuilt.models.lines()) else "")


@app.command()
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
    from sweeps.papers import Effort
    from sweeps.papers.command import reproduce_command

    effort = Effort(grid=grid, repeats=repeats, quick=quick)  # type: ignore[arg-type]  # checked by Effort
    reproduce_command(paper, data, _workspace(root, store), effort, as_json=as_json)


@app.command()
def systems(
    name: Annotated[str | None, typer.Argument(help="One of them; default: all.")] = None, as_json: AsJson = False
) -> None:
    """Every system, or one, with its hyperparameters and metrics."""
    from sweeps.cli.catalogue import described, print_systems

    if as_json:
        print_json(described(name))
    else:
        print_systems(name)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="Of one of them, its options too.")] = None, as_json: AsJson = False
) -> None:
    """Every data source, or one with its options."""
    from sweeps.cli.datasets import datasets_command

    datasets_command(name, as_json=as_json)


@app.command()
def schema() -> None:
    """JSON schema of a spec, for editors."""
    from sweeps.spec import spec_schema

    print_json(spec_schema())


app.command()(explain)
app.add_typer(account_app, name="account")
app.command()(audit)
app.command()(certify)
app.command("test")(held_out_test)
app.command()(budget)
app.command()(export)
app.command()(predict)
app.command()(stop)
app.command()(enqueue)
app.command()(note)
app.command()(tag)
app.command()(gc)
app.command()(rename)
app.command()(delete)
app.command()(submit)

"""The command line. Each command is a thin skin over a Python call; heavy imports happen inside the commands."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from dpcore.audit.audit import AuditOutcome
from dpcore.checks import InvalidValue
from dpcore.gdp import eps_gdp
from sweeps import api
from sweeps.audit import AuditRecord, attack_trial
from sweeps.cli import common
from sweeps.cli.account import account_app, budget
from sweeps.cli.catalogue import datasets, explain, reproduce, schema, systems
from sweeps.cli.common import answers, on_sweep, placed, tracked
from sweeps.cli.show import show
from sweeps.cli.submit import submit
from sweeps.planning.preview import Preview
from sweeps.privacy.ledger import HEADING, Assumptions, claim_text
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.front import FrontAxis, parse_reference, sweep_front
from sweeps.reporting.html import render
from sweeps.reporting.tables import format_of, table
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from sweeps.util import exits, log
from sweeps.util.exits import ExitCode
from sweeps.util.files import write_output
from sweeps.util.fingerprint import check_accepted, working_folder_is_importable
from sweeps.util.log import configured
from sweeps.util.text import check_text
from trainables.measures.audits import Attacked
from trainables.worker.redaction import holds_secret, shown_url

# Commands about what a sweep claims: `sweeps audit` tries to refute it, `sweeps certify` signs or verifies it.


@answers
@on_sweep
def audit(
    sweep: Sweep,
    trial: common.TrialName,
    method: Annotated[
        str | None, typer.Option(help="one-run, f-dp or multi-run; default: the best that the system offers.")
    ] = None,
    canaries: Annotated[int | None, typer.Option(help="Canaries of one run (default 2000).")] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs with the target, and as many without (default 1000, or 100 where slow).")
    ] = None,
    shadows: Annotated[
        int | None, typer.Option(help="Attack membership instead (LiRA, loss threshold) with so many shadow twins.")
    ] = None,
    accept: Annotated[list[str] | None, typer.Option(help="Audit although this changed: code or data.")] = None,
) -> common.Answer:
    """Try to refute a trial's claim: retrain twins with canaries and bound epsilon from below.

    Exits with 3 when the claim is refuted. A claim that survives is consistent, never verified.
    """

    def say(line: str) -> None:
        log.say(f"training {line}", log.Event.PROGRESS)

    if shadows is not None:
        check_accepted(accept or [], ("code", "data"))
        key, attacks = attack_trial(sweep.workspace, sweep.name, trial, shadows, accept=accept or [], say=say)
        document = {"trial": key, "covered_by_claim": False, "attacks": [asdict(one) for one in attacks]}
        return document, "\n".join(attack_lines(key, attacks))
    record = sweep.audit(trial, method=method, canaries=canaries, runs=runs, accept=accept or (), say=say)
    refuted = record.outcome is AuditOutcome.REFUTED
    return record.to_dict(), "\n".join(lines(record)), ExitCode.REFUTED if refuted else ExitCode.OK


def lines(record: AuditRecord) -> list[str]:
    """The audit as it is printed."""
    against = "the whole curve of its planned steps" if record.on_curve else "the claimed (epsilon, delta)"
    assumptions = Assumptions.of((record.headline, record.claim))
    shown = [
        f"{record.trial}  {record.system}, {record.steps} step(s)",
        *_claims(record, assumptions),
        f"audit    {record.audit}",
        *_shaped(record),
        f"attack   {record.design}; {record.trainings} twin(s) in {record.seconds:.1f} s",
        f"verdict  {record.outcome}, tested against {against} at level {record.level:.3g} (audit {record.number} of "
        "this sweep; the levels of all its audits add up to 0.05)",
    ]
    if record.outcome is AuditOutcome.REFUTED:
        shown.append(
            f"         The claim is false, or something happened that has probability {record.level:.3g}. Publish no "
            f"trial of {record.system} in this sweep: they share the code."
        )
    else:
        shown.append("         This attack did not contradict the claim. No audit can verify one.")
    if record.reads_records:
        shown.append(
            "note     Twins were trained on the sweep's own records, with noise of their own. This is in no ledger but "
            "that of the population, where one is declared, and no claim covers the numbers above: keep them where the "
            "records are kept."
        )
    else:
        shown.append("note     Every record of these twins was made up: the sweep's own were not read.")
    return [*shown, f"{HEADING}:", *(f"  {line}" for line in assumptions.lines())]


def _claims(record: AuditRecord, assumptions: Assumptions) -> list[str]:
    refuted = record.outcome is AuditOutcome.REFUTED
    headline, tested = (
        claim_text(one, "refuted, by this audit" if refuted else assumptions.status(one))
        for one in (record.headline, record.claim)
    )
    if record.headline == record.claim:
        return [f"claim    {tested}"]
    return [
        f"claim    {headline}",
        f"beside   {tested}",
        "         No audit can be held against the first: an average does not bound what one record shows. It is the "
        "second that is tested.",
    ]


def attack_lines(key: str, attacks: tuple[Attacked, ...]) -> list[str]:
    """Membership attacks as they are printed."""
    shown = [f"{key}  a twin on a random half of the records: {attacks[0].members} members, {attacks[0].others} others"]
    for one in attacks:
        rates = ", ".join(f"TPR {tpr:.3g} at FPR {fpr:g}" for fpr, tpr in one.tpr_at.items())
        calls = "" if one.accuracy is None or one.f1 is None else f", accuracy {one.accuracy:.3f}, F1 {one.f1:.3f}"
        shown.append(f"{one.name:15} AUC {one.auc:.3f}{calls}, {rates}")
    shown.append(
        "note            Computed from the sweep's own records: no claim covers these numbers, nor any verdict."
    )
    return shown


def _shaped(record: AuditRecord) -> list[str]:
    """What the same counts say of a release whose curve is Gaussian: the bound above assumes no shape."""
    mu, delta = record.audit.mu_lower, record.audit.delta
    if not (record.on_curve and mu and delta):
        return []
    epsilon = math.floor(eps_gdp(mu, delta) * 1e4) / 1e4
    return [f"         of a Gaussian-shaped release: mu >= {math.floor(mu * 1e4) / 1e4:g}, eps >= {epsilon:g}"]


@answers
def certify(
    sweep: Annotated[str | None, typer.Argument(help="The sweep; with --verify or --new-key none.")] = None,
    trial: Annotated[
        str | None, typer.Option(help="One trial alone, by key or number: its search is then not covered.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Your Ed25519 private key (PEM), which signs.")] = None,
    approved_by: Annotated[str, typer.Option(help="Who approved this epsilon.")] = "",
    because: Annotated[str, typer.Option(help="Why this epsilon is right for these records.")] = "",
    ranges: Annotated[
        str,
        typer.Option(
            help="How ranges of hyperparameters and public inputs were chosen, and on which data. "
            "[default: selection.chosen_by of the spec]"
        ),
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Document to write; its signature and the page for people lie beside it."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--verify", help="Verify this certificate instead, with FILE.sig beside it.")
    ] = None,
    signer: Annotated[
        Path | None, typer.Option(help="Public key (PEM) of whom the certificate should be, had from elsewhere.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--new-key", help="Make a key pair instead: this file, and FILE.pub to give away.")
    ] = None,
    root: common.Root = common.DEFAULT_ROOT,
    store: common.StoreUrl = None,
) -> common.Answer:
    """Certify what a sweep claims: one document, its signature, and one page for people.

    --verify recomputes the claim's arithmetic from the document alone, without store or data, and exits with 3 where
    anything in it does not hold.
    """
    if sum(one is not None for one in (sweep, certificate, file)) != 1:
        raise InvalidValue("SWEEP", sweep, "a sweep to certify, or --verify FILE, or --new-key FILE: one of them")
    if file is not None:
        public = api.new_key(file)
        return {"key": str(file), "public": str(public)}, f"{file} signs; give {public} away"
    if certificate is not None:
        if signer is None:
            raise InvalidValue("--signer", None, "the public key of whom you expect it, which came by another way")
        found = api.verify(certificate, signer=signer)
        return found.to_dict(), found, ExitCode.OK if found.stands else ExitCode.REFUTED
    assert sweep is not None
    if key is None:
        raise InvalidValue("--key", None, "your Ed25519 private key", "`sweeps certify --new-key FILE` makes one.")
    opened = api.open(sweep, root=root, store=store)
    made = opened.certify(key=key, approved_by=approved_by, because=because, ranges=ranges, trial=trial)
    places = made.save(output or opened.workspace.certificate(opened.name))
    named = dict(zip(("certificate", "signature", "page"), map(str, places), strict=True))
    return {**named, "title": made.body.title}, "\n".join([str(made), *named.values()])


class _Commands(TyperGroup):
    """Each of them with the options of `add_logging_options`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        common.add_logging_options(self)
        for command in self.commands.values():
            # Rich keeps the ends of a docstring's lines, wherever those of the terminal are.
            command.help = "\n\n".join(" ".join(one.split()) for one in (command.help or "").split("\n\n"))


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    epilog=exits.TABLE,
)


def main() -> None:
    """Entry point of the `sweeps` command: bad input becomes one clear message and exit code 2."""
    with configured(), common.clear_errors():
        _refuse_passwords()
        for word in sys.argv[1:]:
            check_text("argument", word)
        working_folder_is_importable()
        app()


def _refuse_passwords() -> None:
    """Everybody on the machine can read the arguments of a process; a job's arguments come in a file instead."""
    own = sys.argv[1:]
    if sys.orig_argv[len(sys.orig_argv) - len(own) :] != own:
        return
    for word in filter(holds_secret, own):
        raise InvalidValue(
            "argument",
            shown_url(word),
            "no password: the list of processes shows it to everybody",
            "Set SWEEPS_STORE, SWEEPS_RECORDS or SWEEPS_TRACKING instead.",
        )


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


@app.command()
def init(
    file: Annotated[str, typer.Argument(help="Parquet or CSV of your own: a file, a folder or a URL.")],
    label: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Spec to write; default: print it.")] = None,
) -> None:
    """Write a commented spec for a table, from the names and types of its columns; `check` names the blanks in it."""
    text = api.init(file, label=label, output=output)
    print(text if output is None else output, end="" if output is None else "\n")


@app.command()
@answers
def check(
    spec: common.SpecSource,
    data: common.DataFolder = None,
    trials: common.Trials = None,
    changes: common.Changes = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try it out on made-up records: shapes, loss, isolation, time of a step, metrics.")
    ] = True,
    modes: Annotated[
        bool, typer.Option("--modes", help="Compare what each way to charge for the search would cost.")
    ] = False,
    root: common.Root = common.DEFAULT_ROOT,
    store: common.StoreUrl = None,
    address: Annotated[str | None, typer.Option("--address", help="Ray cluster: auto or HOST:PORT.")] = None,
) -> Preview:
    """Validate a spec, print its plan (space, noise, cost, total) and rehearse it on made-up records.

    No record is read: of data files only names and types of columns. Resources are held against this machine, or the
    cluster of --address. With --no-rehearsal nothing but the spec is looked at. The store is opened only for a spec
    that names an earlier sweep (search.warm_start, search.chosen_from), or declares data.population.
    """
    looks: dict[str, Any] = {"rehearsal": rehearsal, "modes": modes, "address": address}
    return api.check(spec, data=data, trials=trials, changes=changes or (), root=root, store=store, **looks)


@app.command()
@placed
def run(
    spec: common.SpecSource,
    name: common.NewName = None,
    trials: common.Trials = None,
    seed: common.Seed = None,
    changes: common.Changes = None,
    data: common.DataFolder = None,
    rehearsal: Annotated[
        bool, typer.Option(help="Try a model of your own out on made-up records first, in a process of its own.")
    ] = True,
    models: Annotated[
        str | None,
        typer.Option(
            help="Whose models MLflow shows at the end: front (the best eight; default), none, or numbers 0,3."
        ),
    ] = None,
    as_json: common.AsJson = False,
    **places: Any,
) -> None:
    """Start a sweep and run it to its end. By ray://HOST:PORT it is submitted: the controller runs on the cluster."""
    if client := _client_address(places["address"], as_json):
        there = _places_on_cluster(**places)
        return submit(spec, client, name=name, trials=trials, seed=seed, changes=changes, data=data, **there)
    from sweeps.cli.run import drive
    from sweeps.execution.session import RunOptions

    shown = () if models is None else (f"tracking.models={models}",)
    loaded = api.load(spec, data=data, trials=trials, seed=seed, changes=[*(changes or ()), *shown])
    address = places.pop("address")
    workspace = api.places(**{**places, "store": places["store"] or loaded.store})
    created = api.created(loaded, workspace, name, address, rehearsal)
    drive(created, workspace, RunOptions(address=address, is_new=True), as_json=as_json)


@app.command()
@placed
def resume(
    sweep: str,
    spec: Annotated[Path | None, typer.Option(help="Compare with this spec first.")] = None,
    accept: common.Accepted = None,
    trials: common.NewTotal = None,
    hours: common.Hours = None,
    epsilon: common.MoreBudgets = None,
    as_json: common.AsJson = False,
    **places: Any,
) -> None:
    """Go on with a sweep from wherever it stopped; with --trials, --hours or --epsilon, beyond what it began with."""
    if client := _client_address(address := places.pop("address"), as_json, spec):
        there = _places_on_cluster(**places)
        return submit(sweep, client, resume=True, accept=accept, trials=trials, hours=hours, epsilon=epsilon, **there)
    from sweeps.cli.run import drive
    from sweeps.execution.session import RunOptions
    from sweeps.util.fingerprint import check_accepted

    check_accepted(accept or [])
    given = None if spec is None else api.load(spec)
    asked: dict[str, Any] = {"accept": accept or [], "trials": trials, "hours": hours, "epsilon": epsilon or []}
    drive(sweep, Workspace.at(**places), RunOptions(spec=given, address=address, **asked), as_json=as_json)


def _client_address(address: str | None, as_json: bool, spec: Path | None = None) -> str | None:
    """The address if it is that of a Ray client: Tune would move itself to the cluster, and the controller has to be
    where Tune is, so the sweep is submitted. Raises InvalidValue for options that this leaves without an answer."""
    if address is None or not address.startswith("ray://"):
        return None
    expected = "left out with a ray:// address"
    if as_json:
        raise InvalidValue("json", True, expected, "Ask `sweeps show NAME --json --store URL` afterwards.")
    if spec is not None:
        raise InvalidValue("spec", str(spec), expected, "Compare on the cluster itself: --address auto there.")
    return address


def _places_on_cluster(root: Path, address: str | None = None, **places: str | None) -> dict[str, Any]:
    """Where a submitted sweep keeps its files. A root that was not named is the submission's own: the default one
    here is no folder of the cluster."""
    return {**places} if root == common.DEFAULT_ROOT else {**places, "root": str(root)}


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
    root: common.Root = common.DEFAULT_ROOT,
    store: common.StoreUrl = None,
    as_json: common.AsJson = False,
) -> None:
    """The exact non-dominated front and its hypervolume; of several sweeps with the total over all of them."""
    form = format_of(output, "json" if as_json else format)
    allowed = [name for name in mix.split(",") if name]
    parsed = [FrontAxis.parse(one) for one in objective or []]
    ends = dict(parse_reference(one) for one in reference or [])
    asked: dict[str, Any] = {"objectives": parsed, "mix": allowed, "reference": ends, "as_refuted": as_refuted}
    if (not sweeps) == (mlflow is None):
        named = ", ".join(sweeps or []) or None
        raise InvalidValue("sweep", named, "either a sweep of the store or --mlflow URI EXPERIMENT")
    if mlflow is not None:
        from sweeps.mlflow.read import read_front

        front = read_front(*mlflow, **asked)
    else:
        known = PublishedStore.open(Workspace.at(root, store=store))
        front = sweep_front(known, *sweeps or [], total=True, **asked)
    if form == "table" and output is None:
        Console().print(table(front))
    else:
        _write(render(front, form), output)


def _write(content: str | bytes, output: Path | None) -> None:
    if output is not None:
        print(write_output(content, output))
    elif isinstance(content, str):
        sys.stdout.write(content)
    elif sys.stdout.isatty():
        raise InvalidValue("output", None, "a file for this format", "Add --output FILE, or redirect.")
    else:
        sys.stdout.buffer.write(content)


@app.command()
@answers
@on_sweep
def report(
    sweep: Sweep, output: Annotated[Path | None, typer.Option("--output", "-o", help="Page to write.")] = None
) -> common.Answer:
    """Write one self-contained HTML page about a sweep."""
    path = sweep.report(output)
    return {"sweep": sweep.name, "report": str(path)}, path


@app.command()
@answers
@tracked
def track(sweep: Sweep) -> common.Answer:
    """Rebuild the sweep's MLflow experiment from the store."""
    shown, found = shown_url(sweep.workspace.tracking_uri), sweep.track()
    document = {"sweep": sweep.name, "runs": found.runs, "tracking": shown}
    return document, "\n".join([f"{found.runs} runs in {shown}", *found.models.lines()])


@app.command("test")
@answers
@on_sweep
def held_out_test(
    sweep: Sweep,
    trial: common.TrialName,
    again: Annotated[
        bool, typer.Option("--again", help="Although they were read before: no longer untouched, and charged again.")
    ] = False,
    accept: Annotated[list[str] | None, typer.Option(help="Score although this changed: code.")] = None,
) -> common.Answer:
    """Score a finished trial on the test records that its spec declares (`data.test`): once, on record.

    A second reading is refused. The cards of models say what was read, and how often.
    """
    found = sweep.test(trial, again=again, accept=accept or ())
    return found.to_dict(), f"{found.trial} on test records: {found}"


for _command in (reproduce, systems, datasets, schema, explain, audit, certify, show, budget, submit):
    app.command()(_command)
app.add_typer(account_app, name="account")


# `sweeps export` and `sweeps predict`: a trial's model as a folder, and what such a model says of files.


@app.command()
@answers
@tracked
def export(
    sweep: Sweep,
    trial: common.TrialName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to make, which is not there yet.")
    ] = None,
    model_name: Annotated[
        str | None, typer.Option("--register", help="Add it to MLflow's registry, as the next version of this name.")
    ] = None,
    as_refuted: Annotated[
        bool, typer.Option("--as-refuted", help="Let it out although its claim is refuted, under that heading.")
    ] = False,
    accept: Annotated[list[str] | None, typer.Option(help="Export although this changed: code.")] = None,
) -> common.Answer:
    """Take the model of a finished trial out: weights, program, preprocessing, and a card with its claim.

    The folder needs torch and safetensors, and nothing of ours. Systems that answer queries have no model to take out.
    In MLflow's registry it stands without a pickle, with its claim as tags.
    """
    if output is None and model_name is None:
        raise InvalidValue("--output", None, "a folder to make, or --register NAME for MLflow's registry")
    chosen: dict[str, Any] = {"as_refuted": as_refuted, "accept": accept or ()}
    model, places = sweep.model(trial, **chosen), {}
    if output is not None:
        places["model"] = str(model.save(output))
    if model_name is not None:
        places["registered"] = sweep.register(trial, model_name, **chosen).uri
    return {**places, **model.card}, "\n".join([model.page, *places.values()])


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Folder that `sweeps export` wrote.")],
    files: Annotated[
        list[str],
        typer.Argument(help="Parquet or CSV with the declared columns: files, folders, patterns in quotes, or URLs."),
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="CSV or Parquet file to write, a row for each row.")],
    format: Annotated[str | None, typer.Option(help="parquet or csv, where the file's name does not say.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Of two classes say the second where its probability is at least that.")
    ] = None,
    keep: Annotated[list[str] | None, typer.Option(help="A column of the files to carry along, such as an id.")] = None,
) -> None:
    """What an exported model says of the rows of files, in their order; of several files with a column `file`."""
    from trainables.export.model import check_output, written

    check_output(output)
    said = api.predict(model, files, format=format, threshold=threshold, keep=keep or ())
    print(written(said, output))


# Commands about a sweep that was started: what its people ask of it, wherever its controller runs.


@app.command()
@answers
@on_sweep
def stop(
    sweep: Sweep,
    wait: Annotated[bool, typer.Option(help="Until it has ended, for one patience (SWEEPS_PATIENCE) at most.")] = True,
) -> Any:
    """Stop a sweep that runs in another terminal or on another machine, as Ctrl-C does there; it can be resumed."""
    return sweep.stop(wait=wait)


@app.command()
@answers
@on_sweep
def enqueue(
    sweep: Sweep,
    point: Annotated[list[str], typer.Argument(help="KNOB=VALUE each; system= and target_epsilon= where several.")],
) -> Any:
    """Ask for a trial of a known good point besides; the total stays a guarantee where the sweep has one budget."""
    return sweep.enqueue(point)


@app.command()
@on_sweep
def note(sweep: Sweep, text: str) -> None:
    """Keep a sentence about a sweep, running or over; `show` prints it, and MLflow within seconds or by `track`."""
    sweep.note(text)


@app.command()
@on_sweep
def tag(
    sweep: Sweep, tags: Annotated[list[str], typer.Argument(help="KEY=VALUE, one or several; KEY= takes a tag away.")]
) -> None:
    """Tag a sweep, running or over; `show` lists them, and MLflow has them within seconds or by `track`."""
    sweep.tag(tags)


@app.command()
@answers
@on_sweep
def gc(
    sweep: Sweep,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which, and how many bytes.")] = False,
) -> Any:
    """Delete checkpoints off the front, and encoded records that nobody reads now. Kept are those of trials that may
    still run, on the front, and of the best."""
    return sweep.gc(dry_run=dry_run)


@app.command()
@on_sweep
def rename(sweep: Sweep, new: Annotated[str, typer.Argument(help="Free, and then never another sweep's.")]) -> None:
    """Call a sweep by another name; trials and folders keep the one that it began with."""
    sweep.rename(new)


@app.command()
@tracked
def delete(sweep: Sweep, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete a sweep's results and files for good; what it spent on the records stays on record, as does its name."""
    from sweeps.execution.gc import GOES, STAYS

    if not yes:
        print(f"{GOES}\n{STAYS}")
        typer.confirm(f"Delete {sweep.name!r}?", abort=True)
    print(sweep.delete())

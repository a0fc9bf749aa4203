"""Starting and finding sweeps from Python: the calls that the commands of the same names make.

Quiet by default; in a notebook, or with `progress=True`, a sweep shows how far it is.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.examples import Spec, load
from sweeps.execution import requests
from sweeps.privacy.charge import check_terms
from sweeps.privacy.population import PopulationAccount, account
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.summary import list_summaries
from sweeps.spec.sections import SweepSpec
from sweeps.store.population import Population
from sweeps.store.workspace import DEFAULT_ROOT, Workspace
from sweeps.sweep import Sweep
from sweeps.util.exits import ExitCode

if TYPE_CHECKING:
    import pandas as pd

    from sweeps.certificate.verify import Verification
    from sweeps.execution.session import RunOptions, SweepEnd
    from sweeps.planning.preview import Preview
    from sweeps.progress import SweepProgress
    from sweeps.sweep import ParetoFront
    from trainables.export.model import Files


# Where a call of the Python face looks for a sweep: the same places as the command line's, under the same names.


def places(
    root: str | Path | None = None,
    store: str | None = None,
    records: str | None = None,
    tracking: str | None = None,
) -> Workspace:
    """The workspace of these places, each from its environment variable (SWEEPS_ROOT, ...) where it is not given.

    root      folder of store, records and reports; `.sweeps` by default
    store     SQLAlchemy URL; the file `sweeps.db` in `root` by default
    records   workers' records: a folder or URL that every node sees; `root` by default
    tracking  MLflow tracking URI, also from MLFLOW_TRACKING_URI; `mlflow.db` in `root` by default

    Raises InvalidValue for a root that is a URL, and for records or a tracking URI that cannot be.
    """
    return Workspace.at(
        root or os.environ.get("SWEEPS_ROOT") or DEFAULT_ROOT,
        store=store or os.environ.get("SWEEPS_STORE"),
        records=records or os.environ.get("SWEEPS_RECORDS"),
        tracking=tracking or os.environ.get("SWEEPS_TRACKING") or os.environ.get("MLFLOW_TRACKING_URI"),
    )


# What comes after a sweep's last trial and its results: the models that MLflow is to show.


def with_models(end: SweepEnd, workspace: Workspace) -> SweepEnd:
    """How a session ended, with what MLflow shows of its models (`sweeps.export`).

    Everything else of the sweep is done by now: whatever fails here is said, and `sweeps track` does it again.
    """
    from sweeps.export import ModelsShown, show_models

    if end.state == "stopped" or end.tracking is None:
        return end
    try:
        return replace(end, models=show_models(workspace, end.sweep))
    except (KeyboardInterrupt, Exception) as error:
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        again = f"{why}. Nothing else is missing; `sweeps track {end.sweep}` shows them."
        return replace(end, models=ModelsShown(left_out={"the front": again}))


class SweepWarning(UserWarning):
    """A sweep ended, but not well: trials failed, none can be ranked, or it was stopped."""


def init(file: str | Path, *, label: str | None = None, output: str | Path | None = None) -> str:
    """A commented spec for a Parquet or CSV file of one's own, as YAML, from the names and types of its columns.

    No record is read: their number, bounds, categories and delta are blanks (`???`), which `load` refuses by name.

    file    path, folder, or URL of an object store
    label   the column to predict; a blank too where it is not given
    output  file to write it to as well, which is not there yet

    Raises InvalidValue (file, label, output).
    """
    from sweeps.spec.template import starting_spec
    from sweeps.util.files import write_output

    if output is not None and Path(output).exists():
        remedy = "What was filled in there is not written over: name another."
        raise InvalidValue("output", str(output), "a file that is not there yet", remedy)
    text = starting_spec(file, label)
    if output is not None:
        write_output(text, Path(output))
    return text


def check(
    spec: Spec,
    *,
    data: str | Path | None = None,
    trials: int | None = None,
    changes: Mapping[str, Any] | Sequence[str] = (),
    systems: Sequence[Any] = (),
    sources: Sequence[Any] = (),
    rehearsal: bool = True,
    modes: bool = False,
    root: str | Path | None = None,
    store: str | None = None,
    address: str | None = None,
) -> Preview:
    """Plan a spec (space, noise, cost, total) and rehearse it on made-up records; no record is read.

    rehearsal  try it out on made-up records: shapes, loss, isolation, seconds and memory of a step
    modes      compare what each way to charge for the search would cost: `.modes`
    address    Ray cluster whose nodes resources are held against; None: this machine
    root, store  looked into only for a spec that starts from an earlier sweep (`search.warm_start`, or
                 `search.chosen_from`), or declares whose records it reads (`data.population`)

    `print` of what comes back says it in words. Raises SpecErrors, InvalidValue, and WouldFail for what the rehearsal
    found.
    """
    from sweeps.execution.final_run import with_chosen
    from sweeps.planning.estimate import before
    from sweeps.planning.preview import checked
    from sweeps.privacy.totals import earlier_totals

    loaded = load(spec, data=data, trials=trials, changes=changes, systems=systems, sources=sources)
    workspace = places(root, store or loaded.store)
    begun: dict[str, Any] = {}
    if (earlier := loaded.search.warm_start) is not None or loaded.search.chosen_from is not None:
        opened = PublishedStore.open(workspace)
        loaded = loaded if loaded.search.chosen_from is None else with_chosen(loaded, opened)
        begun = {"warm": opened.trials(earlier) if earlier else (), "started_from": earlier_totals(opened, loaded)}
    found = checked(loaded, rehearsal=rehearsal, modes=modes, address=address, **begun)
    return replace(found, population=before(loaded, found.facts, workspace.store_url))


def run(
    spec: Spec,
    *,
    name: str | None = None,
    trials: int | None = None,
    seed: int | None = None,
    changes: Mapping[str, Any] | Sequence[str] = (),
    systems: Sequence[Any] = (),
    sources: Sequence[Any] = (),
    data: str | Path | None = None,
    root: str | Path | None = None,
    store: str | None = None,
    records: str | None = None,
    tracking: str | None = None,
    address: str | None = None,
    rehearsal: bool = True,
    models: str | int | Sequence[int] | None = None,
    progress: bool | Callable[[SweepProgress], None] | None = None,
) -> Sweep:
    """Start a sweep, run it to its end, and return it.

    name      default: the spec's own, numbered where it is taken
    root, store, records, tracking  see `sweeps.api.places`
    address   Ray cluster: auto or HOST:PORT; None starts a Ray of this machine's own
    rehearsal  try a model of one's own out on made-up records first, in a process of its own
    models    whose models MLflow shows at the end, instead of tracking.models: "front" (the best eight of it, and the
              default), "none", or numbers of trials
    progress  show how far it is; by default in notebooks alone. Or a function, called with a `SweepProgress` at each
              change of a trial; of a sealed search it hears nothing

    A sweep that ends with failed trials, or stopped by Ctrl-C, is returned with a `SweepWarning`; its `end` says why.
    Raises what `check` raises, and InvalidValue or SweepExists for a name, StoreError, ClusterUnreachable.
    """
    changes = _with_models(changes, models)
    loaded = load(spec, data=data, trials=trials, seed=seed, changes=changes, systems=systems, sources=sources)
    workspace = places(root, store or loaded.store, records, tracking)
    begun = created(loaded, workspace, name, address, rehearsal)
    from sweeps.execution.session import RunOptions

    return _driven(begun, workspace, progress, RunOptions(address=address, is_new=True))


def created(
    spec: SweepSpec, workspace: Workspace, name: str | None = None, address: str | None = None, rehearsal: bool = True
) -> str:
    """Make sure that a spec can run, record it as a new sweep, and return its name. Nothing has run yet.

    The arguments are those of `run`, which raises what this does.
    """
    from sweeps.execution import session
    from sweeps.planning.preview import before_launch

    _no_client(address)
    fitted, rehearsed = before_launch(spec, address, rehearsal=rehearsal)
    return session.create(fitted, workspace, name, rehearsed)


def resume(
    sweep: str,
    *,
    spec: Spec | None = None,
    accept: Collection[str] = (),
    trials: int | None = None,
    hours: float | None = None,
    epsilon: float | Sequence[float] = (),
    root: str | Path | None = None,
    store: str | None = None,
    records: str | None = None,
    tracking: str | None = None,
    address: str | None = None,
    progress: bool | Callable[[SweepProgress], None] | None = None,
) -> Sweep:
    """Go on with a sweep from wherever it stopped, and return it at its end.

    spec    compared with the recorded one first: a difference is refused with a diff
    accept  what may have changed all the same: "spec", "code", "data"
    trials  extend it to so many in all. What that costs is said first; an extended sweep has no total to be quoted,
            since results may have asked for more, unless nothing had been launched
    hours   give it so many in all, instead of limits.hours
    epsilon  one or several budgets besides those that it has, for the trials that are left or that `trials` adds; it
            does to the total what `trials` does

    Raises UnknownSweep, LeaseHeld (another controller runs it), Changed, StoreError, ClusterUnreachable, InvalidValue.
    """
    from sweeps.execution.session import RunOptions

    _no_client(address)
    given = None if spec is None else load(spec)
    options = RunOptions(
        spec=given,
        accept=accept,
        trials=trials,
        hours=hours,
        epsilon=[epsilon] if isinstance(epsilon, int | float) else list(epsilon),
        address=address,
    )
    return _driven(sweep, places(root, store, records, tracking), progress, options)


def open(sweep: str, *, root: str | Path | None = None, store: str | None = None, tracking: str | None = None) -> Sweep:
    """A sweep of the store, running or over. Raises UnknownSweep, StoreError."""
    return Sweep(sweep, places(root, store, tracking=tracking))


def list_sweeps(*, root: str | Path | None = None, store: str | None = None) -> pd.DataFrame:
    """Every sweep of the store, oldest first, with how many trials are in each state. Raises StoreError."""
    import pandas as pd

    return pd.DataFrame(list_summaries(places(root, store)))


def pareto(
    sweeps: str | Sequence[str],
    objective: str | Sequence[str] = (),
    *,
    reference: Mapping[str, float] | None = None,
    mix: Collection[str] = (),
    as_refuted: bool = False,
    root: str | Path | None = None,
    store: str | None = None,
) -> ParetoFront:
    """Several sweeps of one store on one front, with the total over all their trials. Of one, its own front.

    objective  "METRIC:maximize" or "METRIC:minimize", one or several; by default the specs', where they are the same
    reference  {metric: where its axis ends} for the hypervolume, instead of the specs'
    mix        what of notion, status, adjacency, delta and unit may differ: one panel for each combination
    as_refuted draw trials whose claim is refuted too; by default they are on no front

    Raises UnknownSweep, StoreError, InvalidValue: for sweeps on other records, with other validation or objectives,
    and for claims that share no axes.
    """
    from sweeps.sweep import asked_front

    names = [sweeps] if isinstance(sweeps, str) else sweeps
    return asked_front(PublishedStore.open(places(root, store)), names, objective, reference, mix, as_refuted)


def _driven(
    sweep: str, workspace: Workspace, progress: bool | Callable[[SweepProgress], None] | None, options: RunOptions
) -> Sweep:
    from rich.console import Console

    from sweeps.execution import session
    from sweeps.progress import ProgressDisplay, in_notebook
    from sweeps.util.fingerprint import working_folder_is_importable
    from sweeps.util.log import LOG, kept_in

    working_folder_is_importable()

    sweep = PublishedStore.open(workspace).sweep(sweep).kept().name
    with kept_in(workspace.folder(sweep) / LOG):
        if in_notebook() if progress is None else progress:
            told = progress if callable(progress) else None
            with ProgressDisplay(Console(file=sys.stderr), told) as display:
                end = session.resume(sweep, workspace, options, display)
        else:
            end = session.resume(sweep, workspace, options)
    end = with_models(end, workspace)
    if end.code is not ExitCode.OK:
        first = "" if end.failure is None else f" The first: {'; '.join(end.failure.lines())}."
        again = " Nothing is lost: sweeps.resume goes on." if end.code.goes_on else ""
        warnings.warn(f"Sweep {sweep!r}: {end.meaning}.{first}{again}", SweepWarning, stacklevel=3)
    return Sweep(sweep, workspace.of(PublishedStore.open(workspace).sweep(sweep)), end)


def _with_models(
    changes: Mapping[str, Any] | Sequence[str], models: str | int | Sequence[int] | None
) -> Mapping[str, Any] | Sequence[str]:
    if models is None:
        return changes
    said = str(models) if isinstance(models, str | int) else ",".join(map(str, models))
    path = "tracking.models"
    return {**changes, path: said} if isinstance(changes, Mapping) else [*changes, f"{path}={said}"]


def _no_client(address: str | None) -> None:
    if address is not None and address.startswith("ray://"):
        raise InvalidValue(
            "address",
            address,
            "auto or HOST:PORT: a client's port cannot carry the controller",
            "`sweeps submit` runs it on the cluster.",
        )


# `sweeps budget` from Python: the ledgers of populations.


def population_budget(
    population: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rule: str | None = None,
    adjacency: str = "add-remove",
    unit: str = "record",
    tau: float | None = None,
    spec: Spec | None = None,
    root: str | Path | None = None,
    store: str | None = None,
) -> PopulationAccount:
    """The ledger of a population (`data.population` of its sweeps): what was spent, and what is left.

    epsilon, delta, rule  make the ledger, once and for ever; the same again changes nothing. Rule: "linear" or "gdp"
    adjacency, unit       of neighbours, fixed with it
    tau                   of a gdp ledger: the chance beside the Gaussian that covers a trial; by default a thousand fit
    spec                  whose cost is estimated, as the next sweep's

    `print` of what comes back says it in words. Raises UnknownPopulation, PopulationExists for other terms, StoreError,
    InvalidValue.
    """
    workspace = places(root, store)
    given = {"--epsilon": epsilon, "--delta": delta, "--rule": rule}
    missing = [name for name, value in given.items() if value is None]
    if epsilon is not None and delta is not None and rule is not None:
        terms = Population.of(population, rule, epsilon, delta, adjacency, unit, tau)
        with requests.opened(workspace, create=True) as made:
            made.make_population(terms)
    elif len(missing) < len(given) or (tau, adjacency, unit) != (None, "add-remove", "record"):
        raise InvalidValue(missing[0], None, "given too: a ledger is made whole", "Without all three it is only shown.")
    opened, following = PublishedStore.open(workspace), None
    if spec is not None:
        from sweeps.planning.estimate import next_sweep
        from sweeps.spec.parse import public_facts

        loaded = load(spec)
        if loaded.data.population != population:
            raise InvalidValue("--spec", loaded.data.population, f"a spec with data.population: {population}")
        known = account(opened, population)
        check_terms(known.population, loaded.privacy.adjacency, loaded.privacy.unit)
        following = next_sweep(known.population, known.counted, loaded, public_facts(loaded))
    return _with_unknown(workspace, opened, account(opened, population, following))


def list_budgets(*, root: str | Path | None = None, store: str | None = None) -> tuple[PopulationAccount, ...]:
    """The ledgers of all populations of the store, by name. Raises StoreError."""
    workspace = places(root, store)
    opened = PublishedStore.open(workspace)
    return tuple(_with_unknown(workspace, opened, account(opened, one.name)) for one in opened.populations())


def _with_unknown(workspace: Workspace, store: PublishedStore, found: PopulationAccount) -> PopulationAccount:
    """With what lies beside the store and is not in it: another store has it, or this one is older."""
    sweeps = store.sweeps()
    unknown = list(workspace.unknown([one.name for one in sweeps]))
    for one in sweeps:
        if one.spec.data.population == found.population.name:
            known = {trial.key for trial in store.trials(one.name)}
            # What is not here tells nothing.
            with suppress(InvalidValue, OSError):
                unknown += workspace.of(one).unknown_trials(one.name, known)
    return replace(found, unknown=tuple(unknown))


# Keys and verification from Python: what needs no sweep.


def verify(certificate: str | Path, *, signer: str | Path) -> Verification:
    """Verify a certificate from its document alone: signature, form and the arithmetic of its claim.

    certificate  its file, with that of the signature beside it (`certificate`.sig)
    signer       file with the public key (PEM) of whom it should be, which came by another way than the certificate

    `.stands` says whether everything holds; `print` of it says what was recomputed and what is the signer's word alone.
    Raises InvalidValue for files that cannot be read.
    """
    from sweeps.certificate.signing import SIGNATURE, public_key
    from sweeps.certificate.verify import verify as verified

    try:
        data, signature = (Path(f"{certificate}{ending}").read_bytes() for ending in ("", SIGNATURE))
    except OSError as error:
        raise InvalidValue(
            "--verify",
            str(certificate),
            "a certificate that can be read, its signature beside it",
            f"{error.strerror}.",
        ) from None
    return verified(data, signature, public_key(Path(signer)))


def new_key(file: str | Path) -> Path:
    """Make an Ed25519 key pair to sign certificates with: `file`, which its owner alone can read, and `file`.pub, whose
    path comes back and which is given away. Raises InvalidValue where there is such a file."""
    from sweeps.certificate.signing import new_key as made

    return made(Path(file))


# Asking a model that was exported: what it says of the rows of files.


def predict(
    model: str | Path,
    files: Files,
    *,
    format: str | None = None,
    threshold: float | None = None,
    keep: Collection[str] = (),
) -> pd.DataFrame:
    """What an exported model says: one row for each row of the files, in their order.

    model    folder that `ReleasedModel.save` or `sweeps export` wrote
    files    Parquet or CSV with the declared columns: a file, a folder, a pattern such as "new/*.parquet", a URL, or
             several of these
    format   parquet or csv, where a file's name does not say
    threshold  of two classes the second is said where its probability is at least that; by default the likelier one
    keep     columns of the files to carry along, such as an id: they stand in front

    Columns: `prediction`, of classes `probability.<class>`, and of several files `file` first. Raises InvalidValue for
    a folder that holds no such model, a file that is not there, a column or number that is missing, an undeclared
    category.
    """
    from trainables.export.model import ReleasedModel, files_of, predicted, together

    loaded, paths = ReleasedModel.load(model), files_of(files, format)
    loaded.check_threshold(threshold)
    tables = [predicted(loaded, one, format, threshold=threshold, keep=tuple(keep)) for one in paths]
    return together(paths, tables)

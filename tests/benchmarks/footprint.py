"""What a sweep leaves on disk and in memory: `python -m tests.benchmarks.footprint [--trials 2000] [--swept 60]`.

The toy system, every trial complete with one attempt: rows written by the store's own calls, records by the workers'
own code without Ray, MLflow through its door; then one real sweep of `--swept` trials on Postgres, whole.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeps.privacy.release import was_published
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.search import Proposer
from sweeps.spec import SweepSpec, load_spec
from sweeps.store.records import Proposal, Settlement, SweepRecord
from sweeps.store.store import Store, open_store
from tests.sweeps.stores import postgres_server
from trainables.data import SOURCES
from trainables.system import Member, PrivacyPlan, TrialGroup
from trainables.worker.files import Folder
from trainables.worker.trial import run_group

SPEC: dict[str, Any] = {
    "name": "footprint",
    "data": {"source": "uniform", "n": 1000},
    "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "shrinkage": {"uniform": [0, 1]}, "steps": 4}},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "objectives": [{"metric": "expected_error"}, {"metric": "epsilon", "goal": "minimize"}],
    "search": {"sampler": "random", "trials": 1, "seed": 0},
}
RECORDED, SHOWN = 200, 200


def plan_of(proposal: Proposal | None, spec: SweepSpec) -> PrivacyPlan:
    from sweeps.planning.plan import plan_proposal

    assert proposal is not None
    facts = SOURCES["uniform"].facts({"n": 1000})
    planned = plan_proposal(spec, proposal.config, facts, {})
    assert isinstance(planned, PrivacyPlan)
    return planned


def fill(url: str, trials: int) -> Store:
    """A store with that many complete trials."""
    spec = load_spec({**SPEC, "search": {**SPEC["search"], "trials": trials}})
    store = open_store(url)
    store.create_sweep(
        SweepRecord(
            name="footprint",
            spec=RecordedSpec(spec.canonical()),
            digest=spec.digest,
            fingerprints={},
            root="/r",
            created_at=1.0,
        )
    )
    lease = store.acquire("footprint", ttl_seconds=3600)
    proposer = Proposer(spec)
    plan = None
    for _ in range(trials):
        proposal = proposer.propose()
        assert proposal is not None
        plan = plan or plan_of(proposal, spec)
        store.launch(lease, proposal, plan, plan.steps)
        store.settle(
            lease,
            f"footprint-{proposal.number}",
            1,
            Settlement(
                executed_to=plan.steps,
                step=plan.steps,
                metrics={
                    "expected_error": 0.012345678901,
                    "epsilon": 0.98765432101,
                    "seconds": 0.0123,
                    "peak_memory_mb": 181.2,
                },
                guarantee=plan.guarantee,
                seconds=0.0123,
            ),
        )
    return store


def on_disk(folder: Path) -> tuple[int, int]:
    """(bytes of content, bytes of blocks) of all files below."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    return sum(one.st_size for one in found), sum(512 * one.st_blocks for one in found)


def records(folder: Path) -> tuple[float, float]:
    """Bytes per trial that workers leave."""
    spec = load_spec(SPEC)
    data = SOURCES["uniform"].load({"n": 1000})
    proposal = Proposer(spec).propose()
    plan = plan_of(proposal, spec)
    for number in range(RECORDED):
        member = Member(key=f"f-{number}", attempt=1, seed=number, plan=plan, from_step=0, to_step=plan.steps)
        (result,) = run_group(TrialGroup(members=(member,)), data, Folder(str(folder)), b"s" * 32)
        assert "metrics" in result
    content, blocks = on_disk(folder)
    return content / RECORDED, blocks / RECORDED


def in_mlflow(store: Store, folder: Path) -> tuple[float, float]:
    """(bytes of the database, bytes of artifacts on disk) per run."""
    from sweeps.mlflow.runs import Experiment

    experiment = Experiment(f"sqlite:///{folder}/mlflow.db", store.sweep("footprint"))
    before = (folder / "mlflow.db").stat().st_size
    for trial in store.trials("footprint")[:SHOWN]:
        experiment.put(was_published(trial))
    size = sum((folder / name).stat().st_size for name in os.listdir(folder) if name.startswith("mlflow.db"))
    return (size - before) / SHOWN, on_disk(folder / "mlartifacts")[1] / SHOWN


def megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS")


def history(store: Store, trials: int) -> float:
    """Bytes of memory per trial that a controller keeps: the records, and the proposer's history."""
    before = megabytes()
    spec = load_spec({**SPEC, "search": {"sampler": "tpe", "trials": trials, "seed": 0}})
    kept = {trial.key: was_published(trial) for trial in store.trials("footprint")}
    proposer = Proposer(spec)
    proposer.rebuild(kept.values())
    return (megabytes() - before) * 2**20 / trials


def sweep(server: Any, folder: Path, trials: int) -> Iterator[str]:
    """What a real sweep on Postgres leaves and takes, one line each."""
    server.psql("CREATE DATABASE running;")
    url = server.get_uri().replace("/postgres?", "/running?")
    words = ["run", "toy", "--trials", str(trials), "--name", "running", "--root", str(folder), "--store", url]
    process = subprocess.Popen([sys.executable, "-m", "sweeps.cli", *words], stdout=subprocess.DEVNULL)
    most, over = 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not over.wait(0.2):
            text = server.psql("SELECT count(*) FROM pg_stat_activity WHERE datname = 'running';")
            most = max(most, int(text.splitlines()[2]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    process.wait()
    seconds = time.monotonic() - began
    over.set()
    watcher.join()
    assert process.returncode == 0
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield f"{seconds:.0f} s; {most} connections at most; {peak:.0f} MB of the controller at most"
    server.psql("CHECKPOINT;")
    size = int(server.psql("SELECT pg_database_size('running');").splitlines()[2])
    yield f"store: {size / 1e6:.1f} MB"
    runs = folder / "running" / "trials"
    count = sum(1 for _ in runs.rglob("*"))
    yield f"records: {on_disk(runs)[0] / 1e6:.1f} MB of content, {_allocated(runs) / 1e6:.1f} MB on disk, {count} paths"
    database = sum(one.stat().st_size for one in folder.glob("mlflow.db*"))
    yield f"MLflow: {database / 1e6:.1f} MB of database, {_allocated(folder / 'mlartifacts') / 1e6:.1f} MB of artifacts"


def _allocated(folder: Path) -> int:
    """Bytes of blocks, folders included."""
    return int(subprocess.run(["du", "-sB1", folder], capture_output=True, check=True).stdout.split()[0])


def main() -> None:
    """Print one line per figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--swept", type=int, default=60)
    arguments = parser.parse_args()
    trials = arguments.trials
    with tempfile.TemporaryDirectory() as name, postgres_server() as server:
        folder = Path(name)
        began = time.monotonic()
        place = f"sqlite:///{folder}/sweeps.db"
        # Closed, its journal is part of the file.
        fill(place, trials).close()
        size = (folder / "sweeps.db").stat().st_size
        store = open_store(place)
        print(f"store, SQLite: {size / trials:.0f} bytes a trial ({trials} trials, {time.monotonic() - began:.0f} s)")
        server.psql("CREATE DATABASE filled;")
        url = server.get_uri().replace("/postgres?", "/filled?")
        open_store(url).close()
        empty = int(server.psql("SELECT pg_database_size('filled');").splitlines()[2])
        began = time.monotonic()
        fill(url, trials).close()
        server.psql("CHECKPOINT;")
        size = int(server.psql("SELECT pg_database_size('filled');").splitlines()[2])
        each, seconds = (size - empty) / trials, time.monotonic() - began
        print(f"store, Postgres: {each:.0f} bytes a trial beside {empty / 2**20:.1f} MiB ({seconds:.0f} s)")
        print(f"controller: {history(store, trials):.0f} bytes of memory a trial of history (TPE)")
        content, blocks = records(folder / "records")
        print(f"records: {content:.0f} bytes a trial, {blocks:.0f} on disk in blocks ({RECORDED} trials)")
        (folder / "mlflow").mkdir()
        database, artifacts = in_mlflow(store, folder / "mlflow")
        print(f"MLflow: {database:.0f} bytes a run in the database, {artifacts:.0f} of artifacts ({SHOWN} runs)")
        for line in sweep(server, folder / "running", arguments.swept):
            print(f"a real sweep of {arguments.swept} trials: {line}")


if __name__ == "__main__":
    main()

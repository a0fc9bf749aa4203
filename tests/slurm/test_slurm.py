"""infra/slurm/sweep.sbatch on a real Slurm of two nodes: `make slurm`, which prints what was done and seen."""

from __future__ import annotations

import tempfile

import pytest

from tests.slurm.machine import NODES, PATIENCE_SECONDS, Slurm, lacking
from tests.slurm.swept import Swept
from tests.sweeps.stores import postgres_server

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(6 * PATIENCE_SECONDS)]


@pytest.fixture(scope="module")
def slurm():
    if (reason := lacking()) is not None:
        pytest.skip(f"NOT TESTED: {reason}")
    with Slurm() as running:
        yield running


@pytest.fixture(scope="module")
def store(slurm):
    """Postgres, its socket in the folder that all nodes share."""
    before, tempfile.tempdir = tempfile.tempdir, str(slurm.folder)
    try:
        with postgres_server() as server:
            yield server.get_uri()
    finally:
        tempfile.tempdir = before


def log(slurm: Slurm, job: str) -> str:
    return (slurm.folder / f"log-{job}").read_text(errors="replace")


def ended(slurm: Slurm, job: str) -> bool:
    return slurm.state(job) not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED")


def report(slurm: Slurm, *lines: str) -> None:
    print("\n" + "\n".join([*slurm.log, *lines]))
    slurm.log.clear()


def test_a_requeued_job_goes_on_over_both_nodes(slurm, store):
    sweep = Swept(slurm, store, "requeued", trials=8, step_seconds=1.0)
    job = sweep.submit("--nodes=2", "--time=30")
    slurm.until("trials draw on both nodes", lambda: sweep.nodes_that_drew() == set(NODES))
    slurm.until("a trial is complete", lambda: sweep.nodes_that_drew() and sweep.finished() >= 1)
    slurm.slurm("scontrol", "requeue", job)
    before = len(sweep.drawn())
    slurm.note(f"scontrol requeue after {sweep.finished()} trials; drawn {sum(sweep.drawn().values())}")
    slurm.until("it runs again", lambda: slurm.state(job) == "RUNNING")
    assert "Stopping; once more to end at once." in log(slurm, job), slurm.words()
    slurm.until("more draws", lambda: len(sweep.drawn()) > before)
    slurm.until("the end", lambda: sweep.nodes_that_drew() and ended(slurm, job))
    assert (slurm.state(job), slurm.fact(job, "ExitCode")) == ("COMPLETED", "0:0"), slurm.words()
    assert int(slurm.fact(job, "Restarts")) >= 1
    seen = {node: sum(where == node for where in sweep.where.values()) for node in NODES}
    report(slurm, f"attempts seen on each node: {seen}", sweep.check())


def test_a_job_meets_its_time_limit_unwarned_and_the_next_one_warned(slurm, store):
    sweep = Swept(slurm, store, "limited", trials=12, step_seconds=1.0, at_once=2)
    options = ["--nodes=2", "--time=60"]
    first = sweep.submit(*options, "--signal=B:URG@1")
    slurm.until("trials draw", lambda: bool(sweep.drawn()))
    slurm.expire(first)
    slurm.until("the time limit", lambda: ended(slurm, first))
    assert slurm.state(first) == "TIMEOUT", slurm.words()
    slurm.note(f"{first} is TIMEOUT; {sweep.finished()} trials complete, drawn {sum(sweep.drawn().values())}")

    second, before = sweep.submit(*options, "--signal=B:USR1@30"), len(sweep.drawn())
    slurm.until("more draws", lambda: len(sweep.drawn()) > before)
    slurm.expire(second)
    slurm.until("it queued itself again", lambda: "Queued again" in log(slurm, second) or ended(slurm, second))
    assert "Stopped. Nothing is lost" in log(slurm, second), slurm.words()
    slurm.note(f"stopped cleanly; {sweep.finished()} trials complete, drawn {sum(sweep.drawn().values())}")
    slurm.until("it is pending", lambda: slurm.state(second) == "PENDING")
    slurm.slurm("scontrol", "update", f"JobId={second}", "TimeLimit=60")
    slurm.until("the end", lambda: ended(slurm, second))
    assert (slurm.state(second), slurm.fact(second, "ExitCode")) == ("COMPLETED", "0:0"), slurm.words()
    assert int(slurm.fact(second, "Restarts")) >= 1
    report(slurm, sweep.check())


def test_an_array_runs_several_sweeps_on_one_store_two_of_them_on_one_node(slurm, store):
    tasks = [1, 2, 3]
    sweeps = [Swept(slurm, store, f"task-{task}", trials=4, step_seconds=0.5) for task in tasks]
    names = {"SWEEP_NAME": "task-%a", "SWEEP_SPEC": str(slurm.folder / "task-%a.yaml")}
    job = sweeps[0].submit("--array=1-3", "--nodes=1", "--oversubscribe", "--cpus-per-task=1", "--time=60", **names)
    jobs = [f"{job}_{task}" for task in tasks]
    slurm.until("all tasks draw", lambda: all(sweep.drawn() for sweep in sweeps))
    where = {one: slurm.fact(one, "NodeList") for one in jobs}
    together = {node: slurm.rays(node) for node in NODES}
    slurm.note(f"tasks on {where}; Ray's folders on each node: {together}")
    slurm.until("the end of all", lambda: all(ended(slurm, one) for one in jobs))
    assert {slurm.state(one) for one in jobs} == {"COMPLETED"}, slurm.words()
    report(slurm, *[sweep.check() for sweep in sweeps])
    assert max(len(folders) for folders in together.values()) == 2, together

"""The words of the Slurm script, with stand-ins for Slurm, Ray and `sweeps` that write down how they are called.

What it does by itself: run or resume, the exit code, what is said to Slurm. tests/slurm submits it to a real one.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sweeps.util.exits import ExitCode
from tests.infra.manifests import INFRA

STAND_INS = {
    "scontrol": """
echo "scontrol $*" >> "$LOG"
case "$2" in
    hostnames) echo first ;;
    node) echo "NodeName=first NodeAddr=first NodeHostName=first" ;;
    *) exit "$REFUSED" ;;
esac
""",
    # The host calls itself by its loopback; Slurm's name for it has an address.
    "getent": "echo 127.0.1.1 STREAM first; echo 192.0.2.7 STREAM first",
    "hostname": "echo 192.0.2.8",
    # Flags, then the command: run it here, as a step that scancel can end.
    "srun": 'while [[ "$1" == --* ]]; do shift; done; echo $$ >> "$LOG.steps"; exec "$@"',
    "scancel": 'echo "scancel $*" >> "$LOG"; kill -TERM $(cat "$LOG.steps")',
    "ray": """
echo "ray $*" >> "$LOG"
[[ "$1" == status ]] && echo " 1 node_a" && exit
[[ "$(grep -c "ray start" "$LOG")" -ge "$RAY_STARTS" ]] || { echo "timed out"; exit 1; }
echo "Ray runtime started."
mkdir -p "$TMPDIR/ray"
echo 192.0.2.7:4321 > "$TMPDIR/ray/ray_current_cluster"
exec sleep 60
""",
    "sweeps": """
echo "sweeps $* token=${#RAY_AUTH_TOKEN}" >> "$LOG"
[[ "$1" == show ]] && exit "$SHOW"
trap 'echo stopped >> "$LOG"; exit 130' TERM
echo started >> "$LOG"
for _ in $(seq "$TENTHS"); do sleep 0.1; done
exit "$CODE"
""",
}


@pytest.fixture
def start(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in STAND_INS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    started = []

    def run(show=2, code=0, tenths=1, **changes):
        environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "LOG": str(tmp_path / "log"),
            "SLURM_JOB_ID": f"of-a-test-{os.getpid()}",
            "SLURMD_NODENAME": "first",
            "SLURM_JOB_NODELIST": "nodes",
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "SLURM_CPUS_ON_NODE": "4",
            "SWEEP_SPEC": "/shared/mine.yaml",
            "SWEEP_NAME": "mine",
            "SWEEPS_STORE": "postgresql://user@host/database",
            **{"SHOW": str(show), "CODE": str(int(code)), "TENTHS": str(tenths), "RAY_STARTS": "1", "REFUSED": "0"},
            **changes,
        }
        script = str(INFRA / "slurm" / "sweep.sbatch")
        started.append(subprocess.Popen(["bash", script], env=environment, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        # Slurm ends what is left of a job.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def called(tmp_path):
    path = tmp_path / "log"
    return path.read_text().splitlines() if path.exists() else []


def requeued(tmp_path):
    return [line for line in called(tmp_path) if "requeue" in line]


def warn_when_it_runs(process, tmp_path, number):
    limit = time.monotonic() + 60
    while "started" not in called(tmp_path):
        assert time.monotonic() < limit
        time.sleep(0.1)
    process.send_signal(number)


def test_the_first_start_runs_and_a_later_one_resumes(start, tmp_path):
    assert start().wait(timeout=60) == 0
    lines = called(tmp_path)
    root = tmp_path / ".sweeps"
    rest = f"--root {root} --address 192.0.2.7:4321 token=64"
    assert f"sweeps run /shared/mine.yaml --name mine {rest}" in lines
    (head,) = (line for line in lines if line.startswith("ray start"))
    assert "--head --port=0 --node-ip-address=192.0.2.7 " in head
    (tmp_path / "log").unlink()
    assert start(show=0).wait(timeout=60) == 0
    assert f"sweeps resume mine {rest}" in called(tmp_path)


def test_nothing_of_the_job_stays_on_the_disk_of_a_node(start):
    folder = Path(f"/tmp/sweeps-of-a-test-{os.getpid()}")
    process = start(tenths=20)
    limit = time.monotonic() + 60
    while not (folder / "ray").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
    assert folder.stat().st_mode & 0o077 == 0
    assert process.wait(timeout=60) == 0
    assert not folder.exists()


def test_each_task_of_an_array_has_a_sweep_of_its_own(start, tmp_path):
    names = {"SWEEP_SPEC": "/shared/mine-%a.yaml", "SWEEP_NAME": "mine-%a", "SLURM_ARRAY_TASK_ID": "3"}
    assert start(**names).wait(timeout=60) == 0
    assert any(line.startswith("sweeps run /shared/mine-3.yaml --name mine-3 ") for line in called(tmp_path))


def test_the_warning_before_the_time_limit_stops_the_controller_cleanly_and_queues_the_job_again(start, tmp_path):
    process = start(tenths=600)
    warn_when_it_runs(process, tmp_path, signal.SIGUSR1)
    assert process.wait(timeout=60) == ExitCode.INTERRUPTED
    assert "stopped" in called(tmp_path)
    assert requeued(tmp_path) == [f"scontrol requeue of-a-test-{os.getpid()}"]


def test_a_job_that_slurm_ends_does_not_come_back_by_itself(start, tmp_path):
    process = start(tenths=20, code=ExitCode.CLUSTER_LOST)
    warn_when_it_runs(process, tmp_path, signal.SIGTERM)
    # As Slurm does it: its Ray has the same signal, hence the code.
    for step in Path(f"{tmp_path}/log.steps").read_text().split():
        os.kill(int(step), signal.SIGTERM)
    assert process.wait(timeout=60) == ExitCode.CLUSTER_LOST
    assert not requeued(tmp_path)


@pytest.mark.parametrize("code", [one for one in ExitCode if not one.goes_on])
def test_a_sweep_that_is_over_is_not_started_again(start, tmp_path, code):
    assert start(show=0, code=code).wait(timeout=60) == code
    assert sum("sweeps resume" in line for line in called(tmp_path)) == 1
    assert not requeued(tmp_path)


@pytest.mark.parametrize("changes", [{"code": ExitCode.CLUSTER_LOST}, {"RAY_STARTS": "99"}], ids=["lost", "never up"])
def test_a_lost_cluster_is_started_again_but_not_for_ever(start, tmp_path, changes):
    assert start(**changes).wait(timeout=60) == ExitCode.CLUSTER_LOST
    assert len(requeued(tmp_path)) == 1
    (tmp_path / "log").unlink()
    assert start(**changes, SWEEPS_RESTARTS="3", SLURM_RESTART_COUNT="3").wait(timeout=60) == ExitCode.CLUSTER_LOST
    assert not requeued(tmp_path)


def test_a_node_on_which_ray_starts_too_slowly_is_tried_again(start, tmp_path):
    assert start(RAY_STARTS="3").wait(timeout=60) == 0
    assert sum(line.startswith("ray start") for line in called(tmp_path)) == 3
    assert not requeued(tmp_path)


def test_a_site_that_requeues_nothing_leaves_the_exit_code(start, tmp_path):
    assert start(code=ExitCode.CLUSTER_LOST, REFUSED="1").wait(timeout=60) == ExitCode.CLUSTER_LOST


@pytest.mark.parametrize("missing", ["SWEEP_SPEC", "SWEEP_NAME", "SWEEPS_STORE"])
def test_what_is_missing_is_named(start, missing):
    assert start(**{missing: ""}).wait(timeout=60) == 1

"""The words of the Slurm script, with stand-ins for Slurm, Ray and `sweeps` that write down how they are called.

Slurm itself was not at hand; this holds the shell around it: run or resume, the exit code, the warning before the end.
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest

from sweeps.exits import ExitCode
from tests.infra.manifests import INFRA

STAND_INS = {
    "scontrol": 'echo "scontrol $*" >> "$LOG"; echo first; echo second',
    "getent": "echo 127.0.0.1 STREAM first",
    # Flags, then the command: run it here.
    "srun": 'while [[ "$1" == --* ]]; do shift; done; exec "$@"',
    "ray": 'echo "ray $*" >> "$LOG"; [[ "$1" == status ]] || exec sleep 60',
    "sweeps": """
echo "sweeps $* token=${#RAY_AUTH_TOKEN}" >> "$LOG"
[[ "$1" == show ]] && exit "$SHOW"
trap 'echo stopped >> "$LOG"; exit 130' TERM
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
            "SLURM_JOB_ID": "77",
            "SLURM_JOB_NODELIST": "nodes",
            "SLURM_SUBMIT_DIR": str(tmp_path),
            "SLURM_CPUS_ON_NODE": "4",
            "SWEEP_SPEC": "/shared/mine.yaml",
            "SWEEP_NAME": "mine",
            "SWEEPS_STORE": "postgresql://user@host/database",
            **{"SHOW": str(show), "CODE": str(code), "TENTHS": str(tenths)},
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
    return (tmp_path / "log").read_text().splitlines()


def test_the_first_start_runs_and_a_later_one_resumes(start, tmp_path):
    assert start().wait(timeout=60) == 0
    lines = called(tmp_path)
    root = tmp_path / ".sweeps"
    expected = f"sweeps run /shared/mine.yaml --name mine --root {root} --address 127.0.0.1:20077 token=64"
    assert expected in lines
    assert sum(line.startswith("ray start --head") for line in lines) == 1
    (tmp_path / "log").unlink()
    assert start(show=0, code=75).wait(timeout=60) == 75
    assert f"sweeps resume mine --root {root} --address 127.0.0.1:20077 token=64" in called(tmp_path)


def test_the_warning_before_the_time_limit_stops_the_controller_cleanly(start, tmp_path):
    process = start(tenths=600)
    limit = time.monotonic() + 60
    while not (tmp_path / "log").exists() or not any("sweeps run" in line for line in called(tmp_path)):
        assert time.monotonic() < limit
        time.sleep(0.1)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 130
    assert called(tmp_path)[-1] == "stopped"


@pytest.mark.parametrize("code", [one for one in ExitCode if not one.goes_on])
def test_a_sweep_that_is_over_is_not_started_again(start, tmp_path, code):
    assert start(show=0, code=code).wait(timeout=60) == code
    lines = called(tmp_path)
    assert sum("sweeps resume" in line for line in lines) == 1
    assert not any("requeue" in line for line in lines)


@pytest.mark.parametrize("missing", ["SWEEP_SPEC", "SWEEP_NAME", "SWEEPS_STORE"])
def test_what_is_missing_is_named(start, missing):
    assert start(**{missing: ""}).wait(timeout=60) == 1

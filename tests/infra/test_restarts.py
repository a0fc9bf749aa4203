"""Nothing that an operator applies starts a sweep again that is over: 4 and 5 would come back for ever."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from sweeps.util.exits import ExitCode
from tests.infra.manifests import INFRA, documents

RAYJOB = INFRA / "kuberay" / "rayjob.yaml"


def starts(entrypoint: str, folder: Path, code: int) -> tuple[int, int]:
    """(exit code, how often a sweep was started) of the entry point of a job whose sweep ends with `code`."""
    (folder / "log").write_text("")
    stand_in = folder / "sweeps"
    stand_in.write_text(
        '#!/bin/bash\n[[ "$1" == show ]] && exit 0\necho "$*" >> "$LOG"\n'
        '(( $(wc -l < "$LOG") > 2 )) && exit 0\nexit "$CODE"\n'
    )
    stand_in.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "LOG": str(folder / "log"), "CODE": str(code)}
    done = subprocess.run(shlex.split(entrypoint), env=environment, check=False, timeout=60)
    return done.returncode, len((folder / "log").read_text().splitlines())


@pytest.mark.parametrize("code", [one for one in ExitCode if not one.goes_on])
def test_the_job_hands_its_code_on_and_starts_the_sweep_once(tmp_path, code):
    (job,) = (one["spec"] for one in documents(RAYJOB) if one["kind"] == "RayJob")
    assert job.get("backoffLimit", 0) == 0
    assert starts(job["entrypoint"], tmp_path, code) == (code, 1)

"""Nothing that an operator applies starts a sweep again that is over: 4 and 5 would come back for ever."""

from __future__ import annotations

import copy
import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from sweeps.util.exits import ExitCode
from tests.infra.manifests import COMPOSE, INFRA, all_documents, documents
from tests.infra.policies import restart_breaches, service_restart_breaches, starts_a_sweep

RAYJOB = INFRA / "kuberay" / "rayjob.yaml"
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]
POD = {"containers": [{"name": "controller", "command": ["sweeps", "run", "toy"]}], "restartPolicy": "Never"}


def rayjob():
    return next(one for one in documents(RAYJOB) if one["kind"] == "RayJob")


def test_no_document_and_no_service_starts_a_sweep_again():
    assert [breach for one in all_documents() for breach in restart_breaches(one)] == []
    assert [breach for name, one in SERVICES.items() for breach in service_restart_breaches(name, one)] == []


@pytest.mark.parametrize(
    ("document", "breach"),
    [
        ({**rayjob(), "spec": {**rayjob()["spec"], "backoffLimit": 2}}, "backoffLimit 2"),
        ({"kind": "Job", "spec": {"template": {"spec": POD}}}, "backoffLimit is not 0"),
        (
            {"kind": "Job", "spec": {"backoffLimit": 0, "template": {"spec": {**POD, "restartPolicy": "OnFailure"}}}},
            "restartPolicy",
        ),
        ({"kind": "Deployment", "spec": {"template": {"spec": POD}}}, "restartPolicy"),
        ({"kind": "Pod", "spec": {"containers": POD["containers"]}}, "restartPolicy"),
        ({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": POD}}}}}, "backoffLimit"),
    ],
    ids=["rayjob", "job", "job's pod", "deployment", "pod", "cronjob"],
)
def test_each_restart_is_seen(document, breach):
    assert any(breach in found for found in restart_breaches(document))


def test_a_service_that_restarts_a_sweep_is_seen():
    service = {**copy.deepcopy(SERVICES["mlflow"]), "entrypoint": None, "command": ["sweeps", "resume", "mine"]}
    assert list(service_restart_breaches("sweep", service)) == [
        "sweep: restart unless-stopped starts a sweep again whatever its exit code"
    ]
    assert list(service_restart_breaches("sweep", {**service, "restart": "no"})) == []


def test_what_starts_a_sweep_is_known_by_its_words():
    assert starts_a_sweep(["bash", "-c", 'exec sweeps "$@" --root /x'])
    assert starts_a_sweep("python -m sweeps.cli resume toy")
    assert not starts_a_sweep(["sweeps", "show", "toy"])
    assert not starts_a_sweep("mlflow server --app sweeps; docker run image")


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
    assert starts(rayjob()["spec"]["entrypoint"], tmp_path, code) == (code, 1)


def test_a_loop_around_the_sweep_is_seen(tmp_path):
    """The mutant."""
    assert starts("bash -c 'until sweeps resume toy; do :; done'", tmp_path, ExitCode.SOME_FAILED) == (0, 3)

"""Secrets of every kind, planted in environment and URLs, and then looked for in every byte that a sweep leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from sweeps.cli import main as cli
from tests.sweeps.left_behind import command_lines, findings, found_in, open_doors, tree

ROOT = Path(__file__).parents[2]

# Signs that URLs, shells, JSON and Python spell differently.
AWKWARD = "p@l/a n:t?e#d%41&'\"="
ENVIRONMENT = {
    name: f"{AWKWARD}-{name}"
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SECURITY_TOKEN",
        "AZURE_STORAGE_CONNECTION_STRING",
        "HF_TOKEN",
        "MLFLOW_TRACKING_PASSWORD",
        "PGPASSWORD",
    )
} | {"RAY_AUTH_TOKEN": "a-planted-token-of-ray-0123456789"}

TEAM = """
name: planted
data: {source: digits}
systems: {noisy-sgd: {model: linear, learning_rate: 0.1, clip_norm: 1.0, batch_size: 64, epochs: 5}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: accuracy}]
search: {sampler: random, trials: 1, seed: 0}
resources: {workers: 2}
execution: {checkpoint_seconds: 0.2}
"""


@dataclass
class Run:
    """One sweep as a process: what it said, what its processes showed meanwhile, what it left in its folder."""

    folder: Path
    code: int = -1
    output: str = ""
    doors: set[str] = field(default_factory=set)
    arguments: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def run():
    # Paths of Ray's sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="pl", dir="/tmp"))
    (folder / "spec.yaml").write_text(TEAM)
    for name in ("ray", "tmp"):
        (folder / name).mkdir()
    ran = Run(folder)
    tracking = f"http://somebody:{ENVIRONMENT['PGPASSWORD']}@127.0.0.1:9"
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeps.cli", "run", "spec.yaml"],
        cwd=folder,
        env={
            **os.environ,
            **ENVIRONMENT,
            "SWEEPS_TRACKING": tracking,
            "DATABASE_URL": f"postgresql://somebody:{ENVIRONMENT['HF_TOKEN']}@database.example.org/x",
            "RAY_AUTH_MODE": "token",
            "RAY_TMPDIR": str(folder / "ray"),
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        },
        stdout=(folder / "output").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        limit = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < limit:
            processes = tree(process.pid)
            ran.doors |= open_doors(processes)
            ran.arguments |= command_lines(processes)
            time.sleep(1.0)
        ran.code = process.wait(timeout=1)
        ran.output = (folder / "output").read_text()
        yield ran
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def test_no_socket_of_a_local_sweep_can_be_reached_from_another_machine(run):
    assert run.code == 0, run.output
    assert any("raylet" in one for one in run.arguments)
    assert any("_Worker" in one for one in run.arguments), run.arguments
    assert run.doors == set()


def test_no_secret_stands_in_any_byte_that_a_run_leaves(run):
    assert list((run.folder / "ray").rglob("runtime_env*.log"))
    assert "not everything could be delivered" in run.output
    assert list(run.folder.rglob("tracking.log"))
    assert findings(run.folder, ENVIRONMENT) == []


def test_no_secret_stands_in_the_list_of_processes(run):
    assert {shown for shown in run.arguments if found_in(shown.encode(), ENVIRONMENT)} == set()


def test_a_password_among_the_arguments_is_refused_and_another_way_named(tmp_path):
    words = ["run", "toy", "--store", "postgresql://me:hunter22secret@host/db"]
    line = [sys.executable, "-m", "sweeps.cli", *words]
    ended = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "SWEEPS_STORE" in ended.stderr
    assert "hunter22secret" not in ended.stderr


URLS = [
    "mysql://somebody:{}@127.0.0.1:9/x",
    "postgresql://somebody:{}@127.0.0.1:9/x?connect_timeout=1",
    "nonsense://{}@host",
    "http://127.0.0.1:9/?token={}",
    "s3://AKIAPLANTED:{}@bucket/x",
]
COMMANDS = [
    ("show", "--store"),
    ("run", "toy", "--records"),
    ("run", "toy", "--address"),
    ("check", "toy", "--set"),
    ("submit", "toy", "--address"),
    ("resume", "toy", "--root"),
    ("no-such-command",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_error_echoes_a_password(words, tmp_path, monkeypatch, capsys):
    """Every command, with every kind of URL: what it says and what it leaves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPS_PATIENCE", "0.1")
    secret = "planted/in@a#url"
    for url in URLS:
        last = url.format(quote(secret, safe=""))
        if words[-1] == "--set":
            last = f"tracking.uri={last}"
        monkeypatch.setattr(sys, "argv", ["sweeps", *words, last])
        if words == ("no-such-command",):
            # As of a process of its own: there every word is looked at first.
            monkeypatch.setattr(sys, "orig_argv", ["python", *sys.argv])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = "".join(capsys.readouterr())
        assert ended.value.code not in (0, None), said
        assert "Traceback" not in said
        assert found_in(said.encode(), {"url": secret}) == set(), said
    assert findings(tmp_path, {"url": secret}) == []

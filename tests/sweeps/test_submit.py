"""What a submitted sweep takes along, and what a job server that cannot take it is told about."""

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from sweeps.cli.submit import _end
from sweeps.examples import load
from sweeps.ray.cluster import ClusterUnreachable
from sweeps.ray.job_start import ORDER_FILE, Order
from sweeps.ray.jobs import Finished, JobServer, pack
from sweeps.spec.parse import load_spec
from sweeps.util.fingerprint import code_digest
from tests.sweeps.clusters import base_environment

ROOT = Path(__file__).parents[2]
SECRET = "the-token-that-is-sent"


@pytest.fixture(scope="module")
def parcel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parcel")
    order = Order(["systems", "--json"], {"SENT_TOKEN": SECRET})
    pack(folder, order, load("toy"), ["tests.trainables.broken_models"])
    return folder


def test_a_parcel_is_the_very_code_the_spec_and_the_order(parcel):
    assert {path.name for path in parcel.iterdir()} == {
        "dpcore", "trainables", "sweeps", "tests", "spec.yaml", ORDER_FILE,
    }  # fmt: skip
    assert load_spec(yaml.safe_load((parcel / "spec.yaml").read_text())) == load("toy")
    assert not list(parcel.rglob("__pycache__"))
    # What resumes here and there must be the same code.
    script = "from sweeps.util.fingerprint import code_digest; print(code_digest())"
    environment = {**base_environment(), "PYTHONPATH": str(parcel)}
    told = subprocess.run([sys.executable, "-c", script], env=environment, cwd=parcel, capture_output=True, text=True)
    assert told.stdout.strip() == code_digest()
    assert (parcel / ORDER_FILE).stat().st_mode & 0o077 == 0


def test_the_start_carries_out_the_order_with_its_environment(parcel):
    words = [sys.executable, "-m", "sweeps.ray.job_start"]
    done = subprocess.run(words, cwd=parcel, env=base_environment(), capture_output=True, text=True, check=True)
    assert "noisy-mean" in {one["name"] for one in json.loads(done.stdout)}
    # A worker's hook sets the same variables, in the parcel's folder or with it on the path.
    hook = "from sweeps.ray.job_start import load_environment as f; f(); import os; print(os.environ['SENT_TOKEN'])"
    for cwd, path in ((parcel, ""), ("/", str(parcel))):
        environment = {**base_environment(), "PYTHONPATH": path}
        words = [sys.executable, "-c", hook]
        assert subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True).stdout.strip() == SECRET


def test_a_worker_waits_for_a_parcel_that_is_being_unpacked(parcel, tmp_path):
    """It begins with the code of another folder and half of the order, and works with the parcel's or not at all."""
    late = tmp_path / "late"
    late.mkdir()
    order = (parcel / ORDER_FILE).read_text()
    (late / ORDER_FILE).write_text(order[: len(order) // 2])
    hook = (
        "import sys, os; from sweeps.ray import job_start as start; start.UNPACKED_SECONDS = float(sys.argv[1]); "
        "print('begun', flush=True); start.load_environment(); import sweeps; "
        "print(os.environ['SENT_TOKEN'], sweeps.__file__)"
    )
    environment = {**base_environment(), "PYTHONPATH": os.pathsep.join([str(late), str(ROOT)])}
    words = [sys.executable, "-c", hook]
    options = {"cwd": "/", "env": environment, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    never = subprocess.run([*words, "0.3"], check=False, **options)
    assert never.returncode != 0
    assert f"{ORDER_FILE}: in none of" in never.stderr
    assert SECRET not in never.stdout + never.stderr
    process = subprocess.Popen([*words, "60"], **options)
    assert process.stdout.readline() == "begun\n"
    shutil.copytree(parcel / "sweeps", late / "sweeps")
    (late / ORDER_FILE).write_text(order)
    output, errors = process.communicate(timeout=60)
    assert output.split() == [SECRET, str(late / "sweeps" / "__init__.py")], errors


def test_a_head_without_our_requirements_is_told_so(parcel):
    # A Python that has nothing but its own library.
    words = [sys.executable, "-S", "-m", "sweeps.ray.job_start"]
    done = subprocess.run(words, cwd=parcel, env=base_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has no module" in done.stderr
    assert "image in infra/" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("finished", "code"),
    [
        (Finished("SUCCEEDED", 0, ""), None),
        (Finished("FAILED", 2, "the server does not answer"), 2),
        (Finished("FAILED", 75, ""), 75),
        (Finished("FAILED", None, "the head is gone"), 75),
        (Finished("STOPPED", None, ""), 130),
        (Finished("FAILED", -9, ""), 75),
    ],
)
def test_the_commands_exit_code_is_the_jobs(finished, code, capsys):
    if code is None:
        _end(finished, "job")
        return
    with pytest.raises(SystemExit) as left:
        _end(finished, "job")
    assert left.value.code == code
    assert finished.message in capsys.readouterr().err


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that answers as the test says."""

    status, content = 200, b""

    def do_GET(self):
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *arguments):
        """Silence."""


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (200, {"version": "4", "ray_version": "2.59.0", "ray_commit": "x"}, "the cluster runs Ray 2.59.0"),
        (404, {}, "no Ray job server answers"),
        (401, {}, "refuses this token"),
        (403, {}, "refuses this token"),
    ],
)
def test_servers_that_are_no_match_are_named(status, content, said):
    handler = type("Handler", (Answers,), {"status": status, "content": json.dumps(content).encode()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ClusterUnreachable, match=said):
            JobServer(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()

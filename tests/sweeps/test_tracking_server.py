"""A real MLflow server with users, its artifacts on an S3-compatible store."""

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from sweeps.mlflow import sync
from sweeps.mlflow.read import read_front
from sweeps.mlflow.sync import EXIT_UNDELIVERED, STORE_VARIABLE, URI_VARIABLE, rebuild
from sweeps.privacy.release import PublishedStore
from sweeps.util import waiting
from tests.sweeps import view_sweeps
from tests.sweeps.clusters import free_ports
from tests.sweeps.object_stores import BUCKET
from tests.sweeps.view_sweeps import prepared

# Without a server: `test_drain`, for a user who is refused and a process that is stopped.
pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos, pytest.mark.outage]

ROOT = Path(__file__).parents[2]
USER, PASSWORD = "operator", "the-right-password"
START_SECONDS = 400.0


@pytest.fixture(scope="module")
def running(bucket, tmp_path_factory):
    """(address, the process that leads its group)."""
    folder = tmp_path_factory.mktemp("mlflow")
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder}/users.db\n"
        f"admin_username = {USER}\nadmin_password = {PASSWORD}\n"
    )
    (port,) = free_ports(1)
    words = ["server", "--app-name", "basic-auth", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", prepared(folder), "--artifacts-destination", f"s3://{BUCKET}/artifacts"]
    environment = {
        **os.environ,
        **bucket.environment(),
        "MLFLOW_S3_ENDPOINT_URL": bucket.url,
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "of the tests",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "mlflow"), *words],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    limit = time.monotonic() + START_SECONDS
    while not answers(address):
        if process.poll() is not None or time.monotonic() > limit:
            raise AssertionError((folder / "log").read_text()[-3000:])
        time.sleep(0.3)
    yield address, process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def server(running):
    """Its address."""
    return running[0]


def answers(address):
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def user(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", USER)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    return monkeypatch


def drain(store_url, address, **changes):
    """A drain as a controller starts it, told to end at once."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), STORE_VARIABLE: store_url, URI_VARIABLE: address, **changes}
    return subprocess.run(
        [sys.executable, "-m", "sweeps.mlflow.sync", "views"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_wrong_password_costs_only_the_view_and_the_right_one_delivers_it(server, bucket, user, tmp_path):
    store = view_sweeps.mixed_sweep(tmp_path, trials=1)
    url = f"sqlite:///{tmp_path}/sweeps.db"
    rows, trials = store.backlog("views"), len(store.trials("views"))
    with user.context() as wrong:
        wrong.setenv("MLFLOW_TRACKING_PASSWORD", "a-wrong-password")
        with pytest.raises(MlflowException, match=r"refuses this user \(unknown user or wrong password\)"):
            rebuild(PublishedStore(store), "views", server)
    refused = drain(url, server, MLFLOW_TRACKING_PASSWORD="a-wrong-password")
    assert refused.returncode == EXIT_UNDELIVERED
    assert "unknown user or wrong password" in refused.stdout
    assert "MLFLOW_TRACKING_USERNAME" in refused.stdout
    assert "a-wrong-password" not in refused.stdout + refused.stderr
    assert store.backlog("views") == rows
    ending = threading.Event()
    ending.set()
    assert sync.drain(PublishedStore(store), "views", server, ending) == 0
    assert store.backlog("views") == 0

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server)
    experiment = client.get_experiment_by_name("views")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == trials + 1
    # Plans went through the server to the object store; this process has no key of it.
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    assert sum(key.endswith("plan.json") for key in bucket.keys("artifacts")) == trials - 1
    store.close()


def test_who_asks_a_stopped_server_waits_one_patience_and_hears_of_it(running, user, capsys):
    """Its sockets are open and its processes are there: nothing but patience ends that."""
    address, process = running
    user.setenv("SWEEPS_PATIENCE", "2")
    user.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    user.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    user.setattr(waiting, "WORD_SECONDS", 0.5)
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(Exception, match=r"timed out|Max retries"):
            read_front(address, "views")
        asked = time.monotonic() - began
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    said = capsys.readouterr().err
    assert 2 <= asked < 12, said
    assert f"Waiting for MLflow at {address}," in said

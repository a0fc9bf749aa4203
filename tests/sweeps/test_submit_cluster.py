"""Sweeps on a real Ray cluster: a head with its dashboard and a token.

By `make chaos` with a second node process, a store on Postgres, records on an S3-compatible server, and three machines
played by three folders: the head's, the node's (which sees one folder less), and the laptop's.
"""

import json
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from sweeps.privacy.ledger import spending
from sweeps.ray.job_start import ORDER_FILE
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.sweeps import specs
from tests.sweeps.clusters import ray_cluster
from tests.sweeps.left_behind import findings
from tests.sweeps.object_stores import BUCKET
from tests.sweeps.stores import postgres_server, until

pytestmark = pytest.mark.timeout(900)

RECORDS = f"s3://{BUCKET}/sweeps"
PASSWORD = "password-of-the-store"
SPEC = specs.mean(
    "far",
    trials=4,
    systems={"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": 60, "step_seconds": 0.05}},
    execution={"checkpoint_seconds": 0.2},
)


@pytest.fixture(scope="module")
def database():
    """The URL of the store, without the password that its user needs."""
    with postgres_server() as server:
        server.psql(f"CREATE ROLE far LOGIN PASSWORD '{PASSWORD}';")
        server.psql("CREATE DATABASE far OWNER far;")
        rules = server.pgdata / "pg_hba.conf"
        rules.write_text(f"local all far scram-sha-256\n{rules.read_text()}")
        server.psql("SELECT pg_reload_conf();")
        yield server.get_uri().replace("postgres:@", "far@").replace("/postgres?", "/far?")


@pytest.fixture(scope="module")
def head():
    with ray_cluster(cpus=1) as running:
        yield running


@pytest.fixture(scope="module")
def cluster():
    """No trial fits on the head; the node does not see what lies in the folder `unseen`."""
    with ray_cluster(cpus=0) as running:
        unseen = running.folder / "unseen"
        unseen.mkdir()
        hide = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs {unseen} && exec "$@"', "sh"]
        allowed = subprocess.run([*hide, "true"], capture_output=True, check=False).returncode == 0
        running.start("node", cpus=2, prefix=hide if allowed else ())
        running.hides = allowed
        yield running


def asked(cluster, path, method="GET"):
    """What the job server answers."""
    headers = {"Authorization": f"Bearer {cluster.token}"}
    request = urllib.request.Request(f"{cluster.dashboard}{path}", headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_job_runs_on_the_head_with_what_is_sent_and_names_no_secret(head):
    wrong = "another-token-" + "f" * 30
    output = head.run("submit", "toy", "--address", head.dashboard, code=2, RAY_AUTH_TOKEN=wrong)
    assert "refuses this token" in output
    assert wrong not in output
    words = ["submit", "toy", "--trials", "1", "--address", head.dashboard, "--root", str(head.folder / "root")]
    told = head.run(*words, "--env", "PGPASSWORD", PGPASSWORD=PASSWORD)
    assert "1 complete." in told
    (job,) = [one for one in asked(head, "/api/jobs/") if one["type"] == "SUBMISSION"]
    assert (job["metadata"], job["status"]) == ({"sweep": "toy"}, "SUCCEEDED")
    assert not [secret for secret in (PASSWORD, head.token) if secret in json.dumps(job) + told]


@pytest.mark.chaos
@pytest.mark.outage
def test_a_job_is_stopped_on_the_cluster_and_goes_on_from_a_laptop(cluster, bucket, database, monkeypatch):
    """`run` by the address of the Ray client: its controller runs on the head. It goes on by the job server's own."""
    spec = cluster.folder / "far.yaml"
    spec.write_text(json.dumps(SPEC))
    secrets = {**bucket.worker, "PGPASSWORD": PASSWORD}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    tokens = {**bucket.environment(), **secrets}
    sent = [word for name in tokens for word in ("--env", name)]
    here = ("--root", str(cluster.folder / "on-the-head"), "--store", database)
    words = ["submit", str(spec), "--address", cluster.client, *here, "--records", RECORDS, *sent]
    process = cluster.command(*words, **tokens)
    until(lambda: any("/checkpoint." in key for key in bucket.keys("sweeps/far")), process)

    # What everybody with the dashboard may read names no secret.
    (job,) = [one for one in asked(cluster, "/api/jobs/") if one["type"] == "SUBMISSION"]
    assert job["metadata"] == {"sweep": "far"}
    assert not [value for value in (*secrets.values(), cluster.token) if value in json.dumps(job)]
    asked(cluster, f"/api/jobs/{job['submission_id']}/stop", method="POST")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert f"at {cluster.dashboard}" in output
    assert "far ·" in output
    assert not [value for value in (*secrets.values(), "client_builder") if value in output]

    # The laptop: another folder, the store's URL, and the job server.
    laptop = ("--root", str(cluster.folder / "laptop"), "--store", database)
    shown = json.loads(cluster.run("show", "far", *laptop, "--json", **tokens))
    assert shown["trials"]["complete"] < 4
    output = cluster.run("submit", "far", "--resume", "--address", cluster.dashboard, *here, *sent, **tokens)
    assert "4 complete." in output

    # Secrets travel in the parcel's order, which Ray keeps for its workers, and are written nowhere else.
    where = findings(cluster.folder, secrets)
    assert where, "the parcel itself was not found"
    assert [one for one in where if ORDER_FILE not in one and ".zip" not in one] == []

    store = open_store(database, create=False)
    assert store.sweep("far").records == RECORDS
    for trial in store.trials("far"):
        assert (trial.state, trial.step) == (TrialState.COMPLETE, 60)
        spent = spending(store.ledger("far", trial.key))
        assert spent.path == 60
        assert spent.executed <= 120
    store.close()


@pytest.mark.chaos
@pytest.mark.outage
def test_a_machine_of_the_cluster_needs_its_token_and_a_folder_that_every_node_sees(cluster):
    """By HOST:PORT, with the token that Ray keeps in the home folder."""
    home = cluster.folder / "home"
    (home / ".ray").mkdir(parents=True)
    root = cluster.folder / "unseen" / "state"
    unset = {"HOME": str(home), "RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN": None}
    words = ["run", "toy", "--trials", "1", "--root", str(root), "--address", cluster.address]
    assert "~/.ray/auth_token" in cluster.run(*words, code=2, **unset)
    (home / ".ray" / "auth_token").write_text(cluster.token)
    output = cluster.run(*words, code=2 if cluster.hides else 0, **unset)
    assert cluster.token not in output
    if cluster.hides:
        assert "1 of 2 nodes do not see it" in output
        assert "--records with an object store URL" in output
        assert not [path for path in Path(root).rglob("horizon*")], "something ran"


@pytest.mark.chaos
@pytest.mark.outage
def test_a_server_for_the_client_that_dies_at_its_start_is_asked_for_again(cluster):
    """The head starts a process for every Ray client; here the first one is killed: a minute to Ray."""
    killed = []

    def kill_the_first():
        limit = time.monotonic() + 120
        while not killed and time.monotonic() < limit:
            for process in psutil.process_iter(["cmdline"]):
                words = " ".join(process.info["cmdline"] or [])
                if "--mode=specific-server" in words and f":{cluster.port} " in words:
                    process.kill()
                    killed.append(process.pid)
                    break
            time.sleep(0.02)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    places = ("--root", str(cluster.folder / "after-a-death"), "--address", cluster.client)
    told = cluster.run("submit", "toy", "--trials", "1", "--name", "again", *places, seconds=600)
    killer.join()
    assert killed
    assert "asking for another" in told
    assert "1 complete." in told

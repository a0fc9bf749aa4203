"""Whole sweeps with their records on a real S3-compatible server: read-only in mid-sweep, resumed from elsewhere."""

import os
import shutil
import time

import pytest

from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.privacy.ledger import spending
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps.object_stores import BUCKET, EVERYTHING, READING, object_store
from tests.sweeps.stores import record
from tests.sweeps.test_cli_processes import SLOW, Sweep

RECORDS = f"s3://{BUCKET}/sweeps"


@pytest.fixture(scope="module")
def bucket():
    with object_store() as running:
        yield running


def until_steps(bucket, process):
    limit = time.monotonic() + 60
    while time.monotonic() < limit and process.poll() is None:
        if any("/checkpoint." in key for key in bucket.keys("sweeps/slow")):
            return
        time.sleep(0.1)
    process.kill()
    raise AssertionError(process.communicate()[0])


@pytest.mark.chaos
@pytest.mark.outage
def test_a_store_that_turns_read_only_stops_the_sweep_and_it_goes_on_elsewhere(bucket, tmp_path, monkeypatch):
    text = SLOW.replace("steps: 400", "steps: 40")
    sweep = Sweep(tmp_path, text)
    sweep.environment |= bucket.environment()
    store_url = f"sqlite:///{tmp_path}/kept/sweeps.db"
    common = ("--store", store_url)
    process = sweep.start("run", str(sweep.spec), *common, "--records", RECORDS)
    until_steps(bucket, process)
    bucket.allow(READING)
    began = time.monotonic()
    output = sweep.end(process, 2)
    assert time.monotonic() - began < 60
    assert "ACCESS_DENIED" in output
    assert "Nothing is lost" in output
    assert "sweeps resume slow" in output
    store = open_store(store_url, create=False)
    assert store.sweep("slow").state == "stopped"
    assert store.sweep("slow").records == RECORDS
    # Writable again, from another folder: the store knows where the records are.
    bucket.allow(EVERYTHING)
    shutil.rmtree(sweep.root)
    sweep.root = tmp_path / "elsewhere"
    output = sweep.run("resume", "slow", *common)
    assert "3 complete." in output
    assert store.sweep("slow").root == str(sweep.root)
    spent = spending(store.ledger("slow"))
    for trial in store.trials("slow"):
        assert (trial.state, trial.step) == (TrialState.COMPLETE, 40)
        assert spent[trial.key].path == 40
        # At most one attempt each was lost, and none twice by the start that could not settle it.
        assert 40 <= spent[trial.key].executed <= 80
    assert not [key for key in bucket.keys("") if "secret" in key]
    assert not list(tmp_path.rglob("trials"))
    # A sweep of the same name in another store must not fall on these records.
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidValue, match="a name without files of an earlier sweep"):
        session.create(load_spec(text), Workspace.at(tmp_path / "another", records=RECORDS), "slow")
    store.close()


def test_wrong_credentials_are_told_before_the_first_trial(bucket, tmp_path):
    sweep = Sweep(tmp_path, SLOW)
    sweep.environment |= bucket.environment(AWS_SECRET_ACCESS_KEY="not-the-secret")
    output = sweep.run("run", str(sweep.spec), "--records", f"s3://{BUCKET}/other", code=2)
    assert "ACCESS_DENIED" in output or "signature" in output
    assert "not-the-secret" not in output
    assert sweep.store().sweeps() == []


def test_places_that_cannot_hold_files_are_refused():
    with pytest.raises(InvalidValue, match=r"a local folder.*--records s3://"):
        Workspace.at("s3://bucket/root")
    with pytest.raises(InvalidValue, match="without credentials"):
        Workspace.at("/root", records="s3://key:hidden@bucket/x")
    relative = Workspace.at("state", records="records")
    assert relative.trials("a").url == f"{os.getcwd()}/records/a/trials"


def test_records_that_are_not_here_are_not_silently_begun_anew(tmp_path):
    here = Workspace.at(tmp_path)
    with pytest.raises(InvalidValue, match=r"records of 'quick-start', which are in /data/sweeps.*--records"):
        here.of(record())
    (tmp_path / "quick-start" / "trials").mkdir(parents=True)
    assert here.of(record()) == here

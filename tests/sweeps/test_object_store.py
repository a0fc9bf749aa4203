"""Whole sweeps with their records on a real S3-compatible bucket: read-only in mid-sweep, resumed from elsewhere."""

import os
import shutil
import time
from dataclasses import replace

import pytest

from dpcore.checks import InvalidValue
from sweeps.examples import load
from sweeps.execution import gc, session
from sweeps.privacy.ledger import spending
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps import stores
from tests.sweeps.object_stores import BUCKET, EVERYTHING, READING
from tests.sweeps.stores import record, until
from tests.sweeps.test_cli_processes import SLOW, Sweep
from trainables.system import TrialRun
from trainables.worker import files
from trainables.worker.attempt import Attempt, Cancelled, RecordsUnwritable, Recovered
from trainables.worker.files import Folder
from trainables.worker.trial import open_run

RECORDS = f"s3://{BUCKET}/sweeps"


@pytest.mark.chaos
@pytest.mark.outage
def test_a_store_that_turns_read_only_stops_the_sweep_and_it_goes_on_elsewhere(bucket, tmp_path, monkeypatch):
    spec = {**SLOW, "systems": {"noisy-mean": {**SLOW["systems"]["noisy-mean"], "steps": 40}}}
    sweep = Sweep(tmp_path, spec)
    sweep.environment |= bucket.environment()
    store_url = f"sqlite:///{tmp_path}/kept/sweeps.db"
    common = ("--store", store_url)
    process = sweep.start("run", str(sweep.spec), *common, "--records", RECORDS)
    until(lambda: any("/checkpoint." in key for key in bucket.keys("sweeps/slow")), process)
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
    for trial in store.trials("slow"):
        assert (trial.state, trial.step) == (TrialState.COMPLETE, 40)
        spent = spending(store.ledger("slow", trial.key))
        assert spent.path == 40
        # At most one attempt each was lost, and none twice by the start that could not settle it.
        assert 40 <= spent.executed <= 80
    assert not [key for key in bucket.keys("") if "secret" in key]
    assert not list(tmp_path.rglob("trials"))
    # A sweep of the same name in another store must not fall on these records.
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidValue, match="a name without files of an earlier sweep"):
        session.create(load(spec), Workspace.at(tmp_path / "another", records=RECORDS), "slow")
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


# The workers' records on a real S3-compatible bucket, with its rights enforced: moto's, in a process of its own.


@pytest.fixture
def environment(bucket, monkeypatch):
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    files._opened.cache_clear()
    yield monkeypatch
    bucket.allow(EVERYTHING)
    files._opened.cache_clear()


@pytest.fixture
def folder(environment, request):
    return Folder(f"s3://{BUCKET}/sweeps of ours/{request.node.name}")


def test_files_come_back_as_they_went(folder):
    assert (folder.read("f"), folder.exists("f"), folder.names()) == (None, False, [])
    large = bytes(range(256)) * 24_000
    for content in (b"", b"old", large):
        folder.write("f", content)
        assert folder.read("f") == content
    folder.child("below").write("g", b"1")
    assert folder.names() == ["below", "f"]
    assert folder.exists("f")
    assert not folder.exists("below")
    folder.delete("f")
    folder.delete("f")
    assert folder.read("f") is None
    for _ in range(2):
        folder.clear()
        assert (folder.names(), folder.child("below").read("g")) == ([], None)


def test_a_claim_without_a_horizon_shows_that_nothing_was_executed(folder):
    """No mark is made before a launch here, since it would cost a request each: what was never claimed is charged."""
    unclaimed, claimed = Attempt.of(folder, "s-0", 1), Attempt.of(folder, "s-0", 2)
    unclaimed.reserve()
    claimed.claim(2)
    assert unclaimed.recover(2, 9).executed_to == 9
    assert claimed.recover(2, 9) == Recovered(2)
    with pytest.raises(Cancelled):
        claimed.reserve_until(1)


def test_a_horizon_that_lands_late_lowers_nothing(folder):
    """A PUT that timed out and was repeated may be carried out after its successors."""
    attempt = Attempt.of(folder, "s-0", 1)
    attempt.claim(0)
    for step in (3, 12, 6):
        attempt.reserve_until(step)
    assert attempt.recover(0, 20).executed_to == 12


def test_a_store_that_turned_read_only_keeps_the_old_content_and_says_so(bucket, folder):
    folder.write("f", b"old")
    folder.write("large", b"o" * 6_000_000)
    bucket.allow(READING)
    for name, content in (("f", b"new"), ("large", b"n" * 12_000_000)):
        with pytest.raises(OSError, match=f"s3://{BUCKET}/.*ACCESS_DENIED"):
            folder.write(name, content)
    assert folder.read("f") == b"old"
    assert folder.read("large") == b"o" * 6_000_000
    plan = stores.plan(steps=4)
    member = TrialRun(key="s-0", attempt=1, seed=1, plan=plan, from_step=0, to_step=4)
    with pytest.raises(RecordsUnwritable, match="ACCESS_DENIED"):
        open_run(member, folder, b"s" * 32)
    bucket.allow(EVERYTHING)
    run = open_run(replace(member, attempt=2), folder, b"s" * 32)
    run.reserve_until(4)


def test_a_deleted_sweep_leaves_no_object_and_a_refusal_is_short(bucket, folder, tmp_path):
    workspace = Workspace.at(tmp_path, records=folder.url)
    opened = workspace.open_store(create=True)
    opened.create_sweep(replace(stores.record(), root=workspace.root, records=workspace.records))
    for number in range(30):
        workspace.trials(stores.SWEEP).child(f"part-{number}").write("checkpoint", b"weights")
    prefix = folder.url.removeprefix(f"s3://{BUCKET}/")
    bucket.allow(READING)
    (left,) = gc.delete(workspace, stores.SWEEP).left
    assert len(left) < 600
    assert "\n" not in left
    assert left.endswith(f"The same call finishes it once that is mended: `sweeps delete {stores.SWEEP}`.")
    assert len(bucket.keys(f"{prefix}/{stores.SWEEP}/")) >= 30
    bucket.allow(EVERYTHING)
    assert gc.delete(workspace, stores.SWEEP).left == ()
    assert bucket.keys(f"{prefix}/{stores.SWEEP}") == []
    opened.close()

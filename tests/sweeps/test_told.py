"""Lines that keep a reader from taking one thing for another."""

from dataclasses import replace

import numpy as np

from dpcore.guarantee import Notion, Status
from sweeps.audit import AuditRecord, audit_trial
from sweeps.cli.claims import lines
from sweeps.planning.preview import preview
from sweeps.privacy.wording import stopped_lines
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialState
from sweeps.store.store import open_store
from tests.sweeps import specs
from tests.sweeps.test_audit import SGD, finished


def spec(systems, **privacy):
    return load_spec(
        specs.digits("told", trials=2, systems=systems, privacy={"epsilon": 1.0, "delta": 1e-5, **privacy})
    )


def test_check_says_that_a_published_claim_is_refuted():
    notes = preview(spec({"convexified-loss": {"epochs": 1, "queries": 10}}), samples=3).notes
    assert any(note.startswith("convexified-loss run as published, with claims that are REFUTED") for note in notes)
    sound = preview(spec({"model-sensitivity": {"regularisation": 0.1}}), samples=3).notes
    assert not any("REFUTED" in note for note in sound)


def test_an_audit_of_the_claim_beside_prints_both(tmp_path):
    workspace = finished(tmp_path, "noisy-sgd", SGD)
    record = audit_trial(workspace, "audited", "0", canaries=50, rng=np.random.default_rng(0), secret=bytes(32))
    assert sum(line.startswith(("claim", "beside")) for line in lines(record)) == 1
    average = replace(record.claim, notion=Notion.BAYESIAN_DP, status=Status.REFUTED, epsilon=0.5)
    told = lines(replace(record, headline=average))
    assert "epsilon 0.5" in told[1]
    assert "refuted" in told[1]
    assert told[2].startswith("beside")
    assert "an average does not bound what one record shows" in told[3]
    assert AuditRecord.from_dict(record.to_dict()) == record


def test_trials_that_stopped_themselves_are_told(tmp_path):
    workspace = finished(tmp_path, "noisy-sgd", SGD)
    [record] = [one for one in open_store(workspace.store_url).trials("audited") if one.state is TrialState.COMPLETE][
        :1
    ]
    planned = record.planned_steps
    whole = replace(record, metrics={**record.metrics, "steps_taken": float(planned)})
    short = replace(record, key="audited-7", metrics={**record.metrics, "steps_taken": 3.0})
    assert list(stopped_lines([record, whole])) == []
    [line] = stopped_lines([record, whole, short])
    assert line == (
        "1 of 2 trials were stopped by their Bayesian budget before their last step: "
        f"audited-7 after 3 of {planned} steps"
    )

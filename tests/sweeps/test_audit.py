"""`sweeps audit` from the store to the verdict: claims that hold are consistent, planted bugs are refuted."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dpcore.audit.audit import AuditOutcome
from dpcore.checks import InvalidValue
from dpcore.gradients import engine as releases
from dpcore.guarantee import epsilon_text
from dpcore.selection.filters import DPCharge
from sweeps.audit import AuditRecord, audit_trial, audits_of, begin, share
from sweeps.cli.main import lines
from sweeps.execution import session
from sweeps.planning.plan import plan_proposal
from sweeps.planning.preview import preview
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.html import macro, write_report
from sweeps.spec.parse import load_spec
from sweeps.store.errors import UnknownTrial
from sweeps.store.population import Population
from sweeps.store.records import Proposal, Refutation, Settlement
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from sweeps.sweep import Sweep
from sweeps.util import fingerprint
from sweeps.util.exits import ExitCode
from tests.sweeps import specs
from trainables.data import SOURCES
from trainables.measures import audits
from trainables.system import PrivacyPlan

torch.set_num_threads(1)
SGD = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 100, "epochs": 2.0}
HEAD = {"regularisation": 0.001}
MEAN = {"clip": 1.0, "steps": 4, "shrinkage": 1.0, "prior": 0.5, "step_seconds": 0.0}
VOTES = {"regularisation": 0.01, "queries": 1, "models": 3, "composition": "standard"}


def finished(
    root: Path,
    system: str,
    knobs: dict[str, Any],
    *,
    epsilon: float = 3.0,
    adjacency: str = "add-remove",
    noise_scale: float = 1.0,
    data: dict[str, Any] | None = None,
    population: Population | None = None,
    **wrong: float,
) -> Workspace:
    """A workspace with one finished trial; `wrong` and `noise_scale` falsify the mechanism, and the claim stays."""
    spec = load_spec(
        specs.mean(
            "audited",
            data=data or {"source": "uniform" if system == "noisy-mean" else "digits"},
            systems={system: knobs},
            privacy={"epsilon": [epsilon], "delta": 1e-5, "adjacency": adjacency},
            objectives=[{"metric": "expected_error" if system == "noisy-mean" else "accuracy"}],
        )
    )
    workspace = Workspace.at(root)
    store = open_store(workspace.store_url)
    if population is not None:
        store.make_population(population)
    name = session.create(spec, workspace)
    source, options = SOURCES[spec.data.source], spec.data.options()
    proposed = {"system": system, "target_epsilon": epsilon, **knobs}
    plan = plan_proposal(spec, proposed, source.facts(options), {})
    assert isinstance(plan, PrivacyPlan)
    if noise_scale != 1:
        # Noise for a smaller sensitivity: as much is counted, less is drawn.
        wrong["sensitivity"] = plan.mechanism.sensitivity * noise_scale
    plan = replace(plan, mechanism=replace(plan.mechanism, **wrong))
    lease = store.acquire(name)
    digest = store.data_fingerprint(source.load(options).fingerprint)
    store.set_fingerprints(lease, {"code": fingerprint.code_digest(), "data": digest})
    charge = None if population is None else DPCharge(plan.guarantee.epsilon, plan.guarantee.delta)
    store.launch(lease, Proposal(number=0, config=proposed, seed=0), plan, plan.steps, charge)
    came = {"executed_to": plan.steps, "step": plan.steps, "metrics": {"accuracy": 0.5}, "seconds": 1.0}
    store.settle(lease, f"{name}-0", 1, Settlement(guarantee=plan.guarantee, **came))
    lease.release()
    return workspace


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """The coins of every audit, and the noise of its twins."""
    drawn = {"rng": np.random.default_rng(0), "secret": bytes(32)}
    monkeypatch.setattr(audits, "AuditSetting", partial(audits.AuditSetting, **drawn))


def audited(workspace: Workspace, **options: Any) -> AuditRecord:
    return audit_trial(workspace, "audited", "0", **options)


@pytest.mark.parametrize(
    ("system", "knobs", "adjacency"),
    [
        ("noisy-sgd", SGD, "add-remove"),
        ("model-sensitivity", HEAD, "replace-one"),
        ("subsample-and-aggregate", VOTES, "replace-one"),
        ("noisy-mean", MEAN, "add-remove"),
    ],
)
def test_a_claim_that_holds_is_consistent(system, knobs, adjacency, tmp_path):
    workspace = finished(tmp_path, system, knobs, adjacency=adjacency)
    before = open_store(workspace.store_url).ledger("audited")
    record = audited(workspace)
    assert record.outcome is AuditOutcome.CONSISTENT
    assert 0 <= record.audit.epsilon_lower <= record.claim.epsilon
    # Nothing but the audit's own folder was written.
    assert open_store(workspace.store_url).ledger("audited") == before
    assert not (workspace.folder("audited") / "trials").exists()
    assert AuditRecord.from_dict(record.to_dict()) == record
    text = "\n".join(lines(record))
    assert ("consistent" in text, "verified" in text) == (True, False)
    assert ("no claim covers the numbers above" in text) == (system == "noisy-sgd")


def test_half_of_the_noise_on_a_model_is_refuted(tmp_path):
    workspace = finished(tmp_path, "model-sensitivity", HEAD, noise_scale=0.5)
    record = audited(workspace)
    assert record.outcome is AuditOutcome.REFUTED
    assert record.on_curve
    assert "Gaussian-shaped" in "\n".join(lines(record))
    (told,) = open_store(workspace.store_url).requests("audited")
    assert told.wanted == Refutation(trial="audited-0", system="model-sensitivity", audit=1)
    said = "\n".join(Sweep("audited", workspace).overview().lines())
    assert "status: proved" not in said + "\n".join(lines(record))
    assert "REFUTED  Audit 1 refuted the claim of audited-0: publish no trial of model-sensitivity" in said


def test_the_refuted_rule_for_soft_votes_is_refuted_from_labels(tmp_path):
    """Temperature B / epsilon, as in the public experiments: one vote loses 1.73 epsilon."""
    workspace = finished(tmp_path, "subsample-and-aggregate", VOTES, epsilon=1.0, adjacency="replace-one", beta=1.0)
    record = audited(workspace, runs=2000)
    assert record.outcome is AuditOutcome.REFUTED
    assert record.audit.epsilon_lower > 0.5


def test_a_forgotten_clip_is_refuted_from_gradients(tmp_path, monkeypatch):
    import dpcore.gradients.engine as engine

    workspace = finished(tmp_path, "noisy-sgd", SGD)
    monkeypatch.setattr(engine, "clip_factors", lambda squares, clip_norm: torch.ones_like(squares).double())
    record = audited(workspace)
    assert record.outcome is AuditOutcome.REFUTED
    assert record.audit.threat_model == "white-box, every update"


def test_the_command_says_it_and_its_exit_code_too(tmp_path, monkeypatch, command):
    finished(tmp_path, "noisy-sgd", SGD)
    code, out, told = command("audit", "audited", "audited-0", "--root", str(tmp_path), "--canaries", "400")
    assert code == 0
    assert "audited eps >= " in out
    assert "consistent" in out
    assert "1 twin(s)" in told
    shown = releases.noisy_mean_gradient
    monkeypatch.setattr(
        releases,
        "noisy_mean_gradient",
        lambda clipped, **options: shown(clipped, **{**options, "noise_multiplier": 0.01}),
    )
    code, out, _ = command("audit", "audited", "0", "--root", str(tmp_path), "--json")
    assert code == ExitCode.REFUTED == 3
    found = json.loads(out)
    assert found["outcome"] == "refuted"
    assert found["covered_by_claim"] is False
    assert found["level"] == pytest.approx(0.05 / 6)
    kept = audits_of(tmp_path / "audited")
    assert [one.number for one in kept] == [1, 2]
    assert kept[1].to_dict() == found


def test_bad_requests_are_refused_before_anything_is_trained(tmp_path):
    workspace = finished(tmp_path, "model-sensitivity", HEAD, adjacency="replace-one")
    with pytest.raises(UnknownTrial):
        audit_trial(workspace, "audited", "7")
    with pytest.raises(InvalidValue, match="multi-run"):
        audit_trial(workspace, "audited", "0", method="one-run")
    store = open_store(workspace.store_url)
    lease = store.acquire("audited")
    store.set_fingerprints(lease, {"code": "another", "data": "another"})
    lease.release()
    with pytest.raises(fingerprint.Changed, match="--accept code"):
        audited(workspace)
    assert audited(workspace, accept=["code"], runs=50).trainings == 150


def test_levels_of_all_audits_add_up_and_begun_ones_count(tmp_path):
    assert sum(1 / share(number) for number in range(1, 10_000)) <= 1
    assert [begin(tmp_path) for _ in range(3)] == [1, 2, 3]
    assert audits_of(tmp_path) == []
    (tmp_path / "audits" / "2").rmdir()
    # A number is never given out again below the highest.
    assert begin(tmp_path) == 4


def test_the_report_page_shows_audits_and_warns_of_a_refuted_system(tmp_path):
    workspace = finished(tmp_path, "model-sensitivity", HEAD, noise_scale=0.25)
    store = open_store(workspace.store_url)
    assert "Audits" not in write_report(PublishedStore(store), "audited", tmp_path / "before.html").read_text()
    record = audited(workspace, runs=400)
    page = write_report(PublishedStore(store), "audited", tmp_path / "after.html").read_text()
    assert "Publish no trial of model-sensitivity" in page
    assert f"refuted at level {record.level:.3g}" in page
    assert "covered by no claim" in page
    read, bound = replace(record, reads_records=True), epsilon_text(record.audit.epsilon_lower, up=False)
    kept = macro("audits")([read], True)
    assert "stay where the records are kept" in kept
    assert bound not in kept
    assert "Publish no trial of model-sensitivity" in kept, "that a claim is refuted is always said"
    for section in (macro("audits")([record], True), macro("audits")([read], False)):
        assert bound in section


def test_shadow_twins_attack_membership_without_a_verdict(tmp_path, command):
    workspace = finished(tmp_path, "model-sensitivity", HEAD)
    code, out, told = command("audit", "audited", "0", "--root", str(tmp_path), "--shadows", "8")
    assert code == 0
    assert "9 twin(s)" in told
    for word in ("LiRA online", "LiRA offline", "loss threshold", "AUC", "F1", "accuracy", "FPR 0.001", "no claim"):
        assert word in out
    assert audits_of(workspace.folder("audited")) == []
    code, _, told = command("audit", "audited", "0", "--root", str(tmp_path), "--shadows", "7")
    assert (code, "even" in told) == (2, True)


# Lines that keep a reader from taking one thing for another.


def spec(systems, **privacy):
    return load_spec(
        specs.digits("told", trials=2, systems=systems, privacy={"epsilon": 1.0, "delta": 1e-5, **privacy})
    )


def test_check_says_that_a_published_claim_is_refuted():
    notes = preview(spec({"convexified-loss": {"epochs": 1, "queries": 10}}), samples=3).notes
    assert any(note.startswith("convexified-loss run as published, with claims that are REFUTED") for note in notes)
    sound = preview(spec({"model-sensitivity": {"regularisation": 0.1}}), samples=3).notes
    assert not any("REFUTED" in note for note in sound)

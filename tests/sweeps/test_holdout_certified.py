"""The certificate of a holdout, from a store: with whichever tuning the product allows, and never with one that fell,
went or became another since.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.certificate import build
from sweeps.certificate.subject import CannotCertify
from sweeps.execution import session
from sweeps.execution.final_run import with_chosen
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec import load_spec, public_facts
from sweeps.store.records import Proposal, Refutation, Settlement, SweepState
from sweeps.store.store import open_store
from sweeps.util.workspace import Workspace
from tests.sweeps.final_runs import ran
from tests.sweeps.test_holdout import SHARE, final, finished, opened, total, tuning


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("holdout"))


@pytest.fixture
def copied(root, tmp_path):
    """A store of its own with the same sweeps, and the folder of a key."""
    shutil.copytree(root, tmp_path / "copy")
    return tmp_path / "copy"


def changed(root):
    """The store, to write to."""
    return closing(open_store(Workspace.at(root).store_url))


def certified(root, folder, name="final", **trial):
    """A certificate, and what its verification says."""
    key = folder / f"key of {name}.pem"
    sweeps.new_key(key)
    answers = {"key": key, "approved_by": "N. N.", "because": "for the exam", "ranges": "on nothing"}
    made = sweeps.open(name, root=root).certify(**answers, **trial)
    target, *_ = made.save(folder / f"{name}.json")
    return made, sweeps.verify(target, signer=f"{key}.pub")


@pytest.mark.parametrize("name", ["final", "dear"])
def test_the_whole_is_certified_with_both_ledgers(name, root, tmp_path):
    made, found = certified(root, tmp_path, name)
    assert found.stands, str(found)
    body = made.body
    assert body.claim == total(root, name).guarantee
    assert body.tuning.claim == total(root, "tuning").guarantee
    assert (len(body.tuning.ledger), len(body.final.ledger)) == (3, 1)
    part = body.final.provenance.part
    assert (part.use, part.share, part.id, part.key) == ("final", SHARE, "id", "tuning")
    page = (tmp_path / f"{name}.html").read_text()
    assert "The sweep that tuned: tuning" in page
    assert f"The final run: {name}" in page


def test_the_final_run_alone_is_certified_as_one_trial(root, tmp_path):
    made, found = certified(root, tmp_path, trial=0)
    assert found.stands
    assert "the search for its hyperparameters not covered" in made.body.title


# -- each kind of sweep that may tune --------------------------------------------------------------------------

WHOLE = {"epsilon": 1.5, "delta": 1e-5, "scope": "sweep"}


def test_a_budget_that_a_filter_kept_is_the_price_of_tuning(root, tmp_path):
    kept = {**tuning(root, search={"sampler": "tpe", "trials": 2}), "name": "kept"}
    kept["privacy"] = {**WHOLE, "filter": "renyi", "order": 8.0}
    ran(kept, root)
    ran({**final(root, epsilon=1.25, chosen_from="kept"), "name": "after"}, root)
    made, found = certified(root, tmp_path, "after")
    assert found.stands, str(found)
    assert (made.body.tuning.mode.mode, made.body.claim.epsilon) == ("filter", 1.5)
    assert made.body.claim == total(root, "after").guarantee


def sealed(root, name, **changes):
    """A sealed search of which the winner left."""
    search = {"sampler": "auto", "trials": 9}
    made = {**tuning(root, search=search), "name": name, "selection": {"deadline_minutes": 5}}
    raw = {**made, "privacy": {**WHOLE, "epsilon": 3.0, "release": "best"}, **changes}
    workspace, spec = Workspace.at(root), load_spec(raw)
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec)))
    config = next(planner.prior.space.middles())
    plan = planner.plan(config)
    session.create(spec, workspace)
    came = Settlement(
        executed_to=plan.steps, step=plan.steps, metrics={"accuracy": 0.75}, guarantee=plan.guarantee, seconds=1.0
    )
    with changed(root) as store:
        lease = store.acquire(name)
        store.set_fingerprints(lease, {**store.sweep(name).fingerprints, "data": "5e"})
        store.launch(lease, Proposal(number=0, config=config, seed=1), plan, plan.steps)
        store.settle(lease, f"{name}-0", 1, came)
        store.set_state(lease, SweepState.FINISHED)
        lease.release()


def test_the_price_of_a_sealed_search_is_that_of_tuning(root, tmp_path):
    sealed(root, "sealed")
    ran({**final(root, epsilon=2.0, chosen_from="sealed"), "name": "after-sealed"}, root)
    made, found = certified(root, tmp_path, "after-sealed")
    assert found.stands, str(found)
    assert (made.body.tuning.mode.mode, made.body.claim.epsilon) == ("best", 3.0)
    assert made.body.tuning.accesses.training is None
    assert made.body.claim == total(root, "after-sealed").guarantee


def test_of_a_ladder_of_budgets_what_was_promised_before_is_that_of_tuning(root, tmp_path):
    ladder = {"epsilon": [1.0, 3.0], "delta": 1e-5, "scope": "sweep", "release": "first"}
    target = {"deadline_minutes": 5, "target": {"metric": "accuracy", "at_least": 0.5}}
    sealed(root, "ladder", privacy=ladder, selection=target)
    ran({**final(root, epsilon=2.0, chosen_from="ladder"), "name": "after-ladder"}, root)
    made, found = certified(root, tmp_path, "after-ladder")
    assert found.stands, str(found)
    own = made.body.tuning.claim
    assert (own.notion, own.epsilon) == ("ex-post-privacy", 1.0)
    assert (made.body.claim.notion, made.body.claim.epsilon) == ("differential-privacy", 3.0)
    assert made.body.claim == total(root, "after-ladder").guarantee


def test_a_system_that_could_have_won_has_to_claim_something_in_the_final_run(tmp_path):
    """Which system wins depends on the records that tuned: a total is no claim if one of them is refuted."""
    refuted = {"convexified-loss": {"epochs": 1, "hidden": 8, "learning_rate": 0.01, "queries": 20, "batch_size": 20}}
    public = {"validation": {"records": "public", "share": 0.2, "id": "id"}}
    raw = tuning(tmp_path, data=public, search={"trials": 1})
    assert ran({**raw, "systems": {**raw["systems"], **refuted}}, tmp_path) == "tuning"
    with changed(tmp_path) as store:
        (tried,) = store.trials("tuning")
    assert tried.config["system"] == "noisy-sgd"
    last = final(tmp_path, data=public)
    with_chosen(load_spec(last), opened(tmp_path))
    with pytest.raises(InvalidValue, match=r"systems='convexified-loss': expected systems whose claims stand"):
        with_chosen(load_spec({**last, "systems": {**last["systems"], **refuted}}), opened(tmp_path))


# -- a tuning that is no longer what it was --------------------------------------------------------------------


def refused(root, folder, said):
    with pytest.raises(CannotCertify, match=said) as error:
        certified(root, folder)
    assert "With --trial 0 the final run can" in str(error.value)


def test_a_tuning_that_an_audit_refuted_since_is_refused(copied, tmp_path):
    with changed(copied) as store:
        store.ask("tuning", Refutation(trial="tuning-0", system="noisy-sgd", audit=1), "somebody@here")
    refused(copied, tmp_path, "tuning, which tuned for it, cannot be certified .* REFUTED")


def test_a_final_run_that_an_audit_refuted_is_refused(copied, tmp_path):
    with changed(copied) as store:
        store.ask("final", Refutation(trial="final-0", system="noisy-sgd", audit=1), "somebody@here")
    with pytest.raises(CannotCertify, match="final: the total of its trials REFUTED"):
        certified(copied, tmp_path)


def test_a_tuning_that_was_deleted_is_refused_and_one_that_was_renamed_is_not(copied, tmp_path):
    sweeps.open("tuning", root=copied).rename("proxy")
    made, found = certified(copied, tmp_path)
    assert found.stands
    assert made.body.tuning.sweep.name == "tuning"
    (tmp_path / "key of final.pem").unlink()
    (tmp_path / "key of final.pem.pub").unlink()
    sweeps.open("proxy", root=copied).delete()
    refused(copied, tmp_path, "it was deleted")


def test_a_tuning_that_went_on_is_refused(copied, tmp_path):
    with changed(copied) as store:
        first, lease = store.trials("tuning")[0], store.acquire("tuning")
        store.set_state(lease, SweepState.RUNNING)
        store.launch(lease, Proposal(number=3, config=first.config, seed=9), first.plan, first.plan.steps)
        store.set_state(lease, SweepState.STOPPED)
        lease.release()
    refused(copied, tmp_path, "it is not what it was then")


def test_a_tuning_that_reads_other_records_by_now_is_refused(copied, tmp_path):
    with changed(copied) as store:
        lease = store.acquire("tuning")
        store.set_fingerprints(lease, {**store.sweep("tuning").fingerprints, "data": "ab"})
        lease.release()
    refused(copied, tmp_path, "its records are others now than those by which tuning-")


def test_a_tuning_that_claims_something_else_than_was_recorded_is_refused(root, tmp_path, monkeypatch):
    exact = build.tuned_by_now

    def less(store, spec):
        found = exact(store, spec)
        return replace(found, claim=replace(found.claim, epsilon=1.25, epsilon_lower=None))

    monkeypatch.setattr(build, "tuned_by_now", less)
    refused(root, tmp_path, r"it claims epsilon \d\.\d+ at 1e-05 now, and 1\.25 at 1e-05 when tuning-\d was chosen")


def test_a_final_run_that_goes_on_is_refused(copied, tmp_path):
    with changed(copied) as store:
        lease = store.acquire("final")
        store.set_state(lease, SweepState.RUNNING)
        lease.release()
    with pytest.raises(CannotCertify, match="goes on spending"):
        certified(copied, tmp_path)


def test_a_final_run_of_which_a_launch_was_lost_counts_twice(root, tmp_path):
    ran({**final(root), "name": "again"}, root, lost=1)
    made, found = certified(root, tmp_path, "again")
    assert found.stands, str(found)
    assert len(made.body.final.ledger) == 2
    assert (made.body.claim.epsilon, made.body.claim.delta) == (6.0, 2e-5)
    assert made.body.claim == total(root, "again").guarantee
    assert made.body.final.claim.epsilon < 6.0
    assert any(line.startswith("The final run was launched 2 times") for line in made.body.claim.assumptions)
    assert "<dt>launches</dt><dd>2</dd>" in made.page

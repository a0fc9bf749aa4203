"""The certificate of a holdout, from a store: with whichever tuning the product allows, and never with one that fell,
went or became another since.
"""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.certificate.count import CannotCertify
from sweeps.execution import session
from sweeps.execution.final_run import with_chosen
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import Proposal, Refutation, Settlement, SweepState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
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


def certified(root, folder, name="final"):
    """A certificate, and what its verification says."""
    key = folder / f"key of {name}.pem"
    sweeps.new_key(key)
    answers = {"key": key, "approved_by": "N. N.", "because": "for the exam", "ranges": "on nothing"}
    made = sweeps.open(name, root=root).certify(**answers)
    target, *_ = made.save(folder / f"{name}.json")
    return made, sweeps.verify(target, signer=f"{key}.pub")


def test_the_whole_is_certified_with_both_ledgers(root, tmp_path):
    made, found = certified(root, tmp_path)
    assert found.stands, str(found)
    body = made.body
    assert body.claim == total(root, "final").guarantee
    assert body.tuning.claim == total(root, "tuning").guarantee
    assert (len(body.tuning.ledger), len(body.final.ledger)) == (3, 1)
    part = body.final.provenance.part
    assert (part.use, part.share, part.id, part.key) == ("final", SHARE, "id", "tuning")


# -- kinds of sweep that may tune: of all of them there are documents by hand ----------------------------------


def sealed(root, name, **changes):
    """A sealed search over budgets of which the winner left."""
    search = {"sampler": "auto", "trials": 9}
    made = {**tuning(root, search=search), "name": name, "selection": {"deadline_minutes": 5}}
    raw = {**made, **changes}
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


def refuted(name):
    return lambda root, store: store.ask(name, Refutation(trial=f"{name}-0", system="noisy-sgd", audit=1), "me@here")


def went_on(root, store):
    first, lease = store.trials("tuning")[0], store.acquire("tuning")
    store.set_state(lease, SweepState.RUNNING)
    store.launch(lease, Proposal(number=3, config=first.config, seed=9), first.plan, first.plan.steps)
    store.set_state(lease, SweepState.STOPPED)
    lease.release()


def read_others(root, store):
    lease = store.acquire("tuning")
    store.set_fingerprints(lease, {**store.sweep("tuning").fingerprints, "data": "ab"})
    lease.release()


def goes_on(root, store):
    lease = store.acquire("final")
    store.set_state(lease, SweepState.RUNNING)
    lease.release()


CHANGES = {
    "refuted": (refuted("tuning"), "tuning, which tuned for it, cannot be certified .* REFUTED.* With --trial 0"),
    "deleted": (lambda root, store: sweeps.open("tuning", root=root).delete(), "it was deleted"),
    "went on": (went_on, r"it claims epsilon \d\.\d+ at 1e-05 now, and .* it is not what it was then"),
    "other records": (read_others, "its records are others now than those by which tuning-"),
    "final refuted": (refuted("final"), "final: the total of its trials REFUTED"),
    "final goes on": (goes_on, "goes on spending"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_holdout_that_is_another_since_its_best_trial_was_chosen_is_refused(change, copied, tmp_path):
    done, said = CHANGES[change]
    with changed(copied) as store:
        done(copied, store)
    with pytest.raises(CannotCertify, match=said):
        certified(copied, tmp_path)


def test_a_tuning_that_was_renamed_is_not_refused(copied, tmp_path):
    sweeps.open("tuning", root=copied).rename("proxy")
    made, found = certified(copied, tmp_path)
    assert found.stands
    assert made.body.tuning.sweep.name == "tuning"


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

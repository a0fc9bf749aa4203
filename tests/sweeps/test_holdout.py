"""`scope: holdout`: a search on one part of the records, then one run on the others with what it found."""

from __future__ import annotations

import shutil
from contextlib import closing

import pytest

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.certificate.build import CannotCertify
from sweeps.execution.final_run import with_chosen
from sweeps.execution.resume import effective_spec
from sweeps.privacy.ledger import UNTIL_CHOSEN, Tuned, both
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import totals
from sweeps.privacy.wording import Verdict, covers_text, quote_of_total
from sweeps.spec.parse import load_spec
from sweeps.store.records import Proposal, Refutation, SweepState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from sweeps.util import fingerprint
from tests.sweeps.final_runs import ran, spec, table
from tests.sweeps.view_sweeps import guarantee
from trainables.data import SOURCES

SHARE = 0.4
PRIVATE = {"records": "private", "share": 0.2, "id": "id"}


def part(use, **changes):
    return {"use": use, "share": SHARE, "id": "id", **changes}


def tuning(root, epsilon=2.0, **sections):
    data = {"part": part("tuning"), "validation": PRIVATE, **sections.pop("data", {})}
    return spec(
        "tuning", table(root, "people"), data=data, **{"privacy": {"epsilon": epsilon, "delta": 1e-5}, **sections}
    )


def final(root, epsilon=3.0, chosen_from="tuning", **sections):
    data = {"part": part("final"), "validation": PRIVATE, **sections.pop("data", {})}
    search = {"trials": 1, "chosen_from": chosen_from, **sections.pop("search", {})}
    privacy = {"epsilon": epsilon, "delta": 1e-5, "scope": "holdout", **sections.pop("privacy", {})}
    return spec("final", table(root, "people"), data=data, search=search, privacy=privacy, **sections)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A tuning, its final run, and a dear one, have run there."""
    root = tmp_path_factory.mktemp("holdout")
    for raw in (tuning(root), final(root), {**final(root, epsilon=40.0), "name": "dear"}):
        ran(raw, root)
    return root


def opened(root):
    return PublishedStore.open(Workspace.at(root))


def total(root, name):
    return sweeps.open(name, root=root).overview().ledger.procedure


# -- the claim -----------------------------------------------------------------------------------------------


def test_the_whole_costs_the_larger_of_both(root):
    """Three trials of epsilon 2 together cost more than 3; and 40 is more than they do."""
    tuned, whole = total(root, "tuning").guarantee, total(root, "final").guarantee
    assert tuned.epsilon > 3
    assert whole.epsilon == tuned.epsilon
    assert total(root, "dear").guarantee.epsilon == 40
    assert total(root, "final").is_claim
    assert set(tuned.assumptions) | {UNTIL_CHOSEN} <= set(whole.assumptions)
    assert any("share and key of the hash that parts" in line for line in whole.assumptions)


def test_the_final_run_counts_as_what_any_point_was_held_to():
    """Which point it is depends on the records that tuned: a point that costs less is no smaller promise."""
    cheap = both(Tuned(claim=guarantee(1.0, delta=2e-5), target=3.0, delta=1e-5), guarantee(2.5))
    assert (cheap.epsilon, cheap.delta, cheap.epsilon_lower) == (3.0, 2e-5, None)


def test_the_point_is_the_best_of_what_tuned_and_stays(root):
    tried = opened(root).trials("tuning")
    best = max(tried, key=lambda one: (one.metrics["accuracy"], -one.number))
    (trial,) = opened(root).trials("final")
    assert trial.config["learning_rate"] == best.config["learning_rate"]
    recorded = opened(root).sweep("final")
    went_on = effective_spec(recorded, load_spec(final(root)), ())
    assert went_on.canonical()["search"] == recorded.spec.canonical()["search"]
    moved = final(root, data={"part": part("final", share=0.5)})
    with pytest.raises(fingerprint.Changed, match=r"data\.part"):
        effective_spec(recorded, load_spec(moved), ("spec",))


def test_the_total_of_the_whole_falls_with_the_tuning(copied):
    fallen = copied
    with changed(fallen) as store:
        refuted("tuning")(fallen, store)
    whole = total(fallen, "final")
    assert (whole.is_claim, whole.refuted) == (False, ("noisy-sgd in tuning",))
    assert quote_of_total(whole).verdict is Verdict.REFUTED
    (own, *_) = totals(opened(fallen), "final", opened(fallen).trials("final"))
    assert not own.claims()
    # The run on the other part was refuted by nobody.
    assert opened(fallen).trials("final")[0].guarantee.status is Status.PROVED


# -- who is in which part ------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", ["tuning", "final"])
def test_test_records_are_of_the_part(tmp_path, use):
    """A score on private test records would else be of those that tuned, too."""
    own = spec("any", table(tmp_path, "people"), data={"part": part(use), "validation": None})["data"]
    options = {name: value for name, value in own.items() if name != "source"}
    test = {"records": "private", "share": 0.3, "id": "id"}
    everybody = SOURCES["table"].load(options).train
    held = SOURCES["table"].load_held_out({**options, "test": test})
    whole, tested = (set(map(tuple, one.inputs["x"])) for one in (everybody, held))
    assert tested
    assert tested < whole


# -- what is refused -----------------------------------------------------------------------------------------

REFUSED = {
    "another share": ({"data": {"part": part("final", share=0.5)}}, r"data.part.share=0.5: expected 0.4, by which"),
    "another key": ({"data": {"part": part("final", key="other")}}, r"data.part.key='other': expected 'tuning'"),
    "another number": ({"data": {"n": 190}}, r"data.n=190: expected 200, as sweep 'tuning' has it"),
    "another population": ({"data": {"population": "people"}}, r"data.population='people': expected None"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_split_is_refused(root, name):
    change, said = REFUSED[name]
    with pytest.raises(InvalidValue) as refused:
        with_chosen(load_spec(final(root, **change)), opened(root))
    assert said in str(refused.value)


def test_a_sweep_on_all_records_or_on_the_final_part_cannot_have_tuned(root, tmp_path):
    plain = {**tuning(root, data={"part": None}), "name": "plain"}
    ran(plain, root)
    with pytest.raises(InvalidValue, match="it read all"):
        with_chosen(load_spec(final(root, chosen_from="plain")), opened(root))
    with pytest.raises(InvalidValue, match="started from no other"):
        with_chosen(load_spec(final(root, chosen_from="dear")), opened(root))


def test_a_sweep_whose_total_is_none_cannot_have_tuned(root):
    learned = {**tuning(root, search={"sampler": "tpe", "trials": 2}), "name": "learned"}
    ran(learned, root)
    with pytest.raises(InvalidValue, match="of this one it is none: the tpe sampler chose trials by the results"):
        with_chosen(load_spec(final(root, chosen_from="learned")), opened(root))


# The certificate of a holdout, from a store: with whichever tuning the product allows, and never with one that fell,


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
    assert "what had left the sweep that tuned when its best was chosen" in covers_text(total(root, "final"))
    assert (len(body.tuning.ledger), len(body.final.ledger)) == (3, 1)
    part = body.final.provenance.part
    assert (part.use, part.share, part.id, part.key) == ("final", SHARE, "id", "tuning")


# -- kinds of sweep that may tune: of all of them there are documents by hand ----------------------------------


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

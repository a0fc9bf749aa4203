"""`scope: public`: a search on records that are declared public, then one run on private ones with what it found."""

from __future__ import annotations

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.execution import session
from sweeps.execution.final_run import check_apart
from sweeps.execution.resume import effective_spec
from sweeps.privacy.ledger import ONE_TRIAL
from sweeps.privacy.release import PublishedStore
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from sweeps.store.workspace import Workspace
from sweeps.util import fingerprint
from tests.sweeps.final_runs import KNOBS, WHY, ran, spec, table

PRIVACY = {"epsilon": 1.0, "delta": 1e-5, "scope": "public"}


def proxy(root, **sections):
    return spec("proxy", table(root, "proxy", seed=1), **{"data": {"records_are_public": WHY}, **sections})


def final(root, chosen_from="proxy", **sections):
    search = {"trials": 1, "chosen_from": chosen_from, **sections.pop("search", {})}
    return spec("final", table(root, "people"), **{"privacy": PRIVACY, "search": search, **sections})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("public")
    ran(proxy(root), root)
    ran(final(root), root)
    return root


def opened(root):
    return PublishedStore.open(Workspace.at(root))


def best(root, sweep="proxy"):
    trials = opened(root).trials(sweep)
    return max(trials, key=lambda one: (one.metrics["accuracy"], -one.number))


def test_the_one_run_is_that_of_the_best_and_its_claim_that_of_the_whole(root):
    (trial,) = opened(root).trials("final")
    assert trial.config["learning_rate"] == best(root).config["learning_rate"]
    recorded = opened(root).sweep("final").spec.canonical()["search"]
    assert recorded["chosen"]["trial"] == best(root).key
    found = sweeps.open("final", root=root)
    claim = found.overview().ledger.procedure
    assert claim.is_claim
    assert claim.guarantee.epsilon == pytest.approx(trial.guarantee.epsilon, abs=1e-9)
    assert 0.9 < claim.guarantee.epsilon <= 1.0
    assert ONE_TRIAL not in trial.guarantee.assumptions
    assert any(WHY in line and best(root).key in line for line in claim.guarantee.assumptions)
    said = "\n".join(found.overview().lines())
    assert "the hyperparameters are the best of sweep 'proxy', whose records are declared public" in said


def test_what_becomes_of_the_proxy_changes_nothing(root):
    """It is resumed from its record: another best by then is none of it."""
    recorded = opened(root).sweep("final")
    given = load_spec(final(root))
    went_on = effective_spec(recorded, given, ())
    assert went_on.search.first == load_spec(recorded.spec.canonical()).search.first
    forged = recorded.spec.canonical()
    forged["search"]["chosen"]["trial"] = "proxy-9"
    with pytest.raises(fingerprint.Changed, match="chosen"):
        effective_spec(recorded, load_spec(forged), ("spec",))


REFUSED = {
    "unknown": ({"search": {"chosen_from": "nobody"}}, "search.chosen_from='nobody': expected a sweep of this store"),
    "a metric that was not told": (
        {"objectives": [{"metric": "f1"}]},
        "expected a sweep that released a trial with f1, of which there is none",
    ),
    "another domain": (
        {"systems": {"noisy-sgd": {**KNOBS, "epochs": 1, "learning_rate": {"log_uniform": [2.0, 3.0]}}}},
        "search.chosen_from.learning_rate=",
    ),
    "another fixed value": (
        {"systems": {"noisy-sgd": {**KNOBS, "epochs": 1, "learning_rate": 7.0}}},
        "at which the sweep fixes it",
    ),
    "another system": (
        {"systems": {"noisy-adam": {**KNOBS, "epochs": 1}}},
        "search.chosen_from.system='noisy-sgd': expected a system of the sweep",
    ),
    "no room": ({"limits": {"work": 1.0}}, "expected a sweep whose best trial, proxy-"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_final_run_cannot_take_is_refused_before_anything_is_recorded(root, name):
    change, said = REFUSED[name]
    with pytest.raises((InvalidValue, SpecErrors)) as refused:
        session.create(load_spec(final(root, **change)), Workspace.at(root), "refused")
    assert said in str(refused.value)
    assert "refused" not in {one.name for one in opened(root).sweeps()}


def test_records_that_are_not_public_or_the_same_are_refused(tmp_path):
    ran(spec("private", table(tmp_path, "people")), tmp_path)
    with pytest.raises(InvalidValue, match="all of whose records are declared public"):
        session.create(load_spec(final(tmp_path, "private")), Workspace.at(tmp_path))
    ran(spec("same", table(tmp_path, "people"), data={"records_are_public": WHY}), tmp_path)
    with pytest.raises(InvalidValue, match="other records than the table of this spec"):
        session.create(load_spec(final(tmp_path, "same")), Workspace.at(tmp_path))
    private = {"records": "private", "share": 0.2, "id": "id"}
    ran({**proxy(tmp_path, data={"records_are_public": WHY, "validation": private}), "name": "judged"}, tmp_path)
    with pytest.raises(InvalidValue, match="validation records are public too"):
        session.create(load_spec(final(tmp_path, "judged")), Workspace.at(tmp_path))


def test_a_copied_file_is_known_by_its_records(tmp_path):
    people = table(tmp_path, "people")
    (tmp_path / "copy.csv").write_text((tmp_path / "people.csv").read_text())
    ran(spec("proxy", str(tmp_path / "copy.csv"), data={"records_are_public": WHY}), tmp_path)
    with pytest.raises(InvalidValue, match="these are the same"):
        ran(spec("final", people, privacy=PRIVACY, search={"trials": 1, "chosen_from": "proxy"}), tmp_path)
    recorded = load_spec(opened(tmp_path).sweep("final").spec.canonical())
    check_apart(recorded, "another")


def test_one_that_has_not_ended_or_started_from_another_is_refused(tmp_path):
    ran(proxy(tmp_path), tmp_path, state="stopped")
    with pytest.raises(InvalidValue, match="a sweep that has ended; it is stopped"):
        session.create(load_spec(final(tmp_path)), Workspace.at(tmp_path))
    raw = proxy(tmp_path, search={"sampler": "tpe", "warm_start": "proxy", "trials": 1})
    ran({**raw, "name": "warmed"}, tmp_path)
    with pytest.raises(InvalidValue, match="started from no other"):
        session.create(load_spec(final(tmp_path, "warmed")), Workspace.at(tmp_path))


def test_nothing_is_added_to_a_final_run(root):
    from sweeps.execution.requests import enqueue
    from sweeps.execution.resume import extension_for

    store = Workspace.at(root).open_store()
    with pytest.raises(InvalidValue, match="the final run with what proxy found"):
        enqueue(store, "final", {"learning_rate": 0.1})
    recorded = store.sweep("final")
    loaded = load_spec(recorded.spec.canonical())
    with pytest.raises(InvalidValue, match="the trials that it began with"):
        extension_for(recorded, loaded, store.trials("final"), 2)
    with pytest.raises(InvalidValue, match="the trials that it began with"):
        extension_for(recorded, loaded, store.trials("final"), None, epsilon=[2.0])


def test_its_certificate_says_where_the_settings_are_from_and_verifies(root, tmp_path):
    key = sweeps.new_key(tmp_path / "key.pem").with_suffix("")
    answers = {"key": key, "approved_by": "N. N.", "because": "for the exam", "ranges": "on nothing"}
    made = sweeps.open("final", root=root).certify(**answers)
    assert (made.body.mode.scope, made.body.provenance.chosen.trial) == ("public", best(root).key)
    target, *_ = made.save(tmp_path / "one.json")
    assert sweeps.verify(target, signer=tmp_path / "key.pem.pub").stands

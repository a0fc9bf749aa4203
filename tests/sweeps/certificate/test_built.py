"""From a store to a certificate: claims that none may carry, each with its reason, and what stands in one that may."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import sweeps
from dpcore.checks import InvalidValue
from dpcore.guarantee import STANDING, Notion, Status
from sweeps.certificate import build
from sweeps.certificate.build import CannotCertify, certified, checked_trial
from sweeps.certificate.document import parsed
from sweeps.certificate.modes import STATED, LedgerRow, PlannedTrial, Statement, TrialAlone
from sweeps.certificate.signing import new_key, private_key, public_key
from sweeps.cli.main import app
from sweeps.privacy.release import Published, PublishedStore
from sweeps.store.records import (
    LedgerEntry,
    Proposal,
    Refutation,
    Settlement,
    SweepRecord,
    SweepState,
    TrialRecord,
    TrialState,
    this_person,
)
from sweeps.store.store import open_store
from tests.sweeps.certificate.documents import APPROVAL, KEY, verified
from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep, launched
from tests.sweeps.final_runs import ran
from tests.sweeps.test_sealed_planning import SPEC as SEALED
from tests.sweeps.test_sealed_planning import planner_of
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables.registry import SYSTEMS
from trainables.system import PrivacyTarget

EIGHT = {"systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1]}, "steps": 8}}}
WHOLE = {"privacy": {"epsilon": 3.0, "delta": 1e-5, "scope": "sweep"}}


def over(folder, lost=False, state=SweepState.FINISHED, **change):
    """A sweep of fake workers that ran to its end, and its publisher."""
    sweep = FakeSweep(folder, **change)
    if lost:
        worker = launched(sweep)
        worker.execute(1, 2, stop_inside=True)
        sweep.lose(worker)
    sweep.finish()
    sweep.store.set_state(sweep.lease, state)
    return sweep, PublishedStore(sweep.store)


def certificate(store, name=NAME, trial=None):
    return certified(store, name, trial, APPROVAL, KEY)


# -- every trial -------------------------------------------------------------------------------------------------


def test_launches_that_were_lost_are_rows_of_their_own(tmp_path):
    made = certificate(over(tmp_path, lost=True)[1])
    assert [row.attempt for row in made.body.ledger if row.trial == f"{NAME}-0"] == [1, 2]
    assert verified(made.body).stands
    assert any("launch was lost" in line for line in made.body.claim.assumptions)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state": SweepState.RUNNING}, "goes on spending"),
        ({"change": {"search": {"sampler": "tpe", "trials": 3}}}, "tpe sampler chose trials"),
        ({"early_stopping": ASHA, "change": EIGHT}, "early stopping"),
    ],
)
def test_a_total_that_goes_on_or_whose_budgets_results_chose_is_refused(change, why, tmp_path):
    with pytest.raises(CannotCertify, match=why):
        certificate(over(tmp_path, **change)[1])


def test_what_an_audit_refuted_is_refused(tmp_path):
    sweep, store = over(tmp_path)
    sweep.store.ask(NAME, Refutation(trial=f"{NAME}-0", system="noisy-mean", audit=1), this_person())
    for trial in (None, store.trials(NAME)[1]):
        with pytest.raises(CannotCertify, match="REFUTED"):
            certificate(store, trial=trial)


def test_a_claim_that_its_events_do_not_give_back_is_not_signed(tmp_path, monkeypatch):
    """The mutant: a total that was counted too small."""
    _, store = over(tmp_path)
    honest = build.totals.summary

    def smaller(*given):
        found = honest(*given)
        claim = replace(
            found.procedure.guarantee, epsilon=found.procedure.guarantee.epsilon * 0.999, epsilon_lower=None
        )
        return replace(found, procedure=replace(found.procedure, guarantee=claim))

    monkeypatch.setattr(build.totals, "summary", smaller)
    with pytest.raises(CannotCertify, match="it is not signed"):
        certificate(store)


@pytest.mark.parametrize("privacy", [{}, {"filter": "renyi", "order": 8.0}], ids=["gdp", "renyi"])
def test_a_sweep_whose_trials_results_chose_is_certified_with_its_budget(privacy, tmp_path):
    change = {**EIGHT, "privacy": {**WHOLE["privacy"], **privacy}}
    sweep, store = over(tmp_path, early_stopping=ASHA, change=change)
    body = certificate(store).body
    assert (body.claim.epsilon, body.claim.delta, body.mode.order) == (3.0, 1e-5, privacy.get("order"))
    assert len(body.mode.charges) == len(sweep.store.ledger(NAME)) > 5
    assert verified(body).stands


def test_a_fixed_schedule_within_the_budget_of_its_sweep_is_composed(tmp_path):
    body = certificate(over(tmp_path, change=WHOLE)[1]).body
    assert body.mode.budget == 3.0 > body.claim.epsilon
    assert verified(body).stands


# -- one trial ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return over(tmp_path_factory.mktemp("statuses"))[1].trials(NAME)[0]


@pytest.mark.parametrize("status", Status)
def test_only_claims_that_stand_are_certified_and_weaker_notions_only_stated(status, trial):
    claim = replace(trial.guarantee, status=status, asserted_by="lab.mean" if status is Status.ASSERTED else "")
    one = Published(replace(trial, guarantee=claim))
    if status in (*STANDING, *STATED):
        assert checked_trial(one) == (trial.plan, claim)
        return
    with pytest.raises(CannotCertify, match="may not be quoted"):
        checked_trial(one)


REFUSED = {"convexified-loss", "variational-draws", "sgd", "rmsprop", "dropout", "sgld", "psgld", "sghmc"}
"""Refuted, or with an epsilon that promises nothing."""
AVERAGE_CASE = {"average-case-sgd"}


@pytest.mark.parametrize("name", CANDIDATES)
def test_what_a_trial_of_any_system_claims_is_recomputed_stated_or_refused(name):
    case = CANDIDATES[name]
    target = PrivacyTarget(epsilon=case.epsilon, delta=case.delta, adjacency=case.adjacency, solve=case.solve)
    plan = SYSTEMS[name].plan(case.config, data_of(name).facts, target, {})
    begun = TrialRecord.of("all", Proposal(number=0, config=plan.config, seed=0), TrialState.COMPLETE, plan=plan)
    ended = Published(replace(begun, guarantee=plan.guarantee))
    if name in REFUSED:
        with pytest.raises(CannotCertify, match="may not be quoted"):
            checked_trial(ended)
        return
    _, claim = checked_trial(ended)
    listed = PlannedTrial.of("all-0", plan)
    mode = Statement(trials=(listed,)) if name in AVERAGE_CASE else TrialAlone.of(listed, claim)
    entry = LedgerEntry(key="all-0", attempt=1, from_step=0, to_step=plan.steps, executed_to=plan.steps)
    assert [str(one) for one in mode.recompute(claim, [LedgerRow.of(entry)]) if not one.held] == []


# -- a sealed search ---------------------------------------------------------------------------------------------

ESTIMATE = {"metric": "estimate", "goal": "maximize"}


def of(release, **selection):
    privacy = {**SEALED["privacy"], "release": release}
    return {**SEALED, "privacy": privacy, "selection": {**SEALED["selection"], **selection}}


FIRST = {**of("first", target={"metric": "estimate", "at_least": 0.5}), "objectives": [ESTIMATE]}
SEARCHES = {
    "best": SEALED,
    "first": FIRST,
    "of two budgets": {**FIRST, "privacy": {**FIRST["privacy"], "epsilon": [1.0, 3.0]}},
    "front": {**of("front"), "objectives": [ESTIMATE, {"metric": "expected_error", "goal": "minimize"}]},
}


def searched(folder, document, *states, won=False):
    """The store of a sealed search in these states one after the other; of one that won, as trial 0."""
    planner = planner_of(document)
    store, spec = open_store(f"sqlite:///{folder}/sweeps.db"), planner.prior.spec
    store.create_sweep(
        SweepRecord(name="sealed", spec=spec, digest="d", fingerprints={}, root=str(folder), created_at=1.0)
    )
    lease = store.acquire("sealed")
    if won:
        config = next(planner.prior.space.middles())
        plan = planner.plan(config)
        store.launch(lease, Proposal(number=0, config=config, seed=1), plan, plan.steps)
        metrics = {"expected_error": 0.25, "estimate": 0.75, "epsilon": plan.guarantee.epsilon}
        came = Settlement(
            executed_to=plan.steps, step=plan.steps, metrics=metrics, guarantee=plan.guarantee, seconds=1.0
        )
        store.settle(lease, "sealed-0", 1, came)
    for state in states:
        store.set_state(lease, state)
    return PublishedStore(store)


@pytest.mark.parametrize("won", [True, False], ids=["won", "none"])
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_sealed_search_is_certified_at_the_price_that_was_promised(kind, won, tmp_path):
    document = SEARCHES[kind]
    made = certificate(searched(tmp_path, document, SweepState.FINISHED, won=won), "sealed")
    body, rule = made.body, planner_of(document).pricing.rule
    assert verified(body).stands
    ex_post = won and kind == "of two budgets"
    assert (body.claim.delta, body.claim.notion) == (1e-5, Notion.EX_POST if ex_post else Notion.DP)
    assert body.claim.epsilon == (1.0 if ex_post else 3.0)
    assert (len(body.mode.trials), bool(body.accuracy.metrics)) == ((1, True) if won else (0, False))
    assert body.mode.drawn == rule.law
    # Nothing in it tells how many trials there were, nor why nothing left.
    assert (body.accesses.training, body.accesses.steps, body.ledger) == (None, None, ())
    assert "is not told" in body.released.artefact
    # With proposals of a public seed the winner's would tell its slot, and no theorem holds.
    assert not [line for line in body.random if "public seed" in line]


@pytest.mark.parametrize("states", [(), (SweepState.RUNNING,), (SweepState.STOPPED,)])
def test_a_search_that_is_not_over_may_still_release_something(states, tmp_path):
    with pytest.raises(CannotCertify, match="expected a sealed search that is over"):
        certificate(searched(tmp_path, SEALED, *states), "sealed")


def test_no_trial_of_a_sealed_search_is_certified_by_itself(tmp_path):
    store = searched(tmp_path, SEALED, SweepState.FINISHED, won=True)
    with pytest.raises(CannotCertify, match="of a single trial"):
        certificate(store, "sealed", store.trials("sealed")[0])


# From a real sweep to a certificate that a fresh process verifies, and what the command asks of people.


ANSWERS = {
    "approved_by": "Ada Lovelace, data protection",
    "because": "no record of these is anybody's",
    "ranges": "by the closed form of the paper, on no data",
}
OPTIONS = [word for name, text in ANSWERS.items() for word in (f"--{name.replace('_', '-')}", text)]


def certify(*words):
    return CliRunner().invoke(app, ["certify", *map(str, words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep of the toy example, and a key pair."""
    made = tmp_path_factory.mktemp("certified")
    ran(sweeps.load("toy", changes={"search.trials": 3}).canonical(), made / ".sweeps")
    new_key(made / "key.pem")
    return made


def test_a_real_sweep_is_certified_and_a_fresh_process_verifies_it(folder, tmp_path):
    said = certify("toy", "--root", folder / ".sweeps", "--key", folder / "key.pem", *OPTIONS).output
    endings = ("json", "json.sig", "html")
    document, signature, page = (folder / ".sweeps" / "toy" / f"certificate.{ending}" for ending in endings)
    assert [str(document), str(signature), str(page)] == said.splitlines()[1:]
    body = parsed(document.read_bytes())
    assert body.claim == sweeps.open("toy", root=folder / ".sweeps").claim.procedure.guarantee
    assert len(body.mode.trials) == len(body.ledger) == 3
    assert "Privacy certificate of all trials of toy together" in page.read_text()
    # Neither store nor data are where the certificate goes.
    for path in (document, signature, folder / "key.pem.pub"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    words = ("certify", "--verify", "certificate.json", "--signer", "key.pem.pub", "--json")
    line = [sys.executable, "-m", "sweeps.cli", *words]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert json.loads(done.stdout)["stands"], done.stderr


def test_a_changed_file_or_another_signer_ends_with_3(folder, tmp_path):
    made = sweeps.open("toy", root=folder / ".sweeps").certify(key=folder / "key.pem", **ANSWERS)
    target, _, page = made.save(tmp_path / "one.json")
    assert page.name == "one.html"
    assert certify("--verify", target, "--signer", folder / "key.pem.pub").exit_code == 0
    found = certify("--verify", target, "--signer", new_key(tmp_path / "other.pem"))
    assert (found.exit_code, "you expect" in found.output) == (3, True)
    target.write_bytes(target.read_bytes().replace(b'"delta": 1e-05', b'"delta": 1e-06', 1))
    assert "DOES NOT STAND" in str(sweeps.verify(target, signer=folder / "key.pem.pub"))


def test_one_trial_is_certified_with_the_search_left_out_in_the_title(folder):
    opened = sweeps.open("toy", root=folder / ".sweeps")
    made = opened.certify(key=folder / "key.pem", trial=1, **ANSWERS)
    assert "the search for its hyperparameters not covered" in made.body.title
    assert (made.body.claim, [row.trial for row in made.body.ledger]) == (opened.trial(1).guarantee, ["toy-1"])


def test_what_only_people_know_is_asked_for(folder):
    with pytest.raises(InvalidValue) as error:
        sweeps.open("toy", root=folder / ".sweeps").certify(key=folder / "key.pem", approved_by="Ada", because="")
    assert error.value.name == "--because, --ranges"


def test_keys_are_the_owners_alone_and_never_written_over(tmp_path):
    public = new_key(tmp_path / "key.pem")
    assert stat.S_IMODE(os.stat(tmp_path / "key.pem").st_mode) == 0o600
    assert private_key(tmp_path / "key.pem").public_key() == public_key(public)
    with pytest.raises(InvalidValue, match="not there yet"):
        new_key(tmp_path / "key.pem")
    os.chmod(tmp_path / "key.pem", 0o644)
    with pytest.raises(InvalidValue, match="its owner alone"):
        private_key(tmp_path / "key.pem")
    for wrong, read in ((tmp_path / "key.pem", public_key), (public, private_key)):
        with pytest.raises(InvalidValue, match="key as PEM"):
            read(wrong)

"""Claims that no certificate may carry, each with its reason; and what lost launches leave in one that may."""

import math
from dataclasses import replace

import pytest

from dpcore.guarantee import STANDING, Status
from sweeps.certificate import built_trials
from sweeps.certificate.approval import Approved
from sweeps.certificate.building import certified
from sweeps.certificate.judging import CannotCertify, check_trial
from sweeps.certificate.modes.statement import STATED
from sweeps.certificate.verifying import verify
from sweeps.privacy.population import Population
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Published
from sweeps.store.records import Refutation, SweepState, TrialState, this_person
from tests.sweeps.certificate.documents import KEY, statement
from tests.sweeps.fake_workers import ASHA, NAME, SPEC, FakeSweep, launched

APPROVED = Approved(by="Ada", because="no record of these is anybody's", ranges="by a formula, on no data")
EIGHT = {"systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1]}, "steps": 8}}}


def over(folder, **change):
    """A sweep of fake workers that ran to its end, and its publisher."""
    sweep = FakeSweep(folder, **change)
    sweep.finish()
    sweep.store.set_state(sweep.lease, SweepState.FINISHED)
    return sweep, PublishedStore(sweep.store)


def test_launches_that_were_lost_are_rows_of_their_own(tmp_path):
    sweep = FakeSweep(tmp_path)
    worker = launched(sweep)
    worker.execute(1, 2, stop_inside=True)
    sweep.lose(worker)
    sweep.finish()
    sweep.store.set_state(sweep.lease, SweepState.FINISHED)
    made = certified(PublishedStore(sweep.store), NAME, None, APPROVED, KEY)
    assert [row.attempt for row in made.body.ledger.rows if row.trial == f"{NAME}-0"] == [1, 2]
    assert verify(made.data, KEY.public_key()).stands
    assert any("launch was lost" in line for line in made.body.claim.assumptions)


def test_a_sweep_that_goes_on_spending_is_refused(tmp_path):
    sweep = FakeSweep(tmp_path)
    sweep.finish()
    with pytest.raises(CannotCertify, match="goes on spending"):
        certified(PublishedStore(sweep.store), NAME, None, APPROVED, KEY)


def test_what_an_audit_refuted_is_refused(tmp_path):
    sweep, store = over(tmp_path)
    sweep.store.ask(NAME, Refutation(trial=f"{NAME}-0", system="noisy-mean", audit=1), this_person())
    with pytest.raises(CannotCertify, match="REFUTED"):
        certified(store, NAME, None, APPROVED, KEY)
    with pytest.raises(CannotCertify, match="REFUTED"):
        certified(store, NAME, store.trials(NAME)[1], APPROVED, KEY)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"change": {"search": {"sampler": "tpe", "trials": 3}}}, "tpe sampler chose trials"),
        (
            {"early_stopping": ASHA, "change": EIGHT},
            "early stopping",
        ),
    ],
)
def test_a_total_whose_budgets_were_chosen_by_results_is_refused(change, why, tmp_path):
    _, store = over(tmp_path, **change)
    with pytest.raises(CannotCertify, match=why):
        certified(store, NAME, None, APPROVED, KEY)


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    return over(tmp_path_factory.mktemp("statuses"))[1].trials(NAME)[0]


@pytest.mark.parametrize("status", Status)
def test_only_claims_that_stand_are_certified_and_weaker_notions_only_stated(status, trial):
    claim = replace(trial.guarantee, status=status, asserted_by="lab.mean" if status is Status.ASSERTED else "")
    one = Published(replace(trial, guarantee=claim))
    if status in (*STANDING, *STATED):
        return check_trial(one)
    with pytest.raises(CannotCertify, match="may not be quoted"):
        check_trial(one)


@pytest.mark.parametrize(
    ("status", "words"),
    [(Status.AVERAGE_CASE, "average-case"), (Status.MEMBERSHIP_ONLY, "membership only")],
)
def test_a_statement_says_in_its_title_that_it_is_no_certificate(status, words):
    title = statement(status).title
    assert title.startswith("Statement, and no privacy certificate")
    assert words in title


def test_an_infinite_epsilon_and_a_trial_under_way_are_refused(trial):
    with pytest.raises(CannotCertify, match="infinite"):
        check_trial(Published(replace(trial, guarantee=replace(trial.guarantee, epsilon=math.inf, aimed_at=None))))
    with pytest.raises(CannotCertify, match="complete"):
        check_trial(Published(replace(trial, state=TrialState.FAILED)))


def test_a_claim_that_its_events_do_not_give_back_is_not_signed(tmp_path, monkeypatch):
    """The mutant: a total that was counted too small."""
    _, store = over(tmp_path)
    honest = built_trials.summary
    monkeypatch.setattr(built_trials, "summary", lambda *args: _smaller(honest(*args)))
    with pytest.raises(CannotCertify, match="it is not signed"):
        certified(store, NAME, None, APPROVED, KEY)


def _smaller(found):
    claim = found.procedure.guarantee
    less = replace(claim, epsilon=claim.epsilon * 0.999, epsilon_lower=None)
    return replace(found, procedure=replace(found.procedure, guarantee=less))


def test_what_all_sweeps_over_a_population_spent_stands_beside_it(tmp_path):
    data = {"data": {**SPEC["data"], "population": "people"}}
    sweep = FakeSweep(tmp_path, change=data, population=Population.of("people", "linear", 30.0, 1e-2))
    sweep.finish()
    sweep.store.set_state(sweep.lease, SweepState.FINISHED)
    made = certified(PublishedStore(sweep.store), NAME, None, APPROVED, KEY)
    spent, left, elsewhere = made.body.accesses.population
    assert spent.startswith("people: all sweeps over it in this store spent epsilon ")
    assert left.startswith("left: epsilon ")
    assert elsewhere.startswith("Counted is what this store holds.")

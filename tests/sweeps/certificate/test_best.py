"""The certificate of a private selection: its price is recomputed from the law of K and the winner's plan alone."""

import math

import pytest

from dpcore.selection import geometric
from sweeps.certificate.building import certified
from sweeps.certificate.judging import CannotCertify
from sweeps.certificate.modes import sealed_search as mode
from sweeps.certificate.verifying import recomputed, verify
from sweeps.privacy.claims import PRIVATE_SELECTION
from sweeps.privacy.published_store import PublishedStore
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import Proposal, Settlement, SweepRecord, SweepState
from sweeps.store.store import open_store
from tests.sweeps.certificate.documents import KEY, MADE, row, steps
from tests.sweeps.certificate.test_judging import APPROVED
from tests.sweeps.test_sealed_planning import SPEC, planner_of


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """The store of a sealed search of which the winner left: as trial 0, whichever slot it had."""
    folder, planner = tmp_path_factory.mktemp("sealed"), planner_of(SPEC)
    config = next(planner.prior.space.middles())
    plan = planner.plan(config)
    store = open_store(f"sqlite:///{folder}/sweeps.db")
    store.create_sweep(
        SweepRecord(
            name="sealed",
            spec=RecordedSpec(planner.prior.spec.canonical()),
            digest="d",
            fingerprints={},
            root=str(folder),
            created_at=1.0,
        )
    )
    lease = store.acquire("sealed")
    store.launch(lease, Proposal(number=0, config=config, seed=1), plan, plan.steps)
    came = Settlement(
        executed_to=plan.steps, step=plan.steps, metrics={"expected_error": 0.25, "epsilon": plan.guarantee.epsilon},
        guarantee=plan.guarantee, seconds=1.0,
    )  # fmt: skip
    store.settle(lease, "sealed-0", 1, came)
    return store, lease


def test_a_sealed_search_is_certified_once_it_is_over(searched):
    store, lease = searched
    with pytest.raises(CannotCertify, match="created; expected a sealed search that is over"):
        certified(PublishedStore(store), "sealed", None, APPROVED, KEY)
    store.set_state(lease, SweepState.FINISHED)
    made = certified(PublishedStore(store), "sealed", None, APPROVED, KEY)
    body, rule = made.body, planner_of(SPEC).pricing.rule
    assert verify(made.data, KEY.public_key()).stands
    assert (body.claim.epsilon, body.claim.delta) == (3, 1e-5)
    assert (body.mode.e1, body.mode.d_hat, body.mode.law.cap) == (rule.e1, rule.d_hat, 81)
    # Nothing in it tells how many trials there were.
    assert (body.accesses.training, body.accesses.steps, len(body.ledger.rows)) == (None, None, 1)
    assert body.accesses.tuning.startswith("independent draws from a public prior with secret coins, ranked")
    # With proposals of a public seed the winner's would tell its slot, and no theorem holds.
    assert not [line for line in body.random if "public seed" in line]
    assert "proposals and starting weights from the secret of the search" in body.random[1]
    with pytest.raises(CannotCertify, match="of a single trial"):
        certified(PublishedStore(store), "sealed", PublishedStore(store).trials("sealed")[0], APPROVED, KEY)


def test_words_are_those_of_the_plan_that_was_priced():
    assert mode.ACCOUNTANT == PRIVATE_SELECTION


def test_the_price_is_that_of_the_published_golden():
    """Geometric K of mean 27, total (3, 1e-5): the winner's own epsilon at delta / mean, and twice the shift."""
    made = MADE["best"]()
    assert made.mode.penalty == pytest.approx(2 * made.mode.e1, rel=1e-9)
    assert made.mode.e_hat == pytest.approx(3 - made.mode.penalty, rel=1e-9)
    assert made.mode.d_hat == pytest.approx(1e-5 / 27, rel=1e-9)
    assert made.mode.law.drawn == geometric(27.0)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        # A law of more trials, for the price of fewer; a first point that nothing meets; a penalty that is left out.
        (
            lambda one: {"law": one.law.model_copy(update={"law": one.law.law.model_copy(update={"success": 0.01})})},
            "mean",
        ),
        (lambda one: {"d1": one.d1 / 2}, "the winner's delta at e1"),
        (lambda one: {"penalty": 0.0, "e_hat": 3.0}, "penalty"),
        (
            lambda one: {"winner": one.winner.model_copy(update={"training": steps(1.0, 1000)})},
            "the winner's delta at e_hat",
        ),
    ],
)
def test_a_price_that_is_too_low_is_caught(change, what):
    made = MADE["best"]()
    spoilt = made.model_copy(update={"mode": made.mode.model_copy(update=change(made.mode))})
    assert any(what in one.what for one in recomputed(spoilt) if not one.held)


def test_rows_of_launches_would_tell_how_many_trials_there_were():
    made = MADE["best"]()
    rows = (*made.ledger.rows, row(made.mode.winner))
    chain = type(made.ledger).of(made.ledger.sweep, rows)
    wrong = [one.what for one in recomputed(made.model_copy(update={"ledger": chain})) if not one.held]
    assert wrong == ["the ledger has one row for the sealed search"]
    assert math.isfinite(made.claim.epsilon)

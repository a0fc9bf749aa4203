"""The certificate of an adaptive search: its price follows from bounds, law and the winner's plan alone."""

import json

import pytest

from dpcore.selection import EventProfile, geometric, price_clipped
from sweeps.certificate.building import certified
from sweeps.certificate.canonical import canonical_bytes
from sweeps.certificate.document import NotACertificate
from sweeps.certificate.modes.adaptive import BOUNDED
from sweeps.certificate.verifying import recomputed, verify
from sweeps.privacy.published_store import PublishedStore
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import Proposal, Settlement, SweepRecord, SweepState
from sweeps.store.store import open_store
from tests.sweeps.certificate.documents import DELTA, KEY, MADE, adaptive, best, resigned, signed_bytes, steps
from tests.sweeps.certificate.test_judging import APPROVED
from tests.sweeps.test_adaptive_planning import at
from tests.sweeps.test_sealed_planning import planner_of

SIGNER = KEY.public_key()


def failed(made):
    return [one.what for one in recomputed(made) if not one.held]


def with_mode(made, **changes):
    return made.model_copy(update={"mode": made.mode.model_copy(update=changes)})


def test_an_adaptive_search_is_certified_at_its_price(tmp_path):
    planner = planner_of(at(0.9, 1.1))
    config = next(planner.prior.space.middles())
    plan = planner.plan(config)
    store = open_store(f"sqlite:///{tmp_path}/sweeps.db")
    spec = RecordedSpec(planner.prior.spec.canonical())
    store.create_sweep(
        SweepRecord(name="led", spec=spec, digest="d", fingerprints={}, root=str(tmp_path), created_at=1.0)
    )
    lease = store.acquire("led")
    store.launch(lease, Proposal(number=0, config=config, seed=1), plan, plan.steps)
    came = Settlement(
        executed_to=plan.steps, step=plan.steps, metrics={"expected_error": 0.25, "epsilon": plan.guarantee.epsilon},
        guarantee=plan.guarantee, seconds=1.0,
    )  # fmt: skip
    store.settle(lease, "led-0", 1, came)
    store.set_state(lease, SweepState.FINISHED)
    made = certified(PublishedStore(store), "led", None, APPROVED, KEY)
    body, rule = made.body, planner.pricing.rule
    assert verify(made.data, SIGNER).stands
    assert (body.mode.mode, body.mode.low, body.mode.high) == ("best-adaptive", 0.9, 1.1)
    assert (body.claim.epsilon, body.mode.e_hat, body.mode.d_hat) == (3, rule.e_hat, rule.d_hat)
    assert body.searched.sampler == "adaptive"
    assert "by what earlier ones of its worker came to" in body.accesses.tuning
    assert "independent" not in body.accesses.tuning
    assert BOUNDED in body.attested
    assert "between 0.9 and 1.1 times as often as by the prior" in made.page


def test_the_price_is_that_of_the_bounds():
    made = MADE["best-adaptive"]()
    trial = EventProfile(made.mode.winner.training)
    assert made.claim.epsilon == pytest.approx(price_clipped(geometric(27.0), trial, DELTA, 0.75, 1.25).epsilon)
    assert made.mode.d_hat == pytest.approx(DELTA / (27 * 1.25), rel=1e-9)
    assert made.claim.epsilon > adaptive(0.9, 1.1).claim.epsilon > adaptive(0.999, 1.001).claim.epsilon


@pytest.mark.parametrize(
    "change", [{"low": 0.8}, {"low": 0.7}, {"high": 1.2}, {"high": 1.3}, {"low": 0.99, "high": 1.01}]
)
def test_other_bounds_than_those_that_were_priced_are_caught(change):
    """Signed anew by the same key: narrower ones would cost less, and wider ones are not what was paid for."""
    made = MADE["best-adaptive"]()
    assert {"penalty", "theorem"} < set(failed(with_mode(made, **change)))
    document = document_of(made)
    document["body"]["mode"].update(change)
    assert not verify(resigned(document), SIGNER).stands
    assert not verify(canonical_bytes(document), SIGNER).stands


def document_of(made):
    return json.loads(signed_bytes(made))


def test_the_price_of_independent_draws_does_not_cover_an_adaptive_search():
    """The natural lie: an adaptive search certified as one of independent draws."""
    lie = best()
    lie = lie.model_copy(update={"searched": lie.searched.model_copy(update={"sampler": "adaptive"})})
    assert failed(lie) == ["no result chose the trials"]
    # The points of independent draws, told as those of the bounds.
    plain, honest = best().mode, MADE["best-adaptive"]()
    cheap = with_mode(honest, e1=plain.e1, d1=plain.d1, penalty=plain.penalty, e_hat=plain.e_hat, d_hat=plain.d_hat)
    assert {"penalty", "e_hat", "d_hat"} <= set(failed(cheap))


def test_a_winner_that_is_dearer_than_its_points_is_caught():
    made = MADE["best-adaptive"]()
    worse = made.mode.winner.model_copy(update={"training": steps(1.2, 1000)})
    assert set(failed(with_mode(made, winner=worse))) >= {"the winner's delta at e_hat"}


@pytest.mark.parametrize("change", [{"low": 1.0}, {"high": 1.0}, {"low": 0.0}, {"low": -1.0}, {"high": 0.5}])
def test_bounds_that_are_none_are_no_certificate(change):
    document = document_of(MADE["best-adaptive"]())
    document["body"]["mode"].update(change)
    assert not stands(document)


def stands(document):
    try:
        return verify(resigned(document), SIGNER).stands
    except NotACertificate:
        return False

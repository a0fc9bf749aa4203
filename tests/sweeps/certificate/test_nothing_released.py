"""The certificate of a sealed search that released nothing: the price is paid, and word of none is an output of it."""

import pytest

from dpcore.guarantee import Notion
from sweeps.certificate.building import certified
from sweeps.certificate.judging import CannotCertify
from sweeps.certificate.verifying import recomputed, verify
from sweeps.privacy.published_store import PublishedStore
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import SweepRecord, SweepState
from sweeps.store.store import open_store
from tests.sweeps.certificate.documents import KEY, MADE, best, first, front
from tests.sweeps.certificate.test_judging import APPROVED
from tests.sweeps.test_sealed_planning import SPEC, planner_of

ESTIMATE = {"metric": "estimate", "goal": "maximize"}
TARGET = {"metric": "estimate", "at_least": 0.5}


def of(release, **selection):
    privacy = {**SPEC["privacy"], "release": release}
    return {**SPEC, "privacy": privacy, "selection": {**SPEC["selection"], **selection}}


FIRST = {**of("first", target=TARGET), "objectives": [ESTIMATE]}
SEARCHES = {
    "best": SPEC,
    "first": FIRST,
    "of two budgets": {**FIRST, "privacy": {**FIRST["privacy"], "epsilon": [1.0, 3.0]}},
    "front": {**of("front"), "objectives": [ESTIMATE, {"metric": "expected_error", "goal": "minimize"}]},
}


def over(folder, document, *states):
    """The store of a sealed search without any trial, in these states one after the other."""
    store = open_store(f"sqlite:///{folder}/sweeps.db")
    spec = RecordedSpec(planner_of(document).prior.spec.canonical())
    store.create_sweep(
        SweepRecord(name="none", spec=spec, digest="d", fingerprints={}, root=str(folder), created_at=1.0)
    )
    lease = store.acquire("none")
    for state in states:
        store.set_state(lease, state)
    return PublishedStore(store)


def wrong(made):
    return [one.what for one in recomputed(made) if not one.held]


@pytest.mark.parametrize("document", SEARCHES.values(), ids=SEARCHES)
def test_it_is_certified_at_the_price_that_was_promised(document, tmp_path):
    made = certified(over(tmp_path, document, SweepState.FINISHED), "none", None, APPROVED, KEY)
    body, rule = made.body, planner_of(document).pricing.rule
    assert verify(made.data, KEY.public_key()).stands
    assert (body.claim.epsilon, body.claim.delta, body.claim.notion) == (3, 1e-5, Notion.DP)
    assert (body.mode.plans, body.accuracy.metrics, len(body.ledger.rows)) == ((), (), 1)
    assert body.accesses.tuning.endswith("; none left")
    assert body.released.intermediates == "hidden: every trial, and how many there were"
    assert ("held against a public target" in body.accesses.tuning) == (body.mode.mode == "first")
    assert body.mode.law.mean == rule.law.priced.mean
    assert body.title.endswith("released nothing")
    assert "is not told" in body.released.artefact
    assert "released nothing" in made.page
    # Nothing in it tells how many trials there were, nor why nothing left.
    assert (body.accesses.training, body.accesses.steps) == (None, None)
    assert "winner meets" not in " ".join(body.attested)


@pytest.mark.parametrize("states", [(), (SweepState.RUNNING,), (SweepState.STOPPED,)])
def test_a_search_that_is_not_over_may_still_release_something(states, tmp_path):
    with pytest.raises(CannotCertify, match="expected a sealed search that is over"):
        certified(over(tmp_path, SPEC, *states), "none", None, APPROVED, KEY)


@pytest.mark.parametrize("made", [best(), first(), front()], ids=["best", "first", "front"])
def test_a_certificate_of_a_winner_says_so_and_one_of_none_shows_no_metrics(made):
    """The mutants: a winner's document without its plan; one of nothing with somebody's accuracy."""
    none = {"first": {"winner": None}, "front": {"winners": ()}}.get(made.mode.mode, {"winner": None})
    assert wrong(made.model_copy(update={"mode": made.mode.model_copy(update=none)}))
    silent = MADE[f"none of {made.mode.mode}"]()
    assert wrong(silent) == []
    stopped = silent.sweep.model_copy(update={"state": "stopped"})
    assert "state of the sweep" in wrong(silent.model_copy(update={"sweep": stopped}))
    assert wrong(silent.model_copy(update={"accuracy": made.accuracy})) == ["metrics of what was released"]


def test_word_of_none_of_several_budgets_is_the_dearest_and_at_no_end():
    made = MADE["none of first"]()
    assert made.claim.epsilon == made.mode.rungs[-1].epsilon >= made.mode.failure
    cheaper = made.claim.model_copy(update={"epsilon": made.mode.rungs[0].epsilon})
    assert wrong(made.model_copy(update={"claim": cheaper})) == ["epsilon of where it ended"]
    ended = made.model_copy(update={"mode": made.mode.model_copy(update={"ended": 4})})
    assert wrong(ended) == ["where the search ended"]

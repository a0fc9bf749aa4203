"""The certificate of a holdout: two sweeps in one document, and the larger of what they cost."""

from dataclasses import replace

import pytest

from dpcore.events import Adjacency
from sweeps.certificate.document import Signature
from sweeps.certificate.page import certificate_page
from sweeps.privacy import holdout_guarantee
from tests.sweeps.certificate.documents import MADE, SPLIT, holdout, planned, row, verified, within, wrong

KINDS = ("composition", "filter", "renyi", "best", "first", "front")
"""Of sweeps that may tune, among `MADE`."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tuning_stands_with_the_larger_of_both(kind):
    tuning = MADE[kind]()
    made = holdout(tuning)
    found = verified(made)
    assert found.stands, str(found)
    assert made.claim.epsilon == max(tuning.mode.promised(tuning.claim).epsilon, made.target.epsilon)
    assert set(found.to_dict()["attested"]) >= {*made.attested, *made.tuning.attested, *made.final.attested}
    for less in {made.tuning.claim.epsilon, made.final.claim.epsilon, made.target.epsilon} - {made.claim.epsilon}:
        assert wrong(within(made, "claim", epsilon=less)) == ["both: epsilon of both together"]


def test_a_rule_that_counts_the_point_alone_is_found_out(monkeypatch):
    """The mutants: what any point could have cost is left out, and launches that were made again."""
    plan = planned(7, 1.0, 1000)
    honest, twice = holdout(), holdout(None, row(plan, charged_to=10), row(plan, attempt=2))
    assert (honest.claim.epsilon, twice.claim.epsilon, twice.claim.delta) == (2.0, 4.0, 2e-5)
    assert wrong(honest) == wrong(twice) == []
    exact = holdout_guarantee.both
    for mutant in (
        lambda tuned, final, launches: exact(tuned, final),
        lambda tuned, final, launches: exact(replace(tuned, target=0.0, delta=0.0), final, launches),
    ):
        monkeypatch.setattr("sweeps.certificate.verify.both", mutant)
        assert wrong(twice) != []


def moved(side, where, **changes):
    """An honest document, one side of which says something else in one of its rows."""
    made = holdout()
    return made.model_copy(update={side: within(getattr(made, side), where, **changes)})


def test_parts_that_are_not_the_two_of_one_split_are_caught():
    made = holdout()
    same = moved("final", "provenance", fingerprint=made.tuning.provenance.fingerprint)
    assert "both: the parts are not the same records" in wrong(same)
    for other in (None, SPLIT, *(SPLIT.model_copy(update={"use": "final", "share": 0.3, "id": None}),)):
        assert wrong(moved("final", "provenance", part=other)) == ["both: two parts of one split"]
    assert wrong(moved("final", "provenance", chosen=None)) == ["both: where the hyperparameters are from"]
    swapped = made.model_copy(update={"tuning": made.final, "final": made.tuning})
    assert {"both: a tuning", "both: the final run is one trial"} <= set(wrong(swapped))
    assert "both: two sweeps" in wrong(made.model_copy(update={"final": made.tuning}))


def test_what_both_differ_in_is_caught():
    assert "both: neighbours differ in one part" in wrong(within(holdout(), "claim", adjacency=Adjacency.REPLACE_ONE))
    assert "both: unit, tuning" in wrong(moved("tuning", "claim", unit="person"))
    assert "both: contributions" in wrong(moved("tuning", "provenance", contributions=3))


def test_the_page_holds_both_sweeps_and_how_they_were_joined():
    made = holdout()
    page = certificate_page(made, b"", Signature(key="0" * 64, value="0" * 128))
    assert "The sweep that tuned: hand" in page
    assert "The final run: last" in page
    for line in (*made.claim.assumptions, *made.attested, *made.tuning.attested, "once for each launch"):
        assert line.split("'")[0] in page
